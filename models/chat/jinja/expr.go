package jinja

import (
	"strconv"
	"strings"

	"foretoken/internal/quote"
)

// tuple reads expressions with commas between: one alone is itself.
func (p *parser) tuple(cond bool) expr {
	first := p.expr(cond)
	if !p.is(tokOp, ",") {
		return first
	}
	items := []expr{first}
	for p.err == nil && p.skip(tokOp, ",") {
		switch t := p.peek(); {
		case t.kind == tokVarEnd, t.kind == tokBlockEnd, t.kind == tokOp && t.text == ")":
			return sequence(items, true)
		}
		items = append(items, p.expr(cond))
	}
	return sequence(items, true)
}

// expr reads an expression; cond says whether "x if y" may be one, which the filter of a for loop would clash with.
func (p *parser) expr(cond bool) expr {
	defer p.leave()
	if !p.enter() {
		return nil
	}
	x := p.or()
	for cond && p.skip(tokName, "if") {
		x = p.conditional(x)
	}
	return x
}

// conditional reads the rest of "then if test else other".
func (p *parser) conditional(then expr) expr {
	test, other := p.or(), constant(undefined{"an if without else"})
	if p.skip(tokName, "else") {
		other = p.expr(true)
	}
	return exprFunc(func(m *machine, s *scope) Value {
		if truth(m.eval(test, s)) {
			return m.eval(then, s)
		}
		return m.eval(other, s)
	})
}

// chain reads operators of one rank that associate to the left. A long chain is a deep tree, so it counts as nesting.
func (p *parser) chain(operand func() expr, join func(l expr) (expr, bool)) expr {
	depth := p.depth
	x := operand()
	for p.err == nil {
		next, ok := join(x)
		if !ok {
			break
		}
		x = next
		if p.depth++; p.depth > 3*maxNesting {
			p.fail("an expression has too many operators in a row")
		}
	}
	p.depth = depth
	return x
}

func (p *parser) or() expr  { return p.logic("or", p.and) }
func (p *parser) and() expr { return p.logic("and", p.not) }

func (p *parser) logic(word string, operand func() expr) expr {
	return p.chain(operand, func(l expr) (expr, bool) {
		if !p.skip(tokName, word) {
			return nil, false
		}
		r := operand()
		return exprFunc(func(m *machine, s *scope) Value {
			v := m.eval(l, s)
			if truth(v) != (word == "and") {
				return v
			}
			return m.eval(r, s)
		}), true
	})
}

func (p *parser) not() expr {
	if p.is(tokName, "not") {
		defer p.leave()
		if !p.enter() {
			return nil
		}
		p.next()
		return negation(p.not())
	}
	return p.compare()
}

func negation(x expr) expr {
	return exprFunc(func(m *machine, s *scope) Value { return !truth(m.eval(x, s)) })
}

func (p *parser) compare() expr {
	x := p.sum()
	var ops []string
	var rest []expr
	for p.err == nil {
		op := ""
		switch t := p.peek(); {
		case t.kind == tokOp && strings.Contains(" == != < <= > >= ", " "+t.text+" "):
			op = t.text
		case t.kind == tokName && t.text == "in":
			op = "in"
		case t.kind == tokName && t.text == "not" && p.tokens[p.at+1].kind == tokName && p.tokens[p.at+1].text == "in":
			p.next()
			op = "not in"
		}
		if op == "" {
			break
		}
		p.next()
		ops = append(ops, op)
		rest = append(rest, p.sum())
	}
	if ops == nil {
		return x
	}
	return exprFunc(func(m *machine, s *scope) Value {
		l := m.eval(x, s)
		for i, op := range ops {
			r := m.eval(rest[i], s)
			if !m.compare(op, l, r) || m.err != nil {
				return false
			}
			l = r
		}
		return true
	})
}

func (p *parser) operators(operand func() expr, ops ...string) expr {
	return p.chain(operand, func(l expr) (expr, bool) {
		for _, op := range ops {
			if p.skip(tokOp, op) {
				r := operand()
				return exprFunc(func(m *machine, s *scope) Value {
					a := m.eval(l, s)
					return m.binary(op, a, m.eval(r, s))
				}), true
			}
		}
		return nil, false
	})
}

