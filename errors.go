package foretoken

import "errors"

// Kinds of errors that callers act on, to be told with errors.Is; messages name file, field and remedy. Beside them there are
// ErrNoChatTemplate and those of package webgpu.
var (
	// ErrRequest is a setting that is wrong, or needs something that the session was not opened with.
	ErrRequest = errors.New("foretoken: a setting cannot be used")
	// ErrModel is a file that holds no model to be run, or does not go with the others.
	ErrModel = errors.New("foretoken: a model cannot be used")
	// ErrMemory is models that need more than the device, or Options.Memory, gives.
	ErrMemory = errors.New("foretoken: the models do not fit")
	// ErrContextFull is a prompt that leaves no room in the context.
	ErrContextFull = errors.New("foretoken: the context is full")
)

// kinded is an error of a kind; its words stay as they are.
type kinded struct{ err, kind error }

func (k *kinded) Error() string   { return k.err.Error() }
func (k *kinded) Unwrap() []error { return []error{k.err, k.kind} }

// ofKind gives an error a kind; nil stays nil.
func ofKind(kind, err error) error {
	if err == nil {
		return nil
	}
	return &kinded{err, kind}
}
