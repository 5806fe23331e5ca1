// Package strictjson reads JSON that comes from outside: requests, schemas, prompts, settings, and the files of models.
// It takes what RFC 7493 (I-JSON) calls interoperable and refuses the rest, because parsers disagree on it: names given
// twice, half a pair of surrogates, bytes that are no UTF-8. Names count as they are written, in the same case, and
// a name that nothing knows is refused with the one that was probably meant.
//
// encoding/json does none of that, and the packages that do would make the page larger. So one pass over the bytes
// checks a text against the rules, the bounds and the Go type that it is for, and encoding/json decodes it then.
// The pass takes 8 bytes for each name of the objects that it is in.
package strictjson

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"hash/maphash"
	"math"
	"reflect"
	"slices"
	"strconv"
	"unicode/utf8"

	"foretoken/internal/hint"
	"foretoken/internal/quote"
)

// MaxDepth bounds how many objects and lists lie in each other.
const MaxDepth = 256

// Rules say what a text may hold. The zero value is for what people write: every member has to be known.
type Rules struct {
	// Values bounds the objects, lists, texts, numbers, booleans and nulls, counted before any is built; 0: no bound.
	Values int
	// IDs leaves numbers in lists uncounted, where they are read as token ids: those take less memory than their text.
	IDs bool
	// Foreign skips members that the Go type does not know: a file of another program, or an object that clients
	// carry along. Names that differ from a known one in their case only are refused all the same.
	Foreign bool
}

// FieldError refuses the value of a field. spec.FieldError is its public name.
type FieldError struct {
	Field  string // its path in JSON, from the outermost object or list: stop, messages[2].role
	Reason string // the predicate: "is 99, want 0 (greedy) or 0.001 to 2"
	Err    error  // what Reason comes from; may be nil
}

func (e *FieldError) Error() string { return e.Field + " " + e.Reason }
func (e *FieldError) Unwrap() error { return e.Err }

// What a FieldError may wrap.
var (
	ErrUnknown = errors.New("a member that nothing knows")
	ErrTwice   = errors.New("a member that is given twice")
)

// Join puts the place of a value before the path of a member in it.
func Join(place, path string) string {
	if place != "" && path != "" && path[0] != '[' {
		place += "."
	}
	return place + path
}

// Check reports whether data is one JSON value by the rules. Errors are one line without the name of the text, a
// FieldError where a member is wrong.
func (r Rules) Check(data []byte) error { return r.Decode(data, nil) }

// Decode checks data and reads it into what into points to, as encoding/json does otherwise: null leaves a value as it
// is. A whole number may be written in any way (1e2 is 100).
func (r Rules) Decode(data []byte, into any) error {
	if int64(len(data)) > math.MaxUint32 {
		return fmt.Errorf("the JSON has %d bytes, want at most %d", len(data), uint32(math.MaxUint32))
	}
	s := scanner{Rules: r, data: data, left: r.Values, seed: maphash.MakeSeed()}
	var t reflect.Type
	if into != nil {
		t = reflect.TypeOf(into).Elem()
	}
	if s.space(); s.i == len(data) {
		return errors.New("not JSON at byte 0: the text is empty")
	}
	f := s.value(target(t))
	if f == nil {
		if s.space(); s.i < len(data) {
			return fmt.Errorf("not JSON at byte %d: there is more after the value", s.i+1)
		}
	} else {
		return f.error()
	}
	if into == nil {
		return nil
	}
	err := json.Unmarshal(s.patched(), into)
	if wrong, ok := errors.AsType[*json.UnmarshalTypeError](err); ok { // of a type that reads itself
		reason := fmt.Sprintf("is a %.40s, want %s", wrong.Value, kind(wrong.Type))
		return &FieldError{Field: wrong.Field, Reason: reason}
	}
	return err
}

// Tokens checks data and returns a decoder of it, for values that are read in order. Its numbers are json.Number.
func Tokens(data []byte) (*json.Decoder, error) {
	d := json.NewDecoder(bytes.NewReader(data))
	d.UseNumber()
	return d, Check(data)
}

// Check checks data by the zero Rules.
func Check(data []byte) error { return Rules{}.Check(data) }

// Decode decodes by the zero Rules: into must know every member.
func Decode(data []byte, into any) error { return Rules{}.Decode(data, into) }

