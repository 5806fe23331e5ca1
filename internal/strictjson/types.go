package strictjson

import (
	"encoding"
	"encoding/json"
	"reflect"
	"slices"
	"strconv"
	"strings"
)

var (
	number = reflect.TypeFor[json.Number]()
	reader = reflect.TypeFor[json.Unmarshaler]()
	texter = reflect.TypeFor[encoding.TextUnmarshaler]()
)

// target returns the type behind the pointers of t, against which its value is checked; nil if that type reads itself.
func target(t reflect.Type) reflect.Type {
	for t != nil {
		if p := reflect.PointerTo(t); p.Implements(reader) || p.Implements(texter) {
			return nil
		}
		if t.Kind() != reflect.Pointer {
			return t
		}
		t = t.Elem()
	}
	return nil
}

// takes reports whether values of these kinds decode into a type.
func takes(t reflect.Type, kinds ...reflect.Kind) bool {
	return t == nil || t.Kind() == reflect.Interface || slices.Contains(kinds, t.Kind())
}

// takesNull reports whether null in a list or map of a type says nothing wrong: it is no zero there, nor "".
func takesNull(t reflect.Type) bool {
	return target(t) == nil || t.Kind() > reflect.Complex128 && t.Kind() != reflect.String
}

// bytesOf reports whether a type holds bytes, which JSON has in base64.
func bytesOf(t reflect.Type) bool {
	return t != nil && t.Kind() == reflect.Slice && t.Elem().Kind() == reflect.Uint8
}

// key checks the name of a member for the keys of a map. Two names must not stand for one number.
func key(t reflect.Type, name []byte) *fault {
	var back string
	switch k := t.Kind(); {
	case k >= reflect.Int && k <= reflect.Int64:
		n, err := strconv.ParseInt(string(name), 10, t.Bits())
		if back = strconv.FormatInt(n, 10); err != nil {
			back = ""
		}
	case k >= reflect.Uint && k <= reflect.Uintptr:
		n, err := strconv.ParseUint(string(name), 10, t.Bits())
		if back = strconv.FormatUint(n, 10); err != nil {
			back = ""
		}
	default:
		return nil
	}
	if back != string(name) {
		return wrong("is a name, want %s", kind(t))
	}
	return nil
}

// kind describes what decodes into a type.
func kind(t reflect.Type) string {
	switch t.Kind() {
	case reflect.Pointer:
		return kind(t.Elem())
	case reflect.Struct, reflect.Map:
		return "an object"
	case reflect.Slice, reflect.Array:
		return "a list"
	case reflect.String:
		if t == number {
			return "a number"
		}
		return "a string"
	case reflect.Bool:
		return "true or false"
	case reflect.Float32, reflect.Float64, reflect.Interface:
		return "a number"
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64, reflect.Uintptr:
		return "a whole number of 0 or more"
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		return "a whole number"
	}
	return "another value"
}

// membersOf gives the types of a struct's fields by their names in JSON. Embedded structs lend theirs, as in
// encoding/json.
func (s *scanner) membersOf(t reflect.Type) map[string]reflect.Type {
	if m, ok := s.known[t]; ok {
		return m
	}
	if s.known == nil {
		s.known = map[reflect.Type]map[string]reflect.Type{}
	}
	m := map[string]reflect.Type{}
	s.known[t] = m
	var embedded []reflect.Type
	for i := range t.NumField() {
		f := t.Field(i)
		tag := f.Tag.Get("json")
		name, _, _ := strings.Cut(tag, ",")
		inner := f.Type
		if inner.Kind() == reflect.Pointer {
			inner = inner.Elem()
		}
		switch {
		case tag == "-":
		case f.Anonymous && name == "" && inner.Kind() == reflect.Struct:
			embedded = append(embedded, inner)
		case !f.IsExported():
		case name == "":
			m[f.Name] = target(f.Type)
		default:
			m[name] = target(f.Type)
		}
	}
	for _, e := range embedded {
		for name, inner := range s.membersOf(e) {
			if _, own := m[name]; !own {
				m[name] = inner
			}
		}
	}
	return m
}