func (p *parser) sum() expr     { return p.operators(p.concat, "+", "-") }
func (p *parser) concat() expr  { return p.operators(p.product, "~") }
func (p *parser) product() expr { return p.operators(p.power, "*", "/", "//", "%") }
func (p *parser) power() expr {
	return p.operators(func() expr { return p.unary(true) }, "**")
}

func (p *parser) unary(filters bool) expr {
	defer p.leave()
	if !p.enter() {
		return nil
	}
	var x expr
	switch {
	case p.is(tokOp, "-"), p.is(tokOp, "+"):
		op := p.next().text
		operand := p.unary(false)
		x = exprFunc(func(m *machine, s *scope) Value { return m.unary(op, m.eval(operand, s)) })
	default:
		x = p.primary()
	}
	x = p.postfix(x)
	if filters {
		x = p.filtered(x)
	}
	return x
}

func (p *parser) primary() expr {
	t := p.peek()
	switch t.kind {
	case tokName:
		p.next()
		switch t.text {
		case "true", "True":
			return constant(true)
		case "false", "False":
			return constant(false)
		case "none", "None":
			return constant(nil)
		case "varargs", "kwargs", "caller":
			for _, d := range p.macros {
				d.varargs = d.varargs || t.text == "varargs"
				d.kwargs = d.kwargs || t.text == "kwargs"
				d.caller = d.caller || t.text == "caller"
			}
		}
		return variable(t.text)
	case tokString:
		var b strings.Builder
		for p.peek().kind == tokString {
			b.WriteString(p.next().text)
		}
		return constant(b.String())
	case tokInt:
		p.next()
		text := strings.ReplaceAll(t.text, "_", "")
		if len(text) < 2 || text[1] >= '0' && text[1] <= '9' {
			text = strings.TrimLeft(text, "0")
		}
		if text == "" {
			text = "0"
		}
		n, err := strconv.ParseInt(text, 0, 64)
		if err != nil {
			p.fail("the number %s is too large", quote.Text(t.text))
		}
		return constant(n)
	case tokFloat:
		p.next()
		x, _ := strconv.ParseFloat(strings.ReplaceAll(t.text, "_", ""), 64)
		return constant(x)
	case tokOp:
		switch t.text {
		case "(":
			p.next()
			if p.skip(tokOp, ")") {
				return sequence(nil, true)
			}
			x := p.tuple(true)
			p.want(tokOp, ")")
			return x
		case "[":
			p.next()
			var items []expr
			p.separated("]", func() { items = append(items, p.expr(true)) })
			return sequence(items, false)
		case "{":
			p.next()
			return p.dict()
		}
	}
	p.fail("expected an expression, found %s", quote.Text(t.text))
	return nil
}

// dict reads the rest of a dictionary.
func (p *parser) dict() expr {
	var keys, values []expr
	p.separated("}", func() {
		keys = append(keys, p.expr(true))
		p.want(tokOp, ":")
		values = append(values, p.expr(true))
	})
	return exprFunc(func(m *machine, s *scope) Value {
		d := NewDict()
		for i, k := range keys {
			key := m.eval(k, s)
			v := m.eval(values[i], s)
			if !m.put(d, key, v) {
				return m.fail("%s cannot be a key", m.describe(key))
			}
		}
		return d
	})
}

// separated reads items with commas between them, and perhaps one after the last, and then the end.
func (p *parser) separated(end string, item func()) {
	for first := true; p.err == nil && !p.skip(tokOp, end); first = false {
		if !first {
			p.want(tokOp, ",")
			if p.skip(tokOp, end) {
				return
			}
		}
		item()
	}
}

// postfix reads attributes, items and calls.
func (p *parser) postfix(x expr) expr {
	return p.chain(func() expr { return x }, func(x expr) (expr, bool) {
		switch {
		case p.skip(tokOp, "."):
			if t := p.peek(); t.kind == tokInt {
				return element(x, p.primary()), true
			}
			return attribute(x, p.name()), true
		case p.skip(tokOp, "["):
			return p.subscript(x), true
		case p.is(tokOp, "("):
			return &callExpr{x, p.arguments()}, true
		}
		return nil, false
	})
}

