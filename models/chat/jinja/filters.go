package jinja

import (
	"math"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"foretoken/internal/quote"
)

type filterFunc func(m *machine, v Value, a arguments) Value

// filters by name, for "|": Jinja's, as far as chat templates use them, and Transformers' tojson.
var filters map[string]filterFunc

func init() {
	onText := func(f func(string) string) filterFunc {
		return func(m *machine, v Value, _ arguments) Value { return m.changed(m.str(v), f) }
	}
	extreme := func(better func(m *machine, a, b Value) bool) filterFunc {
		return func(m *machine, v Value, a arguments) Value {
			var best, bestKey Value = undefined{"the extreme of nothing"}, nil
			for i, item := range m.items(v) {
				key := m.sortKey(item, a, 0, 1)
				if i == 0 || better(m, key, bestKey) {
					best, bestKey = item, key
				}
				if m.err != nil {
					return nil
				}
			}
			return best
		}
	}
	filters = map[string]filterFunc{
		"abs": func(m *machine, v Value, _ arguments) Value {
			switch x := v.(type) {
			case float64:
				return math.Abs(x)
			case numeral:
				return numeral(strings.TrimPrefix(string(x), "-"))
			}
			if n, ok := integer(v); ok && n >= 0 {
				return n
			}
			return m.unary("-", v)
		},
		"attr": func(m *machine, v Value, a arguments) Value {
			name, _ := a.get(0, "name")
			if d, ok := v.(*Dict); ok && methods["dict"][m.str(name)] == nil { // keys are no attributes
				return undefined{"a key of " + typeName(d)}
			}
			return m.attr(v, m.str(name))
		},
		"capitalize": onText(capitalized),
		"default": func(m *machine, v Value, a arguments) Value {
			_, missing := v.(undefined)
			if all, ok := a.get(1, "boolean"); ok && truth(all) {
				missing = !truth(v)
			}
			if !missing {
				return v
			}
			return a.or(0, "default_value", "")
		},
		"dictsort": dictSort,
		"escape": func(m *machine, v Value, _ arguments) Value {
			s := m.str(v)
			if !m.reads(2*len(s)) || !m.makes(5*len(s)) {
				return ""
			}
			return escapeHTML.Replace(s)
		},
		"first": func(m *machine, v Value, _ arguments) Value {
			if s, ok := v.(string); ok {
				r, n := utf8.DecodeRuneInString(s)
				if n == 0 {
					return undefined{"the first of nothing"}
				}
				return string(r)
			}
			if items := m.items(v); len(items) > 0 {
				return items[0]
			}
			return undefined{"the first of nothing"}
		},
		"float": func(m *machine, v Value, a arguments) Value {
			if x, ok := number(v); ok {
				return x
			}
			if _, ok := v.(undefined); ok {
				return m.fail("%s is no number", m.describe(v))
			}
			if s, ok := v.(string); ok && m.parses(s) {
				if x, err := strconv.ParseFloat(strings.TrimSpace(s), 64); err == nil {
					return x
				}
			}
			return a.or(0, "default", 0.0)
		},
		"indent": indent,
		"int": func(m *machine, v Value, a arguments) Value {
			switch x := v.(type) {
			case undefined:
				return m.fail("%s is no number", m.describe(v))
			case int64, bool:
				n, _ := integer(x)
				return n
			case numeral:
				if x.whole() {
					return x
				}
			case float64:
				if x > -1<<63 && x < 1<<63 {
					return int64(x)
				}
			case string:
				if !m.parses(x) {
					return nil
				}
				s := strings.TrimSpace(x)
				base := int(m.number(a, 1, "base", 10))
				if base != 10 && base > 1 && base <= 36 {
					s = strings.TrimPrefix(strings.ToLower(s), map[int]string{16: "0x", 8: "0o", 2: "0b"}[base])
				} else {
					base = 10
				}
				if n, err := strconv.ParseInt(s, base, 64); err == nil {
					return n
				}
				if y, err := strconv.ParseFloat(s, 64); err == nil && y > -1<<63 && y < 1<<63 {
					return int64(y)
				}
			}
			return a.or(0, "default", int64(0))
		},
		"items": func(m *machine, v Value, _ arguments) Value {
			switch d := v.(type) {
			case *Dict:
				return dictItems(m, d)
			case undefined:
				return NewList()
			}
			return m.fail("the filter items needs a dictionary, not %s", m.describe(v))
		},
		"join": func(m *machine, v Value, a arguments) Value {
			sep, _ := a.get(0, "d")
			if name, ok := a.get(1, "attribute"); ok {
				v = m.each(v, func(item Value) Value { return m.path(item, name) })
			}
			if sep == nil {
				sep = ""
			}
			return joinAny(m, v, m.str(sep))
		},
		"last": func(m *machine, v Value, _ arguments) Value {
			if s, ok := v.(string); ok && s != "" {
				r, _ := utf8.DecodeLastRuneInString(s)
				return string(r)
			}
			if items := m.items(v); len(items) > 0 {
				return items[len(items)-1]
			}
			return undefined{"the last of nothing"}
		},
		"length": func(m *machine, v Value, _ arguments) Value {
			if ns, ok := v.(*namespace); ok {
				return int64(ns.attrs.Len())
			}
			n, ok := length(v)
			if s, is := v.(string); is {
				m.searches(len(s))
			}
			if !ok {
				return m.fail("%s has no length", m.describe(v))
			}
			return n
		},
		"list":       func(m *machine, v Value, _ arguments) Value { return &List{Items: m.items(v)} },
		"lower":      onText(strings.ToLower),
		"map":        mapFilter,
		"max":        extreme(func(m *machine, a, b Value) bool { return m.less(b, a) }),
		"min":        extreme(func(m *machine, a, b Value) bool { return m.less(a, b) }),
		"reject":     pick(false, false),
		"rejectattr": pick(true, false),
		"select":     pick(false, true),
		"selectattr": pick(true, true),
		"replace": func(m *machine, v Value, a arguments) Value {
			old, _ := a.get(0, "old")
			with, _ := a.get(1, "new")
			return replaceText(m, m.str(v), m.str(old), m.str(with), m.number(a, 2, "count", -1))
		},
		"reverse": func(m *machine, v Value, _ arguments) Value {
			items := m.items(v)
			if !m.makesAll(len(items), perItem) {
				return nil
			}
			out := make([]Value, len(items))
			for i, item := range items {
				out[len(items)-1-i] = item
			}
			if _, ok := v.(string); ok {
				return joinText(m, &List{Items: out}, "")
			}
			return &List{Items: out}
		},
		"safe":   func(m *machine, v Value, _ arguments) Value { return v },
		"sort":   sortFilter,
		"string": func(m *machine, v Value, _ arguments) Value { return m.str(v) },
		"sum": func(m *machine, v Value, a arguments) Value {
			total := a.or(1, "start", int64(0))
			name, given := a.get(0, "attribute")
			for _, item := range m.items(v) {
				if given && name != nil {
					item = m.path(item, name)
				}
				total = m.binary("+", total, item)
			}
			return total
		},
		"title": onText(func(s string) string {
			inside := false
			return strings.Map(func(r rune) rune {
				was := inside
				inside = !unicode.IsSpace(r) && !strings.ContainsRune("-([{<", r)
				if was {
					return unicode.ToLower(r)
				}
				return unicode.ToUpper(r)
			}, s)
		}),
		"from_json": fromJSON,
		"tojson":    toJSON,
		"trim":      func(m *machine, v Value, a arguments) Value { return stripText(m, m.str(v), a, true, true) },
		"unique":    unique,
		"upper":     onText(strings.ToUpper),
	}
	for alias, name := range map[string]string{"d": "default", "e": "escape", "count": "length"} {
		filters[alias] = filters[name]
	}
}

