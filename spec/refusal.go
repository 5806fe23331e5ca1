package spec

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"
)

// FieldError refuses the value of a request's or a file's field. Programs name the field as their users do: the
// command line as a flag, the endpoint as the param of its error.
type FieldError struct {
	Field  string // its name in JSON, after those of the objects that hold it: stop, message.role
	Reason string // the predicate: "is 99, want 0 (greedy) or 0.001 to 2"
	Err    error  // what Reason comes from; may be nil
}

func (e *FieldError) Error() string { return e.Field + " " + e.Reason }
func (e *FieldError) Unwrap() error { return e.Err }

// Refuse makes a FieldError with the prefix of this package's errors.
func Refuse(field, format string, args ...any) error {
	return fmt.Errorf("spec: %w", &FieldError{Field: field, Reason: fmt.Sprintf(format, args...)})
}

// Limit bounds a field of requests that holds a number.
type Limit struct {
	Field string  `json:"field"`
	Least float64 `json:"least"`
	Most  float64 `json:"most"`
	Zero  string  `json:"zero,omitempty"` // what 0 stands for; "": 0 is a value like others
}

// The limits of requests, the same in Go, in JavaScript, on the command line and over HTTP. The settings of methods
// have theirs in package method, because they depend on the drafter.
var (
	LimitTemperature = Limit{"temperature", 0.001, 2, "greedy"}
	LimitTopK        = Limit{"top_k_sampling", 1, math.MaxInt32, "off"}
	LimitTopP        = Limit{"top_p", 0, 1, "off"}
	LimitMinP        = Limit{"min_p", 0, 1, "off"}
	LimitMaxTokens   = Limit{"max_tokens", 1, math.MaxInt32, "until the context is full"}
	LimitTopLogProbs = Limit{Field: "top_logprobs", Most: 20}
	LimitFrequency   = Limit{Field: "frequency_penalty", Least: -2, Most: 2}
	LimitPresence    = Limit{Field: "presence_penalty", Least: -2, Most: 2}
	LimitBias        = Limit{Field: "logit_bias", Least: -100, Most: 100}
	LimitN           = Limit{Field: "n", Least: 1, Most: 16}
)

// RequestLimits lists them for programs in other languages.
func RequestLimits() []Limit {
	return []Limit{LimitTemperature, LimitTopK, LimitTopP, LimitMinP, LimitMaxTokens, LimitTopLogProbs, LimitFrequency,
		LimitPresence, LimitBias, LimitN}
}

// Check refuses a value beyond the limit.
func (l Limit) Check(v float64) error {
	if l.Holds(v) {
		return nil
	}
	return Refuse(l.Field, "is %v, want %s", v, l.Want())
}

// Holds reports whether a value is within the limit; NaN is not.
func (l Limit) Holds(v float64) bool { return v >= l.Least && v <= l.Most || v == 0 && l.Zero != "" }

// Want describes the values within the limit.
func (l Limit) Want() string {
	number := func(v float64) string { return strconv.FormatFloat(v, 'f', -1, 64) }
	switch {
	case l.Zero == "":
		return number(l.Least) + " to " + number(l.Most)
	case l.Least == 0:
		return fmt.Sprintf("0 (%s) to %s", l.Zero, number(l.Most))
	}
	return fmt.Sprintf("0 (%s) or %s to %s", l.Zero, number(l.Least), number(l.Most))
}

// Nearest returns the known name that was probably meant by one that is not known, or "". Letter case, - and _ do not
// count; every third letter may be wrong, missing, too many or exchanged with the next; four letters are enough to
// begin a name.
func Nearest(name string, known []string) string {
	plain := func(s string) string {
		return strings.ToLower(strings.Map(func(r rune) rune {
			if r == '-' || r == '_' {
				return -1
			}
			return r
		}, s))
	}
	asked := plain(name)
	if len(asked) < 2 || len(asked) > 64 {
		return ""
	}
	best, least := "", max(1, len(asked)/3)+1
	for _, k := range known {
		d := editDistance(asked, plain(k))
		if len(asked) >= 4 && strings.HasPrefix(plain(k), asked) {
			d = min(d, max(1, len(asked)/3))
		}
		if d < least {
			best, least = k, d
		}
	}
	return best
}

// DidYouMean is Nearest as the end of a message.
func DidYouMean(name string, known []string) string {
	if near := Nearest(name, known); near != "" {
		return "; did you mean " + near + "?"
	}
	return ""
}

