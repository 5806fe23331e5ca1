package lang

// The formats that bound several lengths at once are built state by state.

var (
	alphanumeric = []Range{{'0', '9'}, {'A', 'Z'}, {'a', 'z'}}
	lowercase    = []Range{{'0', '9'}, {'a', 'z'}}
	hyphen       = []Range{{'-', '-'}}
	dot          = []Range{{'.', '.'}}
	at           = []Range{{'@', '@'}}
	// atext of RFC 5322, section 3.2.3
	atext = normal([]Range{{'!', '!'}, {'#', '\''}, {'*', '+'}, {'-', '-'}, {'/', '9'}, {'=', '='}, {'?', '?'},
		{'A', 'Z'}, {'^', '~'}})

	// Letters beyond ASCII of scripts in use that are written from left to right, and with marks that follow them.
	// IDNA keeps all of these as they are.
	wideLetters = []Range{{0xDF, 0xF6}, {0xF8, 0xFF}, {0x3AC, 0x3CE}, {0x430, 0x45F}, {0x905, 0x939}, {0xE01, 0xE30},
		{0x10D0, 0x10F0}, {0x3041, 0x3096}, {0x30A1, 0x30FA}, {0x4E00, 0x9FFF}, {0xAC00, 0xD7A3}}
	wideAll = normal(append([]Range{{0x93E, 0x94D}, {0xE31, 0xE32}, {0xE34, 0xE3A}, {0xE40, 0xE4E}, {0x30FC, 0x30FC}},
		wideLetters...))
)

const (
	longestLabel = 63
	longestWide  = 14 // code points of a label beyond ASCII; none of them takes five characters in Punycode
	longestLocal = 64 // RFC 5321, section 4.5.3.1.1, in bytes
	block        = 23 // see Format
)

// spot is a state of a host's name or of a local part before it.
type spot struct {
	local  bool
	wide   bool // the label has characters beyond ASCII
	blocks int  // of the labels before
	length int  // of the label or the local part so far
	closed bool // the last character was a - of a label or a . of a local part: neither can end so
}

// explore has a state for every spot that a first one leads to.
func explore(first spot, leave func(from spot, to func(ranges []Range, next spot)), final func(spot) bool) []State {
	spots := []spot{first}
	known := map[spot]int32{first: 0}
	var states []State
	for done := 0; done < len(spots); done++ {
		s := State{Final: final(spots[done])}
		leave(spots[done], func(ranges []Range, next spot) {
			id, ok := known[next]
			if !ok {
				id = int32(len(spots))
				known[next] = id
				spots = append(spots, next)
			}
			s.Edges = append(s.Edges, Edge{ranges, id})
		})
		states = append(states, s)
	}
	return states
}

// hosts are the states of hostname, idn-hostname, email or idn-email. An address's domain has two labels or more.
func hosts(name string) []State {
	international := name[0] == 'i'
	email := name[len(name)-1] == 'l'
	most := 11
	if email {
		most = 8
	}
	leave := func(s spot, to func([]Range, spot)) {
		if s.local {
			s.localPart(international, to)
		} else {
			s.label(most, international, to)
		}
	}
	return explore(spot{local: email}, leave, func(s spot) bool { return s.ends() && (s.blocks > 0 || !email) })
}

func (s spot) ends() bool { return !s.local && s.length > 0 && !s.closed }

// label goes on within a label or to the next one, up to so many blocks.
func (s spot) label(most int, international bool, to func([]Range, spot)) {
	if s.wide {
		s.wideLabel(most, to)
		return
	}
	next := spot{blocks: s.blocks, length: s.length + 1}
	if next.length <= longestLabel && next.used() <= most {
		if international {
			to(lowercase, next)
		} else {
			to(alphanumeric, next)
		}
		if s.length > 0 && !(international && s.closed) {
			next.closed = true
			to(hyphen, next)
		}
	}
	if next = (spot{blocks: s.blocks, length: s.length + 1, wide: true}); international && next.used() <= most &&
		next.length <= longestWide {
		to(s.beyond(), next)
	}
	s.dot(most, to)
}

// wideLabel goes on within a label that has characters beyond ASCII.
func (s spot) wideLabel(most int, to func([]Range, spot)) {
	if s.length < longestWide {
		next := spot{blocks: s.blocks, length: s.length + 1, wide: true}
		to(lowercase, next)
		to(s.beyond(), next)
		if next.closed = true; !s.closed {
			to(hyphen, next)
		}
	}
	s.dot(most, to)
}

// beyond is the characters beyond ASCII that may come next: a label does not begin with a mark.
func (s spot) beyond() []Range {
	if s.length == 0 {
		return wideLetters
	}
	return wideAll
}

// used is the blocks up to the end of the label and its dot, if it ends here.
func (s spot) used() int {
	if s.wide {
		return s.blocks + (longestLabel+block)/block
	}
	return s.blocks + (s.length+block)/block
}

func (s spot) dot(most int, to func([]Range, spot)) {
	if s.ends() && s.used() < most {
		to(dot, spot{blocks: s.used()})
	}
}

// localPart goes on within a local part or to the domain. Its length is that in UTF-8.
func (s spot) localPart(international bool, to func([]Range, spot)) {
	add := func(ranges []Range, size int) {
		if s.length+size <= longestLocal {
			to(ranges, spot{local: true, length: s.length + size})
		}
	}
	add(atext, 1)
	if international {
		add([]Range{{0x80, 0x7FF}}, 2)
		add([]Range{{0x800, 0xD7FF}, {0xE000, 0xFFFF}}, 3)
		add([]Range{{0x10000, 0x10FFFF}}, 4)
	}
	if s.length > 0 && !s.closed {
		to(at, spot{})
		if s.length < longestLocal-1 {
			to(dot, spot{local: true, length: s.length + 1, closed: true})
		}
	}
}