// each makes a list of what f gives for the elements.
func (m *machine) each(v Value, f func(Value) Value) *List {
	items := m.items(v)
	if !m.makesAll(len(items), perItem) {
		return NewList()
	}
	out := make([]Value, 0, len(items))
	for _, item := range items {
		if out = append(out, f(item)); m.err != nil {
			break
		}
	}
	return &List{Items: out}
}

// path follows an attribute such as "function.name" or "0".
func (m *machine) path(v, name Value) Value {
	if n, ok := integer(name); ok {
		return m.item(v, n)
	}
	for part := range strings.SplitSeq(m.str(name), ".") {
		if !m.spend(4) || !m.parses(part) {
			return nil
		}
		if n, err := strconv.ParseInt(part, 10, 64); err == nil {
			v = m.item(v, n)
		} else {
			v = m.item(v, part)
		}
	}
	return v
}

// joinText joins texts only, joinAny whatever can be written.
func joinText(m *machine, v Value, sep string) Value {
	for _, item := range m.items(v) {
		if _, ok := item.(string); !ok {
			return m.fail("join needs texts, and one element is %s", m.describe(item))
		}
	}
	return joinAny(m, v, sep)
}

func joinAny(m *machine, v Value, sep string) Value {
	b := text{m: m}
	for i, item := range m.items(v) {
		if i > 0 {
			b.add(sep)
		}
		if s := m.str(item); !m.spend(1) || !b.add(s) {
			return ""
		}
	}
	return b.String()
}

