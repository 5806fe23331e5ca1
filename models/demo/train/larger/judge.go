//go:build ignore

// Command judge measures what models of Go source write.
//
//	go run judge.go functions >functions.jsonl
//	foretoken generate --json --max-tokens 256 --prompt-file functions.jsonl … >NAME.jsonl
//	go run judge.go score functions.jsonl NAME.jsonl …
//
// The first prints heads of functions from the validation files of corpus.py, each with its comment and the imports
// that it uses, as one JSON line {"id", "prompt", "answer"}: functions of 3 to 25 lines that type-check by themselves.
// The last prints one JSON object: for each file the share of functions that were completed, that parse and that
// type-check, and distinct 4-grams of tokens over all of them; for prompts that are questions ("Q: …") the F1 of words
// against the answer, and that of another question's answer for comparison.
package main

import (
	"bufio"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io/fs"
	"log"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
)

// line is one of a prompt, or of what foretoken generate printed for it.
type line struct {
	ID       string  `json:"id"`
	Prompt   string  `json:"prompt,omitempty"`
	Answer   string  `json:"answer,omitempty"`
	TokenIDs []int32 `json:"token_ids,omitempty"`
	Text     string  `json:"text,omitempty"`
}

var (
	fset    = token.NewFileSet()
	std     = importer.ForCompiler(fset, "source", nil)
	license = regexp.MustCompile(`\A// Copyright [^\n]*\n// Use of this source code is governed by a BSD-style\n` +
		`// license that can be found in the LICENSE file\.\n+`)
)

func main() {
	switch {
	case len(os.Args) == 2 && os.Args[1] == "functions":
		functions()
	case len(os.Args) > 3 && os.Args[1] == "score":
		score(os.Args[2], os.Args[3:])
	default:
		log.Fatal("usage: judge functions, or judge score PROMPTS.jsonl OUTPUT.jsonl…")
	}
}

func functions() {
	root := filepath.Join(runtime.GOROOT(), "src")
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || !strings.HasSuffix(path, ".go") || strings.Contains(path, "/testdata/") {
			return err
		}
		raw, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		text := license.ReplaceAllString(strings.ReplaceAll(string(raw), "\x00", ""), "")
		if sum := sha256.Sum256([]byte(text)); binary.BigEndian.Uint32(sum[:])%50 == 0 { // corpus.py's rule
			ofFile(path[len(root)+1:], text)
		}
		return nil
	})
	if err != nil {
		log.Fatal(err)
	}
}

// ofFile prints the functions of a validation file that type-check by themselves.
func ofFile(name, text string) {
	file, err := parser.ParseFile(fset, name, text, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		return
	}
	at := func(pos token.Pos) int { return fset.Position(pos).Offset }
	for _, decl := range file.Decls {
		f, ok := decl.(*ast.FuncDecl)
		if !ok || f.Recv != nil || f.Body == nil {
			continue
		}
		first := f.Pos()
		if f.Doc != nil {
			first = f.Doc.Pos()
		}
		head, body := text[at(first):at(f.Body.Lbrace)+1]+"\n", text[at(f.Body.Lbrace)+1:at(f.End())]
		if n := strings.Count(body, "\n"); n < 4 || n > 26 {
			continue
		}
		head = preamble(file, f) + head
		answer := strings.TrimPrefix(body, "\n") + "\n"
		if parsed, checked := judge(head + answer); parsed && checked {
			print(line{ID: name + ":" + f.Name.Name, Prompt: head, Answer: answer})
		}
	}
}

// preamble is a package clause with those imports of a file that a function uses.
func preamble(file *ast.File, f *ast.FuncDecl) string {
	used := map[string]bool{}
	ast.Inspect(f, func(n ast.Node) bool {
		if s, ok := n.(*ast.SelectorExpr); ok {
			if x, ok := s.X.(*ast.Ident); ok {
				used[x.Name] = true
			}
		}
		return true
	})
	var imports []string
	for _, spec := range file.Imports {
		path, err := strconv.Unquote(spec.Path.Value)
		if err == nil && spec.Name == nil && used[path[strings.LastIndex(path, "/")+1:]] {
			imports = append(imports, "\t"+spec.Path.Value+"\n")
		}
	}
	begin := "package " + file.Name.Name + "\n\n"
	if len(imports) > 0 {
		begin += "import (\n" + strings.Join(imports, "") + ")\n\n"
	}
	return begin
}

