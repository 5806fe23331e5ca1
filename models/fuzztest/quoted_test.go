//go:build !js

package fuzztest

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// printers are the functions whose format makes an error or a line for people; their first literal is the format.
var printers = []string{"Errorf", "Sprintf", "Fprintf", "fail", "bad", "refuse", "refused", "note", "usagef", "differ",
	"unsupported"}

// foreign are the names by which this repository's packages call texts from files, requests and servers.
var foreign = []string{"key", "Key", "Name", "names", "text", "Text", "texts", "ID", "id", "Role", "prompt", "Prompt",
	"Adapter"}

// named are packages in which a variable called name holds that of a tensor.
var named = []string{"models/gguf", "models/safetensors", "models/arch", "models/runner", "models/graph"}

// known are expressions of such a name that hold a text of this program's own, or one that the user gave.
var known = map[string][]string{
	"bench/profile.go":             {"m.Name"}, // methods
	"bench/matrix.go":              {"m.Name"},
	"models/convert/split.go":      {"want.key"},
	"models/tune/prove.go":         {"key"},
	"bench/run.go":                 {"m.Name"},
	"cmd/foretoken/bench.go":       {"g.Name"},
	"cmd/foretoken/main.go":        {"flag.Name"},
	"cmd/foretoken/tuning.go":      {"dev.Adapter"},   // a key of a file, not shown
	"models/arch/rope.go":          {"name"},          // of a known tensor
	"models/chat/jinja/expr.go":    {"p.peek().text"}, // * or **
	"models/chat/jinja/parse.go":   {"t.text"},        // one of the tags of the switch around it
	"models/convert/checkpoint.go": {"key"},           // of the constants beside it
	"models/tokenizer/load.go":     {"key"},
	"models/tokenizer/spm.go":      {"text"}, // <0x0A> and its like
	"models/tokenizer/unigram.go":  {"text"},
	"internal/pair/files.go":       {"text"},
	"internal/pair/pair.go":        {"r.id.Name"}, // a key of stored costs, not shown
	"cmd/foretoken/help.go":        {"text"},
}

var verb = regexp.MustCompile(`%[-+# 0]*(\[\d+\])?[0-9.*]*[a-zA-Z%]`)

// unquoted lists the arguments of a file's formats that show a foreign text with %s or %v as it is.
func unquoted(set *token.FileSet, file *ast.File, path string) (all []string) {
	tensors := slices.Contains(named, filepath.ToSlash(filepath.Dir(path)))
	ast.Inspect(file, func(n ast.Node) bool {
		call, ok := n.(*ast.CallExpr)
		if !ok || !slices.Contains(printers, lastName(call.Fun)) {
			return true
		}
		for i, arg := range call.Args {
			format, ok := literal(arg)
			if !ok {
				continue
			}
			at := i + 1
			for _, v := range verb.FindAllString(format, -1) {
				if v == "%%" {
					continue
				}
				if kind := v[len(v)-1]; (kind == 's' || kind == 'v') && at < len(call.Args) {
					e := call.Args[at]
					shown, name := source(e), lastName(e) // a call has no such name: what it returns is checked there
					found := slices.Contains(foreign, name) || tensors && shown == "name"
					if found && !slices.Contains(known[path], shown) {
						all = append(all, fmt.Sprintf("%s: %s", set.Position(e.Pos()), shown))
					}
				}
				at++
			}
			break
		}
		return true
	})
	return all
}

// lastName is the name of a variable, a field, a function or the slice that an element is of.
func lastName(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.Ident:
		return e.Name
	case *ast.SelectorExpr:
		return e.Sel.Name
	case *ast.IndexExpr:
		return lastName(e.X)
	case *ast.SliceExpr:
		return lastName(e.X)
	case *ast.StarExpr:
		return lastName(e.X)
	}
	return ""
}

// source writes an expression as lastName reads it.
func source(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.SelectorExpr:
		return source(e.X) + "." + e.Sel.Name
	case *ast.CallExpr:
		return source(e.Fun) + "()"
	case *ast.IndexExpr:
		return source(e.X) + "[]"
	}
	return lastName(e)
}

// literal returns a constant text, which may be a sum of literals.
func literal(e ast.Expr) (string, bool) {
	switch e := e.(type) {
	case *ast.BasicLit:
		s, err := strconv.Unquote(e.Value)
		return s, err == nil && e.Kind == token.STRING
	case *ast.BinaryExpr:
		a, ok := literal(e.X)
		b, also := literal(e.Y)
		return a + b, ok && also
	}
	return "", false
}

// TestForeignTextIsQuoted reads the packages that read files, requests and servers. An error or a line for people
// shows a text of theirs by quote.Text, Name or Escape, or by %q with a length: a key of a file may be of 64 KiB and
// steer a terminal.
func TestForeignTextIsQuoted(t *testing.T) {
	t.Attr("attack", "source code that shows a text of a file, a request or a server as it is")
	t.Attr("bound", "found: such texts are quoted or escaped, by quote.Text, Name or Escape, or by %q with a length")
	set := token.NewFileSet()
	bad := `package p
func f() { fmt.Errorf("gguf: %s: %s is of type %s, want %s", f.Name(), key, &v, want) }
func g() { c.fail(key, "the tensor %" + "v", t.Name); fmt.Errorf("%d%% %s", n, names[i]) }
func h() { fmt.Errorf("%s", quote.Text(key)) }`
	file, err := parser.ParseFile(set, "bad.go", bad, 0)
	if err != nil {
		t.Fatal(err)
	}
	if got := unquoted(set, file, "bad.go"); len(got) != 3 {
		t.Errorf("the check finds %q", got)
	}
	root, read := filepath.Join("..", ".."), 0
	for _, dir := range []string{".", "internal", "models", "bench", "fit", "cmd", "wasm"} {
		err := filepath.WalkDir(filepath.Join(root, dir), func(path string, e os.DirEntry, err error) error {
			if err != nil || e.IsDir() && path != filepath.Join(root, dir) && (dir == "." || e.Name() == "testdata") {
				return cmpSkip(err)
			}
			if !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
				return nil
			}
			file, err := parser.ParseFile(set, path, nil, parser.SkipObjectResolution)
			if err != nil {
				return err
			}
			read++
			at, err := filepath.Rel(root, path)
			for _, found := range unquoted(set, file, filepath.ToSlash(at)) {
				t.Errorf("%s is shown as it is: quote it", found)
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if read < 200 {
		t.Errorf("%d files", read)
	}
	t.Attr("measured", fmt.Sprintf("%d files of source read", read))
}

// cmpSkip returns err, or that a folder is to be left out.
func cmpSkip(err error) error {
	if err != nil {
		return err
	}
	return filepath.SkipDir
}