// DecodeForeign is Decode for the files of other programs, whose further members are skipped.
func DecodeForeign(data []byte, into any) error { return Rules{Foreign: true}.Decode(data, into) }

// fault is the first thing wrong with a text.
type fault struct {
	path   string
	reason string
	kind   error // ErrUnknown or ErrTwice
	syntax bool
}

func (f *fault) error() error {
	switch {
	case f.syntax:
		return errors.New(f.reason)
	case f.path == "":
		return errors.New("the JSON value " + f.reason)
	}
	return &FieldError{Field: f.path, Reason: f.reason, Err: f.kind}
}

// within puts a place before the path of a fault; nil stays nil.
func (f *fault) within(place string) *fault {
	if f != nil && len(f.path) < 400 {
		f.path = Join(place, f.path)
	}
	return f
}

func wrong(format string, args ...any) *fault { return &fault{reason: fmt.Sprintf(format, args...)} }

// scanner goes over a text once.
type scanner struct {
	Rules
	data    []byte
	i       int
	left    int                                      // values, if they are bounded
	depth   int                                      // objects and lists around this place
	names   []uint64                                 // of the objects around this place: half a hash and the offset
	seed    maphash.Seed                             // makes colliding names impossible to choose
	known   map[reflect.Type]map[string]reflect.Type // members of structs
	patches []patch
}

// patch is a number that encoding/json would not take for a whole one.
type patch struct {
	from, to int
	text     string
}

func (s *scanner) patched() []byte {
	if len(s.patches) == 0 {
		return s.data
	}
	var b []byte
	from := 0
	for _, p := range s.patches {
		b = append(append(b, s.data[from:p.from]...), p.text...)
		from = p.to
	}
	return append(b, s.data[from:]...)
}

func (s *scanner) space() {
	for s.i < len(s.data) && (s.data[s.i] == ' ' || s.data[s.i] == '\n' || s.data[s.i] == '\t' || s.data[s.i] == '\r') {
		s.i++
	}
}

// syntax refuses the byte at this place, or the end.
func (s *scanner) syntax(want string) *fault {
	if s.i >= len(s.data) {
		reason := fmt.Sprintf("not JSON at byte %d: the text ends before the value does", s.i)
		return &fault{reason: reason, syntax: true}
	}
	what := fmt.Sprintf("byte 0x%02x", s.data[s.i])
	if r, _ := utf8.DecodeRune(s.data[s.i:]); r != utf8.RuneError && strconv.IsPrint(r) {
		what = strconv.QuoteRune(r)
	} else if r == '\ufeff' {
		what = "a byte order mark"
	}
	return &fault{reason: fmt.Sprintf("not JSON at byte %d: %s, want %s", s.i+1, what, want), syntax: true}
}

// next skips white space and the byte c.
func (s *scanner) next(c byte) bool {
	s.space()
	if s.i < len(s.data) && s.data[s.i] == c {
		s.i++
		return true
	}
	return false
}

// value reads a value for a type; nil: for any.
func (s *scanner) value(t reflect.Type) *fault {
	s.space()
	if s.Values > 0 {
		if s.left--; s.left < 0 {
			return &fault{reason: fmt.Sprintf("the JSON has more than %d values: lists, objects and what is in them",
				s.Values), syntax: true}
		}
	}
	if s.i == len(s.data) {
		return s.syntax("a value")
	}
	is := ""
	switch c := s.data[s.i]; {
	case c == '{':
		if is = "an object"; takes(t, reflect.Struct, reflect.Map) {
			return s.nested(t, s.object)
		}
	case c == '[':
		if is = "a list"; takes(t, reflect.Slice, reflect.Array) {
			return s.nested(t, s.list)
		}
	case c == '"':
		if is = "a string"; takes(t, reflect.String) && t != number || bytesOf(t) {
			_, f := s.text()
			return f
		}
	case c == '-' || c >= '0' && c <= '9':
		return s.number(t)
	case c == 'n':
		return s.word("null")
	case c == 't' || c == 'f':
		word := "true"
		if c == 'f' {
			word = "false"
		}
		if is = word; takes(t, reflect.Bool) {
			return s.word(word)
		}
	default:
		return s.syntax("a value")
	}
	return wrong("is %s, want %s", is, kind(t))
}

// element reads a value in a list or object, which may not be null where encoding/json would put a zero for it.
func (s *scanner) element(t reflect.Type, null bool) *fault {
	if s.space(); !null && s.i < len(s.data) && s.data[s.i] == 'n' {
		return wrong("is null, want %s", kind(t))
	}
	return s.value(t)
}