// mapFilter is map(attribute=…) or map("filter", …).
func mapFilter(m *machine, v Value, a arguments) Value {
	if !truth(v) {
		return NewList()
	}
	if len(a.pos) == 0 {
		name, ok := a.get(0, "attribute")
		if !ok {
			return m.fail("map needs an attribute or the name of a filter")
		}
		missing, given := a.get(1, "default")
		return m.each(v, func(item Value) Value {
			got := m.path(item, name)
			if _, u := got.(undefined); u && given {
				return missing
			}
			return got
		})
	}
	f := filters[m.str(a.pos[0])]
	if m.weighs(a.pos[0]); f == nil {
		return m.fail("there is no filter %s", quote.Text(m.str(a.pos[0])))
	}
	rest := arguments{a.pos[1:], a.named}
	return m.each(v, func(item Value) Value {
		defer m.leave()
		if !m.enter() {
			return nil
		}
		return f(m, item, rest)
	})
}

// pick is select, reject, selectattr and rejectattr.
func pick(byAttr, keep bool) filterFunc {
	return func(m *machine, v Value, a arguments) Value {
		if !truth(v) {
			return NewList()
		}
		rest := a
		get := func(item Value) Value { return item }
		if byAttr {
			if len(a.pos) == 0 {
				return m.fail("selectattr and rejectattr need an attribute")
			}
			name := a.pos[0]
			rest.pos = a.pos[1:]
			get = func(item Value) Value { return m.path(item, name) }
		}
		passes := func(_ *machine, v Value, _ arguments) bool { return truth(v) }
		if len(rest.pos) > 0 {
			name := m.str(rest.pos[0])
			m.weighs(name)
			if passes = tests[name]; passes == nil {
				return m.fail("there is no test %s", quote.Text(name))
			}
			rest.pos = rest.pos[1:]
		}
		out := NewList()
		for _, item := range m.items(v) {
			if passes(m, get(item), rest) == keep && m.makes(perItem) {
				out.Items = append(out.Items, item)
			}
			if !m.spend(1) {
				return nil
			}
		}
		return out
	}
}

// indent puts white space before the lines of a text, not the first and not empty ones unless asked to.
func indent(m *machine, v Value, a arguments) Value {
	s := m.str(v)
	width := a.or(0, "width", int64(4))
	pad, ok := width.(string)
	if n, is := integer(width); is {
		pad, ok = strings.Repeat(" ", int(min(max(n, 0), 1000))), n <= 1000
	}
	if !ok {
		return m.fail("indent needs a text or a width of at most 1,000")
	}
	first, _ := a.get(1, "first")
	blank, _ := a.get(2, "blank")
	lines := 1 + strings.Count(s, "\n")
	if len(pad) > 0 && lines > m.left.Memory/len(pad) || !m.searches(len(s)) || !m.spend(lines) ||
		!m.makes(len(s)+lines*len(pad)) {
		return m.makes(m.limits.Memory + 1)
	}
	var b strings.Builder
	b.Grow(len(s) + lines*len(pad))
	for i := range lines {
		line, rest, more := strings.Cut(s, "\n")
		if s = rest; i == 0 && truth(first) || i > 0 && (line != "" || truth(blank)) {
			b.WriteString(pad)
		}
		if b.WriteString(line); more {
			b.WriteByte('\n')
		}
	}
	return b.String()
}

var escapeHTML = strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;", "'", "&#39;", "\"", "&#34;")

// parses charges reading a number, whose error would hold a copy of the text.
func (m *machine) parses(s string) bool {
	return m.reads(2*len(s)) && (len(s) < 100 || m.makes(2*len(s)))
}
