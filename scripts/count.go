//go:build ignore

// Count prints the figures that limit the size of the program: go run scripts/count.go
//
// It counts the lines of Go that is neither a test nor in a package that only tests and checks use, the files and lines
// of the root's package, and for the largest struct types their fields and methods, with embedded types' among their
// own. Run it in the root of the repository.
package main

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

// excluded are the names of folders whose Go no user runs.
var excluded = []string{"audit", "spectest", "devicetest", "kerneltest", "faults", "converttest", "modeltest",
	"fuzztest", "web", "scripts"}

// A type is listed from so many fields or methods on.
const (
	listedFields  = 16
	listedMethods = 25
)

func main() {
	if err := errors.Join(countLines(), countTypes()); err != nil {
		fmt.Fprintln(os.Stderr, "count:", err)
		os.Exit(1)
	}
}

// isExcluded reports whether a folder, or one that it is in, is excluded.
func isExcluded(folder string) bool {
	return slices.ContainsFunc(strings.Split(folder, "/"), func(s string) bool { return slices.Contains(excluded, s) })
}

func countLines() error {
	out, err := exec.Command("git", "ls-files", "*.go").Output()
	if err != nil {
		return err
	}
	var all, root, files int
	for _, file := range strings.Fields(string(out)) {
		if strings.HasSuffix(file, "_test.go") || isExcluded(path.Dir(file)) {
			continue
		}
		text, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		n := bytes.Count(text, []byte("\n"))
		all += n
		if path.Dir(file) == "." {
			root += n
			files++
		}
	}
	fmt.Printf("Go without tests: %d lines\nroot: %d files, %d lines\n", all, files, root)
	return nil
}

// goPackage is a package in the output of go list.
type goPackage struct {
	path, dir string
	files     []string
}

// object is a struct type of ours.
type object struct {
	name                                   string
	fields, methods, ownFields, ownMethods int
}

func countTypes() error {
	out, err := exec.Command("go", "list", "-export", "-deps", "-f",
		`{{.ImportPath}}|{{.Export}}|{{.Dir}}|{{join .GoFiles " "}} {{join .CgoFiles " "}}`, "./...").Output()
	if err != nil {
		return err
	}
	exports := map[string]string{}
	var ours []goPackage
	for line := range strings.Lines(string(out)) {
		f := strings.SplitN(line, "|", 4)
		exports[f[0]] = f[1]
		if f[0] == "foretoken" || strings.HasPrefix(f[0], "foretoken/") {
			ours = append(ours, goPackage{f[0], f[2], strings.Fields(f[3])})
		}
	}
	var all []object
	set := token.NewFileSet()
	imports := importer.ForCompiler(set, "gc", func(of string) (io.ReadCloser, error) { return os.Open(exports[of]) })
	for _, p := range ours {
		if isExcluded(p.path) {
			continue
		}
		var files []*ast.File
		for _, name := range p.files {
			f, err := parser.ParseFile(set, filepath.Join(p.dir, name), nil, parser.SkipObjectResolution)
			if err != nil {
				return err
			}
			files = append(files, f)
		}
		conf := types.Config{Importer: imports, FakeImportC: true}
		checked, err := conf.Check(p.path, set, files, nil)
		if err != nil {
			return err
		}
		for _, name := range checked.Scope().Names() {
			if o, ok := measure(checked.Scope().Lookup(name)); ok {
				all = append(all, o)
			}
		}
	}
	slices.SortFunc(all, func(a, b object) int { return cmp.Or(b.methods-a.methods, b.fields-a.fields) })
	fmt.Println("fields and methods, with those of embedded types; in parentheses its own:")
	for _, o := range all {
		if o.fields >= listedFields || o.methods >= listedMethods {
			fmt.Printf("%4d (%d) %4d (%d)  %s\n", o.fields, o.ownFields, o.methods, o.ownMethods, o.name)
		}
	}
	return nil
}

// measure counts the fields and methods of a struct type.
func measure(o types.Object) (object, bool) {
	name, ok := o.(*types.TypeName)
	if !ok || name.IsAlias() {
		return object{}, false
	}
	named, ok := name.Type().(*types.Named)
	if !ok {
		return object{}, false
	}
	s, ok := named.Underlying().(*types.Struct)
	if !ok {
		return object{}, false
	}
	return object{strings.TrimPrefix(o.Pkg().Path()+"."+o.Name(), "foretoken/"), fields(s),
		types.NewMethodSet(types.NewPointer(named)).Len(), s.NumFields(), named.NumMethods()}, true
}

// fields counts the fields of a struct, an embedded struct's in place of itself.
func fields(s *types.Struct) int {
	n := 0
	for f := range s.Fields() {
		of := f.Type()
		if p, ok := of.Underlying().(*types.Pointer); ok {
			of = p.Elem()
		}
		if embedded, ok := of.Underlying().(*types.Struct); ok && f.Embedded() {
			n += fields(embedded)
		} else {
			n++
		}
	}
	return n
}
