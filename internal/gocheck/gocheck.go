//go:build !js

// Package gocheck checks Go that a model wrote: whether it parses, and whether its functions type-check against the
// standard library. It reads the library's source, so packages are imported without a compiler.
package gocheck

import (
	"errors"
	"go/parser"
	"go/scanner"
	"go/token"
	"slices"
	"strings"
)

// Checker checks texts. It caches the heads of prompts and the packages that texts import. Only one goroutine may use
// it at a time.
//
// Prompts are cut out of files, and outputs end at the token limit, so neither end is complete. A Checker parses
// head + prompt + output. A head is a package clause, unless the prompt has one, and the openings of the blocks
// that surround the prompt. It searches heads with the prompt alone; those with the fewest openings serve every
// output, since any of them may fit. It does not repair the end: it accepts a text when the parser finds no error
// before the last line, which the token limit cuts. A prompt without a fitting head is not judged.
type Checker struct {
	heads   map[string][]string // by prompt
	set     *token.FileSet
	library *library
}

// New returns a Checker.
func New() *Checker {
	set := token.NewFileSet()
	return &Checker{heads: map[string][]string{}, set: set, library: &library{set: set}}
}

// Verdict is the result for an output after its prompt.
type Verdict struct {
	Judged bool // the prompt parses; otherwise the other fields are false
	Parses bool // the output does, too
	// Completed reports that an output that parses completes a function and that there is a standard library to check
	// it against; TypeChecks, that every function it completes type-checks.
	Completed, TypeChecks bool
}

// Output judges the text that a model wrote after a prompt.
func (c *Checker) Output(prompt, output string) Verdict {
	heads, known := c.heads[prompt]
	if !known {
		heads = findHeads(prompt)
		c.heads[prompt] = heads
	}
	v := Verdict{Judged: len(heads) > 0}
	i := slices.IndexFunc(heads, func(h string) bool { return beginsGo(h, prompt+output) })
	if i < 0 {
		return v
	}
	v.Parses = true
	v.Completed, v.TypeChecks = c.functions(heads[i], prompt, output)
	return v
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

// beginsGo reports whether text after head begins a Go file. It ignores errors in the part that the end cuts.
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
	end := len(head) + cutPart(text)
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

// cutPart returns the offset of the part of a text that its end may cut: the last line that is not blank, or the last
// token of a single line.
func cutPart(text string) int {
	text = strings.TrimRight(text, " \t\r\n")
	if i := strings.LastIndexByte(text, '\n'); i >= 0 {
		return i + 1
	}
	return lastToken(text)
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
