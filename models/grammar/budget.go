package grammar

import (
	"context"
	"fmt"
	"strings"
)

// A schema of a kilobyte can ask for work without end: references multiply with each level, repetitions nest, and a
// text may be read in ever more ways. So compiling and matching count their work, and end with an error at a bound.

const (
	// compileUnits bounds the work of compiling a grammar. A unit is a part of a rule, a range of characters or a
	// few bytes of a schema: at most 16 bytes of memory and some tens of nanoseconds.
	compileUnits = 3 << 20
	// matchUnits is the most work that a matcher may spend before a token is taken; each token taken adds tokenUnits,
	// up to matchUnits. A unit compares one place in a rule with a byte, and takes at most 4 bytes of memory.
	matchUnits = 32 << 20
	tokenUnits = 4 << 20
	// The units of larger work: reaching a place, for the first time in a step, and making a state.
	againUnits, placeUnits, stateUnits = 8, 56, 64
	// maxSource bounds the bytes of a grammar or a schema.
	maxSource = 16 << 20
	// askUnits is the work after which the context is asked again.
	askUnits = 1 << 16
)

// budget is the work that is left to do.
type budget struct {
	ctx    context.Context
	left   int
	unseen int // units since ctx was asked
	err    error
}

// spend takes units off the budget. It is false once too few are left, or ctx has ended: then err is set.
func (b *budget) spend(units int) bool {
	if b.err != nil || b.left < units {
		b.left = 0
		return false
	}
	b.left -= units
	if b.unseen += units; b.unseen >= askUnits {
		b.unseen = 0
		if err := b.ctx.Err(); err != nil {
			b.err = fmt.Errorf("grammar: %w", err)
		}
	}
	return b.err == nil
}

// place names the part of a grammar in messages: a path in a schema, or a rule.
func place(where string) string {
	switch {
	case where == "":
		return ""
	case strings.HasPrefix(where, "#"):
		return "schema at " + where + ": "
	}
	return fmt.Sprintf("rule %q: ", where)
}

// spend counts work of compiling; false ends it.
func (b *builder) spend(units int) bool {
	if b.err == nil && !b.budget.spend(units) {
		if b.err = b.budget.err; b.err == nil {
			b.fail("%scompiling takes more than %d units of work; use fewer alternatives, shorter repetitions, and "+
				"references that do not multiply", place(b.where), compileUnits)
		}
	}
	return b.err == nil
}

// sized refuses a text that is too long to be read.
func sized(bytes int) error {
	if bytes > maxSource {
		return fmt.Errorf("grammar: a text of %d bytes; at most %d are read", bytes, maxSource)
	}
	return nil
}

// mostBytes bounds the memory of a matcher that makes a mask. Each place that it reaches takes scratchBytes.
const mostBytes, scratchBytes = 64 << 20, 200

// spend counts work of matching; false ends it.
func (m *Matcher) spend(units int) bool {
	if m.err != nil {
		return false
	}
	if m.bytes+scratchBytes*len(m.visited) > mostBytes {
		m.refuse(fmt.Sprintf("%d MB of memory", mostBytes>>20))
	} else if !m.budget.spend(units) {
		if m.err = m.budget.err; m.err == nil {
			m.refuse(fmt.Sprintf("%d units of work and %d a token", matchUnits, tokenUnits))
		}
	}
	return m.err == nil
}

// refuse sets the error of a matcher at its bound. It names the rule that has the most places under way.
func (m *Matcher) refuse(bound string) {
	counts := map[string]int{}
	for it := range m.visited {
		counts[m.g.home(it.at)]++
	}
	where := ""
	for home, n := range counts {
		if n > counts[where] || n == counts[where] && home < where {
			where = home
		}
	}
	m.err = presentable(fmt.Errorf("grammar: %sfollowing the text takes more than %s; leave fewer ways to read "+
		"the same text, or make repetitions shorter", place(where), bound))
}

// Err returns the reason that the matcher allows nothing any more: its bound is reached, or its context has ended. Else
// nil.
func (m *Matcher) Err() error { return m.err }
