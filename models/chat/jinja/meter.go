package jinja

import (
	"cmp"
	"strings"
	"time"
)

// Limits bound one rendering. Zero stands for the default.
//
// A step is the time of evaluating one expression. Whatever takes longer counts as more: texts that are
// compared, searched, hashed or parsed by their bytes, lists and dictionaries by their elements, see meter.go. Steps
// decide what is refused, so a slow machine refuses what a fast one refuses; Time ends what no count foresaw.
type Limits struct {
	Work   int           // steps; 32 million by default
	Memory int           // bytes of values made, those that are dropped included; 256 MiB by default
	Output int           // bytes written; 16 MiB by default
	Depth  int           // nesting of evaluations, macros included; 1,000 by default
	Time   time.Duration // by the clock, without what Options.Yield takes; 30 s by default
}

func (l Limits) orDefault() Limits {
	return Limits{cmp.Or(max(l.Work, 0), 32_000_000), cmp.Or(max(l.Memory, 0), 256<<20),
		cmp.Or(max(l.Output, 0), 16<<20), cmp.Or(max(l.Depth, 0), 1000), cmp.Or(max(l.Time, 0), 30*time.Second)}
}

// What a step does. TestCostOfSteps prints what each takes of the processor.
const (
	copied   = 256 // bytes compared, hashed or copied
	searched = 32  // bytes searched for a text
	read     = 10  // bytes read character by character, parsed or written so
	made     = 64  // bytes allocated
)

// What values take, in bytes.
const (
	perItem = 32  // an element of a list
	perKey  = 120 // a key of a dictionary, or a name of a scope
)

// slice is the number of steps between two calls of Options.Yield.
const slice = 20_000

// spend takes n steps from what is left; it is asked before they are made. Without any it fails, as it does after an
// error.
func (m *machine) spend(n int) bool {
	if m.err != nil {
		return false
	}
	if n < 0 || n > m.left.Work {
		m.fail("the template takes more than %d steps: it loops too long, or goes over long texts too often",
			m.limits.Work)
		return false
	}
	m.left.Work -= n
	if m.slice -= n; m.slice < 0 {
		m.slice = slice
		m.pause()
	}
	return m.err == nil
}

// pause calls yield between two slices and looks at the clock.
func (m *machine) pause() {
	now := time.Now()
	if now.Sub(m.begun) > m.limits.Time {
		m.fail("the template takes more than %v", m.limits.Time)
	} else if m.yield != nil {
		m.err = m.yield()
		m.begun = m.begun.Add(time.Since(now))
	}
}

// copies charges bytes that are compared, hashed or copied, searches those that are searched, reads those that are
// read character by character.
func (m *machine) copies(n int) bool   { return m.spend(n / copied) }
func (m *machine) searches(n int) bool { return m.spend(n / searched) }
func (m *machine) reads(n int) bool    { return m.spend(n / read) }

// makes charges n bytes of a value before they are made.
func (m *machine) makes(n int) bool {
	if !m.spend(1 + max(n, -1)/made) {
		return false
	}
	if n < 0 || n > m.left.Memory {
		m.fail("the template makes more than %d bytes", m.limits.Memory)
		return false
	}
	m.left.Memory -= n
	return true
}

// makesAll is makes for count values of each bytes.
func (m *machine) makesAll(count, each int) bool {
	if !m.spend(count / 4) {
		return false
	}
	if each > 0 && count > m.left.Memory/each {
		return m.makes(m.limits.Memory + 1)
	}
	return m.makes(count * each)
}

// find looks a key up, put sets one: all of a text is hashed.
func (m *machine) find(d *Dict, key Value) (Value, bool) {
	if !m.weighs(key) {
		return nil, false
	}
	return d.get(key)
}

func (m *machine) put(d *Dict, key, v Value) bool {
	return m.weighs(key) && m.makes(perKey) && d.set(key, v)
}

// weighs charges the hash of a key, or one comparison with it.
func (m *machine) weighs(key Value) bool {
	switch x := key.(type) {
	case string:
		return m.copies(len(x))
	case numeral:
		return m.reads(4 * len(x))
	}
	return m.err == nil
}

// text is a text in the making, charged as it grows.
type text struct {
	m *machine
	strings.Builder
}

func (t *text) add(s string) bool {
	// A builder copies what it holds when it grows.
	if !t.m.spend(2*len(s)/made) || !t.m.holds(2*len(s)) {
		return false
	}
	t.WriteString(s)
	return true
}

// holds charges memory only.
func (m *machine) holds(n int) bool {
	if m.err == nil && n > m.left.Memory {
		m.fail("the template makes more than %d bytes", m.limits.Memory)
	}
	m.left.Memory -= n
	return m.err == nil
}