// editDistance counts the insertions, deletions, replacements and exchanges of neighbours that make b of a (optimal
// string alignment).
func editDistance(a, b string) int {
	var rows [3][]int // of the last byte but one of a, of the last one, and of this one
	for i := range rows {
		rows[i] = make([]int, len(b)+1)
	}
	for j := range rows[1] {
		rows[1][j] = j
	}
	for i := 1; i <= len(a); i++ {
		before, above, row := rows[0], rows[1], rows[2]
		row[0] = i
		for j := 1; j <= len(b); j++ {
			cost := 1
			if a[i-1] == b[j-1] {
				cost = 0
			}
			row[j] = min(above[j]+1, row[j-1]+1, above[j-1]+cost)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				row[j] = min(row[j], before[j-2]+1)
			}
		}
		rows = [3][]int{above, row, before}
	}
	return rows[1][len(b)]
}

// Decode reads one JSON value that people write. It refuses fields that nothing knows, because a misspelt setting
// would otherwise be ignored, and says in words what is wrong: in a FieldError where a field is.
func Decode(data []byte, into any) error {
	d := json.NewDecoder(bytes.NewReader(data))
	d.DisallowUnknownFields()
	if err := d.Decode(into); err != nil {
		return JSONError(err, into)
	}
	if _, err := d.Token(); err != io.EOF {
		return errors.New("there is more after the JSON value, want one")
	}
	return nil
}

// JSONError says in words what encoding/json found wrong with a text that was to be decoded into a value.
func JSONError(err error, into any) error {
	var value *json.UnmarshalTypeError
	var syntax *json.SyntaxError
	name, unknown := strings.CutPrefix(err.Error(), "json: unknown field ")
	switch {
	case errors.As(err, &value):
		reason := fmt.Sprintf("is %s, want %s", jsonValue(value.Value), jsonKind(value.Type))
		if field := jsonPath(value.Field); field != "" {
			return &FieldError{Field: field, Reason: reason}
		}
		return errors.New("the JSON value " + reason)
	case unknown:
		if raw, err := strconv.Unquote(name); err == nil {
			name = raw
		}
		known := jsonNames(reflect.TypeOf(into), nil)
		return &FieldError{Field: shortName(name), Reason: "is unknown" + DidYouMean(name, known)}
	case errors.As(err, &syntax):
		return fmt.Errorf("not JSON at byte %d: %.200s", syntax.Offset, syntax)
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return errors.New("not JSON: the text ends before the value does")
	}
	return fmt.Errorf("%.300s", strings.TrimPrefix(err.Error(), "json: "))
}

// shortName makes a name of any bytes and length fit to be printed.
func shortName(name string) string {
	quoted := strconv.Quote(name)
	if len(name) > 80 {
		quoted = strconv.Quote(strings.ToValidUTF8(name[:80], "")) + "…"
	} else if quoted[1:len(quoted)-1] == name {
		return name
	}
	return quoted
}

// jsonPath drops the embedded structs of Go from the path of a field.
func jsonPath(path string) string {
	parts := slices.DeleteFunc(strings.Split(path, "."), func(part string) bool {
		return part != "" && part[0] >= 'A' && part[0] <= 'Z'
	})
	return strings.Join(parts, ".")
}

// jsonValue describes a value as encoding/json names it: "string", "number 1.5".
func jsonValue(value string) string {
	if number, ok := strings.CutPrefix(value, "number "); ok {
		return fmt.Sprintf("%.40s", number)
	}
	switch value {
	case "object":
		return "an object"
	case "array":
		return "a list"
	case "bool":
		return "true or false"
	}
	return "a " + value
}

// jsonKind describes what decodes into a type.
func jsonKind(t reflect.Type) string {
	switch t.Kind() {
	case reflect.Pointer:
		return jsonKind(t.Elem())
	case reflect.Struct, reflect.Map:
		return "an object"
	case reflect.Slice, reflect.Array:
		return "a list"
	case reflect.String:
		return "a string"
	case reflect.Bool:
		return "true or false"
	case reflect.Float32, reflect.Float64:
		return "a number"
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		return "a whole number of 0 or more"
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		return "a whole number"
	}
	return "another value"
}

// jsonNames lists the names of a struct's fields in JSON, and of the structs in it.
func jsonNames(t reflect.Type, seen []reflect.Type) (names []string) {
	for t.Kind() == reflect.Pointer || t.Kind() == reflect.Slice {
		t = t.Elem()
	}
	if t.Kind() != reflect.Struct || slices.Contains(seen, t) {
		return nil
	}
	seen = append(seen, t)
	for _, f := range reflect.VisibleFields(t) {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		if !f.IsExported() || name == "-" {
			continue
		}
		if name != "" {
			names = append(names, name)
		}
		names = append(names, jsonNames(f.Type, seen)...)
	}
	return names
}
