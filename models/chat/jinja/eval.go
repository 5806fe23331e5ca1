package jinja

import (
	"fmt"
	"math"
	"strings"
	"time"
	"unicode/utf8"

	"foretoken/internal/quote"
)

// machine renders one template once. The first error stops it: every step looks whether there is one.
type machine struct {
	out    *text
	line   int
	limits Limits
	left   Limits    // of them
	slice  int       // steps before yield is called again
	begun  time.Time // later by what yield took
	yield  func() error
	now    func() time.Time
	mark   string
	err    error
}

func newMachine(o Options) *machine {
	l := o.Limits.orDefault()
	if o.Now == nil {
		o.Now = time.Now
	}
	m := &machine{limits: l, left: l, slice: slice, begun: time.Now(), yield: o.Yield, now: o.Now, mark: o.Mark}
	m.out = &text{m: m}
	return m
}

func (m *machine) fail(format string, args ...any) Value {
	if m.err == nil {
		m.err = fmt.Errorf("jinja: line %d: %s", m.line, quote.Escape(fmt.Sprintf(format, args...), mostShown))
	}
	return undefined{"the result of an error"}
}

func (m *machine) enter() bool {
	m.left.Depth--
	if m.left.Depth < 0 {
		m.fail("more than %d evaluations lie within each other: a macro calls itself, or values hold themselves",
			m.limits.Depth)
	}
	return m.err == nil
}

func (m *machine) leave() { m.left.Depth++ }

func (m *machine) write(s string) {
	if m.err == nil && len(s) > m.left.Output {
		m.fail("the template writes more than %d bytes", m.limits.Output)
		return
	}
	m.left.Output -= len(s)
	m.out.add(s)
}

// scope holds names; lookup falls back to the enclosing scope.
type scope struct {
	vars   map[string]Value
	parent *scope
}

func (s *scope) child() *scope { return &scope{parent: s} }

func (s *scope) set(name string, v Value) {
	if s.vars == nil {
		s.vars = map[string]Value{}
	}
	s.vars[name] = v
}

func (m *machine) lookup(s *scope, name string) Value {
	for ; s != nil && m.spend((1+len(name)/searched)/2); s = s.parent {
		if v, ok := s.vars[name]; ok {
			return v
		}
	}
	return undefined{name}
}

func (m *machine) evalAll(xs []expr, s *scope) []Value {
	if !m.makesAll(len(xs), perItem) {
		return nil
	}
	vs := make([]Value, len(xs))
	for i, x := range xs {
		vs[i] = m.eval(x, s)
	}
	return vs
}

func (m *machine) args(a callArgs, s *scope) arguments {
	var out arguments
	if len(a.pos) > 0 {
		out.pos = m.evalAll(a.pos, s)
	}
	for i, name := range a.names {
		if out.named == nil {
			out.named = NewDict()
		}
		m.put(out.named, name, m.eval(a.values[i], s))
	}
	return out
}

func (m *machine) eval(x expr, s *scope) Value {
	defer m.leave()
	if !m.enter() || !m.spend(1) {
		return undefined{"the result of an error"}
	}
	return x.eval(m, s)
}

func (m *machine) apply(f filter, v Value, s *scope) Value {
	a := m.args(f.args, s)
	if m.err != nil {
		return v
	}
	return f.fn(m, v, a)
}

func (m *machine) call(fn Value, a arguments) Value {
	defer m.leave()
	if !m.enter() {
		return nil
	}
	switch f := fn.(type) {
	case *function:
		return f.call(m, a)
	case undefined:
		return m.fail("%s is not defined and cannot be called", f.what)
	}
	return m.fail("a value of type %s cannot be called", typeName(fn))
}

func (m *machine) unary(op string, v Value) Value {
	switch x := v.(type) {
	case float64:
		if op == "-" {
			return -x
		}
		return x
	case numeral:
		if op == "-" {
			return x.negated()
		}
		return x
	}
	n, ok := integer(v)
	switch {
	case !ok:
		return m.fail("%s has no sign", m.describe(v))
	case op == "-" && n == math.MinInt64:
		return m.fail("a number becomes too large")
	case op == "-":
		return -n
	}
	return n
}

func (m *machine) binary(op string, a, b Value) Value {
	if !m.spend(1) {
		return nil
	}
	if op == "~" {
		return m.join(m.str(a), m.str(b))
	}
	if !m.weighs(a) || !m.weighs(b) {
		return nil
	}
	i, first := integer(a)
	j, second := integer(b)
	if first && second {
		return m.integers(op, i, j)
	}
	x, first := number(a)
	y, second := number(b)
	if first && second {
		return m.floats(op, x, y)
	}
	switch {
	case op == "+":
		switch x := a.(type) {
		case string:
			if y, ok := b.(string); ok {
				return m.join(x, y)
			}
		case *List:
			if y, ok := b.(*List); ok && x.tuple == y.tuple && m.makesAll(len(x.Items)+len(y.Items), perItem) {
				return &List{Items: append(append(make([]Value, 0, len(x.Items)+len(y.Items)), x.Items...), y.Items...),
					tuple: x.tuple}
			}
		}
	case op == "*" && first: // a number times a text
		return m.repeat(b, a)
	case op == "*" && second:
		return m.repeat(a, b)
	}
	return m.fail("%s cannot be between %s and %s", op, m.describe(a), m.describe(b))
}

