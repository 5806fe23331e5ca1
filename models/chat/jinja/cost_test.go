package jinja

import (
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"foretoken/models/fuzztest"
)

// mostPerStep bounds what a step may take of a processor, with the race detector off and other programs about. A step
// is meant to take 50 ns.
const mostPerStep = 400 * time.Nanosecond

// costly are operations on long texts, long lists and long names. Each is repeated until the steps are used up.
var costly = func() map[string]string {
	const (
		texts = "{% set s = 'ab c' * 250000 %}{% set t = s ~ '' %}{% set n = '1' * 1000000 %}{% set u = 'é' * 500000 %}"
		lists = "{% set l = range(20000) | list %}{% set k = range(20000) | list %}" +
			"{% set w = l | map('string') | list %}"
		deep = "{% set ns = namespace(d=[]) %}{% for i in range(200) %}{% set ns.d = [ns.d] %}{% endfor %}"
	)
	all := map[string]string{}
	add := func(before string, xs ...string) {
		for _, x := range xs {
			all[x] = before + "{% for j in range(5000) %}{% for i in range(5000) %}{% set x = " + x +
				" %}{% endfor %}{% endfor %}"
		}
	}
	add("{% set s = 'abc' %}{% set l = [1, 2, 3] %}{% set d = {'a': 1} %}{% macro f(x) %}{% endmacro %}",
		"1", "s", "1 + 2", "s ~ s", "s == 'abc'", "s[1]", "s[1:]", "l[1]", "l[::-1]", "d.a", "d['a']", "s.upper()",
		"s | trim", "s.split()", "s.split('b')", "l | length", "l | first", "1 in l", "'a' in d", "'b' in s", "f(1)",
		"[1, 2, 3]", "{'a': 1}", "(1, 2)", "not s", "s if l else d", "2 ** 30", "'%s' | string", "'{}'.format(1)",
		"l | map('string') | list", "l | select('odd') | list", "l | sort", "l | join(',')", "d | items | list",
		"d | dictsort", "l | tojson", "d | tojson(indent=2)", "namespace(a=1)", "dict(a=1)", "joiner()", "range(3)",
		"s | int(base=16)", "s is string", "i is divisibleby(3)", "strftime_now('%c')", "s | title", "s | escape",
		"l | unique | list", "l | sum", "l | max", "x.y is defined", "missing is defined", "s | attr('upper')", "- i",
		"l | reverse | list", "s | list", "s | indent", "s * 3", "l * 3", "l + l", "i / 3", "s | capitalize")
	add(texts, "s == t", "s != t", "s < t", "s > t", "'zz' in s", "s | length", "s[-1]", "s[:10]", "s[::2]",
		"s[5:900000]",
		"u[5:400000]", "u[::-1]", "s | trim", "(' ' * 900000) | trim", "s.strip('abc ')", "s | upper", "s | title",
		"s | capitalize",
		"s | escape", "s.replace('b', 'xyz')", "s.replace('', '-')", "s.replace('zz', '')", "s.split()",
		"s.split('b')",
		"s.split('b', 3)", "s.rsplit('b')", "s.rsplit(None, 5)", "s.splitlines()", "('\\n' * 500000).splitlines()",
		"s.partition('zz')", "s.rpartition('zz')", "s.find('zz')", "s.rfind('zz')", "s.count('ab')",
		"s.count('a', 5)",
		"s.find('b', 900000)", "s.startswith(t)", "s.endswith(t)", "s.removeprefix(t)", "s.removesuffix(t)",
		"s.isalpha()", "('a' * 900000).isalpha()", "s.islower()", "s is upper", "n | int", "n | float",
		"n | int(base=3)",
		"s | int", "n == 5", "s | tojson", "u | tojson(ensure_ascii=true)", "s | string", "[s] | string", "s | list",
		"s | reverse", "s | first", "s | last", "s | indent(3)", "('\\n' * 500000) | indent(2)", "s | join(',')",
		"s.join(['a', 'b'])", "s ~ t", "s + t", "s * 2", "{s: 1}", "{s: 1}[t]", "{'a': 1}[s]", "s in {'a': 1}",
		"s in [t, 1]",
		"messages[0][s]", "[s, t] | unique | list", "[s, t] | sort", "[s, t] | max", "[1] | map(attribute=s) | list",
		"[{}] | map(attribute=s) | list", "{s: 1} == {t: 1}", "namespace() | attr(s)", "s is filter", "s is test",
		"s is in(t)", "s == n",
		"'{}{}'.format(s, t)", "s.format(1)", "strftime_now(s)", "dict({s: 1})", "s | sort", "s | unique",
		"s is eq(t)",
		"namespace(a=s).a == t", "s | dictsort", "{s: t} | dictsort", "{s: t} | items | list", "{s: t} | tojson",
		"joiner(s)()")
	add(lists, "l == k", "l < k", "-1 in l", "l + k", "l[::-1]", "l[5:]", "l | sort", "w | sort",
		"l | unique | list", "w | unique | list",
		"l | length", "w | join", "l | join(',')", "l | map('string') | list", "l | select('odd') | list",
		"l | reject('odd') | list",
		"l | last", "l | first", "l | reverse | first", "range(20000)", "-1 in range(20000)", "l.index(19999)",
		"l.count(5)", "l | sum",
		"l | max", "w | min", "l | tojson", "l | tojson(indent=2)", "w | tojson(indent='ab')", "l | string",
		"l * 2", "l | list", "w == w",
		"w | map('length') | list", "w | map('upper') | list", "l | selectattr('a') | list", "w | sort(reverse=true)",
		"l | map('default', 1) | list", "'{}'.format(l)", "l is eq(k)", "l is sameas(k)",
		"w | map(attribute='0') | list")
	add(deep, "ns.d == ns.d", "ns.d | string", "ns.d | tojson", "ns.d | tojson(indent=4)",
		"[ns.d] * 50 == [ns.d] * 50", "ns.d < ns.d")
	add("{% macro f(a, b=1) %}{{ varargs }}{{ kwargs }}{{ a }}{% endmacro %}"+
		"{% macro g() %}{{ caller() }}{% endmacro %}",
		"f(1, 2, 3, c=4)", "f(a=1)", "f")
	return all
}()

