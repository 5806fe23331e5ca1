//go:build !js

package gocheck

import (
	"errors"
	"fmt"
	"go/ast"
	"go/build"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// packages are those of the standard library that a text may use without importing them.
var packages = []string{"bufio", "bytes", "context", "crypto/rand", "crypto/sha256", "encoding/binary",
	"encoding/hex", "encoding/json", "errors", "fmt", "go/ast", "go/format", "go/token", "go/types", "image",
	"image/color", "image/png", "io", "io/fs", "log", "maps", "math", "math/bits", "net", "net/http",
	"net/http/httptest", "net/url", "os", "os/exec", "os/signal", "path", "path/filepath", "reflect", "regexp",
	"runtime", "slices", "sort", "strconv", "strings", "sync", "sync/atomic", "syscall", "testing", "time", "unicode",
	"unicode/utf8"}

// Imports returns the paths of packages whose names a file uses but neither declares nor imports. The file must have
// been parsed with object resolution.
func Imports(file *ast.File) []string {
	unknown := map[string]bool{}
	for _, name := range file.Unresolved {
		unknown[name.Name] = true
	}
	for _, s := range file.Imports {
		if s.Name != nil {
			delete(unknown, s.Name.Name)
		} else if p, err := strconv.Unquote(s.Path.Value); err == nil {
			delete(unknown, path.Base(p))
		}
	}
	var paths []string
	for _, p := range packages {
		if unknown[path.Base(p)] {
			paths = append(paths, p)
		}
	}
	return paths
}

// File reports whether the text of a file parses, and whether it type-checks, apart from imports that it does not use.
func (c *Checker) File(text string) (parses, typeChecks bool) {
	file, err := parser.ParseFile(c.set, "", text, parser.SkipObjectResolution)
	defer c.forget(file)
	if err != nil {
		return false, false
	}
	typeChecks = true
	c.check(file, func(types.Error) { typeChecks = false })
	return true, typeChecks
}

// functions type-checks the functions that begin after head and end in output, with the imports that they need.
// completed is false if there is no such function, or no standard library.
//
// The text is a part of a file. So a name that nothing declares is no mistake if the prompt or a function's signature
// uses it without declaring it, since it belongs to the rest of the file. A name that an output uses first must be
// declared.
func (c *Checker) functions(head, prompt, output string) (completed, ok bool) {
	file, err := parser.ParseFile(c.set, "", head+prompt+output, parser.AllErrors)
	defer c.forget(file)
	at := c.set.File(file.FileStart)
	begin, written := at.Pos(len(head)), at.Pos(len(head)+len(prompt))
	end := at.Pos(at.Size())
	if err != nil {
		end = at.Pos(len(head) + cutPart(prompt+output))
	}
	known := map[string]bool{} // names of the rest of the file, those after a dot with it
	for n := range ast.Preorder(file) {
		if s, ok := n.(*ast.SelectorExpr); ok && s.Sel.Pos() < written {
			known["."+s.Sel.Name] = true
		}
	}
	var functions []*ast.FuncDecl
	for _, d := range file.Decls {
		f, ok := d.(*ast.FuncDecl)
		switch {
		case !ok || f.Body == nil:
		case f.Pos() >= begin && written <= f.Body.Rbrace && f.Body.Rbrace < end:
			functions = append(functions, f)
		default:
			f.Body = nil
		}
	}
	if len(functions) == 0 || !c.library.found() {
		return false, false
	}
	for _, id := range file.Unresolved {
		signs := func(f *ast.FuncDecl) bool { return f.Pos() <= id.Pos() && id.Pos() < f.Body.Pos() }
		if id.Pos() < written || slices.ContainsFunc(functions, signs) { // bound: functions of one output
			known[id.Name] = true
		}
	}
	for _, p := range Imports(file) {
		s := &ast.ImportSpec{Path: &ast.BasicLit{Kind: token.STRING, Value: strconv.Quote(p)}}
		file.Decls = append(file.Decls, &ast.GenDecl{Tok: token.IMPORT, Specs: []ast.Spec{s}})
	}
	names := namesIn(functions)
	ok = true
	c.check(file, func(e types.Error) {
		in := func(f *ast.FuncDecl) bool { return f.Pos() <= e.Pos && e.Pos < f.End() }
		elsewhere := strings.Contains(e.Msg, "undefined") && known[names[e.Pos]]
		if !elsewhere && slices.ContainsFunc(functions, in) { // bound: functions of one output
			ok = false
		}
	})
	return true, ok
}

// namesIn returns the names that functions use by their position, those after a dot with it.
func namesIn(functions []*ast.FuncDecl) map[token.Pos]string {
	names := map[token.Pos]string{}
	for _, f := range functions {
		for n := range ast.Preorder(f) {
			switch n := n.(type) {
			case *ast.Ident:
				if names[n.Pos()] == "" {
					names[n.Pos()] = n.Name
				}
			case *ast.SelectorExpr: // comes before its identifier
				names[n.Sel.Pos()] = "." + n.Sel.Name
			}
		}
	}
	return names
}

// check type-checks a file and reports every error. It does not look for imports that the file does not use.
func (c *Checker) check(file *ast.File, report func(types.Error)) {
	config := types.Config{Importer: c.library, FakeImportC: true, DisableUnusedImportCheck: true,
		Error: func(err error) {
			if e, ok := errors.AsType[types.Error](err); ok {
				report(e)
			}
		}}
	_, _ = config.Check("p", c.set, []*ast.File{file}, nil) // Error has received the errors
}

// forget removes a parsed file from the set, which would keep it.
func (c *Checker) forget(file *ast.File) { c.set.RemoveFile(c.set.File(file.FileStart)) }

// library imports packages of the standard library from their source. It finds the library when it is first needed.
type library struct {
	set    *token.FileSet
	root   string // of the Go distribution; "" without one
	source types.Importer
}

// found reports whether the source of the standard library is installed.
func (l *library) found() bool {
	if l.source == nil {
		l.root = goRoot()
		// The importer takes its settings from build.Default. Without cgo it runs no compiler of C.
		build.Default.GOROOT, build.Default.CgoEnabled = l.root, false
		l.source = importer.ForCompiler(l.set, "source", nil)
	}
	return l.root != ""
}

// Import imports a package. It refuses a path outside the standard library, which the source importer would look up by
// running the go command.
func (l *library) Import(of string) (*types.Package, error) {
	if !l.found() || !filepath.IsLocal(of) || !isFolder(filepath.Join(l.root, "src", of)) {
		return nil, fmt.Errorf("no package %q in the standard library", of)
	}
	return l.source.Import(of)
}

// goRoot returns the root of the Go distribution that this program was built with or that is installed, or "".
func goRoot() string {
	hasSource := func(root string) bool { return root != "" && isFolder(filepath.Join(root, "src", "fmt")) }
	if root := build.Default.GOROOT; hasSource(root) {
		return root
	}
	command := exec.Command("go", "env", "GOROOT")
	command.Env = append(os.Environ(), "GOTOOLCHAIN=local") // nothing is downloaded
	out, err := command.Output()
	if root := strings.TrimSpace(string(out)); err == nil && hasSource(root) {
		return root
	}
	return ""
}

func isFolder(name string) bool {
	info, err := os.Stat(name)
	return err == nil && info.IsDir()
}
