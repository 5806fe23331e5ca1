package jinja

import (
	"fmt"
	"slices"

	"foretoken/internal/quote"
)

// parser turns tokens into statements. After the first error it stands on the
// last token, and nothing is appended any more.
type parser struct {
	tokens []token
	at     int
	depth  int
	loops  int // for loops around the statement, within its macro
	macros []*macroDef
	err    error
}

func (p *parser) peek() token { return p.tokens[p.at] }

func (p *parser) next() token {
	t := p.tokens[p.at]
	if p.at < len(p.tokens)-1 {
		p.at++
	}
	return t
}

func (p *parser) fail(format string, args ...any) {
	if p.err == nil {
		p.err = fmt.Errorf("jinja: line %d: %s", p.peek().line, quote.Escape(fmt.Sprintf(format, args...), mostShown))
	}
	p.at = len(p.tokens) - 1
}

// is reports whether the next token is an operator or a name of this text.
func (p *parser) is(k tokenKind, text string) bool {
	t := p.peek()
	return t.kind == k && t.text == text
}

func (p *parser) skip(k tokenKind, text string) bool {
	if p.is(k, text) {
		p.next()
		return true
	}
	return false
}

func (p *parser) want(k tokenKind, text string) {
	if !p.skip(k, text) {
		p.fail("expected %s, found %s", quote.Text(text), quote.Text(p.peek().text))
	}
}

func (p *parser) name() string {
	if p.peek().kind != tokName {
		p.fail("expected a name, found %s", quote.Text(p.peek().text))
		return ""
	}
	return p.next().text
}

// enter counts nesting; leave is its end.
func (p *parser) enter() bool {
	if p.depth++; p.depth > maxNesting {
		p.fail("expressions and blocks lie more than %d deep in each other", maxNesting)
	}
	return p.err == nil
}

func (p *parser) leave() { p.depth-- }

// statements reads up to a block tag that begins with one of the names, which
// it leaves unread, or to one that it does not know.
func (p *parser) statements(until ...string) (body []stmt) {
	defer p.leave()
	if !p.enter() {
		return nil
	}
	for p.err == nil {
		switch t := p.peek(); t.kind {
		case tokEOF:
			if len(until) > 0 {
				p.fail("a block does not end: {%% %s %%} is missing", until[len(until)-1])
			}
			return body
		case tokData:
			p.next()
			body = append(body, func(m *machine, _ *scope) flow {
				m.write(t.text)
				return goOn
			})
		case tokVarBegin:
			p.next()
			x := p.tuple(true)
			p.want(tokVarEnd, "}}")
			body = append(body, do(t.line, func(m *machine, s *scope) {
				if v := m.eval(x, s); m.err == nil {
					m.write(m.str(v))
				}
			}))
		default:
			p.want(tokBlockBegin, "{%")
			if tag := p.peek(); tag.kind == tokName && slices.Contains(until, tag.text) { // bound: three ends of an if
				return body
			}
			if s := p.statement(); s != nil {
				body = append(body, s)
			}
		}
	}
	return body
}

// end reads the rest of a tag.
func (p *parser) end() { p.want(tokBlockEnd, "%}") }

// body reads the statements up to the tag that closes a block, and that tag.
func (p *parser) body(end string) []stmt {
	b := p.statements(end)
	p.want(tokName, end)
	p.end()
	return b
}

func (p *parser) statement() stmt {
	t := p.peek()
	if t.kind != tokName {
		p.fail("expected the name of a tag, found %s", quote.Text(t.text))
		return nil
	}
	p.next()
	switch t.text {
	case "if":
		return p.ifTag(t.line)
	case "for":
		return p.forTag(t.line)
	case "set":
		return p.setTag(t.line)
	case "macro":
		name := p.name()
		d := p.macro(name, "endmacro")
		return func(m *machine, s *scope) flow {
			s.set(name, m.macro(d, s))
			return goOn
		}
	case "call":
		return p.callTag(t.line)
	case "filter":
		f := p.filters(p.filterCall(p.name()))
		p.end()
		body := p.body("endfilter")
		return do(t.line, func(m *machine, s *scope) { m.write(m.str(m.block(body, f, s))) })
	case "with":
		return p.withTag(t.line)
	case "generation": // marks the assistant's text, for training
		p.end()
		return within(t.line, nil, nil, p.body("endgeneration"))
	case "break", "continue":
		p.end()
		if p.loops == 0 {
			p.fail("%s outside of a loop", t.text)
		}
		f := continued
		if t.text == "break" {
			f = broken
		}
		return func(*machine, *scope) flow { return f }
	case "include", "import", "from", "extends", "block":
		p.fail("the tag %s is refused: a chat template stands by itself and reads no other", t.text)
		return nil
	}
	p.at--
	p.fail("unknown or misplaced tag %s", quote.Text(t.text))
	return nil
}

func (p *parser) ifTag(line int) stmt {
	test := p.tuple(false)
	p.end()
	then, other := p.statements("elif", "else", "endif"), []stmt(nil)
	switch tag := p.name(); tag {
	case "elif":
		defer p.leave()
		if p.enter() {
			other = []stmt{p.ifTag(p.peek().line)}
		}
	case "else":
		p.end()
		other = p.body("endif")
	default:
		p.end()
	}
	return func(m *machine, s *scope) flow {
		m.line = line
		if truth(m.eval(test, s)) {
			return m.exec(then, s)
		}
		return m.exec(other, s)
	}
}

