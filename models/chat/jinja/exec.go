package jinja

import (
	"slices"

	"foretoken/internal/quote"
)

// flow says how a list of statements ended.
type flow uint8

const (
	goOn flow = iota
	broken
	continued
)

func (m *machine) exec(body []stmt, s *scope) flow {
	defer m.leave()
	if !m.enter() {
		return goOn
	}
	for _, st := range body {
		if !m.spend(1) {
			return goOn
		}
		if f := st(m, s); f != goOn || m.err != nil {
			return f
		}
	}
	return goOn
}

// capture returns what is written while write runs.
func (m *machine) capture(write func()) string {
	outer, left := m.out, m.left.Output
	m.out = &text{m: m}
	write()
	s := m.out.String()
	m.out, m.left.Output = outer, left
	return s
}

// block returns the output of the statements after the filters.
func (m *machine) block(body []stmt, filters []filter, s *scope) Value {
	var v Value = m.capture(func() { m.exec(body, s.child()) })
	for _, f := range filters {
		v = m.apply(f, v, s)
	}
	return v
}

func (m *machine) assign(t target, v Value, s *scope) {
	if m.err == nil {
		t(m, v, s)
	}
}

// loop is the value of the name loop inside a for block.
type loop struct {
	items []Value
	i     int
}

func (m *machine) forLoop(st *forStmt, over Value, s *scope) {
	defer m.leave()
	if !m.enter() {
		return
	}
	items := m.items(over)
	if st.test != nil {
		if !m.makesAll(len(items), perItem/2) {
			return
		}
		kept := make([]Value, 0, len(items))
		for _, item := range items {
			inner := s.child()
			m.assign(st.target, item, inner)
			if truth(m.eval(st.test, inner)) {
				kept = append(kept, item)
			}
			if !m.spend(perIteration) {
				return
			}
		}
		items = kept
	}
	l := &loop{items: items}
	for i, item := range items {
		if !m.spend(perIteration) {
			return
		}
		l.i = i
		inner := s.child()
		inner.set("loop", l)
		m.assign(st.target, item, inner)
		if f := m.exec(st.body, inner); f == broken || m.err != nil {
			return
		}
	}
	if len(items) == 0 {
		m.exec(st.other, s.child())
	}
}

var loopAttrs = map[string]func(l *loop) Value{
	"index":     func(l *loop) Value { return int64(l.i + 1) },
	"index0":    func(l *loop) Value { return int64(l.i) },
	"revindex":  func(l *loop) Value { return int64(len(l.items) - l.i) },
	"revindex0": func(l *loop) Value { return int64(len(l.items) - l.i - 1) },
	"first":     func(l *loop) Value { return l.i == 0 },
	"last":      func(l *loop) Value { return l.i == len(l.items)-1 },
	"length":    func(l *loop) Value { return int64(len(l.items)) },
	"previtem": func(l *loop) Value {
		if l.i == 0 {
			return undefined{"the element before the first"}
		}
		return l.items[l.i-1]
	},
	"nextitem": func(l *loop) Value {
		if l.i == len(l.items)-1 {
			return undefined{"the element after the last"}
		}
		return l.items[l.i+1]
	},
}

// perIteration is the number of steps that a loop takes for a scope. It holds memory only where a macro keeps it.
const perIteration = 6

// macro makes a function of a definition. It sees the names around it as they are when it is called.
func (m *machine) macro(d *macroDef, around *scope) *function {
	m.makes(4 * perKey)
	return &function{func(m *machine, a arguments) Value {
		s := around.child()
		rest := NewDict()
		if a.named != nil {
			for i, key := range a.named.keys {
				m.put(rest, key, a.named.values[i])
			}
		}
		plain := len(d.params) - len(d.defaults)
		for i, param := range d.params {
			given, ok := rest.get(param)
			switch {
			case i < len(a.pos):
				if ok {
					return m.fail("the macro %s is given %s twice", quote.Text(d.name), quote.Text(param))
				}
				s.set(param, a.pos[i])
			case ok:
				s.set(param, given)
			case i >= plain:
				s.set(param, m.eval(d.defaults[i-plain], s))
			default:
				s.set(param, undefined{"the parameter " + quote.Text(param)})
			}
		}
		var extra []Value
		if len(a.pos) > len(d.params) {
			extra = a.pos[len(d.params):]
		}
		unknown := NewDict()
		for i, key := range rest.keys {
			name := key.(string)
			switch {
			case slices.Contains(d.params, name): // bound: maxParams
			case name == "caller" && d.caller:
				s.set("caller", rest.values[i])
			case !d.kwargs:
				return m.fail("the macro %s has no parameter %s", quote.Text(d.name), quote.Text(name))
			default:
				m.put(unknown, key, rest.values[i])
			}
		}
		if len(extra) > 0 && !d.varargs {
			return m.fail("the macro %s has %d parameters and is given %d arguments", quote.Text(d.name),
				len(d.params), len(a.pos))
		}
		if d.varargs {
			s.set("varargs", &List{Items: extra, tuple: true})
		}
		if d.kwargs {
			s.set("kwargs", unknown)
		}
		if !m.spend(perIteration + 2*len(d.params)) {
			return nil
		}
		line := m.line
		text := m.capture(func() { m.exec(d.body, s) })
		if m.err == nil {
			m.line = line
		}
		return text
	}}
}

func (m *machine) callBlock(call *callExpr, d *macroDef, s *scope) Value {
	fn := m.eval(call.fn, s)
	a := m.args(call.args, s)
	if a.named == nil {
		a.named = NewDict()
	}
	m.put(a.named, "caller", m.macro(d, s))
	return m.call(fn, a)
}