func (m *machine) join(a, b string) Value {
	if a == "" || b == "" { // nothing is copied
		return a + b
	}
	if !m.makes(len(a) + len(b)) {
		return ""
	}
	return a + b
}

func (m *machine) repeat(v, times Value) Value {
	n, ok := integer(times)
	n = max(n, 0)
	each := 0
	switch x := v.(type) {
	case string:
		each = len(x)
	case *List:
		each = perItem * len(x.Items)
	default:
		ok = false
	}
	if !ok {
		return m.fail("%s cannot be multiplied by %s", m.describe(v), m.describe(times))
	}
	if each > 0 && n > int64(m.left.Memory/each) {
		n = int64(m.left.Memory/each) + 1 // makes then says what is wrong
	}
	if !m.makes(int(n) * each) {
		return nil
	}
	if s, ok := v.(string); ok {
		return strings.Repeat(s, int(n))
	}
	l := v.(*List)
	out := &List{tuple: l.tuple}
	if each == 0 {
		return out
	}
	out.Items = make([]Value, 0, int(n)*len(l.Items))
	for range n {
		out.Items = append(out.Items, l.Items...)
	}
	return out
}

func (m *machine) integers(op string, a, b int64) Value {
	large := func() Value { return m.fail("a number becomes too large") }
	switch op {
	case "+":
		if c := a + b; (c > a) == (b > 0) {
			return c
		}
		return large()
	case "-":
		if c := a - b; (c < a) == (b > 0) {
			return c
		}
		return large()
	case "*":
		if a == 0 || b == 0 {
			return int64(0)
		}
		if c := a * b; c/b == a && !(a == -1 && b == math.MinInt64) && !(b == -1 && a == math.MinInt64) {
			return c
		}
		return large()
	case "**":
		if b < 0 {
			return m.floats(op, float64(a), float64(b))
		}
		x := math.Pow(float64(a), float64(b))
		if math.Abs(x) >= 1<<63 {
			return large()
		}
		c := int64(1)
		for ; b > 0; b >>= 1 {
			if b&1 != 0 {
				c *= a
			}
			a *= a
		}
		return c
	}
	if b == 0 {
		return m.fail("a division by zero")
	}
	if op == "/" {
		return float64(a) / float64(b)
	}
	if a == math.MinInt64 && b == -1 {
		return large()
	}
	q, r := a/b, a%b
	if r != 0 && (r < 0) != (b < 0) { // Python rounds down
		q, r = q-1, r+b
	}
	if op == "//" {
		return q
	}
	return r
}

func (m *machine) floats(op string, a, b float64) Value {
	switch op {
	case "+":
		return a + b
	case "-":
		return a - b
	case "*":
		return a * b
	case "**":
		return math.Pow(a, b)
	}
	if b == 0 {
		return m.fail("a division by zero")
	}
	switch op {
	case "/":
		return a / b
	case "//":
		return math.Floor(a / b)
	}
	r := math.Mod(a, b)
	if r != 0 && (r < 0) != (b < 0) {
		r += b
	}
	return r
}

func (m *machine) compare(op string, a, b Value) bool {
	if m.err != nil {
		return false
	}
	switch op {
	case "==":
		return m.equal(a, b)
	case "!=":
		return !m.equal(a, b)
	case "<":
		return m.less(a, b)
	case ">":
		return m.less(b, a)
	case "<=":
		return m.less(a, b) || m.err == nil && m.equal(a, b)
	case ">=":
		return m.less(b, a) || m.err == nil && m.equal(a, b)
	case "in":
		return m.contains(b, a)
	}
	return !m.contains(b, a)
}

// contains is Python's "v in set".
func (m *machine) contains(set, v Value) bool {
	switch x := set.(type) {
	case string:
		s, ok := v.(string)
		if !ok {
			m.fail("%s cannot be in a text", m.describe(v))
			return false
		}
		return m.searches(len(x)) && strings.Contains(x, s)
	case *List:
		for _, item := range x.Items {
			if m.equal(item, v) {
				return true
			}
		}
		return false
	case *Dict:
		_, ok := m.find(x, v)
		return ok
	case *namespace:
		_, ok := m.find(x.attrs, v)
		return ok
	case undefined:
		return false
	}
	m.fail("%s has no elements to look through", m.describe(set))
	return false
}

// items returns the elements that a loop visits.
func (m *machine) items(v Value) []Value {
	switch x := v.(type) {
	case *List:
		return x.Items
	case *Dict:
		return x.keys
	case undefined:
		return nil
	case string:
		if !m.makesAll(utf8.RuneCountInString(x), perItem) {
			return nil
		}
		out := make([]Value, 0, utf8.RuneCountInString(x))
		for _, r := range x {
			out = append(out, string(r))
		}
		return out
	case *namespace:
		return x.attrs.keys
	}
	m.fail("%s is nothing that a loop can go over", m.describe(v))
	return nil
}
