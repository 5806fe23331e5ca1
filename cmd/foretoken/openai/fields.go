package openai

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"net/http"
	"reflect"
	"slices"
	"strings"

	"foretoken/models/gguf"
)

// fields are the members of a request's body that were not read yet. The first thing found wrong with
// them is kept, so that reading needs no check after every field.
type fields struct {
	raw map[string]json.RawMessage
	err *Error
}

// parseFields reads a body. A member that is null counts as absent, as it does in the API.
func parseFields(body []byte) (*fields, *Error) {
	f := &fields{}
	d := json.NewDecoder(bytes.NewReader(body))
	if err := d.Decode(&f.raw); err != nil {
		if wrong, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
			return nil, badJSON("the body is a JSON %s; want an object", wrong.Value)
		}
		if errors.Is(err, io.EOF) {
			return nil, badJSON("the body is empty; want a JSON object")
		}
		return nil, badJSON("the body is not valid JSON: %s", reason(err))
	}
	if _, err := d.Token(); err != io.EOF {
		return nil, badJSON("there is something after the JSON object of the body")
	}
	if f.raw == nil {
		return nil, badJSON("the body is null; want a JSON object")
	}
	maps.DeleteFunc(f.raw, func(_ string, v json.RawMessage) bool { return string(v) == "null" })
	return f, nil
}

func badJSON(format string, args ...any) *Error {
	return refused(http.StatusBadRequest, "invalid_json", format, args...)
}

// fail keeps the first error.
func (f *fields) fail(e *Error) {
	if f.err == nil {
		f.err = e
	}
}

// take gives a member and counts it as read.
func (f *fields) take(name string) (json.RawMessage, bool) {
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
	if err := json.Unmarshal(raw, to); err != nil {
		f.fail(wrongType(name, "%s is %s; want %s", name, brief(raw), want))
		return false
	}
	return true
}

// number reads a number in [low, high], or leaves to as it is.
func (f *fields) number(name string, to *float64, low, high float64) bool {
	return within(f, name, to, low, high, fmt.Sprintf("a number from %g to %g", low, high))
}

// count reads an integer in [low, high], or leaves to unchanged.
func (f *fields) count(name string, to *int, low, high int) bool {
	want := fmt.Sprintf("a whole number from %d to %d", low, high)
	if high == math.MaxInt32 {
		want = fmt.Sprintf("a whole number of %d or more", low)
	}
	return within(f, name, to, low, high, want)
}

// within reads a value in [low, high]; want describes it in errors.
func within[T int | float64](f *fields, name string, to *T, low, high T, want string) bool {
	var v T
	if !f.into(name, &v, want) {
		return false
	}
	if !(v >= low && v <= high) {
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
	var one string
	all := []string{}
	if json.Unmarshal(raw, &one) == nil {
		all = append(all, one)
	} else if json.Unmarshal(raw, &all) != nil {
		f.fail(wrongType(name, "%s is %s; want a string or a list of strings", name, brief(raw)))
		return nil
	}
	if len(all) > maxStops {
		f.fail(invalid(name, "%s has %d strings; want at most %d", name, len(all), maxStops))
	}
	for i, s := range all {
		if s == "" {
			f.fail(invalid(name, "string %d of %s is empty: every text would end at once", i, name))
		}
		if len(s) > maxStopBytes {
			f.fail(invalid(name, "string %d of %s has %d bytes; want at most %d", i, name, len(s), maxStopBytes))
		}
	}
	return all
}

// neutral refuses fields that cannot be done yet, unless their value asks for nothing.
func (f *fields) neutral(why string, values map[string][]string) {
	for _, name := range slices.Sorted(maps.Keys(values)) {
		raw, ok := f.take(name)
		if !ok {
			continue
		}
		var b bytes.Buffer
		if json.Compact(&b, raw) == nil && slices.Contains(values[name], b.String()) {
			continue
		}
		f.fail(unsupported(name, "%s is %s, which this server cannot do: %s", name, brief(raw), why))
	}
}

// ignore drops fields that never change a text.
func (f *fields) ignore(names ...string) {
	for _, name := range names {
		delete(f.raw, name)
	}
}

// end refuses the remaining members and returns the first error.
func (f *fields) end() *Error {
	if f.err != nil {
		return f.err
	}
	for _, name := range slices.Sorted(maps.Keys(f.raw)) {
		name = brief([]byte(name))
		return wrong("unknown_parameter", name, "there is no parameter %s", name)
	}
	return nil
}

// brief shortens a value for a message, as text that neither breaks a line nor steers a terminal.
func brief(raw []byte) string { return gguf.Escape(strings.Join(strings.Fields(string(raw)), " "), 40) }

// reason describes a JSON error in words; encoding/json quotes names and numbers of any length, and types of Go.
func reason(err error) string {
	value, ok := errors.AsType[*json.UnmarshalTypeError](err)
	if !ok {
		return gguf.Escape(strings.TrimPrefix(err.Error(), "json: "), 200)
	}
	name, want := value.Field, "a value of another type"
	if name == "" {
		name = "it"
	}
	switch kind := value.Type.Kind(); {
	case kind == reflect.Struct || kind == reflect.Map:
		want = "an object"
	case kind == reflect.Slice:
		want = "a list"
	case kind == reflect.String:
		want = "a string"
	case kind == reflect.Bool:
		want = "true or false"
	case value.Type.ConvertibleTo(reflect.TypeFor[int]()) && kind != reflect.Float64:
		want = "a whole number"
	case kind == reflect.Float64:
		want = "a number"
	}
	return fmt.Sprintf("%s is a JSON %s; want %s", name, gguf.Escape(value.Value, 200), want)
}
