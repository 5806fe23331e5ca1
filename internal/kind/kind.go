// Package kind holds the kinds of errors that callers of a session handle, as package foretoken exports them, and adds
// them to errors.
package kind

import (
	"errors"
	"fmt"
)

// The kinds; see package foretoken.
var (
	ErrRequest     = errors.New("foretoken: a setting cannot be used")
	ErrModel       = errors.New("foretoken: a model cannot be used")
	ErrMemory      = errors.New("foretoken: the models do not fit")
	ErrContextFull = errors.New("foretoken: the context is full")
)

// kinded adds a kind to an error and keeps its message.
type kinded struct{ err, kind error }

func (k *kinded) Error() string   { return k.err.Error() }
func (k *kinded) Unwrap() []error { return []error{k.err, k.kind} }

// Of gives an error a kind, for errors.Is, and keeps its message; nil stays nil.
func Of(kind, err error) error {
	if err == nil {
		return nil
	}
	return &kinded{err, kind}
}

// Refuse returns an error of kind ErrRequest.
func Refuse(format string, args ...any) error { return Of(ErrRequest, fmt.Errorf(format, args...)) }
