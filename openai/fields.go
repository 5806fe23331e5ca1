package openai

import (
	"bytes"
	"encoding/json"
	"errors"
	"reflect"
	"slices"
	"strings"

	"foretoken/internal/hint"
	"foretoken/internal/quote"
	"foretoken/internal/strictjson"
	"foretoken/models/chat/jinja"
	"foretoken/spec"
)

// fields are the members of a request's body that were not read yet. The first thing found wrong with
// them is kept, so that reading needs no check after every field.
type fields struct {
	raw   map[string]json.RawMessage
	asked []string // names that were looked up: all that there are once a body is read
	err   *Error
}

// parseFields reads a body. A member that is null counts as absent, as it does in the API.
func parseFields(body []byte) (*fields, *Error) {
	f := &fields{}
	if err := (strictjson.Rules{Values: jinja.MaxValues, IDs: true}).Decode(body, &f.raw); err != nil {
		e := badJSON("the body cannot be read: %s", err)
		if wrong, ok := errors.AsType[*strictjson.FieldError](err); ok {
			e.Param = &wrong.Field
		}
		return nil, e
	}
	if f.raw == nil {
		return nil, badJSON("the body is null; want a JSON object")
	}
	for name, v := range f.raw {
		if string(v) == "null" {
			delete(f.raw, name)
		}
	}
	return f, nil
}

func badJSON(format string, args ...any) *Error {
	return Refused(StatusBadRequest, "invalid_json", format, args...)
}

// fail keeps the first error.
func (f *fields) fail(e *Error) {
	if f.err == nil {
		f.err = e
	}
}

// take gives a member and counts it as read.
func (f *fields) take(name string) (json.RawMessage, bool) {
	f.asked = append(f.asked, name)
	v, ok := f.raw[name]
	delete(f.raw, name)
	return v, ok
}

// into decodes a member; want describes its type in the error. It returns false if the member is absent or wrong.
func (f *fields) into(name string, to any, want string) bool {
	raw, ok := f.take(name)
	if !ok {
		return false
	}
	if err := strictjson.Decode(raw, to); err != nil {
		f.fail(wrongIn(name, err, "%s is %s; want %s", name, Brief(raw), want))
		return false
	}
	return true
}

// wrongIn refuses a member: for what is wrong inside it, or as the message says.
func wrongIn(name string, err error, format string, args ...any) *Error {
	inner, ok := errors.AsType[*strictjson.FieldError](err)
	if !ok {
		return wrongType(name, format, args...)
	}
	param := strictjson.Join(name, inner.Field)
	code := "invalid_type"
	if errors.Is(err, strictjson.ErrUnknown) {
		code = "unknown_parameter"
	}
	return wrong(code, param, "%s %s", param, inner.Reason)
}

// within reads a number within a limit, or leaves to as it is.
func within[T int | float64](f *fields, name string, to *T, limit spec.Setting) bool {
	var v T
	want := "a number, " + limit.Want()
	if reflect.TypeFor[T]().Kind() == reflect.Int {
		want = "a whole number, " + limit.Want()
	}
	if !f.into(name, &v, want) {
		return false
	}
	if !limit.Holds(float64(v)) {
		f.fail(invalid(name, "%s is %v; want %s", name, v, want))
		return false
	}
	*to = v
	return true
}

func (f *fields) flag(name string) (v bool) {
	f.into(name, &v, "true or false")
	return v
}

// stops reads a stop string or a list of them.
func (f *fields) stops(name string) []string {
	raw, ok := f.take(name)
	if !ok {
		return nil
	}
	all, one := []string{}, ""
	var err error
	if raw[0] == '[' {
		err = strictjson.Decode(raw, &all)
	} else if err = strictjson.Decode(raw, &one); err == nil {
		all = append(all, one)
	}
	if err != nil {
		f.fail(wrongIn(name, err, "%s is %s; want a string or a list of strings", name, Brief(raw)))
		return nil
	}
	return all
}

// neutral is a field that cannot be done yet, with the values that ask for nothing.
type neutral struct {
	name   string
	values []string
}

// neutral refuses fields whose values ask for something.
func (f *fields) neutral(why string, all []neutral) {
	for _, n := range all {
		name := n.name
		raw, ok := f.take(name)
		if !ok {
			continue
		}
		var b bytes.Buffer
		if json.Compact(&b, raw) == nil && slices.Contains(n.values, b.String()) { // bound: written out
			continue
		}
		f.fail(unsupported(name, "%s is %s, which is not supported: %s", name, Brief(raw), why))
	}
}

// ignore drops fields that never change a text.
func (f *fields) ignore(names ...string) {
	for _, name := range names {
		f.take(name)
	}
}

// end refuses the remaining members and returns the first error.
func (f *fields) end() *Error {
	if f.err != nil {
		return f.err
	}
	if len(f.raw) == 0 {
		return nil
	}
	unknown, first := "", true
	for name := range f.raw {
		if first || name < unknown {
			unknown, first = name, false
		}
	}
	name := Brief([]byte(unknown))
	return wrong("unknown_parameter", name, "there is no parameter %s%s", name, hint.DidYouMean(unknown, f.asked))
}

// Brief shortens a value for a message, as text that neither breaks a line nor steers a terminal.
func Brief(raw []byte) string {
	return quote.Escape(strings.Join(strings.Fields(string(raw)), " "), 40)
}