func attribute(x expr, name string) expr {
	return exprFunc(func(m *machine, s *scope) Value { return m.attr(m.eval(x, s), name) })
}

func element(x, key expr) expr {
	return exprFunc(func(m *machine, s *scope) Value {
		v := m.eval(x, s)
		return m.item(v, m.eval(key, s))
	})
}

func (p *parser) subscript(x expr) expr {
	part := func() expr {
		if p.is(tokOp, ":") || p.is(tokOp, "]") {
			return nil
		}
		return p.expr(true)
	}
	from := part()
	if p.skip(tokOp, ":") {
		s := sliceExpr{x: x, from: from, to: part()}
		if p.skip(tokOp, ":") {
			s.step = part()
		}
		p.want(tokOp, "]")
		return s
	}
	if from == nil {
		p.fail("expected an index, found %s", quote.Text(p.peek().text))
	}
	if p.is(tokOp, ",") {
		items := []expr{from}
		for p.err == nil && p.skip(tokOp, ",") {
			items = append(items, p.expr(true))
		}
		from = sequence(items, true)
	}
	p.want(tokOp, "]")
	return element(x, from)
}

func (p *parser) arguments() (a callArgs) {
	p.want(tokOp, "(")
	p.separated(")", func() {
		if p.is(tokOp, "*") || p.is(tokOp, "**") {
			p.fail("arguments with %s are not supported", p.peek().text)
			return
		}
		if t := p.peek(); t.kind == tokName && p.tokens[p.at+1].kind == tokOp && p.tokens[p.at+1].text == "=" {
			p.next()
			p.next()
			a.names = append(a.names, t.text)
			a.values = append(a.values, p.expr(true))
			return
		}
		if len(a.names) > 0 {
			p.fail("an argument without a name follows one with a name")
		}
		a.pos = append(a.pos, p.expr(true))
	})
	return a
}

// filterCall reads the arguments of a filter whose name has been read.
func (p *parser) filterCall(name string) filter {
	for p.skip(tokOp, ".") {
		name += "." + p.name()
	}
	f := filter{fn: filters[name]}
	if f.fn == nil && p.err == nil {
		p.fail("there is no filter %s", quote.Text(name))
	}
	if p.is(tokOp, "(") {
		f.args = p.arguments()
	}
	return f
}

// filters reads further filters of a block.
func (p *parser) filters(first filter) []filter {
	all := []filter{first}
	for p.err == nil && p.skip(tokOp, "|") {
		all = append(all, p.filterCall(p.name()))
	}
	return all
}

// filtered parses filters, tests and calls applied to x.
func (p *parser) filtered(x expr) expr {
	return p.chain(func() expr { return x }, func(x expr) (expr, bool) {
		switch {
		case p.skip(tokOp, "|"):
			f := p.filterCall(p.name())
			return exprFunc(func(m *machine, s *scope) Value {
				v := m.eval(x, s)
				return m.apply(f, v, s)
			}), true
		case p.skip(tokName, "is"):
			return p.test(x), true
		case p.is(tokOp, "("):
			return &callExpr{x, p.arguments()}, true
		}
		return nil, false
	})
}

func (p *parser) test(x expr) expr {
	negated := p.skip(tokName, "not")
	name := p.name()
	test, args := tests[name], callArgs{}
	if test == nil && p.err == nil {
		p.fail("there is no test %s", quote.Text(name))
	}
	switch n := p.peek(); {
	case n.kind == tokOp && n.text == "(":
		args = p.arguments()
	case n.kind == tokName && (n.text == "else" || n.text == "or" || n.text == "and" || n.text == "if" ||
		n.text == "in" || n.text == "not"):
	case n.kind == tokName && n.text == "is":
		p.fail("tests cannot follow each other: write it with and")
	case n.kind == tokName, n.kind == tokString, n.kind == tokInt, n.kind == tokFloat,
		n.kind == tokOp && (n.text == "[" || n.text == "{"):
		args.pos = []expr{p.postfix(p.primary())}
	}
	t := exprFunc(func(m *machine, s *scope) Value {
		v := m.eval(x, s)
		a := m.args(args, s)
		return m.err == nil && test(m, v, a)
	})
	if negated {
		return negation(t)
	}
	return t
}
