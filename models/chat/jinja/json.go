package jinja

import (
	"cmp"
	"encoding/json"
	"fmt"
	"iter"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"

	"foretoken/internal/strictjson"
)

// MaxValues bounds the values of JSON that a template gets in all. A request's body holds as many.
const MaxValues = 100_000

// ErrValues is the error of FromJSON for more values than are left.
var ErrValues = fmt.Errorf("jinja: JSON: the calls, tools and variables have more than %d values", MaxValues)

// FromJSON reads a value and keeps the order of keys and the digits of numbers. Each value, those in lists and
// dictionaries included, takes one from left.
func FromJSON(data []byte, left *int) (Value, error) {
	d, err := strictjson.Tokens(data)
	if err != nil {
		return nil, fmt.Errorf("jinja: JSON: %w", err)
	}
	return readJSON(d, left)
}

// Strings are all strings of a value from FromJSON, keys included.
func Strings(v Value) iter.Seq[string] {
	return func(yield func(string) bool) { eachString(v, yield) }
}

func eachString(v Value, yield func(string) bool) bool {
	switch x := v.(type) {
	case string:
		return yield(x)
	case *List:
		for _, item := range x.Items {
			if !eachString(item, yield) {
				return false
			}
		}
	case *Dict:
		for i, key := range x.keys {
			if !eachString(key, yield) || !eachString(x.values[i], yield) {
				return false
			}
		}
	}
	return true
}

// MapStrings applies f to every string of a value from FromJSON, keys included.
func MapStrings(v Value, f func(string) string) Value {
	switch x := v.(type) {
	case string:
		return f(x)
	case *List:
		out := NewList()
		for _, item := range x.Items {
			out.Items = append(out.Items, MapStrings(item, f))
		}
		return out
	case *Dict:
		out := NewDict()
		for i, key := range x.keys {
			out.set(MapStrings(key, f), MapStrings(x.values[i], f))
		}
		return out
	}
	return v
}

func readJSON(d *json.Decoder, left *int) (Value, error) {
	if *left--; *left < 0 {
		return nil, ErrValues
	}
	t, err := d.Token()
	if err != nil {
		return nil, err
	}
	switch t := t.(type) {
	case json.Delim:
		if t == '[' {
			l := NewList()
			for d.More() {
				v, err := readJSON(d, left)
				if err != nil {
					return nil, err
				}
				l.Items = append(l.Items, v)
			}
			_, err = d.Token()
			return l, err
		}
		o := NewDict()
		for d.More() {
			key, err := d.Token()
			if err != nil {
				return nil, err
			}
			v, err := readJSON(d, left)
			if err != nil {
				return nil, err
			}
			o.set(key, v)
		}
		_, err = d.Token()
		return o, err
	case json.Number:
		return fromNumber(t.String()), nil
	}
	return t, nil
}

// fromJSON is DeepSeek's filter, which reads a text of JSON.
func fromJSON(m *machine, v Value, _ arguments) Value {
	s, ok := v.(string)
	if !ok {
		return m.fail("from_json reads %s, want a text", m.describe(v))
	}
	values := 1
	for _, c := range []byte(s) { // before each value but the first
		if strings.IndexByte("[{,:", c) >= 0 {
			values++
		}
	}
	if !m.reads(4*len(s)) || !m.makes(len(s)) || !m.makesAll(values, perKey) {
		return nil
	}
	read, err := FromJSON([]byte(s), &values)
	if err != nil {
		return m.fail("from_json: %s", strings.TrimPrefix(err.Error(), "jinja: JSON: "))
	}
	return read
}

// dumper writes JSON as Python's json.dumps does.
type dumper struct {
	b         text
	indent    string
	pretty    bool
	item, key string // separators
	ascii     bool
	sorted    bool
}

