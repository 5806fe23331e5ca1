package jinja

import (
	"slices"
	"strings"
)

type testFunc func(m *machine, v Value, a arguments) bool

// tests by name, for "is".
var tests map[string]testFunc

func init() {
	compare := func(op string) testFunc {
		return func(m *machine, v Value, a arguments) bool {
			other, ok := a.get(0, "")
			if !ok {
				m.fail("the test %s needs a value to compare with", op)
				return false
			}
			return m.compare(op, v, other)
		}
	}
	leaves := func(m *machine, v, by Value, rest int64) bool {
		if _, ok := number(v); !ok {
			m.fail("%s cannot be divided", m.describe(v))
			return false
		}
		r := m.binary("%", v, by)
		return m.err == nil && m.equal(r, rest)
	}
	is := func(f func(v Value) bool) testFunc {
		return func(_ *machine, v Value, _ arguments) bool { return f(v) }
	}
	oneOf := func(types ...string) testFunc {
		return is(func(v Value) bool { return slices.Contains(types, typeName(v)) })
	}
	tests = map[string]testFunc{
		"defined":   is(func(v Value) bool { _, u := v.(undefined); return !u }),
		"undefined": oneOf("undefined"),
		"none":      oneOf("None"),
		"boolean":   oneOf("bool"),
		"true":      is(func(v Value) bool { return v == Value(true) }),
		"false":     is(func(v Value) bool { return v == Value(false) }),
		"integer":   oneOf("int"),
		"float":     oneOf("float"),
		"number":    oneOf("int", "float", "bool"),
		"string":    oneOf("str"),
		"mapping":   oneOf("dict"),
		"sequence":  oneOf("str", "list", "tuple", "dict", "undefined"), // Jinja: has a length and items
		"iterable":  oneOf("str", "list", "tuple", "dict", "undefined"),
		"callable":  oneOf("function"),
		"odd":       func(m *machine, v Value, _ arguments) bool { return leaves(m, v, int64(2), 1) },
		"even":      func(m *machine, v Value, _ arguments) bool { return leaves(m, v, int64(2), 0) },
		"divisibleby": func(m *machine, v Value, a arguments) bool {
			by, _ := a.get(0, "num")
			return leaves(m, v, by, 0)
		},
		"sameas": func(m *machine, v Value, a arguments) bool {
			other, _ := a.get(0, "other")
			return typeName(v) == typeName(other) && m.equal(v, other)
		},
		"lower": func(m *machine, v Value, _ arguments) bool { return m.isCase(m.str(v), false) },
		"upper": func(m *machine, v Value, _ arguments) bool { return m.isCase(m.str(v), true) },
		"in": func(m *machine, v Value, a arguments) bool {
			set, _ := a.get(0, "seq")
			return m.contains(set, v)
		},
		"filter": func(m *machine, v Value, _ arguments) bool {
			name, ok := v.(string)
			return ok && m.weighs(v) && filters[name] != nil
		},
		"test": func(m *machine, v Value, _ arguments) bool {
			name, ok := v.(string)
			return ok && m.weighs(v) && tests[name] != nil
		},
		"escaped": is(func(Value) bool { return false }),
	}
	for op, names := range map[string]string{"==": "eq equalto ==", "!=": "ne !=", "<": "lt lessthan <", "<=": "le <=",
		">": "gt greaterthan >", ">=": "ge >="} {
		for _, name := range strings.Fields(names) {
			tests[name] = compare(op)
		}
	}
}

// isCase is Python's islower or isupper.
func (m *machine) isCase(s string, upper bool) bool {
	if !m.reads(4*len(s)) || !m.makes(3*len(s)) {
		return false
	}
	lower, higher := strings.ToLower(s), strings.ToUpper(s)
	if lower == higher {
		return false
	}
	if upper {
		return s == higher
	}
	return s == lower
}