// judge reports whether a file parses, and whether it type-checks.
func judge(text string) (parses, checks bool) {
	file, err := parser.ParseFile(fset, "f.go", text, parser.SkipObjectResolution)
	if err != nil {
		return false, false
	}
	checks = true
	config := types.Config{Importer: std, Error: func(err error) {
		if !strings.Contains(err.Error(), "imported and not used") { // the prompt imports what the original used
			checks = false
		}
	}}
	_, _ = config.Check("f", fset, []*ast.File{file}, nil) // errors go to Error
	return true, checks
}

func score(prompts string, outputs []string) {
	asked := read(prompts)
	result := map[string]map[string]float64{}
	for _, path := range outputs {
		name := strings.TrimSuffix(filepath.Base(path), ".jsonl")
		sums, given := map[string]float64{}, read(path)
		if len(given) != len(asked) {
			log.Fatalf("%s has %d lines for %d prompts", path, len(given), len(asked))
		}
		for i, got := range given {
			want := asked[i]
			if got.ID != want.ID {
				log.Fatalf("%s: line %d is not that of %s", path, i+1, want.ID)
			}
			sums["distinct_4grams"] += distinct(got.TokenIDs, 4)
			if strings.HasPrefix(want.Prompt, "Q:") {
				sums["f1"] += f1(got.Text, want.Answer)
				sums["f1_of_another"] += f1(asked[(i+len(asked)/2)%len(asked)].Answer, want.Answer)
				continue
			}
			body, _, complete := strings.Cut(got.Text, "\n}\n")
			if !complete {
				continue
			}
			sums["complete"]++
			parses, checks := judge(want.Prompt + body + "\n}\n")
			sums["parses"] += number(parses)
			sums["type_checks"] += number(checks)
		}
		for k := range sums {
			sums[k] = math.Round(1e4*sums[k]/float64(len(asked))) / 1e4
		}
		sums["prompts"] = float64(len(asked))
		result[name] = sums
	}
	print(result)
}

func number(b bool) float64 {
	if b {
		return 1
	}
	return 0
}

// distinct is the share of different runs of n ids among all of them.
func distinct(ids []int32, n int) float64 {
	if len(ids) < n {
		return 1
	}
	seen := map[string]bool{}
	for i := range len(ids) - n + 1 {
		seen[fmt.Sprint(ids[i:i+n])] = true
	}
	return float64(len(seen)) / float64(len(ids)-n+1)
}

// f1 is the harmonic mean of precision and recall of words, as question answering has it.
func f1(got, want string) float64 {
	words := func(s string) []string {
		return strings.FieldsFunc(strings.ToLower(s), func(r rune) bool {
			return r < '0' || r > '9' && r < 'a' || r > 'z' && r < 128
		})
	}
	a, b := words(got), words(want)
	left, common := slices.Clone(b), 0.0
	for _, w := range a {
		if i := slices.Index(left, w); i >= 0 {
			left = slices.Delete(left, i, i+1)
			common++
		}
	}
	if common == 0 {
		return 0
	}
	return 2 * common / float64(len(a)+len(b))
}

func read(path string) (lines []line) {
	f, err := os.Open(path)
	if err != nil {
		log.Fatal(err)
	}
	defer f.Close()
	scanner := bufio.NewScanner(f)
	scanner.Buffer(nil, 1<<24)
	for scanner.Scan() {
		var l line
		if err := json.Unmarshal(scanner.Bytes(), &l); err != nil {
			log.Fatalf("%s: %v", path, err)
		}
		lines = append(lines, l)
	}
	if err := scanner.Err(); err != nil {
		log.Fatal(err)
	}
	return lines
}

func print(v any) {
	encoder := json.NewEncoder(os.Stdout)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(v); err != nil {
		log.Fatal(err)
	}
}
