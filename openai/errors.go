package openai

import (
	"errors"
	"fmt"
	"io/fs"
	"time"

	"foretoken"
	"foretoken/webgpu"
)

// Statuses of HTTP that the translation itself gives.
const (
	StatusOK         = 200
	StatusBadRequest = 400
	StatusNotFound   = 404
)

// Error is a refusal as the API writes it: {"error": {"message", "type", "param", "code"}}. Param names the field at
// fault; Code identifies the kind of mistake for programs.
type Error struct {
	Status  int     `json:"-"`
	Message string  `json:"message"`
	Type    string  `json:"type"`
	Param   *string `json:"param"` // null where no field is at fault, as clients expect
	Code    string  `json:"code"`
	// Retry is the time after which a retry may succeed; 0: never or unknown.
	Retry time.Duration `json:"-"`
	// Detail is for the host's log: clients are told nothing of the machine's files and of this program's parts.
	Detail string `json:"-"`
}

// Types of errors, as the API names them.
const (
	TypeRequest = "invalid_request_error"
	TypeLimit   = "rate_limit_error"
	TypeServer  = "server_error"
)

func (e *Error) Error() string { return e.Message }

// Body returns the error as the API's JSON: the body of an answer, or the last line of a stream.
func (e *Error) Body() []byte {
	b, err := Encode(struct {
		Error *Error `json:"error"`
	}{e})
	if err != nil {
		panic(err) // they are strings
	}
	return b
}

// wrong refuses a request for one of its fields.
func wrong(code, param, format string, args ...any) *Error {
	return &Error{Status: StatusBadRequest, Type: TypeRequest, Param: &param, Code: code,
		Message: fmt.Sprintf(format, args...)}
}

// invalid refuses the value of a field.
func invalid(param, format string, args ...any) *Error {
	return wrong("invalid_value", param, format, args...)
}

// wrongType refuses a value of another type than the field's.
func wrongType(param, format string, args ...any) *Error {
	return wrong("invalid_type", param, format, args...)
}

// unsupported refuses a field that the API has and this program cannot do.
func unsupported(param, format string, args ...any) *Error {
	return wrong("unsupported_parameter", param, format, args...)
}

func missing(param, format string, args ...any) *Error {
	return wrong("missing_required_parameter", param, format, args...)
}

// Refused returns the error of a request that is turned away whatever its body says.
func Refused(status int, code, format string, args ...any) *Error {
	return &Error{Status: status, Type: TypeRequest, Code: code, Message: fmt.Sprintf(format, args...)}
}

// NoModel refuses a request for another model than the served one.
func NoModel(name, served string) *Error {
	e := wrong("model_not_found", "model", "there is no model %s; there is %s", Brief([]byte(name)), served)
	e.Status = StatusNotFound
	return e
}

// Refusal returns the error of a request that the engine refused for what it asks, or nil for an error of the machine.
func (m *Model) Refusal(err error) *Error {
	if e, ok := errors.AsType[*Error](err); ok {
		return e
	}
	switch {
	case unforeseen(err):
	case errors.Is(err, foretoken.ErrContextFull):
		return wrong("context_length_exceeded", "prompt", "%s", m.told(err))
	case errors.Is(err, foretoken.ErrRequest):
		return invalid("foretoken", "%s", m.told(err))
	}
	return nil
}

// unforeseen reports errors of the machine, which may name its files and its devices.
func unforeseen(err error) bool {
	_, file := errors.AsType[*fs.PathError](err)
	return file || errors.Is(err, webgpu.ErrDeviceLost) || errors.Is(err, webgpu.ErrNoMemory) ||
		errors.Is(err, webgpu.ErrTimeout) || errors.Is(err, webgpu.ErrUnavailable) ||
		errors.Is(err, foretoken.ErrModel)
}
