package openai

import (
	"fmt"
	"net/http"
	"strconv"
	"time"
)

// Error is a refusal in the API's shape: {"error": {"message", "type", "param", "code"}}. Param names the field at
// fault; Code identifies the kind of mistake for programs.
type Error struct {
	Status  int     `json:"-"`
	Message string  `json:"message"`
	Type    string  `json:"type"`
	Param   *string `json:"param"` // null where no field is at fault, as clients expect
	Code    string  `json:"code"`
	// retry is the time after which a retry may succeed; 0: never or unknown.
	retry time.Duration
	allow string // the methods that would have done
	// detail is for the log: clients are told nothing of the machine's files and of this program's parts.
	detail string
}

// Types of errors, those of the API.
const (
	typeRequest = "invalid_request_error"
	typeLimit   = "rate_limit_error"
	typeServer  = "server_error"
)

func (e *Error) Error() string { return e.Message }

// wrong refuses a request for one of its fields.
func wrong(code, param, format string, args ...any) *Error {
	return &Error{Status: http.StatusBadRequest, Type: typeRequest, Param: &param, Code: code,
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

// unsupported refuses a field that this server knows and cannot do.
func unsupported(param, format string, args ...any) *Error {
	return wrong("unsupported_parameter", param, format, args...)
}

func missing(param, format string, args ...any) *Error {
	return wrong("missing_required_parameter", param, format, args...)
}

// refused is a request that is turned away whatever its body says.
func refused(status int, code, format string, args ...any) *Error {
	return &Error{Status: status, Type: typeRequest, Code: code, Message: fmt.Sprintf(format, args...)}
}

// failed is a request that the server could not carry out.
func failed(status int, code, format string, args ...any) *Error {
	return &Error{Status: status, Type: typeServer, Code: code, Message: fmt.Sprintf(format, args...)}
}

// errStopping rejects requests while the server shuts down.
func errStopping() *Error {
	e := failed(http.StatusServiceUnavailable, "shutting_down", "the server is shutting down")
	e.retry = 5 * time.Second
	return e
}

func (e *Error) write(w http.ResponseWriter) {
	h := w.Header()
	if e.retry > 0 {
		h.Set("Retry-After", strconv.Itoa(int((e.retry+time.Second-1)/time.Second)))
	}
	if e.allow != "" {
		h.Set("Allow", e.allow)
	}
	if e.Status == http.StatusUnauthorized {
		h.Set("WWW-Authenticate", "Bearer")
	}
	_ = writeJSON(w, e.Status, struct {
		Error *Error `json:"error"`
	}{e})
}
