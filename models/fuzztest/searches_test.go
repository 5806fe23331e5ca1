//go:build !js

package fuzztest

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// searching are the functions of package slices that go over a whole list.
var searching = []string{"Contains", "ContainsFunc", "Index", "IndexFunc"}

// searches holds what TestNoListIsSearchedPerItem collects about one package.
type searches struct {
	set      *token.FileSet
	literals map[string]bool             // package-level lists that are written out
	bounded  map[string]map[int]bool     // by file, the lines whose comment states a bound
	inLoops  map[string][]token.Position // by called function, where a loop calls it
	callers  map[string]map[string]bool  // by called function, the functions that call it outside of loops
	found    map[token.Position]string   // searches in loops
	outside  map[string][]token.Position // by function, its searches outside of loops
}

// boundMark begins the comment, at the end of the line, that says how long a searched list can be.
const boundMark = "// bound: "

// searchesIn lists the searches of lists without a bound that a loop makes, itself or by a function of the package.
func searchesIn(set *token.FileSet, files []*ast.File) []string {
	s := &searches{set: set, literals: map[string]bool{}, bounded: map[string]map[int]bool{},
		inLoops: map[string][]token.Position{}, callers: map[string]map[string]bool{},
		found: map[token.Position]string{}, outside: map[string][]token.Position{}}
	for _, file := range files {
		s.declarations(file)
	}
	for _, file := range files {
		for _, d := range file.Decls {
			if f, ok := d.(*ast.FuncDecl); ok && f.Body != nil {
				s.walk(f.Body, f.Name.Name, false)
			}
		}
	}
	for name, places := range s.outside {
		if at := s.loopOver(name, map[string]bool{}); at.IsValid() {
			for _, place := range places {
				s.found[place] = fmt.Sprintf(" (called in a loop at %s)", at)
			}
		}
	}
	var all []string
	for at, how := range s.found {
		all = append(all, at.String()+how)
	}
	slices.Sort(all)
	return all
}

func (s *searches) declarations(file *ast.File) {
	name := s.set.Position(file.Pos()).Filename
	s.bounded[name] = map[int]bool{}
	for _, group := range file.Comments {
		for _, c := range group.List {
			if strings.HasPrefix(c.Text, boundMark) && len(c.Text) > len(boundMark) {
				s.bounded[name][s.set.Position(c.Pos()).Line] = true
			}
		}
	}
	for _, d := range file.Decls {
		if d, ok := d.(*ast.GenDecl); ok && d.Tok == token.VAR {
			for _, spec := range d.Specs {
				v := spec.(*ast.ValueSpec)
				for i, value := range v.Values {
					if writtenOut(value) {
						s.literals[v.Names[i].Name] = true
					}
				}
			}
		}
	}
}

// walk goes over the statements of a function. What a function literal does is done where it is written.
func (s *searches) walk(n ast.Node, function string, inLoop bool) {
	ast.Inspect(n, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.ForStmt:
			for _, part := range []ast.Node{n.Cond, n.Post, n.Body} {
				if part != nil && part != ast.Node((*ast.BlockStmt)(nil)) {
					s.walk(part, function, true)
				}
			}
			if n.Init != nil {
				s.walk(n.Init, function, inLoop)
			}
			return false
		case *ast.RangeStmt:
			s.walk(n.X, function, inLoop)
			s.walk(n.Body, function, true)
			return false
		case *ast.CallExpr:
			s.call(n, function, inLoop)
			if isSlices(n.Fun) && len(n.Args) > 1 { // a function that is given is called for each item
				s.walk(n.Args[0], function, inLoop)
				for _, arg := range n.Args[1:] {
					_, literal := arg.(*ast.FuncLit)
					s.walk(arg, function, inLoop || literal)
				}
				return false
			}
		}
		return true
	})
}

// writtenOut reports whether a list is a literal, or a function's of texts that are literals.
func writtenOut(list ast.Expr) bool {
	switch list := list.(type) {
	case *ast.CompositeLit:
		return true
	case *ast.CallExpr:
		return !slices.ContainsFunc(list.Args, func(arg ast.Expr) bool { _, ok := literal(arg); return !ok }) &&
			len(list.Args) > 0
	}
	return false
}

