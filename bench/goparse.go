//go:build !js

package bench

import (
	"errors"
	"go/parser"
	"go/scanner"
	"go/token"
	"slices"
	"strings"
)

// GoParser checks whether go/parser accepts a model's output after its prompt.
//
// Prompts are cut out of files, and outputs end at the token limit, so neither end is complete. GoParser parses
// head + prompt + output. A head is a package clause, unless the prompt has one, and the openings of the blocks
// that surround the prompt. It searches heads with the prompt alone; those with the fewest openings serve every
// output, since any of them may fit. It does not repair the end: it accepts a text when the parser finds no error
// before the last line, which the token limit cuts. A prompt without a fitting head is not judged.
type GoParser struct {
	heads map[string][]string // by prompt
}

// outermost and inner are the openings that may surround a prompt, likeliest first.
var (
	outermost = []string{"func _() {\n", "type _ struct {\n", "var _ = T{\n", "type _ interface {\n", "const (\n",
		"var (\n", "import (\n"}
	inner = []string{"if true {\n", "switch {\n", "_ = T{\n", "select {\n", "_ = func() {\n", "f(\n"}
)

// deepest limits the openings of a head, and mostHeads the heads that are tried.
const (
	deepest   = 5
	mostHeads = 4000
)

// NewGoParser returns a parser that caches the heads of each prompt.
func NewGoParser() *GoParser { return &GoParser{map[string][]string{}} }

// Parse reports whether Go accepts prompt and output together; see Matrix.Parse.
func (p *GoParser) Parse(prompt, output string) (ok, judged bool) {
	heads, known := p.heads[prompt]
	if !known {
		heads = findHeads(prompt)
		p.heads[prompt] = heads
	}
	return slices.ContainsFunc(heads, func(h string) bool { return beginsGo(h, prompt+output) }), len(heads) > 0
}

// findHeads tries heads with an increasing number of openings until some fit.
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
				// An invalid opening excludes all heads that extend it.
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

// beginsGo reports whether text after head begins a Go file. It ignores errors in the last line that is not blank,
// or in the last token of a single line.
func beginsGo(head, text string) bool {
	src := head + text
	_, err := parser.ParseFile(token.NewFileSet(), "", src, parser.AllErrors|parser.SkipObjectResolution)
	if err == nil {
		return true
	}
	errs, ok := errors.AsType[scanner.ErrorList](err)
	if !ok {
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
		// The parser reports an unterminated comment or raw string at its beginning.
		open := strings.Contains(e.Msg, "comment not terminated") ||
			strings.Contains(e.Msg, "raw string literal not terminated")
		return !open
	})
}

// lastToken returns the offset of a text's last token.
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
		if tok != token.SEMICOLON || lit == ";" { // not inserted at a line end
			last = file.Offset(pos)
		}
	}
}