func (p *parser) forTag(line int) stmt {
	st := &forStmt{target: p.target()}
	p.want(tokName, "in")
	over := p.tuple(false)
	if p.skip(tokName, "if") {
		st.test = p.expr(true)
	}
	p.end()
	p.loops++
	st.body = p.statements("else", "endfor")
	p.loops--
	if p.skip(tokName, "else") {
		p.end()
		st.other = p.body("endfor")
	} else {
		p.want(tokName, "endfor")
		p.end()
	}
	return do(line, func(m *machine, s *scope) { m.forLoop(st, m.eval(over, s), s) })
}

// target reads what is assigned to: names, or for set an attribute of a namespace.
func (p *parser) target() target {
	paren := p.skip(tokOp, "(")
	var items []target
	for tuple := false; p.err == nil; {
		items = append(items, p.single())
		if p.skip(tokOp, ",") {
			tuple = true
			if p.peek().kind == tokName && !p.is(tokName, "in") {
				continue
			}
		}
		if paren {
			p.want(tokOp, ")")
		}
		if !tuple {
			return items[0]
		}
		return func(m *machine, v Value, s *scope) {
			values := m.items(v)
			if m.err == nil && len(values) != len(items) {
				m.fail("%d values for %d names", len(values), len(items))
			}
			for i := 0; m.err == nil && i < len(values); i++ {
				m.assign(items[i], values[i], s)
			}
		}
	}
	return nil
}

// single reads one name that is assigned to, or an attribute.
func (p *parser) single() target {
	name := p.name()
	if slices.Contains([]string{"true", "false", "none", "True", "False", "None"}, name) {
		p.fail("cannot assign to %s", name)
	}
	if !p.skip(tokOp, ".") {
		return func(_ *machine, v Value, s *scope) { s.set(name, v) }
	}
	of, attr := variable(name), p.name()
	return func(m *machine, v Value, s *scope) {
		if ns, ok := m.eval(of, s).(*namespace); ok {
			m.put(ns.attrs, attr, v)
		} else {
			m.fail("an attribute can only be set on a namespace")
		}
	}
}

func (p *parser) setTag(line int) stmt {
	t := p.target()
	if p.skip(tokOp, "=") {
		value := p.tuple(true)
		p.end()
		return do(line, func(m *machine, s *scope) { m.assign(t, m.eval(value, s), s) })
	}
	var filters []filter
	if p.skip(tokOp, "|") {
		filters = p.filters(p.filterCall(p.name()))
	}
	p.end()
	body := p.body("endset")
	return do(line, func(m *machine, s *scope) { m.assign(t, m.block(body, filters, s), s) })
}

func (p *parser) withTag(line int) stmt {
	var targets []target
	var values []expr
	for p.err == nil && p.peek().kind != tokBlockEnd {
		targets = append(targets, p.target())
		p.want(tokOp, "=")
		values = append(values, p.expr(true))
		if !p.skip(tokOp, ",") {
			break
		}
	}
	p.end()
	return within(line, targets, values, p.body("endwith"))
}

// within runs the body in a new scope.
func within(line int, targets []target, values []expr, body []stmt) stmt {
	return func(m *machine, s *scope) flow {
		m.line = line
		inner := s.child()
		for i, x := range values {
			m.assign(targets[i], m.eval(x, s), inner)
		}
		return m.exec(body, inner)
	}
}

// maxParams bounds the parameters of a macro; Python 2 had as many.
const maxParams = 255

// macro reads parameters, the rest of the tag and the body.
func (p *parser) macro(name, end string) *macroDef {
	d := &macroDef{name: name}
	if end == "endmacro" || p.is(tokOp, "(") {
		p.want(tokOp, "(")
		p.separated(")", func() {
			param := p.name()
			if len(d.params) == maxParams {
				p.fail("more than %d parameters", maxParams)
			}
			if slices.Contains(d.params, param) { // bound: maxParams
				p.fail("the parameter %s occurs twice", quote.Text(param))
			}
			d.params = append(d.params, param)
			if p.skip(tokOp, "=") {
				d.defaults = append(d.defaults, p.expr(true))
			} else if len(d.defaults) > 0 {
				p.fail("the parameter %s has no default and follows one that has", quote.Text(param))
			}
		})
	}
	if end == "endmacro" {
		p.macroBody(d, end)
	}
	return d
}

func (p *parser) macroBody(d *macroDef, end string) {
	p.end()
	loops := p.loops
	p.loops = 0 // a loop outside cannot be broken out of
	p.macros = append(p.macros, d)
	d.body = p.body(end)
	p.macros = p.macros[:len(p.macros)-1]
	p.loops = loops
}

func (p *parser) callTag(line int) stmt {
	d := p.macro("caller", "endcall")
	call, ok := p.expr(true).(*callExpr)
	if !ok {
		p.fail("{%% call %%} needs a call")
		return nil
	}
	p.macroBody(d, "endcall")
	return do(line, func(m *machine, s *scope) { m.write(m.str(m.callBlock(call, d, s))) })
}
