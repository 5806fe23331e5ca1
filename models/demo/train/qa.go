//go:build ignore

// Command qa prints one JSON line for each documented exported symbol of the standard library:
// its package, name, kind, declaration, doc comment, source file and, for a function, its test.
//
// usage: go run qa.go >symbols.jsonl
package main

import (
	"bytes"
	"encoding/json"
	"go/ast"
	"go/doc"
	"go/format"
	"go/parser"
	"go/token"
	"io/fs"
	"log"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// Symbol is one line of the output.
type Symbol struct {
	Package  string `json:"package"`   // import path
	Name     string `json:"name"`      // Cut, Buffer.Len, or empty for the package
	Kind     string `json:"kind"`      // package, func, method, type, value
	Decl     string `json:"decl"`      // signature, without a body
	Doc      string `json:"doc"`       // paragraphs separated by an empty line
	File     string `json:"file"`      // relative to GOROOT/src
	Test     string `json:"test"`      // source of the function's test: TestCut for Cut
	TestFile string `json:"test_file"` // relative to GOROOT/src
}

func main() {
	out, err := exec.Command("go", "env", "GOROOT").Output()
	if err != nil {
		log.Fatal(err)
	}
	src := filepath.Join(strings.TrimSpace(string(out)), "src")
	encoder := json.NewEncoder(os.Stdout)
	encoder.SetEscapeHTML(false)
	err = filepath.WalkDir(src, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || !entry.IsDir() {
			return err
		}
		switch entry.Name() {
		case "testdata", "internal", "vendor", "cmd":
			return fs.SkipDir
		}
		for _, symbol := range read(src, path) {
			if err := encoder.Encode(symbol); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		log.Fatal(err)
	}
}

// read returns the documented exported symbols of the package in dir.
func read(src, dir string) (symbols []Symbol) {
	fset := token.NewFileSet()
	paths, _ := filepath.Glob(filepath.Join(dir, "*.go"))
	var files []*ast.File
	tests := map[string]*ast.FuncDecl{}
	for _, path := range paths {
		file, err := parser.ParseFile(fset, path, nil, parser.ParseComments)
		switch {
		case err != nil || file.Name.Name == "main":
		case strings.HasSuffix(path, "_test.go"):
			for _, decl := range file.Decls {
				if f, ok := decl.(*ast.FuncDecl); ok && f.Recv == nil {
					tests[f.Name.Name] = f
				}
			}
		default:
			files = append(files, file)
		}
	}
	if len(files) == 0 {
		return nil
	}
	importPath, _ := filepath.Rel(src, dir)
	pkg, err := doc.NewFromFiles(fset, files, importPath)
	if err != nil {
		return nil // files of several packages
	}
	add := func(name, kind, text string, node ast.Node, decl ast.Decl) {
		text = strings.TrimSpace(text)
		if text == "" {
			return
		}
		file := func(node ast.Node) string {
			path, _ := filepath.Rel(src, fset.Position(node.Pos()).Filename)
			return path
		}
		s := Symbol{Package: importPath, Name: name, Kind: kind, Doc: text, File: file(node)}
		s.Decl = signature(fset, decl)
		if test := tests["Test"+name]; kind == "func" && test != nil {
			s.Test, s.TestFile = source(fset, test), file(test)
		}
		symbols = append(symbols, s)
	}
	for _, file := range files {
		if file.Doc != nil && strings.TrimSpace(file.Doc.Text()) == strings.TrimSpace(pkg.Doc) {
			add("", "package", pkg.Doc, file, nil)
			break
		}
	}
	funcs := func(list []*doc.Func, prefix, kind string) {
		for _, f := range list {
			if f.Level == 0 {
				add(prefix+f.Name, kind, f.Doc, f.Decl, f.Decl)
			}
		}
	}
	values := func(list []*doc.Value) {
		for _, v := range list {
			if len(v.Names) == 1 && token.IsExported(v.Names[0]) {
				add(v.Names[0], "value", v.Doc, v.Decl, nil)
			}
		}
	}
	funcs(pkg.Funcs, "", "func")
	values(pkg.Consts)
	values(pkg.Vars)
	for _, t := range pkg.Types {
		add(t.Name, "type", t.Doc, t.Decl, nil)
		funcs(t.Funcs, "", "func")
		funcs(t.Methods, t.Name+".", "method")
		values(t.Consts)
		values(t.Vars)
	}
	return symbols
}

// signature formats a function's declaration without its body and comment.
func signature(fset *token.FileSet, decl ast.Decl) string {
	f, ok := decl.(*ast.FuncDecl)
	if !ok {
		return ""
	}
	bare := *f
	bare.Doc, bare.Body = nil, nil
	return source(fset, &bare)
}

// source formats a declaration.
func source(fset *token.FileSet, f *ast.FuncDecl) string {
	var b bytes.Buffer
	if format.Node(&b, fset, f) != nil {
		return ""
	}
	return b.String()
}