func (m *machine) dump(d *dumper, v Value, level int) {
	defer m.leave()
	if !m.enter() || !m.spend(2) || !m.holds(perItem) {
		return
	}
	switch x := v.(type) {
	case nil:
		d.b.WriteString("null")
	case bool:
		d.b.WriteString(strconv.FormatBool(x))
	case int64:
		d.b.WriteString(strconv.FormatInt(x, 10))
	case float64:
		d.b.WriteString(jsonFloat(x))
	case numeral:
		d.b.WriteString(string(x))
	case string:
		m.dumpString(d, x)
	case *List:
		m.dumpAll(d, '[', ']', len(x.Items), level, func(i int) { m.dump(d, x.Items[i], level+1) })
		return
	case *Dict:
		if !m.makes(perItem * len(x.keys)) {
			return
		}
		order := make([]int, len(x.keys))
		for i := range order {
			order[i] = i
		}
		if d.sorted {
			m.sort(order, func(i int) Value { return x.keys[i] }, false)
		}
		m.dumpAll(d, '{', '}', len(order), level, func(i int) {
			key := x.keys[order[i]]
			switch k := key.(type) {
			case nil:
				key = "null"
			case bool:
				key = strconv.FormatBool(k)
			case int64:
				key = strconv.FormatInt(k, 10)
			case float64:
				key = jsonFloat(k)
			case numeral:
				key = string(k)
			}
			m.dumpString(d, key.(string))
			d.b.add(d.key)
			m.dump(d, x.values[order[i]], level+1)
		})
		return
	default:
		m.fail("tojson: a value of type %s has no JSON", m.describe(v))
	}
}

func (m *machine) dumpString(d *dumper, s string) {
	if m.reads(4*len(s)) && m.makes(4*len(s)) {
		dumpString(&d.b.Builder, s, d.ascii, m.mark)
	}
}

func (m *machine) dumpAll(d *dumper, open, end byte, n, level int, one func(i int)) {
	d.b.WriteByte(open)
	line := func(level int) {
		if d.pretty {
			d.b.WriteByte('\n')
			for i := 0; i < level && d.b.add(d.indent); i++ {
				m.spend(1)
			}
		}
	}
	for i := range n {
		if i > 0 {
			d.b.add(d.item)
		}
		line(level + 1)
		if one(i); m.err != nil {
			return
		}
	}
	if n > 0 {
		line(level)
	}
	d.b.WriteByte(end)
}

func jsonFloat(x float64) string {
	s := formatFloat(x)
	return cmp.Or(map[string]string{"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}[s], s)
}

func dumpString(b *strings.Builder, s string, ascii bool, mark string) {
	b.WriteByte('"')
	plain := func(r rune) bool { return r >= 0x20 && r != '"' && r != '\\' && (r <= 0x7f || !ascii) }
	writeEscaped(b, s, mark, plain, func(r rune) {
		switch {
		case r == '"' || r == '\\':
			b.WriteByte('\\')
			b.WriteRune(r)
		case space[r] != "":
			b.WriteString(space[r])
		case r == '\b':
			b.WriteString(`\b`)
		case r == '\f':
			b.WriteString(`\f`)
		case r < 0x10000:
			b.WriteString(`\u` + hex(r, 4))
		default:
			high, low := utf16.EncodeRune(r)
			b.WriteString(`\u` + hex(high, 4) + `\u` + hex(low, 4))
		}
	})
	b.WriteByte('"')
}

// toJSON is Transformers' filter: json.dumps without ASCII escapes, and not
// Jinja's own, which escapes for HTML and sorts keys.
func toJSON(m *machine, v Value, a arguments) Value {
	ascii, _ := a.get(0, "ensure_ascii")
	sorted, _ := a.get(3, "sort_keys")
	d := &dumper{b: text{m: m}, item: ", ", key: ": ", ascii: truth(ascii), sorted: truth(sorted)}
	if x, ok := a.get(1, "indent"); ok && x != nil {
		d.pretty, d.item = true, ","
		if s, ok := x.(string); ok {
			d.indent = s
		} else if n, ok := integer(x); ok && n <= 100 {
			d.indent = strings.Repeat(" ", int(max(n, 0)))
		} else {
			return m.fail("tojson: the indent is %s, want a text or at most 100", m.describe(x))
		}
	}
	if x, ok := a.get(2, "separators"); ok && x != nil {
		l, ok := x.(*List)
		if !ok || len(l.Items) != 2 {
			return m.fail("tojson: separators are %s, want two texts", m.describe(x))
		}
		d.item, d.key = m.str(l.Items[0]), m.str(l.Items[1])
	}
	m.dump(d, v, 0)
	if !m.searches(d.b.Len()) || !utf8.ValidString(d.b.String()) && m.fail("tojson: the text is not UTF-8") == nil {
		return ""
	}
	return d.b.String()
}
