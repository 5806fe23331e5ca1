//go:build !js

package gocheck

import "testing"

func TestParsing(t *testing.T) {
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
		{"from inside a struct", "\tName string `json:\"n\"`\n\tAge  int\n",
			"\tNext *T\n}\n\nvar x int\n", true, true},
		{"from inside a list of constants", "\tA = iota\n\tB\n)\n", "\nfunc f() {\n", true, true},
		{"a comment may go before the package clause", "// Package p is one.\n",
			"package p\n\nvar x int\n", true, true},
		{"or stand inside the file", "// F does it.\n", "func F() {\n\treturn\n", true, true},
		{"a prompt of one line", "func main() {", "\n\treturn\n}\n\nvar x int\n", true, true},
		{"a prompt that its line cuts", "func (t *T) mai", "n() {\n\treturn\n}\nvar x int\n", true, true},
		{"what is no Go", "x x x ) ) )\ny y y\n", "\n", false, false},
		{"a line of no Go", "x x x ) ) )\n", "\n", false, false},
	} {
		if v := New().Output(c.prompt, c.output); v.Parses != c.ok || v.Judged != c.judged {
			t.Errorf("%s: accepted %v, judged %v, want %v and %v (heads %q)", c.name, v.Parses, v.Judged, c.ok,
				c.judged, findHeads(c.prompt))
		}
	}
}

// TestTypes completes functions after prompts that are cut out of files: rightly, and with one mistake each.
func TestTypes(t *testing.T) {
	c := New()
	const (
		whole  = "package p\n\nfunc join(all []string, n int) (string, error) {\n"
		method = "\treturn l.names[i]\n}\n\nfunc (l *Loader) add(s Sym, name string) int {\n"
	)
	for _, test := range []struct {
		name, prompt, output string
		completed, ok        bool
	}{
		{"right", whole, "\treturn strings.Join(all[n:], \" \"), nil\n}\n", true, true},
		{"cut", whole, "\treturn strings.Join(all[n:], \" \"), nil\n", false, false},
		{"cut after a function", whole, "\treturn \"\", nil\n}\n\nfunc g() {\n\tx :=", true, true},
		{"an error in a function that the end cuts", whole,
			"\treturn \"\", nil\n}\n\nfunc g() {\n\tx()\n", true, true},
		{"does not parse", whole, "\treturn )\n}\n\nvar x int\n", false, false},
		{"another type", whole, "\treturn n, nil\n}\n", true, false},
		{"a name that nothing declares", whole, "\treturn joined, nil\n}\n", true, false},
		{"no such function in a package", whole, "\treturn strings.Joined(all), nil\n}\n", true, false},
		{"a variable that is not used", whole, "\tx := n\n\treturn \"\", nil\n}\n", true, false},
		{"no return", whole, "\tn++\n}\n", true, false},
		{"declared twice", whole, "\treturn \"\", nil\n}\n\nfunc join() {\n}\n", true, false},
		{"an error in the second function", whole,
			"\treturn \"\", nil\n}\n\nfunc g() int {\n\treturn all\n}\n", true, false},
		{"an import that is not used", "package p\n\nimport \"os\"\n\nfunc f() {\n", "\treturn\n}\n", true, true},
		{"an import under another name", "package p\n\nimport str \"strings\"\n\nfunc f() string {\n",
			"\treturn str.ToLower(\"A\")\n}\n", true, true},
		{"no import of another module", "package p\n\nimport \"example.com/strings\"\n\nfunc f() string {\n",
			"\treturn strings.Anything()\n}\n", true, true},
		{"a field of the rest of the file", method, "\tclear(l.names)\n\treturn int(s)\n}\n", true, true},
		{"a field as a variable", method, "\tclear(names)\n\treturn int(s)\n}\n", true, false},
		{"names of the rest of the file", method,
			"\tl.names = append(l.names, name)\n\treturn int(s)\n}\n", true, true},
		{"a name that only the output uses", method,
			"\tl.names = append(l.names, title)\n\treturn int(s)\n}\n", true, false},
		{"a type that only a signature names", "// F does it.\n",
			"func F(s *Sym) *Sym {\n\treturn (*Sym)(s)\n}\n", true, true},
		{"a method of the rest of the file",
			"type T struct{}\n\nfunc (t *T) f() int {\n\treturn t.g()\n}\n\nfunc (t *T) h() int {\n",
			"\treturn t.g()\n}\n", true, true},
		{"a method that only the output uses", "type T struct{}\n\nfunc (t *T) h() int {\n",
			"\treturn t.g()\n}\n", true, false},
		{"a function whose beginning is missing", "\tx := 1\n\ty := 2\n", "\tz = 3\n}\n\nvar v int\n", false, false},
	} {
		v := c.Output(test.prompt, test.output)
		if v.Completed != test.completed || v.TypeChecks != test.ok {
			t.Errorf("%s: completed %v, type-checks %v, want %v and %v", test.name, v.Completed, v.TypeChecks,
				test.completed, test.ok)
		}
	}
	if c.library.root = ""; c.Output(whole, "\treturn \"\", nil\n}\n").Completed {
		t.Error("types are checked without a standard library")
	}
}

func TestFiles(t *testing.T) {
	c := New()
	for text, want := range map[string][2]bool{
		"package p\n\nimport (\n\t\"os\"\n\t\"strings\"\n)\n\nvar s = strings.ToLower(\"A\")\n": {true, true},
		"package p\n\nvar s = strings.ToLower(\"A\")\n":                                         {true, false},
		"package p\n\nvar s int = \"A\"\n":                                                      {true, false},
		"package p\n\nvar s = (\n":                                                              {false, false},
		"func f() {}\n":                                                                         {false, false},
	} {
		if parses, ok := c.File(text); parses != want[0] || ok != want[1] {
			t.Errorf("%q: parses %v, type-checks %v, want %v", text, parses, ok, want)
		}
	}
}
