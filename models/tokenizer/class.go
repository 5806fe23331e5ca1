package tokenizer

import (
	"sync/atomic"
	"unicode"
	"unicode/utf8"
)

// category is a set of the properties of characters that expressions ask for. Each character has its own set.
type category uint16

const (
	catLu category = 1 << iota
	catLl
	catLt
	catLm
	catLo
	catMn // non-spacing marks
	catMc // other marks
	catNd // decimal digits
	catNo // other numbers
	catP
	catS
	catSpace
	catHan
	catOther // control and format characters, private and unassigned ones

	catL    = catLu | catLl | catLt | catLm | catLo
	catM    = catMn | catMc
	catN    = catNd | catNo
	catWord = catL | catM | catN
)

// properties are the names that \p{} takes.
var properties = map[string]category{
	"L": catL, "Lu": catLu, "Ll": catLl, "Lt": catLt, "Lm": catLm, "Lo": catLo,
	"M": catM, "N": catN, "P": catP, "S": catS, "Han": catHan,
}

// tables say which characters have a property. The general categories exclude each other.
var tables = []struct {
	of    *unicode.RangeTable
	gives category
}{
	{unicode.Lu, catLu}, {unicode.Ll, catLl}, {unicode.Lt, catLt}, {unicode.Lm, catLm}, {unicode.Lo, catLo},
	{unicode.Mn, catMn}, {unicode.M, catMc}, {unicode.Nd, catNd}, {unicode.N, catNo},
	{unicode.P, catP}, {unicode.S, catS}, {unicode.Z, 0},
}

// Characters are looked up a page at a time, since a text uses few scripts.
const pageSize = 128

var pages [(unicode.MaxRune + 1) / pageSize]atomic.Pointer[[pageSize]category]

// categoryOf returns the properties of a character.
func categoryOf(r rune) category {
	p := pages[r/pageSize].Load()
	if p == nil {
		p = new([pageSize]category)
		for i := range p {
			p[i] = findCategory(r - r%pageSize + rune(i))
		}
		pages[r/pageSize].Store(p)
	}
	return p[r%pageSize]
}

func findCategory(r rune) category {
	c := catOther
	for _, t := range tables {
		if unicode.Is(t.of, r) {
			c = t.gives
			break
		}
	}
	if unicode.IsSpace(r) {
		c |= catSpace
	}
	if unicode.Is(unicode.Han, r) {
		c |= catHan
	}
	return c
}

// class is a set of characters.
type class struct {
	ascii  [2]uint64
	has    category
	ranges []rune // pairs of the first and the last character
	not    bool
	except *class // these are left out
}

func (c *class) matches(r rune) bool {
	if r < utf8.RuneSelf {
		return c.ascii[r/64]>>(r%64)&1 != 0
	}
	return c.find(r)
}

func (c *class) find(r rune) bool {
	in := c.has != 0 && categoryOf(r)&c.has != 0
	for i := 0; i < len(c.ranges) && !in; i += 2 {
		in = c.ranges[i] <= r && r <= c.ranges[i+1]
	}
	return in != c.not && (c.except == nil || !c.except.find(r))
}

// complete fills in the ASCII characters.
func (c *class) complete() *class {
	for r := range rune(utf8.RuneSelf) {
		if c.find(r) {
			c.ascii[r/64] |= 1 << (r % 64)
		}
	}
	return c
}
