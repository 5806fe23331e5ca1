package main

import (
	"context"
	"errors"

	"foretoken"
	"foretoken/webgpu"
)

// coded is an error whose code the page is to have as it is: one of the engine's own, or what a promise was
// rejected with.
type coded struct {
	code string
	err  error
}

func (c *coded) Error() string { return c.err.Error() }
func (c *coded) Unwrap() error { return c.err }

// withCode gives an error a code unless it has one already; nil stays nil.
func withCode(code string, err error) error {
	if err == nil || codeOf(err) != internal {
		return err
	}
	return &coded{code, err}
}

// internal is the code of what nobody foresaw.
const internal = "internal"

// kinds are the codes of web/src/errors.ts, the first that fits counting: a device may be lost while a model is loaded.
var kinds = []struct {
	kind error
	code string
}{
	{webgpu.ErrDeviceLost, "device_lost"},
	{webgpu.ErrTimeout, "timeout"},
	{webgpu.ErrNoMemory, "out_of_memory"},
	{webgpu.ErrUnavailable, "no_webgpu"},
	{context.Canceled, "aborted"},
	{foretoken.ErrNoChatTemplate, "no_chat"},
	{foretoken.ErrContextFull, "context_full"},
	{foretoken.ErrRequest, "bad_option"},
	{foretoken.ErrMemory, "out_of_memory"},
	{foretoken.ErrModel, "bad_model"},
}

// codeOf names the kind of an error for programs.
func codeOf(err error) string {
	var own *coded
	if errors.As(err, &own) && own.code != "" {
		return own.code
	}
	for _, k := range kinds {
		if errors.Is(err, k.kind) {
			return k.code
		}
	}
	return internal
}
