// Package jinja renders chat templates: the subset of Jinja 2.x that templates of language models are written in, with
// the settings that Transformers gives it (trim_blocks, lstrip_blocks, loop controls, a tojson of its own, and no way
// to change a list or a dictionary). Results equal those from Python's jinja2, which the tests were made with. What
// Transformers.js renders the same templates without is refused by name: recursive loops, groupby, batch, cycler,
// printf formats, padding, rounding. range makes a list at once.
//
// A template comes with a model file, from anywhere. It can neither read a file nor reach a network (include,
// import and extends are refused), and what it may spend is bounded: steps, bytes made, bytes written, and how
// deep it goes. Errors are one line, start with "jinja:" and name the template's line.
package jinja

import (
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"foretoken/internal/quote"
)

// Bounds for parsing. The longest published chat template has 20 kB.
const (
	maxSource  = 1 << 20 // bytes
	maxTokens  = 1 << 18 // names, numbers, signs and texts between tags
	maxNesting = 200     // of expressions and blocks within each other
	mostShown  = 700     // bytes of a message, which may quote any text of the template
)

// Options say how to render.
type Options struct {
	Limits Limits
	Now    func() time.Time // what strftime_now tells; time.Now without it
	// Mark occurs in values and is written as it is, by tojson too: it is taken out of the text later. "": none.
	Mark string
	// Yield, if not nil, is called about every millisecond. An error of it ends the rendering and is returned as it is.
	Yield func() error
}

// Template is a parsed template. It is safe for concurrent use.
type Template struct {
	body  []stmt
	texts []string
}

// Texts returns the template's literal texts: between tags, and in quotes.
func (t *Template) Texts() []string { return t.texts }

// Parse reads a template. Filters, tests and tags that are not known are errors here and not when they are reached.
func Parse(source string) (*Template, error) {
	if len(source) > maxSource {
		return nil, fmt.Errorf("jinja: the template has %d bytes, at most %d are read", len(source), maxSource)
	}
	if !utf8.ValidString(source) {
		source = strings.ToValidUTF8(source, "\uFFFD")
	}
	tokens, err := lex(source)
	if err != nil {
		return nil, err
	}
	p := &parser{tokens: tokens}
	body := p.statements()
	if p.err == nil && p.peek().kind != tokEOF {
		p.fail("unknown or misplaced tag %s", quote.Text(p.peek().text))
	}
	if p.err != nil {
		return nil, p.err
	}
	t := &Template{body: body}
	for _, tok := range tokens {
		if tok.kind == tokData || tok.kind == tokString {
			t.texts = append(t.texts, tok.text)
		}
	}
	return t, nil
}

// Render gives the text that the template makes of the variables.
func (t *Template) Render(vars *Dict, o Options) (string, error) {
	m := newMachine(o)
	return m.render(t.body, vars)
}

func (m *machine) render(body []stmt, vars *Dict) (string, error) {
	root := &scope{vars: map[string]Value{}}
	for name, f := range globals {
		root.vars[name] = f
	}
	if vars != nil {
		for i, key := range vars.keys {
			if name, ok := key.(string); ok {
				root.vars[name] = vars.values[i]
			}
		}
	}
	m.exec(body, &scope{vars: map[string]Value{}, parent: root})
	if m.err != nil {
		return "", m.err
	}
	return m.out.String(), nil
}
