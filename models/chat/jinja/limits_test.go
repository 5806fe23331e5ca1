package jinja

import (
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	"foretoken/models/fuzztest"
)

// hostile templates would take hours, gigabytes or the whole stack.
var hostile = map[string]string{
	"long range":         "{% for i in range(2000000000) %}{% endfor %}",
	"nested ranges":      "{% for i in range(100000) %}{% for j in range(100000) %}{{ j }}{% endfor %}{% endfor %}",
	"range beyond int32": "{% for i in range(10 ** 15) %}{% endfor %}",
	"text times number":  "{{ 'abc' * 10 ** 12 }}",
	"list times number":  "{{ ([1] * 10 ** 12) | length }}",
	"empty times number": "{% for i in range(100000) %}{% for j in range(10000) %}{{ '' * 9 }}{% endfor %}{% endfor %}",
	"doubling": "{% set ns = namespace(s='x') %}{% for i in range(100) %}{% set ns.s = ns.s ~ ns.s " +
		"%}{% endfor %}",
	"doubling lists": "{% set ns = namespace(s=[1]) %}{% for i in range(100) %}{% set ns.s = ns.s + ns.s " +
		"%}{% endfor %}",
	"shared lists": "{% set ns = namespace(s=[1]) %}{% for i in range(100) %}{% set ns.s = [ns.s, " +
		"ns.s] %}{% endfor %}{{ ns.s }}",
	"shared as JSON": "{% set ns = namespace(s=[1]) %}{% for i in range(100) %}{% set ns.s = [ns.s, " +
		"ns.s] %}{% endfor %}{{ ns.s | tojson }}",
	"shared compared": "{% set ns = namespace(s=[1], t=[1]) %}{% for i in range(100) %}{% set ns.s = [ns.s, " +
		"ns.s] %}{% set ns.t = [ns.t, ns.t] %}{% endfor %}{{ ns.s == ns.t }}{{ ns.s < ns.t }}",
	"held by itself":   "{% set ns = namespace() %}{% set ns.a = [ns] %}{{ ns }}",
	"macro by itself":  "{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}",
	"two macros":       "{% macro a() %}{{ b() }}{% endmacro %}{% macro b() %}{{ a() }}{% endmacro %}{{ a() }}",
	"branching macro":  "{% macro m(n) %}{% if n %}{{ m(n - 1) }}{{ m(n - 1) }}{% endif %}{% endmacro %}{{ m(60) }}",
	"loops of a macro": "{% macro m(x) %}{% for i in x %}{{ m(x) }}{% endfor %}{% endmacro %}{{ m([1, 2]) }}",
	"parentheses":      "{{ " + strings.Repeat("(", 100000) + "1" + strings.Repeat(")", 100000) + " }}",
	"lists in lists":   "{{ " + strings.Repeat("[", 5000) + strings.Repeat("]", 5000) + " }}",
	"signs":            "{{ " + strings.Repeat("-", 100000) + "1 }}",
	"nots":             "{{ " + strings.Repeat("not ", 100000) + "1 }}",
	"sum of many":      "{{ 1" + strings.Repeat(" + 1", 100000) + " }}",
	"attributes":       "{{ a" + strings.Repeat(".a", 100000) + " }}",
	"filters":          "{{ a" + strings.Repeat(" | string", 100000) + " }}",
	"conditions":       "{{ 1" + strings.Repeat(" if 1 else 1", 100000) + " }}",
	"blocks":           strings.Repeat("{% if 1 %}", 100000) + strings.Repeat("{% endif %}", 100000),
	"elifs":            "{% if 0 %}" + strings.Repeat("{% elif 0 %}", 100000) + "{% endif %}",
	"method replace":   "{{ ('a' * 1000000).replace('a', 'b' * 1000000) }}",
	"replace nothing":  "{{ ('a' * 1000000).replace('', 'b' * 1000000) }}",
	"splits":           "{{ ('a ' * 1000000).split() }}",
	"formats":          "{{ ('{0}' * 10000).format('a' * 10000) }}",
	"lists formatted":  "{{ ('{0}' * 1000).format([1] * 100000) }}",
	"replace":          "{{ ('a' * 1000000) | replace('a', 'b' * 1000000) }}",
	"join":             "{{ ('a' * 1000000).join(range(100000) | map('string') | list) }}",
	"indent":           "{{ ('\\n' * 1000000) | indent(1000) }}",
	"wide JSON":        "{{ [[[[[[[[[[1]]]]]]]]]] | tojson(indent='x' * 5000000) }}",
	"sorted":           "{{ range(100000) | sort }}",
	"strftime":         "{{ strftime_now('%c' * 5000000) }}",
	"output":           "{% for i in range(100000) %}" + strings.Repeat("x", 1000) + "{% endfor %}",
	"captured": "{% for i in range(100000) %}{% set x %}" + strings.Repeat("x", 1000) +
		"{% endset %}{% endfor %}",
	"include": "{% include '/etc/passwd' %}",
	"import":  "{% import 'http://localhost/' as x %}",
	"extends": "{% extends 'x' %}",
	"classes": "{{ ''.__class__.__mro__[1].__subclasses__() }}",
	"globals": "{{ raise_exception.__globals__['os'].system('true') }}",
}

