//go:build !js

package main

import (
	"context"
	_ "embed"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"foretoken"
	"foretoken/internal/gocheck"
	"foretoken/spec"
	"foretoken/spec/method"
)

const (
	shown       = 8       // examples
	fewest      = 7       // lines of a completion
	endFunction = "\n}\n" // ends a completion
)

// Chosen is the content of models/demo/examples.json.
type Chosen struct {
	Tried    int       `json:"tried"`  // signatures
	Passed   int       `json:"passed"` // of these, completions that pass
	Examples []Example `json:"examples"`
}

// Example is a prompt and the target's greedy completion.
type Example struct {
	ID         string `json:"id"` // the function's name
	Title      string `json:"title"`
	Prompt     string `json:"prompt"`
	Stop       string `json:"stop"`       // the completion ends after it
	Completion string `json:"completion"` // to the end of the function
	Lines      int    `json:"lines"`      // of the completion
}

//go:embed signatures.txt
var listed string

// signatures returns the prompts of signatures.txt in their order: a comment and the head of a function each.
func signatures() (prompts []string) {
	for _, block := range strings.Split(strings.TrimSpace(listed), "\n\n") {
		prompts = append(prompts, block+"\n")
	}
	return prompts
}

// choose completes prompts and returns those whose completions pass, in their order.
func choose(ctx context.Context, s *foretoken.Session, prompts []string) ([]Example, error) {
	var ended []Example
	for _, prompt := range prompts {
		e, ok, err := complete(ctx, s, prompt)
		if err != nil {
			return nil, err
		}
		if ok && e.Lines >= fewest {
			ended = append(ended, e)
		}
	}
	return vetted(ctx, ended)
}

// request returns the request that completes a function: the page's, with another policy.
func request(policy string) foretoken.Request {
	r := foretoken.DefaultRequest()
	r.Policy, r.Stop, r.IncludeStop = policy, []string{endFunction}, true
	return r
}

// complete completes a prompt by the target alone, and reports whether the function ended.
func complete(ctx context.Context, s *foretoken.Session, prompt string) (Example, bool, error) {
	result, err := s.Generate(ctx, prompt, request(method.DrafterNone), nil)
	if err != nil {
		return Example{}, false, err
	}
	_, head, _ := strings.Cut(prompt, "\nfunc ")
	name, _, _ := strings.Cut(head, "(")
	return Example{ID: name, Title: titleOf(name), Prompt: prompt, Stop: endFunction, Completion: result.Text,
		Lines: strings.Count(result.Text, "\n")}, result.Finish == spec.FinishStop, nil
}

// titleOf returns the words of a name: "Smallest of" for smallestOf.
func titleOf(name string) string {
	upper := func(i int) bool { return i == len(name) || 'A' <= name[i] && name[i] <= 'Z' }
	title := strings.ToUpper(name[:1])
	for i := 1; i < len(name); i++ {
		if upper(i) && (!upper(i-1) || !upper(i+1)) {
			title += " "
		}
		if letter := name[i : i+1]; upper(i + 1) { // of an abbreviation
			title += letter
		} else {
			title += strings.ToLower(letter)
		}
	}
	return title
}

// vetted returns the examples that fileOf accepts, that type-check and pass go vet, each a package of one module.
func vetted(ctx context.Context, all []Example) (passed []Example, err error) {
	folder, err := os.MkdirTemp("", "examples")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(folder)
	module := []byte("module completed\n\ngo 1.26\n")
	if err := os.WriteFile(filepath.Join(folder, "go.mod"), module, 0o644); err != nil {
		return nil, err
	}
	var parsed []Example
	for _, e := range all {
		text, ok := fileOf(e.Prompt + e.Completion)
		if !ok {
			continue
		}
		parsed = append(parsed, e)
		if err := os.Mkdir(filepath.Join(folder, e.ID), 0o755); err != nil {
			return nil, err
		}
		if err := os.WriteFile(filepath.Join(folder, e.ID, "f.go"), []byte(text), 0o644); err != nil {
			return nil, err
		}
	}
	vet := exec.CommandContext(ctx, "go", "vet", "./...")
	vet.Dir = folder
	vet.Env = append(os.Environ(), "GOWORK=off", "GOOS=", "GOARCH=", "GOFLAGS=")
	said, err := vet.CombinedOutput()
	if _, failed := err.(*exec.ExitError); err != nil && !failed {
		return nil, fmt.Errorf("go vet: %w", err)
	}
	wrong := map[string]bool{}
	for line := range strings.Lines(string(said)) {
		id, _, _ := strings.Cut(strings.TrimPrefix(line, "vet: "), "/f.go:")
		wrong[strings.TrimPrefix(id, "./")] = true
	}
	for _, e := range parsed {
		if !wrong[e.ID] {
			passed = append(passed, e)
		}
	}
	if err != nil && len(passed) == len(parsed) {
		return nil, fmt.Errorf("go vet: %w: %s", err, said)
	}
	return passed, nil
}

// fileOf adds a package clause and the imports of a function. It reports whether the text is one function that parses,
// reads each of its parameters, does not call itself and has no line twice.
func fileOf(function string) (string, bool) {
	const clause = "package completed\n"
	set := token.NewFileSet()
	file, err := parser.ParseFile(set, "f.go", clause+function, 0)
	if err != nil || len(file.Decls) != 1 || !differ(function) {
		return "", false
	}
	f, ok := file.Decls[0].(*ast.FuncDecl)
	if !ok {
		return "", false
	}
	info := types.Info{Defs: map[*ast.Ident]types.Object{}, Uses: map[*ast.Ident]types.Object{}}
	names := types.Config{Error: func(error) {}} // nothing is imported yet
	_, _ = names.Check("completed", set, []*ast.File{file}, &info)
	used := map[types.Object]bool{} // parameters and the function itself among them
	for _, object := range info.Uses {
		used[object] = true
	}
	if used[info.Defs[f.Name]] {
		return "", false
	}
	for _, field := range f.Type.Params.List {
		for _, name := range field.Names {
			if !used[info.Defs[name]] {
				return "", false
			}
		}
	}
	var imports strings.Builder
	for _, p := range gocheck.Imports(file) {
		fmt.Fprintf(&imports, "import %q\n", p)
	}
	return clause + imports.String() + function, true
}

// differ reports whether the lines of a text differ, apart from those that only close a block.
func differ(text string) bool {
	seen := map[string]bool{}
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if seen[line] && strings.Trim(line, "})") != "" {
			return false
		}
		seen[line] = true
	}
	return true
}
