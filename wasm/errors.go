package main

import (
	"context"
	"errors"
	"fmt"

	"foretoken"
	"foretoken/internal/public"
	"foretoken/spec"
	"foretoken/webgpu"
)

// coded is an error with the code that the page receives: the engine's, or a rejected promise's.
type codedError struct {
	code string
	err  error
}

func (c *codedError) Error() string { return c.err.Error() }
func (c *codedError) Unwrap() error { return c.err }

// withCode gives an error a code unless it has one already; nil stays nil.
func withCode(code string, err error) error {
	if err == nil || codeOf(err) != codeInternal {
		return err
	}
	return &codedError{code, err}
}

// messageOf is an error's message. The packages below the session are none of a page's business.
func messageOf(err error) string {
	message := err.Error()
	if rest := public.Plain(message); rest != message {
		return "foretoken: " + rest
	}
	return message
}

// inField names the field of a request that an error is about. what is the request: benchmark.
func inField(what, field string, err error) error {
	reason := "is wrong: " + public.Message(err)
	return fmt.Errorf("foretoken: %s: %w", what, &spec.FieldError{Field: field, Reason: reason, Err: err})
}

// codeInternal: unexpected errors.
const codeInternal = "internal"

// errorCodes maps errors to the codes of web/src/protocol/errors.ts. The first match wins: a device may be lost while a
// model loads.
var errorCodes = []struct {
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
	if own, ok := errors.AsType[*codedError](err); ok && own.code != "" {
		return own.code
	}
	for _, k := range errorCodes {
		if errors.Is(err, k.kind) {
			return k.code
		}
	}
	return codeInternal
}
