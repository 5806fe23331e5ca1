package jinja

import (
	"math"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Value is a value of the template language, after Python's types: nil (None), bool, int64, float64, string, *List,
// *Dict, and this package's types for large numbers, namespaces, functions and undefined names.
type Value any

// List is a list or a tuple. Templates cannot change one.
type List struct {
	Items []Value
	tuple bool
}

// NewList makes a list of the items.
func NewList(items ...Value) *List { return &List{Items: items} }

// Dict maps keys to values and keeps the order in which keys came.
type Dict struct {
	keys   []Value
	values []Value
	index  map[any]int
}

// NewDict makes an empty dictionary.
func NewDict() *Dict { return &Dict{} }

// Len is the number of keys.
func (d *Dict) Len() int { return len(d.keys) }

// Set adds a key, or gives it another value.
func (d *Dict) Set(key string, v Value) *Dict {
	d.set(key, v)
	return d
}

// Each calls f for every key that is a text, in their order.
func (d *Dict) Each(f func(key string, v Value)) {
	for i, key := range d.keys {
		if s, ok := key.(string); ok {
			f(s, d.values[i])
		}
	}
}

// Get finds the value of a key.
func (d *Dict) Get(key string) (Value, bool) { return d.get(key) }

func (d *Dict) get(key Value) (Value, bool) {
	k, ok := hashable(key)
	if !ok {
		return nil, false
	}
	i, ok := d.index[k]
	if !ok {
		return nil, false
	}
	return d.values[i], true
}

func (d *Dict) set(key, v Value) bool {
	k, ok := hashable(key)
	if !ok {
		return false
	}
	if i, ok := d.index[k]; ok {
		d.values[i] = v
		return true
	}
	if d.index == nil {
		d.index = map[any]int{}
	}
	d.index[k] = len(d.keys)
	d.keys = append(d.keys, key)
	d.values = append(d.values, v)
	return true
}

type noneKey struct{}

// hashable gives a key that is equal for equal keys of a dictionary: 1, 1.0 and True are one.
func hashable(v Value) (any, bool) {
	switch x := v.(type) {
	case string, int64, numeral:
		return x, true
	case bool:
		return toInt(x), true
	case float64:
		if n := int64(x); float64(n) == x {
			return n, true
		}
		return x, true
	case nil:
		return noneKey{}, true
	}
	return nil, false
}

// undefined is a name or a key without a value. It is false, empty, and an error in most operations.
type undefined struct{ what string }

// namespace holds values that {% set ns.x = … %} can change.
type namespace struct{ attrs *Dict }

// function is a global, a method bound to its value, or a macro.
type function struct {
	call func(m *machine, a arguments) Value
}

// arguments of a call, a filter or a test.
type arguments struct {
	pos   []Value
	named *Dict // nil without any
}

// get finds an argument by place or by name.
func (a arguments) get(i int, name string) (Value, bool) {
	if i < len(a.pos) {
		return a.pos[i], true
	}
	if a.named != nil && name != "" {
		return a.named.get(name)
	}
	return nil, false
}

// or is get with a value for an argument that is not given.
func (a arguments) or(i int, name string, missing Value) Value {
	if v, ok := a.get(i, name); ok {
		return v
	}
	return missing
}

func toInt(b bool) int64 {
	if b {
		return 1
	}
	return 0
}

// integer reads an int or a bool.
func integer(v Value) (int64, bool) {
	switch x := v.(type) {
	case int64:
		return x, true
	case bool:
		return toInt(x), true
	}
	return 0, false
}

func number(v Value) (float64, bool) {
	switch x := v.(type) {
	case float64:
		return x, true
	case numeral:
		return x.float(), true
	}
	n, ok := integer(v)
	return float64(n), ok
}

func truth(v Value) bool {
	switch x := v.(type) {
	case nil, undefined:
		return false
	case bool:
		return x
	case int64:
		return x != 0
	case float64:
		return x != 0
	case string:
		return x != ""
	}
	n, ok := length(v)
	return !ok || n > 0
}

// typeName is Python's name of the type, for messages.
func typeName(v Value) string {
	switch x := v.(type) {
	case nil:
		return "None"
	case undefined:
		return "undefined"
	case bool:
		return "bool"
	case int64:
		return "int"
	case float64:
		return "float"
	case numeral:
		if x.whole() {
			return "int"
		}
		return "float"
	case string:
		return "str"
	case *List:
		if x.tuple {
			return "tuple"
		}
		return "list"
	case *Dict:
		return "dict"
	case *namespace:
		return "namespace"
	case *loop:
		return "loop"
	}
	return "function"
}

// length is the number of characters, items or keys.
func length(v Value) (int64, bool) {
	switch x := v.(type) {
	case string:
		return int64(utf8.RuneCountInString(x)), true
	case *List:
		return int64(len(x.Items)), true
	case *Dict:
		return int64(len(x.keys)), true
	case undefined:
		return 0, true
	}
	return 0, false
}

// formatFloat writes a float as Python's repr does.
func formatFloat(x float64) string {
	switch {
	case math.IsNaN(x):
		return "nan"
	case math.IsInf(x, 1):
		return "inf"
	case math.IsInf(x, -1):
		return "-inf"
	}
	e := strconv.FormatFloat(x, 'e', -1, 64)
	exp, _ := strconv.Atoi(e[strings.IndexByte(e, 'e')+1:])
	if exp < -4 || exp >= 16 {
		return e
	}
	s := strconv.FormatFloat(x, 'f', -1, 64)
	if !strings.Contains(s, ".") {
		s += ".0"
	}
	return s
}

// str is Python's str(v).
func (m *machine) str(v Value) string {
	if s, ok := v.(string); ok {
		return s
	}
	if _, ok := v.(undefined); ok {
		return ""
	}
	b := text{m: m}
	m.repr(&b, v)
	return b.String()
}

// repr writes Python's repr(v).
func (m *machine) repr(b *text, v Value) {
	defer m.leave()
	if !m.enter() || !m.spend(3) || !m.holds(perItem) {
		return
	}
	switch x := v.(type) {
	case nil:
		b.WriteString("None")
	case undefined:
		b.WriteString("Undefined")
	case bool:
		if x {
			b.WriteString("True")
		} else {
			b.WriteString("False")
		}
	case int64:
		b.WriteString(strconv.FormatInt(x, 10))
	case float64:
		b.WriteString(formatFloat(x))
	case numeral:
		b.WriteString(string(x))
	case string:
		if m.reads(4*len(x)) && m.makes(4*len(x)) {
			reprString(&b.Builder, x, m.mark)
		}
	case *List:
		open, end := "[", "]"
		if x.tuple {
			if open, end = "(", ")"; len(x.Items) == 1 {
				end = ",)"
			}
		}
		b.WriteString(open)
		for i, item := range x.Items {
			if i > 0 {
				b.WriteString(", ")
			}
			if m.repr(b, item); m.err != nil {
				return
			}
		}
		b.WriteString(end)
	case *Dict:
		b.WriteByte('{')
		for i, key := range x.keys {
			if i > 0 {
				b.WriteString(", ")
			}
			m.repr(b, key)
			b.WriteString(": ")
			if m.repr(b, x.values[i]); m.err != nil {
				return
			}
		}
		b.WriteByte('}')
	case *namespace:
		b.WriteString("<Namespace ")
		m.repr(b, x.attrs)
		b.WriteByte('>')
	default:
		b.WriteString("<" + typeName(v) + ">")
	}
}

func reprString(b *strings.Builder, s, mark string) {
	quote := '\''
	if strings.Contains(s, "'") && !strings.Contains(s, "\"") {
		quote = '"'
	}
	b.WriteRune(quote)
	plain := func(r rune) bool {
		return r >= ' ' && r != '\\' && r != quote && (r < 0x7f || unicode.IsPrint(r))
	}
	writeEscaped(b, s, mark, plain, func(r rune) {
		switch {
		case space[r] != "":
			b.WriteString(space[r])
		case r == '\\' || r == quote:
			b.WriteByte('\\')
			b.WriteRune(r)
		case r < 0x100:
			b.WriteString(`\x` + hex(r, 2))
		case r < 0x10000:
			b.WriteString(`\u` + hex(r, 4))
		default:
			b.WriteString(`\U` + hex(r, 8))
		}
	})
	b.WriteRune(quote)
}

// writeEscaped writes the plain characters of a string as they are, and the others by escape. A mark is never escaped.
func writeEscaped(b *strings.Builder, s, mark string, plain func(rune) bool, escape func(rune)) {
	from := 0 // the characters from here on are written as they are
	marked := 0
	for i, r := range s {
		if i < marked || plain(r) {
			continue
		}
		if mark != "" && strings.HasPrefix(s[i:], mark) {
			marked = i + len(mark)
			continue
		}
		b.WriteString(s[from:i])
		_, n := utf8.DecodeRuneInString(s[i:])
		from = i + n
		escape(r)
	}
	b.WriteString(s[from:])
}

// space escapes white space in a string, as Python and JSON do.
var space = map[rune]string{'\n': `\n`, '\r': `\r`, '\t': `\t`}

func hex(r rune, width int) string {
	s := strconv.FormatInt(int64(r), 16)
	return strings.Repeat("0", max(0, width-len(s))) + s
}

// equal is Python's ==.
func (m *machine) equal(a, b Value) bool {
	defer m.leave()
	if !m.enter() || !m.spend(1) || isNumeral(a) && !m.weighs(a) || isNumeral(b) && !m.weighs(b) {
		return false
	}
	if x, ok := number(a); ok {
		if i, ok := integer(a); ok {
			if j, ok := integer(b); ok {
				return i == j
			}
		}
		if i, ok := a.(numeral); ok {
			if j, ok := b.(numeral); ok {
				return significant(string(i)) == significant(string(j))
			}
		}
		y, ok := number(b)
		return ok && x == y
	}
	switch x := a.(type) {
	case nil:
		return b == nil
	case undefined:
		_, ok := b.(undefined)
		return ok
	case string:
		y, ok := b.(string)
		return ok && len(x) == len(y) && m.copies(len(x)) && x == y
	case *List:
		y, ok := b.(*List)
		if !ok || len(x.Items) != len(y.Items) || x.tuple != y.tuple {
			return false
		}
		for i := range x.Items {
			if !m.equal(x.Items[i], y.Items[i]) {
				return false
			}
		}
		return true
	case *Dict:
		y, ok := b.(*Dict)
		if !ok || len(x.keys) != len(y.keys) {
			return false
		}
		for i, key := range x.keys {
			if v, ok := m.find(y, key); !ok || !m.equal(x.values[i], v) {
				return false
			}
		}
		return true
	}
	return a == b
}

// less is Python's <, an error between types that have no order.
func (m *machine) less(a, b Value) bool {
	defer m.leave()
	if !m.enter() || !m.spend(1) || isNumeral(a) && !m.weighs(a) || isNumeral(b) && !m.weighs(b) {
		return false
	}
	if x, ok := number(a); ok {
		if y, ok := number(b); ok {
			i, first := integer(a)
			j, second := integer(b)
			if first && second {
				return i < j
			}
			return x < y
		}
	}
	switch x := a.(type) {
	case string:
		if y, ok := b.(string); ok {
			m.copies(min(len(x), len(y)))
			return x < y
		}
	case *List:
		if y, ok := b.(*List); ok && x.tuple == y.tuple {
			for i := range min(len(x.Items), len(y.Items)) {
				if !m.equal(x.Items[i], y.Items[i]) {
					return m.err == nil && m.less(x.Items[i], y.Items[i])
				}
			}
			return len(x.Items) < len(y.Items)
		}
	}
	m.fail("%s and %s have no order", m.describe(a), m.describe(b))
	return false
}

// describe names a value in a message.
func (m *machine) describe(v Value) string {
	if u, ok := v.(undefined); ok {
		return u.what + " (undefined)"
	}
	return typeName(v)
}
