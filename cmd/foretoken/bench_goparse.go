//go:build !js

package main

import (
	"errors"
	"go/parser"
	"go/scanner"
	"go/token"
	"slices"
	"strings"
)

// goParser tells whether go/parser accepts what a model wrote after a prompt.
//
// Prompts are cut out of files, and outputs end where the tokens do, so neither end is a
// whole file. What is parsed is head + prompt + output. A head is a package clause, where the
// prompt has none, and the openings of the blocks that the prompt was cut out of; heads are
// looked for with the prompt alone, and those with the fewest openings serve every output:
// any of them may fit. The end is not repaired at all: a text is accepted when
// the parser finds no error before its last line, which is the one that the
// limit of tokens cuts. A prompt that no head fits is not judged.
type goParser struct {
	heads map[string][]string // by prompt
}

// outermost and inner are what may open around a prompt, likeliest first.
var (
	outermost = []string{"func _() {\n", "type _ struct {\n", "var _ = T{\n", "type _ interface {\n", "const (\n", "var (\n", "import (\n"}
	inner     = []string{"if true {\n", "switch {\n", "_ = T{\n", "select {\n", "_ = func() {\n", "f(\n"}
)

// deepest is how many openings a head has at most, and mostHeads how many heads are tried.
const (
	deepest   = 5
	mostHeads = 4000
)

func newGoParser() *goParser { return &goParser{map[string][]string{}} }

// parse is foretoken.BenchPlan.Parse.
func (p *goParser) parse(prompt, output string) (ok, judged bool) {
	heads, known := p.heads[prompt]
	if !known {
		heads = findHeads(prompt)
		p.heads[prompt] = heads
	}
	return slices.ContainsFunc(heads, func(h string) bool { return beginsGo(h, prompt+output) }), len(heads) > 0
}

// findHeads tries heads with more and more openings, until some fit.
func findHeads(prompt string) []string {
	heads := []string{"", "package p\n"}
	tried := 0
	for depth := 0; depth <= deepest; depth++ {
		var fit, next []string
		for _, h := range heads {
			if tried++; tried > mostHeads {
				return nil
			}
			if beginsGo(h, prompt) {
				fit = append(fit, h)
			}
			openings := inner
			switch {
			case h == "":
				continue
			case depth == 0:
				openings = outermost
			}
			for _, o := range openings {
				// An opening that cannot stand where it is rules out all that go on from it.
				if beginsGo(h, o+"\n") {
					next = append(next, h+o)
				}
			}
		}
		if len(fit) > 0 {
			return fit
		}
		heads = next
	}
	return nil
}

// beginsGo tells whether text after head begins a Go file, the last line that is not blank
// left aside; of a single line, the last token.
func beginsGo(head, text string) bool {
	src := head + text
	var errs scanner.ErrorList
	_, err := parser.ParseFile(token.NewFileSet(), "", src, parser.AllErrors|parser.SkipObjectResolution)
	if err == nil {
		return true
	}
	if !errors.As(err, &errs) {
		return false
	}
	text = strings.TrimRight(text, " \t\r\n")
	end := len(head) + strings.LastIndexByte(text, '\n') + 1
	if end == len(head) {
		end += lastToken(text)
	}
	return !slices.ContainsFunc(errs, func(e *scanner.Error) bool {
		if e.Pos.Offset >= end {
			return false
		}
		// A comment or raw string that the end cuts is reported where it begins.
		open := strings.Contains(e.Msg, "comment not terminated") || strings.Contains(e.Msg, "raw string literal not terminated")
		return !open
	})
}

// lastToken is where the last token of a text begins.
func lastToken(text string) int {
	var s scanner.Scanner
	file := token.NewFileSet().AddFile("", -1, len(text))
	s.Init(file, []byte(text), nil, 0)
	last := 0
	for {
		pos, tok, lit := s.Scan()
		if tok == token.EOF {
			return last
		}
		if tok != token.SEMICOLON || lit == ";" { // not one that the end of the line put there
			last = file.Offset(pos)
		}
	}
}