func isSlices(fun ast.Expr) bool {
	sel, ok := fun.(*ast.SelectorExpr)
	return ok && source(sel.X) == "slices"
}

func (s *searches) call(c *ast.CallExpr, function string, inLoop bool) {
	name, at := lastName(c.Fun), s.set.Position(c.Pos())
	switch {
	case isSlices(c.Fun) && slices.Contains(searching, name):
		list := c.Args[0]
		if writtenOut(list) || s.literals[source(list)] || s.bounded[at.Filename][at.Line] {
			return
		}
		if inLoop {
			s.found[at] = ""
		} else {
			s.outside[function] = append(s.outside[function], at)
		}
	case name == "":
	case inLoop:
		s.inLoops[name] = append(s.inLoops[name], at)
	default:
		if s.callers[name] == nil {
			s.callers[name] = map[string]bool{}
		}
		s.callers[name][function] = true
	}
}

// loopOver returns where a loop calls a function, directly or by one that calls it.
func (s *searches) loopOver(function string, seen map[string]bool) token.Position {
	if places := s.inLoops[function]; len(places) > 0 {
		return places[0]
	}
	if seen[function] {
		return token.Position{}
	}
	seen[function] = true
	for _, caller := range slices.Sorted(maps.Keys(s.callers[function])) {
		if at := s.loopOver(caller, seen); at.IsValid() {
			return at
		}
	}
	return token.Position{}
}

// TestNoListIsSearchedPerItem: a file or a request that brings n items and a list of n may take n² steps. A list that
// is searched in a loop is written out in the package, or the line says its bound in a comment.
func TestNoListIsSearchedPerItem(t *testing.T) {
	t.Attr("attack", "lists of a file or a request that are searched once for each of its items")
	t.Attr("bound", "found: such a search states how long the list can be, or is a look-up in a map")
	set := token.NewFileSet()
	sample := `package p
import "slices"
var known = []string{"a"}
func f(names, more []string) {
	for _, n := range names {
		_ = slices.Contains(more, n)                            // 1: found
		_ = slices.Contains(known, n)                           // written out
		_ = slices.Index([]string{"x"}, n)                      // written out
		_ = slices.Contains(more, n)                            // bound: 4 names
		_ = has(more, n)
	}
	_ = slices.Contains(more, "once")
	slices.DeleteFunc(names, func(n string) bool { return slices.IndexFunc(more, nil) >= 0 }) // 2: found
	for i := 0; slices.Index(more, "x") > i; i++ {} // 3: found
}
func has(more []string, n string) bool { return by(more, n) }
func by(more []string, n string) bool { return slices.Contains(more, n) } // 4: found
func alone(more []string) bool { return slices.Contains(more, "x") }`
	file, err := parser.ParseFile(set, "sample.go", sample, parser.ParseComments)
	if err != nil {
		t.Fatal(err)
	}
	if got := searchesIn(set, []*ast.File{file}); len(got) != 4 {
		t.Errorf("the check finds %d of 4: %q", len(got), got)
	}
	root, packages := filepath.Join("..", ".."), map[string][]*ast.File{}
	for _, dir := range []string{"models", "cmd"} {
		err := filepath.WalkDir(filepath.Join(root, dir), func(path string, e os.DirEntry, err error) error {
			if err != nil || e.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
				return err
			}
			file, err := parser.ParseFile(set, path, nil, parser.ParseComments|parser.SkipObjectResolution)
			packages[filepath.Dir(path)] = append(packages[filepath.Dir(path)], file)
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if len(packages) < 15 {
		t.Errorf("%d packages", len(packages))
	}
	for _, files := range packages {
		for _, at := range searchesIn(set, files) {
			t.Errorf("%s: a list is searched in a loop: use a map, or say how long it can be: %s…", at, boundMark)
		}
	}
	t.Attr("measured", fmt.Sprintf("%d packages read", len(packages)))
}
