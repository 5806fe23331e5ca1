package jinja

// Statements and expressions of a parsed template.

type stmt interface{}

type (
	dataStmt   struct{ text string }
	outputStmt struct {
		line int
		x    expr
	}
	ifStmt struct {
		line  int
		test  expr
		then  []stmt
		other []stmt
	}
	forStmt struct {
		line      int
		target    expr
		over      expr
		test      expr // nil without a filter
		body      []stmt
		other     []stmt
		recursive bool
	}
	setStmt struct {
		line    int
		target  expr
		value   expr     // nil for a block
		body    []stmt   // of a block
		filters []filter // of a block
	}
	macroStmt struct {
		name string
		def  *macroDef
	}
	callStmt struct { // {% call macro() %}
		line int
		call *callExpr
		def  *macroDef
	}
	filterStmt struct { // {% filter upper %}
		line    int
		filters []filter
		body    []stmt
	}
	withStmt struct {
		line    int
		targets []expr
		values  []expr
		body    []stmt
	}
	breakStmt    struct{}
	continueStmt struct{}
)

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

type expr interface{}

type (
	constExpr struct{ v Value }
	nameExpr  struct{ name string }
	listExpr  struct {
		items []expr
		tuple bool
	}
	dictExpr  struct{ keys, values []expr }
	unaryExpr struct {
		op byte // '-', '+' or '!' for not
		x  expr
	}
	binaryExpr struct {
		op   string
		l, r expr
	}
	logicExpr struct {
		and  bool
		l, r expr
	}
	compareExpr struct {
		first expr
		ops   []string
		rest  []expr
	}
	condExpr struct {
		test, then, other expr // other may be nil
	}
	attrExpr struct {
		x    expr
		name string
	}
	itemExpr  struct{ x, key expr }
	sliceExpr struct{ x, from, to, step expr } // each of the last three may be nil
	callExpr  struct {
		fn   expr
		args callArgs
	}
	filterExpr struct {
		x expr // nil stands for the body of a block
		filter
	}
	testExpr struct {
		x    expr
		test testFunc
		args callArgs
	}
)

type filter struct {
	fn   filterFunc
	args callArgs
}

type callArgs struct {
	pos    []expr
	names  []string
	values []expr
}
