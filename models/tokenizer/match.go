package tokenizer

import "unicode/utf8"

// matcher applies a pattern to the pieces of one text, from left to right. It goes back to the last choice that is
// left, like Perl. Whether the rest of an expression matches at a place does not depend on how the place was reached,
// so a failure is remembered and not found out twice: repetitions of one class remember the ends that failed, other
// repetitions each place. That bounds the time by the length of the text times the length of the expression.
type matcher struct {
	p          *pattern
	text       []rune
	start, end int      // of the piece
	jobs       []job    // choices that are left
	path       []int    // places marked by the choices that the present attempt rests on
	failed     []uint64 // a bit for each mark and place
	passed     []uint64 // of look-ahead
	runs       []runState
}

// job is a choice that is left: an instruction to go on with at a place, or shorter forms of a run.
type job struct {
	pc, pos     int
	floor, most int // of a run: the ends from floor to most are tried, from the last to the first; single for others
	path        int // length of path
}

const single = -1

// runState remembers what is known of a run of a class.
type runState struct {
	from, to         int // the class matches there, and not at to
	failFrom, failTo int // ends of the run after which the rest fails, if any
}

func newMatcher(p *pattern, text []rune) *matcher {
	m := &matcher{p: p, text: text, runs: make([]runState, p.runs)}
	if p.marks > 0 {
		m.failed = make([]uint64, (p.marks*(len(text)+1)+63)/64)
		m.passed = make([]uint64, len(m.failed))
	}
	return m
}

// piece goes on to the next piece: what failed at the end of the last one did so because of the end.
func (m *matcher) piece(start, end int) {
	m.start, m.end = start, end
	for i := range m.runs {
		m.runs[i] = runState{failTo: -1}
	}
	for mark := range m.p.marks {
		bit := m.bit(mark, start)
		m.failed[bit/64] &^= 1 << (bit % 64)
		m.passed[bit/64] &^= 1 << (bit % 64)
	}
}

func (m *matcher) bit(mark, pos int) int { return pos*m.p.marks + mark }

// find returns the first match in the piece from a place on, or -1.
func (m *matcher) find(at int) (from, to int) {
	for ; at <= m.end; at++ {
		if at < m.end {
			if r := m.text[at]; r < utf8.RuneSelf && m.p.first[r/64]>>(r%64)&1 == 0 {
				continue
			}
		}
		if to := m.run(0, at, false); to >= 0 {
			return at, to
		}
	}
	return -1, -1
}

// run returns the end of the match at a place that the instructions from pc on give, or -1.
func (m *matcher) run(pc, pos int, look bool) int {
	base, depth := len(m.jobs), len(m.path)
	m.jobs = append(m.jobs, job{pc: pc, pos: pos, floor: single, path: depth})
	for len(m.jobs) > base {
		j := &m.jobs[len(m.jobs)-1]
		pc, pos := j.pc, j.pos
		m.path = m.path[:j.path]
		if j.floor != single && pos >= j.floor {
			pc++
			j.pos--
		} else {
			if j.floor != single {
				m.runs[m.p.prog[pc].mark].fail(j.floor, j.most)
			}
			m.jobs = m.jobs[:len(m.jobs)-1]
			if j.floor != single {
				continue
			}
		}
		if end := m.thread(pc, pos, look); end >= 0 {
			for _, bit := range m.path[depth:] {
				m.failed[bit/64] &^= 1 << (bit % 64)
				if look {
					m.passed[bit/64] |= 1 << (bit % 64)
				}
			}
			m.jobs, m.path = m.jobs[:base], m.path[:depth]
			return end
		}
	}
	m.path = m.path[:depth]
	return -1
}

// thread goes on until a match, whose end it returns, or a failure, which is -1.
func (m *matcher) thread(pc, pos int, look bool) int {
	for {
		in := &m.p.prog[pc]
		pc++
		switch in.op {
		case opClass:
			if pos == m.end || !in.class.matches(m.text[pos]) {
				return -1
			}
			pos++
		case opRun:
			from, to := m.ends(in, pos)
			if to < from {
				return -1
			}
			if to > from {
				m.jobs = append(m.jobs, job{pc: pc - 1, pos: to - 1, floor: from, most: to, path: len(m.path)})
			}
			pos = to
		case opSplit:
			if in.mark >= 0 {
				bit := m.bit(in.mark, pos)
				if m.failed[bit/64]>>(bit%64)&1 != 0 {
					return -1
				}
				if look && m.passed[bit/64]>>(bit%64)&1 != 0 {
					return pos
				}
				m.failed[bit/64] |= 1 << (bit % 64)
				m.path = append(m.path, bit)
			}
			m.jobs = append(m.jobs, job{pc: in.y, pos: pos, floor: single, path: len(m.path)})
			pc = in.x
		case opJump:
			pc = in.x
		case opLook:
			if m.run(pc, pos, true) >= 0 == in.not {
				return -1
			}
			pc = in.x
		case opEnd:
			if pos < m.end {
				return -1
			}
		case opWord:
			before := pos > m.start && isWord(m.text[pos-1])
			if after := pos < m.end && isWord(m.text[pos]); before == after {
				return -1
			}
		case opAccept:
			return pos
		}
	}
}

// ends returns the shortest and the longest end of a run at a place, without those after which the rest is known to
// fail. There is none if the longest is before the shortest.
func (m *matcher) ends(in *inst, pos int) (from, to int) {
	s := &m.runs[in.mark]
	from = pos + in.lo
	if s.from <= pos && pos < s.to {
		to = s.to
	} else {
		most := m.end
		if in.hi < most-pos {
			most = pos + in.hi
		}
		for to = pos; to < most && in.class.matches(m.text[to]); to++ {
		}
		if most == m.end {
			s.from, s.to = pos, to
		}
	}
	if in.hi < to-pos {
		to = pos + in.hi
	}
	if s.failFrom <= to && to <= s.failTo {
		to = s.failFrom - 1
	}
	return from, to
}

// fail adds ends after which the rest fails.
func (s *runState) fail(from, to int) {
	if from <= s.failTo+1 && s.failFrom <= to+1 {
		from, to = min(from, s.failFrom), max(to, s.failTo)
	}
	s.failFrom, s.failTo = from, to
}

func isWord(r rune) bool { return r == '_' || categoryOf(r)&catWord != 0 }
