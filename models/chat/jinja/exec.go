package jinja

import (
	"strings"
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
		switch st := st.(type) {
		case dataStmt:
			m.write(st.text)
		case outputStmt:
			m.line = st.line
			if v := m.eval(st.x, s); m.err == nil {
				m.write(m.str(v))
			}
		case ifStmt:
			m.line = st.line
			branch := st.other
			if truth(m.eval(st.test, s)) {
				branch = st.then
			}
			if f := m.exec(branch, s); f != goOn {
				return f
			}
		case forStmt:
			m.line = st.line
			m.forLoop(&st, m.eval(st.over, s), s, 0)
		case setStmt:
			m.line = st.line
			m.set(&st, s)
		case macroStmt:
			s.set(st.name, m.macro(st.def, s))
		case callStmt:
			m.line = st.line
			m.write(m.str(m.callBlock(&st, s)))
		case filterStmt:
			m.line = st.line
			var v Value = m.capture(st.body, s.child())
			for _, f := range st.filters {
				v = m.apply(f, v, s)
			}
			m.write(m.str(v))
		case withStmt:
			m.line = st.line
			inner := s.child()
			for i, x := range st.values {
				m.assign(st.targets[i], m.eval(x, s), inner)
			}
			if f := m.exec(st.body, inner); f != goOn {
				return f
			}
		case breakStmt:
			return broken
		case continueStmt:
			return continued
		}
		if m.err != nil {
			return goOn
		}
	}
	return goOn
}

// capture returns the output of the statements.
func (m *machine) capture(body []stmt, s *scope) string {
	outer, left := m.out, m.output
	m.out = &strings.Builder{}
	m.exec(body, s)
	text := m.out.String()
	m.out, m.output = outer, left
	return text
}

func (m *machine) set(st *setStmt, s *scope) {
	if st.value != nil {
		m.assign(st.target, m.eval(st.value, s), s)
		return
	}
	var v Value = m.capture(st.body, s.child())
	for _, f := range st.filters {
		v = m.apply(f, v, s)
	}
	m.assign(st.target, v, s)
}

func (m *machine) assign(target expr, v Value, s *scope) {
	if m.err != nil {
		return
	}
	switch t := target.(type) {
	case nameExpr:
		s.set(t.name, v)
	case attrExpr:
		ns, ok := m.eval(t.x, s).(*namespace)
		if !ok {
			m.fail("an attribute can only be set on a namespace")
			return
		}
		ns.attrs.set(t.name, v)
	case listExpr:
		items := m.items(v)
		if m.err == nil && len(items) != len(t.items) {
			m.fail("%d values for %d names", len(items), len(t.items))
		}
		for i := 0; m.err == nil && i < len(items); i++ {
			m.assign(t.items[i], items[i], s)
		}
	}
}

// loop is the value of the name loop inside a for block.
type loop struct {
	items   []Value
	i       int
	depth   int
	st      *forStmt
	s       *scope
	changed []Value // arguments of the last changed()
	asked   bool
}