func (s *scanner) word(w string) *fault {
	for i := range len(w) {
		if s.i == len(s.data) || s.data[s.i] != w[i] {
			return s.syntax(w)
		}
		s.i++
	}
	return nil
}

func (s *scanner) nested(t reflect.Type, read func(reflect.Type) *fault) *fault {
	if s.depth++; s.depth > MaxDepth {
		return &fault{syntax: true,
			reason: fmt.Sprintf("at byte %d objects and lists are nested deeper than %d", s.i+1, MaxDepth)}
	}
	s.i++
	f := read(t)
	s.depth--
	return f
}

func (s *scanner) list(t reflect.Type) *fault {
	null := true
	if t != nil && t.Kind() != reflect.Interface {
		null = takesNull(t.Elem())
		t = target(t.Elem())
	}
	if s.next(']') {
		return nil
	}
	for n := 0; ; n++ {
		if s.space(); s.IDs && s.i < len(s.data) && s.data[s.i] >= '0' && s.data[s.i] <= '9' {
			s.left++
		}
		if f := s.element(t, null); f != nil {
			return f.within(fmt.Sprintf("[%d]", n))
		}
		if s.next(']') {
			return nil
		}
		if !s.next(',') {
			return s.syntax("a comma or the list's end")
		}
	}
}

func (s *scanner) object(t reflect.Type) *fault {
	var members map[string]reflect.Type
	isMap := t != nil && t.Kind() == reflect.Map
	if t != nil && t.Kind() == reflect.Struct {
		members = s.membersOf(t)
	}
	base := len(s.names)
	if s.next('}') {
		return nil
	}
	for {
		s.space()
		if s.i == len(s.data) || s.data[s.i] != '"' {
			return s.syntax("a name in quotes")
		}
		at := s.i
		raw, f := s.text()
		if f != nil {
			if !f.syntax {
				f.reason = "has a name that " + f.reason
			}
			return f
		}
		name := unescaped(raw)
		s.names = append(s.names, maphash.Bytes(s.seed, name)<<32|uint64(at))
		if !s.next(':') {
			return s.syntax("a colon")
		}
		inner, null := t, true
		switch {
		case isMap:
			null = takesNull(t.Elem())
			if f := key(t.Key(), name); f != nil {
				return f.within(quote.Name(string(name)))
			}
			inner = target(t.Elem())
		case members != nil:
			known := false
			if inner, known = members[string(name)]; !known {
				if f := s.unknown(string(name), members); f != nil {
					return f.within(quote.Name(string(name)))
				}
			}
		}
		if f := s.element(inner, null); f != nil {
			return f.within(quote.Name(string(name)))
		}
		if s.next('}') {
			break
		}
		if !s.next(',') {
			return s.syntax("a comma or the object's end")
		}
	}
	f := s.twice(s.names[base:])
	s.names = s.names[:base]
	return f
}

// twice refuses an object two of whose names are the same.
func (s *scanner) twice(names []uint64) *fault {
	if len(names) < 2 {
		return nil
	}
	slices.Sort(names)
	for i, first := range names {
		for _, second := range names[i+1:] {
			if first>>32 != second>>32 {
				break
			}
			a, b := s.nameAt(first), s.nameAt(second)
			if bytes.Equal(a, b) {
				f := wrong("is given twice, at bytes %d and %d", uint32(first)+1, uint32(second)+1)
				f.kind = ErrTwice
				return f.within(quote.Name(string(a)))
			}
		}
	}
	return nil
}

func (s *scanner) nameAt(packed uint64) []byte {
	own := scanner{data: s.data, i: int(uint32(packed))}
	raw, _ := own.text()
	return unescaped(raw)
}

// unknown refuses a name that a struct does not have, or, of others' objects, that is one of them in another case.
func (s *scanner) unknown(name string, members map[string]reflect.Type) *fault {
	names := make([]string, 0, len(members))
	folded := false
	for n := range members {
		names = append(names, n)
		folded = folded || bytes.EqualFold([]byte(n), []byte(name))
	}
	if s.Foreign && !folded {
		return nil
	}
	slices.Sort(names)
	f := wrong("is unknown%s", hint.DidYouMean(name, names))
	f.kind = ErrUnknown
	return f
}
