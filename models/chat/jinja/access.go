package jinja

import (
	"cmp"
	"unicode/utf8"

	"foretoken/internal/quote"
)

// attr is Jinja's v.name: an attribute first, then a key.
func (m *machine) attr(v Value, name string) Value {
	if !m.weighs(name) {
		return nil
	}
	switch x := v.(type) {
	case undefined:
		return m.fail("%s is not defined, so it has no %s", x.what, quote.Text(name))
	case *Dict:
		if v, ok := m.find(x, name); ok && methods["dict"][name] == nil {
			return v
		}
	case *namespace:
		if v, ok := m.find(x.attrs, name); ok {
			return v
		}
	case *loop:
		if get := loopAttrs[name]; get != nil {
			return get(x)
		}
	}
	if f := methods[typeName(v)][name]; f != nil && m.makes(perItem) {
		return &function{func(m *machine, a arguments) Value { return f(m, v, a) }}
	}
	return undefined{name}
}

// item is Jinja's v[key]: a key or an index first, then an attribute.
func (m *machine) item(v, key Value) Value {
	if m.err != nil {
		return nil
	}
	if i, ok := integer(key); ok {
		switch x := v.(type) {
		case *List:
			if i < 0 {
				i += int64(len(x.Items))
			}
			if i >= 0 && i < int64(len(x.Items)) {
				return x.Items[i]
			}
			return undefined{"an element beyond the end"}
		case string:
			if !m.reads(len(x)) {
				return nil
			}
			if i < 0 {
				i += int64(utf8.RuneCountInString(x))
			}
			for _, r := range x {
				if i == 0 {
					return string(r)
				}
				i--
			}
			return undefined{"a character beyond the end"}
		}
	}
	switch x := v.(type) {
	case undefined:
		return m.fail("%s is not defined, so it has no element %s", x.what, quote.Text(m.str(key)))
	case *Dict:
		if e, ok := m.find(x, key); ok {
			return e
		}
	}
	if name, ok := key.(string); ok {
		return m.attr(v, name)
	}
	return undefined{"an element"}
}

// characters is the part of a text between two of its characters, by number.
func characters(s string, from, to int64) string {
	begin, end, at := len(s), len(s), int64(0)
	for i := range s {
		if at == from {
			begin = i
		}
		if at == to {
			end = i
			break
		}
		at++
	}
	return s[min(begin, end):end]
}

// steps counts the numbers of a range; its bounds and its step have at most 34 bits.
func steps(from, to, step int64) int64 {
	return max(0, (to-from+step-int64(cmp.Compare(step, 0)))/step)
}

// sliceExpr is Python's x[from:to:step]; each of the last three may be nil.
type sliceExpr struct{ x, from, to, step expr }

func (x sliceExpr) eval(m *machine, s *scope) Value {
	v := m.eval(x.x, s)
	bound := func(e expr, missing int64) (int64, bool) {
		if e == nil {
			return missing, false
		}
		b := m.eval(e, s)
		if b == nil {
			return missing, false
		}
		n, ok := integer(b)
		if !ok {
			m.fail("the bound of a slice is %s, want an integer", m.describe(b))
		}
		return n, true
	}
	step, _ := bound(x.step, 1)
	step = min(max(step, -1<<33), 1<<33) // beyond every range
	if step == 0 {
		return m.fail("the step of a slice is zero")
	}
	if t, ok := v.(string); ok && !m.reads(2*len(t)) {
		return nil
	}
	n, ok := length(v)
	switch v.(type) {
	case undefined, *Dict:
		ok = false
	}
	if !ok {
		return m.fail("%s cannot be sliced", m.describe(v))
	}
	low, high := int64(0), n // where bounds are cut off
	first, last := int64(0), n
	if step < 0 {
		low, high = -1, n-1
		first, last = n-1, -1
	}
	cut := func(e expr, missing int64) int64 {
		b, given := bound(e, missing)
		if !given {
			return missing
		}
		if b < 0 {
			b += n
		}
		return min(max(b, low), high)
	}
	from := cut(x.from, first)
	to := cut(x.to, last)
	if m.err != nil {
		return nil
	}
	count := steps(from, to, step) // at most n
	switch t := v.(type) {
	case string:
		if step == 1 {
			return characters(t, from, max(from, to))
		}
		if !m.makes(4*int(n) + 8*int(count)) {
			return nil
		}
		runes := []rune(t)
		out := make([]rune, count)
		for i := range out {
			out[i] = runes[from+int64(i)*step]
		}
		return string(out)
	case *List:
		if !m.makesAll(int(count), perItem) {
			return nil
		}
		out := make([]Value, count)
		for i := range out {
			out[i] = t.Items[from+int64(i)*step]
		}
		return &List{Items: out, tuple: t.tuple}
	}
	return nil
}
