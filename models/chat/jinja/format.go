package jinja

import (
	"fmt"
	"strconv"
	"strings"

	"foretoken/models/gguf"
)

// percent is Python's text % values, for the directives s r d i u f F e g x X o c.
func (m *machine) percent(s string, v Value) Value {
	values := []Value{v}
	names, _ := v.(*Dict)
	if l, ok := v.(*List); ok && l.tuple {
		values = l.Items
	}
	var b strings.Builder
	used := 0
	for i := 0; i < len(s); i++ {
		if s[i] != '%' {
			b.WriteByte(s[i])
			continue
		}
		i++
		if i < len(s) && s[i] == '%' {
			b.WriteByte('%')
			continue
		}
		var arg Value
		named := false
		if i < len(s) && s[i] == '(' {
			end := strings.IndexByte(s[i:], ')')
			if end < 0 || names == nil {
				return m.fail("the format %s names a value that is not given", gguf.Quote(s))
			}
			arg, named = names.get(s[i+1 : i+end])
			if !named {
				return m.fail("the format %s needs a value %s", gguf.Quote(s), gguf.Quote(s[i+1:i+end]))
			}
			i += end + 1
		}
		from := i
		for i < len(s) && strings.IndexByte("-+ #0123456789.", s[i]) >= 0 {
			i++
		}
		if i == len(s) || i-from > 8 {
			return m.fail("the format %s is cut off or has a width that is too large", gguf.Quote(s))
		}
		if !named {
			if used == len(values) {
				return m.fail("the format %s needs more values than the %d given", gguf.Quote(s), len(values))
			}
			arg = values[used]
			used++
		}
		text, ok := m.directive(s[from:i], s[i], arg)
		if !ok {
			return m.fail("the format %s cannot write %s with %%%c", gguf.Quote(s), m.describe(arg), s[i])
		}
		if !m.spend(len(text)) {
			return ""
		}
		b.WriteString(text)
	}
	if _, list := v.(*List); names == nil && used < len(values) && (!list || v.(*List).tuple) {
		return m.fail("the format %s takes %d values and is given %d", gguf.Quote(s), used, len(values))
	}
	if !m.spend(b.Len()) {
		return ""
	}
	return b.String()
}

// directive formats one value. Go's flags, width and precision are C's.
func (m *machine) directive(flags string, verb byte, v Value) (string, bool) {
	for _, part := range strings.FieldsFunc(flags, func(r rune) bool { return r < '0' || r > '9' }) {
		if n, err := strconv.Atoi(part); err != nil || !m.spend(n) {
			return "", false
		}
	}
	switch verb {
	case 's':
		return fmt.Sprintf("%"+flags+"s", m.str(v)), true
	case 'r':
		var b strings.Builder
		m.repr(&b, v)
		return fmt.Sprintf("%"+flags+"s", b.String()), true
	case 'd', 'i', 'u':
		n, ok := integer(v)
		if x, is := v.(float64); is {
			n, ok = int64(x), x > -1<<63 && x < 1<<63
		}
		return fmt.Sprintf("%"+flags+"d", n), ok
	case 'x', 'X', 'o':
		n, ok := integer(v)
		return fmt.Sprintf("%"+flags+string(verb), n), ok
	case 'f', 'F', 'e', 'E', 'g', 'G':
		x, ok := number(v)
		if verb == 'g' && !strings.Contains(flags, ".") {
			flags += ".6" // C's default; Go's is as many digits as it takes
		}
		return fmt.Sprintf("%"+flags+string(verb), x), ok
	case 'c':
		s, ok := v.(string)
		return s, ok
	}
	return "", false
}

// formatText is str.format for fields without a format of their own.
func formatText(m *machine, s string, a arguments) Value {
	var b strings.Builder
	next := 0
	for i := 0; i < len(s); i++ {
		switch {
		case s[i] == '}':
			i++
			if i == len(s) || s[i] != '}' {
				return m.fail("the format %s has a } by itself", gguf.Quote(s))
			}
			b.WriteByte('}')
		case s[i] != '{':
			b.WriteByte(s[i])
		case i+1 < len(s) && s[i+1] == '{':
			b.WriteByte('{')
			i++
		default:
			end := strings.IndexByte(s[i:], '}')
			if end < 0 {
				return m.fail("the format %s has a { by itself", gguf.Quote(s))
			}
			field := s[i+1 : i+end]
			i += end
			var v Value
			ok := false
			if field == "" {
				v, ok = a.get(next, "")
				next++
			} else if n, err := strconv.Atoi(field); err == nil && n >= 0 {
				v, ok = a.get(n, "")
			} else {
				v, ok = a.get(len(a.pos), field)
			}
			if !ok {
				return m.fail("the format %s needs a value for %s, or is of a kind that is not supported", gguf.Quote(s),
					gguf.Quote("{"+field+"}"))
			}
			text := m.str(v)
			if !m.spend(len(text)) {
				return ""
			}
			b.WriteString(text)
		}
	}
	if !m.spend(b.Len()) {
		return ""
	}
	return b.String()
}
