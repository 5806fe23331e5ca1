//go:build ignore

// Command judge measures what models of Go source write; judge.sh runs it.
//
//	go run judge.go functions >functions.jsonl
//	go run judge.go score PROMPTS.jsonl OUTPUT.jsonl [PROMPTS.jsonl OUTPUT.jsonl …]
//	go run judge.go samples PROMPTS.jsonl OUTPUT.jsonl N
//
// The first prints heads of functions from the validation files of corpus.py, each with its comment and the imports
// that it uses, as one JSON line {"id", "prompt", "answer"}: functions of 3 to 25 lines that type-check by themselves.
// foretoken generate --json printed OUTPUT for PROMPTS. score prints one JSON object with an entry for each OUTPUT. For
// functions it says which share was completed, parses and type-checks; for questions ("Q: …") it gives the F1 of words
// against the answer, and for comparison against another question's answer; for both, the share of distinct 4-grams of
// tokens. samples prints N prompts, evenly spaced, with what was written, as Markdown.
package main

import (
	"bufio"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
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

	"foretoken/internal/gocheck"
	"foretoken/internal/strictjson"
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
	checker = gocheck.New()
	license = regexp.MustCompile(`\A// Copyright [^\n]*\n// Use of this source code is governed by a BSD-style\n` +
		`// license that can be found in the LICENSE file\.\n+`)
)

func main() {
	switch {
	case len(os.Args) == 2 && os.Args[1] == "functions":
		functions()
	case len(os.Args) > 3 && os.Args[1] == "score":
		result := map[string]map[string]float64{}
		for pair := range slices.Chunk(os.Args[2:], 2) {
			name := strings.TrimSuffix(filepath.Base(pair[1]), ".jsonl")
			result[name] = score(answered(pair[0], pair[1]))
		}
		print(result)
	case len(os.Args) == 5 && os.Args[1] == "samples":
		n, err := strconv.Atoi(os.Args[4])
		if err != nil {
			log.Fatal(err)
		}
		samples(answered(os.Args[2], os.Args[3]), n)
	default:
		log.Fatal("usage: see the comment at the beginning of judge.go")
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
		if len(head) > 300 { // the former target's context has 256 tokens
			continue
		}
		if parsed, checked := checker.File(head + answer); parsed && checked {
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

// answered returns prompts with their answers, and what was written for each as its Text and TokenIDs.
func answered(prompts, output string) []line {
	asked, given := read(prompts), read(output)
	if len(given) != len(asked) {
		log.Fatalf("%s has %d lines for %d prompts", output, len(given), len(asked))
	}
	for i := range asked {
		if given[i].ID != asked[i].ID {
			log.Fatalf("%s: line %d is not that of %s", output, i+1, asked[i].ID)
		}
		asked[i].Text, asked[i].TokenIDs = given[i].Text, given[i].TokenIDs
	}
	return asked
}

func score(lines []line) map[string]float64 {
	sums := map[string]float64{}
	for i, l := range lines {
		sums["distinct_4grams"] += distinct(l.TokenIDs, 4)
		if strings.HasPrefix(l.Prompt, "Q:") {
			sums["f1"] += f1(l.Text, l.Answer)
			sums["f1_of_another"] += f1(lines[(i+len(lines)/2)%len(lines)].Answer, l.Answer)
			continue
		}
		body, complete := cut(l.Text)
		sums["complete"] += number(complete)
		if complete {
			parses, checks := checker.File(l.Prompt + body)
			sums["parses"] += number(parses)
			sums["type_checks"] += number(checks)
		}
	}
	for k := range sums {
		sums[k] = math.Round(1e4*sums[k]/float64(len(lines))) / 1e4
	}
	sums["prompts"] = float64(len(lines))
	return sums
}

// cut returns a text to the end of its first function.
func cut(text string) (string, bool) {
	body, _, complete := strings.Cut(text, "\n}\n")
	if complete {
		body += "\n}\n"
	}
	return body, complete
}

func samples(lines []line, n int) {
	for i := range n {
		l := lines[i*len(lines)/n]
		if strings.HasPrefix(l.Prompt, "Q:") {
			question := strings.TrimSuffix(strings.TrimPrefix(l.Prompt, "Q: "), "\nA:")
			fmt.Printf("**%s**\n%s\n\n", question, fold(strings.TrimSpace(l.Text), " "))
			continue
		}
		body, _ := cut(l.Text)
		_, head, _ := strings.Cut(l.Prompt, "\n\n") // without the package clause
		fmt.Printf("```go\n%s// model:\n%s\n```\n\n", head, fold(strings.TrimRight(body, "\n"), " ↩ "))
	}
}

// fold breaks lines of more than 118 columns at spaces; end stands where a line goes on.
func fold(text, end string) string {
	lines := strings.Split(text, "\n")
	for i, l := range lines {
		var b strings.Builder
		column := 0
		for j, word := range strings.Split(l, " ") {
			width := len([]rune(strings.ReplaceAll(word, "\t", "    "))) + 1
			switch {
			case j > 0 && column+width > 118-len(end):
				b.WriteString(strings.TrimRight(end, " ") + "\n")
				column = 0
			case j > 0:
				b.WriteByte(' ')
			}
			b.WriteString(word)
			column += width
		}
		lines[i] = b.String()
	}
	return strings.Join(lines, "\n")
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
		if i := slices.Index(left, w); i >= 0 { // bound: the words of an answer
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
		if err := strictjson.DecodeForeign(scanner.Bytes(), &l); err != nil {
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
