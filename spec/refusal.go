package spec

import (
	"fmt"

	"foretoken/internal/strictjson"
)

// FieldError refuses the value of a request's or a file's field. Programs name the field as their users do: the
// command line as a flag, the endpoint as the param of its error.
type FieldError = strictjson.FieldError

// Refuse makes a FieldError with the prefix of this package's errors.
func Refuse(field, format string, args ...any) error {
	return fmt.Errorf("spec: %w", &FieldError{Field: field, Reason: fmt.Sprintf(format, args...)})
}
