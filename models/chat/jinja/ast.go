package jinja

// The parser makes of every statement and expression a function that carries it out.
type (
	stmt func(m *machine, s *scope) flow
	// target assigns a value to names, or to an attribute of a namespace.
	target func(m *machine, v Value, s *scope)
	// expr is evaluated by machine.eval, which counts the work.
	expr interface {
		eval(m *machine, s *scope) Value
	}
	exprFunc func(m *machine, s *scope) Value
)

func (f exprFunc) eval(m *machine, s *scope) Value { return f(m, s) }

// do is a statement of a line that does not leave a loop.
func do(line int, f func(m *machine, s *scope)) stmt {
	return func(m *machine, s *scope) flow {
		m.line = line
		f(m, s)
		return goOn
	}
}

func constant(v Value) expr { return exprFunc(func(*machine, *scope) Value { return v }) }

func variable(name string) expr {
	return exprFunc(func(m *machine, s *scope) Value { return m.lookup(s, name) })
}

func sequence(items []expr, tuple bool) expr {
	return exprFunc(func(m *machine, s *scope) Value { return &List{Items: m.evalAll(items, s), tuple: tuple} })
}

// forStmt holds the parts of a loop.
type forStmt struct {
	target target
	test   expr // nil without a filter
	body   []stmt
	other  []stmt
}

// macroDef is the part that macros and call blocks share.
type macroDef struct {
	name     string
	params   []string
	defaults []expr // of the last parameters
	body     []stmt
	varargs  bool // the body reads varargs, kwargs or caller
	kwargs   bool
	caller   bool
}

type callExpr struct {
	fn   expr
	args callArgs
}

func (x *callExpr) eval(m *machine, s *scope) Value {
	fn := m.eval(x.fn, s)
	return m.call(fn, m.args(x.args, s))
}

type filter struct {
	fn   filterFunc
	args callArgs
}

type callArgs struct {
	pos    []expr
	names  []string
	values []expr
}
