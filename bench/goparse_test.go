//go:build !js

package bench

import "testing"

func TestGoParserJudgesOutputs(t *testing.T) {
	for _, c := range []struct {
		name, prompt, output string
		ok, judged           bool
	}{
		{"a whole file", "package p\n\nfunc f() {\n", "\treturn\n}\n", true, true},
		{"cut in a line", "package p\n\nfunc f() {\n", "\tif x := g(); x.", true, true},
		{"cut between lines", "package p\n\nfunc f() {\n", "\tif x {\n\t\treturn\n", true, true},
		{"a broken line before the last", "package p\n\nfunc f() {\n", "\tif if {\n\treturn\n}\n", false, true},
		{"a bracket too many", "package p\n\nfunc f() {\n", "\treturn\n}\n}\n\nvar x int\n", false, true},
		{"the last line does not count", "package p\n\nfunc f() {\n", "\treturn\n}\n}}}", true, true},
		{"a raw string that the end cuts", "package p\n\nvar s = ", "`a\nb\nc", true, true},
		{"a comment that the end cuts", "package p\n", "/* a\nb\nc", true, true},
		{"a string that its line cuts", "package p\n\nvar s = ", "\"a\nb\nc", false, true},
		{"from inside a function", "\tx := 1\n\ty := 2\n", "\tz := 3\n}\n\nfunc g() {\n", true, true},
		{"from inside a block", "\t\tx := 1\n\t}\n\ty := 2\n}\n\nvar v int\n", "var w int\nfunc f() {\n", true, true},
		{"from inside a case", "\tcase 1:\n\t\treturn 2\n", "\tcase 3:\n\t}\n}\n", true, true},
		{"from inside a struct", "\tName string `json:\"n\"`\n\tAge  int\n", "\tNext *T\n}\n\nvar x int\n", true, true},
		{"from inside a list of constants", "\tA = iota\n\tB\n)\n", "\nfunc f() {\n", true, true},
		{"a comment may go before the package clause", "// Package p is one.\n",
			"package p\n\nvar x int\n", true, true},
		{"or stand inside the file", "// F does it.\n", "func F() {\n\treturn\n", true, true},
		{"a prompt of one line", "func main() {", "\n\treturn\n}\n\nvar x int\n", true, true},
		{"a prompt that its line cuts", "func (t *T) mai", "n() {\n\treturn\n}\nvar x int\n", true, true},
		{"what is no Go", "x x x ) ) )\ny y y\n", "\n", false, false},
		{"a line of no Go", "x x x ) ) )\n", "\n", false, false},
	} {
		if ok, judged := NewGoParser().Parse(c.prompt, c.output); ok != c.ok || judged != c.judged {
			t.Errorf("%s: accepted %v, judged %v, want %v and %v (heads %q)", c.name, ok, judged, c.ok, c.judged,
				findHeads(c.prompt))
		}
	}
}