func (m *machine) forLoop(st *forStmt, over Value, s *scope, depth int) {
	defer m.leave()
	if !m.enter() {
		return
	}
	items := m.items(over)
	if st.test != nil {
		kept := make([]Value, 0, len(items))
		for _, item := range items {
			inner := s.child()
			m.assign(st.target, item, inner)
			if truth(m.eval(st.test, inner)) {
				kept = append(kept, item)
			}
			if m.err != nil || !m.spend(perItem) {
				return
			}
		}
		items = kept
	}
	l := &loop{items: items, depth: depth, st: st, s: s}
	for i, item := range items {
		if !m.spend(perKey) { // for its scope
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

// again is loop(…) of a recursive loop.
func (l *loop) again(m *machine, a arguments) Value {
	if !l.st.recursive || len(a.pos) != 1 {
		return m.fail("loop can only be called with one list, and in a loop that is recursive")
	}
	outer, left := m.out, m.output
	m.out = &strings.Builder{}
	m.forLoop(l.st, a.pos[0], l.s, l.depth+1)
	text := m.out.String()
	m.out, m.output = outer, left
	return text
}

func (l *loop) attr(m *machine, name string) (Value, bool) {
	n := len(l.items)
	switch name {
	case "index":
		return int64(l.i + 1), true
	case "index0":
		return int64(l.i), true
	case "revindex":
		return int64(n - l.i), true
	case "revindex0":
		return int64(n - l.i - 1), true
	case "first":
		return l.i == 0, true
	case "last":
		return l.i == n-1, true
	case "length":
		return int64(n), true
	case "depth":
		return int64(l.depth + 1), true
	case "depth0":
		return int64(l.depth), true
	case "previtem":
		if l.i == 0 {
			return undefined{"the element before the first"}, true
		}
		return l.items[l.i-1], true
	case "nextitem":
		if l.i == n-1 {
			return undefined{"the element after the last"}, true
		}
		return l.items[l.i+1], true
	case "cycle":
		return &function{"cycle", func(m *machine, a arguments) Value {
			if len(a.pos) == 0 {
				return m.fail("cycle needs values")
			}
			return a.pos[l.i%len(a.pos)]
		}}, true
	case "changed":
		return &function{"changed", func(m *machine, a arguments) Value {
			same := l.asked && m.equal(&List{Items: l.changed}, &List{Items: a.pos})
			l.asked, l.changed = true, a.pos
			return !same
		}}, true
	}
	return nil, false
}

// macro makes a function of a definition. It sees the names around it as they are when it is called.
func (m *machine) macro(d *macroDef, around *scope) *function {
	return &function{d.name, func(m *machine, a arguments) Value {
		s := around.child()
		rest := NewDict()
		if a.named != nil {
			for i, key := range a.named.keys {
				rest.set(key, a.named.values[i])
			}
		}
		plain := len(d.params) - len(d.defaults)
		for i, param := range d.params {
			given, ok := rest.get(param)
			switch {
			case i < len(a.pos):
				if ok {
					return m.fail("the macro %s is given %s twice", quote(d.name), quote(param))
				}
				s.set(param, a.pos[i])
			case ok:
				s.set(param, given)
			case i >= plain:
				s.set(param, m.eval(d.defaults[i-plain], s))
			default:
				s.set(param, undefined{"the parameter " + quote(param)})
			}
		}
		var extra []Value
		if len(a.pos) > len(d.params) {
			extra = a.pos[len(d.params):]
		}
		unknown := NewDict()
		for i, key := range rest.keys {
			name := key.(string)
			known := false
			for _, param := range d.params {
				known = known || param == name
			}
			switch {
			case known:
			case name == "caller" && d.caller:
				s.set("caller", rest.values[i])
			case !d.kwargs:
				return m.fail("the macro %s has no parameter %s", quote(d.name), quote(name))
			default:
				unknown.set(key, rest.values[i])
			}
		}
		if len(extra) > 0 && !d.varargs {
			return m.fail("the macro %s has %d parameters and is given %d arguments", quote(d.name),
				len(d.params), len(a.pos))
		}
		if d.varargs {
			s.set("varargs", &List{Items: extra, tuple: true})
		}
		if d.kwargs {
			s.set("kwargs", unknown)
		}
		if !m.spend(perKey * (1 + len(d.params))) {
			return nil
		}
		line := m.line
		text := m.capture(d.body, s)
		if m.err == nil {
			m.line = line
		}
		return text
	}}
}

func (m *machine) callBlock(st *callStmt, s *scope) Value {
	fn := m.eval(st.call.fn, s)
	a := m.args(st.call.args, s)
	if a.named == nil {
		a.named = NewDict()
	}
	a.named.set("caller", m.macro(st.def, s))
	return m.call(fn, a)
}