func TestHostileTemplates(t *testing.T) {
	const longest, mostMemory = 5 * time.Minute, 256 << 20
	limits := Limits{Work: 1_000_000, Memory: 64 << 20} // so that all together take a second or two
	if testing.Short() {
		limits.Work = 100_000
	}
	t.Attr("attack", fmt.Sprintf("%d hostile chat templates: endless loops, doubling, nesting, padding", len(hostile)))
	t.Attr("bound", "32 million steps (2 s), 256 MiB made, 16 MiB of output, 1,000 levels")
	most := uint64(0)
	for name, template := range hostile {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		begin := time.Now()
		text, err := render(template, nil, limits)
		took := time.Since(begin)
		runtime.ReadMemStats(&after)
		if err == nil {
			t.Errorf("%s: no error, %d bytes", name, len(text))
			continue
		}
		checkError(t, err)
		if took > longest {
			t.Errorf("%s: took %v", name, took)
		}
		made := after.TotalAlloc - before.TotalAlloc
		if most = max(most, made); made > mostMemory {
			t.Errorf("%s: %d MiB were allocated in all", name, made>>20)
		}
		if testing.Verbose() {
			t.Logf("%s: %v, %d MiB in all: %.120v", name, took.Round(time.Millisecond), made>>20, err)
		}
	}
	t.Attr("measured", fmt.Sprintf("all refused; at most %d MiB allocated with %d steps", most>>20, limits.Work))
}

func TestLimitsAreKept(t *testing.T) {
	for _, c := range []struct {
		template string
		limits   Limits
		want     string
	}{
		{"{% for i in range(100) %}{{ i }}{% endfor %}", Limits{Work: 1000}, "more than 1000 steps"},
		{"{% for i in range(100) %}{{ i }}{% endfor %}", Limits{Output: 50}, "more than 50 bytes"},
		{"{{ ((((((1)))))) + [[[[[[[[[[[[1]]]]]]]]]]]] | length }}", Limits{Depth: 10}, "more than 10 evaluations"},
	} {
		if _, err := render(c.template, nil, c.limits); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%q: %v, want %q", c.template, err, c.want)
		}
		if _, err := render(c.template, nil, Limits{}); err != nil {
			t.Errorf("%q: %v", c.template, err)
		}
	}
	if _, err := Parse(strings.Repeat("x", maxSource+1)); err == nil {
		t.Error("a template of any length is read")
	}
}

// manyParams is a template with a macro of n parameters.
func manyParams(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "p%d,", i)
	}
	return "{% macro m(" + b.String() + ") %}{% endmacro %}"
}

func TestErrorsNameTheLine(t *testing.T) {
	twice := "{% macro m(" + strings.Repeat("a,", maxParams) + "b) %}{% endmacro %}"
	deep, long := "{{ "+strings.Repeat("[", maxNesting+2), "{{ 1"+strings.Repeat("+1", maxTokens/2)+" }}"
	for template, want := range map[string]string{
		twice:             `line 1: the parameter "a" occurs twice`,
		deep:              "line 1: expressions and blocks lie more than 200 deep",
		long:              "line 1: more than 262144 names, numbers and signs",
		"a\nb\n{{ x.y }}": "line 3: x is not defined",
		"{% if true %}\n\n{{ 1 / 0 }}{% endif %}":           "line 3: a division by zero",
		"a\n{{ 'x' | nosuch }}":                             `line 2: there is no filter "nosuch"`,
		"\n\n{% for x in y %}":                              "line 3: a block does not end: {% endfor %} is missing",
		"{{ [1].append(2) }}":                               "list.append is refused",
		manyParams(maxParams + 1):                           "line 1: more than 255 parameters",
		"a\r\nb\r\n{% include 'x' %}":                       "line 3: the tag include is refused",
		"{# a\n b #}\n{{ raise_exception('no\n\ttools') }}": "line 3: the template refuses the messages: no tools",
	} {
		_, err := render(template, nil, Limits{})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", template, err, want)
			continue
		}
		checkError(t, err)
		if _, err := render(manyParams(maxParams), nil, Limits{}); err != nil {
			t.Error(err)
		}
		var refused *RefusedError
		if errors.As(err, &refused) != strings.Contains(template, "raise_exception") {
			t.Errorf("%q: %T", template, err)
		}
	}
}

func TestConcurrentRendering(t *testing.T) {
	tpl, err := Parse(
		"{% set ns = namespace(n=0) %}{% for i in range(50) %}{% set ns.n = ns.n + i %}{% endfor %}{{ ns.n }}")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan string)
	for range 8 {
		go func() {
			text, err := tpl.Render(nil, Options{})
			if err != nil {
				text = err.Error()
			}
			done <- text
		}()
	}
	for range 8 {
		if text := <-done; text != "1225" {
			t.Error(text)
		}
	}
}

func FuzzTemplate(f *testing.F) {
	c, vars := readCases(f)
	for _, c := range c.Cases {
		f.Add(c.Template)
	}
	for _, template := range hostile {
		if len(template) < 1000 {
			f.Add(template)
		}
	}
	f.Fuzz(func(t *testing.T, template string) {
		limits := Limits{Work: 200_000, Memory: 32 << 20, Output: 50_000}
		var text string
		var err error
		fuzztest.Bound(t, len(template), func() { text, err = render(template, vars, limits) })
		if err != nil {
			checkError(t, err)
		} else if len(text) > limits.Output {
			t.Fatalf("%d bytes", len(text))
		}
		if again, err2 := render(template, vars, limits); again != text || (err == nil) != (err2 == nil) {
			t.Fatalf("%q gives %q and %q", template, text, again)
		}
	})
}