// perStep renders a template until its steps are used up, and returns the processor's time per step.
func perStep(t testing.TB, template string, vars *Dict, l Limits) (each time.Duration, steps, bytes int, err error) {
	t.Helper()
	tpl, err := Parse(template)
	if err != nil {
		return 0, 0, 0, err
	}
	m := newMachine(Options{Limits: l, Now: testNow})
	took := fuzztest.Time(func() { _, err = m.render(tpl.body, vars) })
	steps, bytes = m.limits.Work-max(m.left.Work, 0), m.limits.Memory-max(m.left.Memory, 0)
	return took / time.Duration(max(steps, 1)), steps, bytes, err
}

// TestCostOfSteps calibrates steps: it prints what one takes of the processor in each operation.
func TestCostOfSteps(t *testing.T) {
	limits := Limits{Work: 500_000, Memory: 1 << 30}
	if testing.Short() {
		limits.Work = 150_000
	}
	type cost struct {
		name string
		each time.Duration
	}
	var all []cost
	for _, name := range slices.Sorted(maps.Keys(costly)) {
		each, steps, bytes, err := perStep(t, costly[name], nil, limits)
		if err == nil {
			t.Errorf("%s: no error after %d steps", name, steps)
			continue
		}
		checkError(t, err)
		if each > mostPerStep && steps > 20_000 {
			t.Errorf("%s: %v a step, of %d, want at most %v", name, each, steps, mostPerStep)
		}
		all = append(all, cost{fmt.Sprintf("%s (%d steps, %d bytes, %.60v)", name, steps, bytes, err), each})
	}
	slices.SortFunc(all, func(a, b cost) int { return int(b.each - a.each) })
	t.Attr("measured", fmt.Sprintf("%d operations; a step takes %v at most, %v in the middle, %v at least", len(all),
		all[0].each, all[len(all)/2].each, all[len(all)-1].each))
	for _, c := range all {
		t.Logf("%8v a step: %s", c.each, c.name)
	}
}

// FuzzCost looks for operations whose steps take longer than a step should.
func FuzzCost(f *testing.F) {
	c, vars := readCases(f)
	for _, c := range c.Cases {
		f.Add(c.Template)
	}
	for _, name := range slices.Sorted(maps.Keys(costly)) {
		f.Add(costly[name])
	}
	for _, template := range hostile {
		if len(template) < 1000 {
			f.Add(template)
		}
	}
	worst := time.Duration(0)
	f.Cleanup(func() { f.Logf("a step took %v at most", worst) })
	// The fuzzer's counters make Go several times slower, and what one step allocates is collected later.
	const least, most = 50_000, 8 * mostPerStep
	f.Fuzz(func(t *testing.T, template string) {
		each, steps, _, _ := perStep(t, template, vars, Limits{Work: 300_000, Memory: 32 << 20})
		if took := each * time.Duration(steps); took > least*most {
			t.Errorf("%d steps take %v, %v each; want at most %v for %d", steps, took, each, least*most, least)
		}
		if steps > least && each > worst {
			worst = each
			t.Logf("%v a step, of %d, of %.200q", each, steps, template)
		}
	})
}
