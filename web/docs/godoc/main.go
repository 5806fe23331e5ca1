// Command godoc writes the Go reference of the documentation: a page in Markdown for every
// package that other programs can import, made of their doc comments by the standard library.
// It prints one JSON array of pages; web/docs/reference.mjs sets them like all others.
//
//	go run ./web/docs/godoc -root .
package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"go/ast"
	"go/build"
	"go/doc"
	"go/doc/comment"
	"go/parser"
	"go/printer"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

// module is the path that import paths of this repository begin with.
const module = "foretoken"

// page documents one package.
type page struct {
	ImportPath string `json:"path"`
	File       string `json:"file"`     // without extension
	Synopsis   string `json:"synopsis"` // first sentence of the package's comment
	Markdown   string `json:"markdown"`
}

func main() {
	root := flag.String("root", ".", "folder of the repository")
	flag.Parse()
	pages, err := read(*root)
	if err == nil {
		err = json.NewEncoder(os.Stdout).Encode(pages)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "godoc:", err)
		os.Exit(1)
	}
}

// read finds the packages below root: all but commands, tests' helpers and what is not Go.
func read(root string) ([]page, error) {
	var pages []page
	err := filepath.WalkDir(root, func(dir string, entry fs.DirEntry, err error) error {
		if err != nil || !entry.IsDir() {
			return err
		}
		if name := entry.Name(); dir != root && (strings.HasPrefix(name, ".") ||
			slices.Contains([]string{"web", "cmd", "wasm", "docs", "build", "node_modules", "testdata", "internal"},
				name)) {
			return fs.SkipDir
		}
		rel, err := filepath.Rel(root, dir)
		if err != nil {
			return err
		}
		p, err := readPackage(dir, path.Join(module, filepath.ToSlash(rel)))
		if p != nil {
			pages = append(pages, *p)
		}
		return err
	})
	return pages, err
}

// readPackage returns nil where a folder holds no package that can be imported.
func readPackage(dir, importPath string) (*page, error) {
	native, browser := build.Default, build.Default
	native.GOOS, native.GOARCH, native.CgoEnabled = "linux", "amd64", true
	browser.GOOS, browser.GOARCH = "js", "wasm"
	found, err := native.ImportDir(dir, 0)
	var none *build.NoGoError
	if errors.As(err, &none) {
		found, err = browser.ImportDir(dir, 0)
	}
	if errors.As(err, &none) || err == nil && (found.Name == "main" || strings.HasSuffix(found.Name, "test")) {
		return nil, nil // a command, or suites for the tests of other packages
	}
	if err != nil {
		return nil, err
	}
	fset := token.NewFileSet()
	var files []*ast.File
	for _, name := range append(found.GoFiles, found.CgoFiles...) {
		file, err := parser.ParseFile(fset, filepath.Join(dir, name), nil,
			parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			return nil, err
		}
		files = append(files, file)
	}
	pkg, err := doc.NewFromFiles(fset, files, importPath)
	if err != nil {
		return nil, err
	}
	w := &writer{pkg: pkg, fset: fset}
	w.all()
	return &page{importPath, fileOf(importPath), pkg.Synopsis(pkg.Doc), w.String()}, nil
}

// fileOf names a package's page.
func fileOf(importPath string) string {
	if importPath == module {
		return module
	}
	return strings.ReplaceAll(strings.TrimPrefix(importPath, module+"/"), "/", "-")
}

type writer struct {
	bytes.Buffer
	pkg  *doc.Package
	fset *token.FileSet
}

func (w *writer) all() {
	fmt.Fprintf(w, "# package %s\n\n", w.pkg.Name)
	w.code(fmt.Sprintf("import %q", w.pkg.ImportPath))
	w.text(w.pkg.Doc)
	w.values("Constants", w.pkg.Consts)
	w.values("Variables", w.pkg.Vars)
	if len(w.pkg.Funcs) > 0 {
		fmt.Fprint(w, "## Functions\n\n")
		w.funcs(w.pkg.Funcs)
	}
	for _, t := range w.pkg.Types {
		fmt.Fprintf(w, "<a id=\"%s\"></a>\n\n## type %[1]s\n\n", t.Name)
		w.decl(t.Decl)
		w.text(t.Doc)
		for _, v := range append(t.Consts, t.Vars...) {
			w.decl(v.Decl)
			w.text(v.Doc)
		}
		w.funcs(t.Funcs)
		w.funcs(t.Methods)
	}
}

func (w *writer) values(title string, values []*doc.Value) {
	if len(values) > 0 {
		fmt.Fprintf(w, "## %s\n\n", title)
	}
	for _, v := range values {
		for _, name := range v.Names {
			if token.IsExported(name) {
				fmt.Fprintf(w, "<a id=\"%s\"></a>", name)
			}
		}
		fmt.Fprint(w, "\n\n")
		w.decl(v.Decl)
		w.text(v.Doc)
	}
}

func (w *writer) funcs(funcs []*doc.Func) {
	for _, f := range funcs {
		id, title := f.Name, "func "+f.Name
		if f.Recv != "" {
			receiver := strings.TrimLeft(f.Recv, "*")
			receiver, _, _ = strings.Cut(receiver, "[")
			id, title = receiver+"."+f.Name, fmt.Sprintf("func (%s) %s", f.Recv, f.Name)
		}
		fmt.Fprintf(w, "<a id=\"%s\"></a>\n\n### %s\n\n", id, strings.ReplaceAll(title, "*", `\*`))
		w.decl(f.Decl)
		w.text(f.Doc)
	}
}

// decl prints a declaration without its own comment, which becomes text.
func (w *writer) decl(node ast.Decl) {
	switch d := node.(type) {
	case *ast.FuncDecl:
		d.Doc, d.Body = nil, nil
	case *ast.GenDecl:
		d.Doc = nil
	}
	var b bytes.Buffer
	config := printer.Config{Mode: printer.UseSpaces | printer.TabIndent, Tabwidth: 4}
	if err := config.Fprint(&b, w.fset, node); err != nil {
		panic(err) // what was parsed can be printed
	}
	w.code(b.String())
}

func (w *writer) code(text string) { fmt.Fprintf(w, "```go\n%s\n```\n\n", text) }

// text sets a doc comment; links to names of this repository lead to their pages.
func (w *writer) text(text string) {
	parsed := w.pkg.Parser().Parse(text)
	p := &comment.Printer{
		HeadingLevel: 4,
		HeadingID:    func(*comment.Heading) string { return "" },
		DocLinkURL: func(link *comment.DocLink) string {
			target := link.Name
			if link.Recv != "" {
				target = strings.TrimPrefix(link.Recv, "*") + "." + link.Name
			}
			switch {
			case link.ImportPath == "":
				return "#" + target
			case strings.HasPrefix(link.ImportPath, module):
				return strings.TrimSuffix(fileOf(link.ImportPath)+".md#"+target, "#")
			default:
				return strings.TrimSuffix("https://pkg.go.dev/"+link.ImportPath+"#"+target, "#")
			}
		},
	}
	w.Write(p.Markdown(parsed))
	fmt.Fprint(w, "\n\n")
}
