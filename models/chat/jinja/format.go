package jinja

import (
	"strconv"
	"strings"

	"foretoken/internal/quote"
)

// formatText implements str.format for fields without a format specification.
func formatText(m *machine, s string, a arguments) Value {
	if !m.reads(4 * len(s)) {
		return ""
	}
	b := text{m: m}
	next := 0
	for i := 0; i < len(s); i++ {
		switch {
		case s[i] == '}':
			i++
			if i == len(s) || s[i] != '}' {
				return m.fail("the format %s has a } by itself", quote.Text(s))
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
				return m.fail("the format %s has a { by itself", quote.Text(s))
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
				return m.fail("the format %s needs a value for %s, or is of a kind that is not supported",
					quote.Text(s), quote.Text("{"+field+"}"))
			}
			if !m.spend(2) || !b.add(m.str(v)) {
				return ""
			}
		}
	}
	if !m.makes(2 * len(s)) {
		return ""
	}
	return b.String()
}
