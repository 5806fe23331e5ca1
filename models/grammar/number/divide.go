package number

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"

	"foretoken/models/grammar/lang"
)

const (
	// mostRemainders bounds the states that the digits before the point can have in the division by all multiples,
	// mostKept those that are left when the ones with the same future are joined.
	mostRemainders, mostKept = 10_000, 4000
	// point is the symbol of a decimal point, after the ten digits.
	point = 10
)

// divisor divides a number by q × 10^zeros / 10^places as its digits are read; zeros or places is 0.
//
// In the whole part the state holds the remainder of the digits so far. Zeros at their end count apart: a multiple of
// 600 is a multiple of 6 with two zeros after it, so 3 × 6 states do for 600. After i of the decimal places, the
// remainder counts only by what it leaves when the missing places are filled with zeros. So it is one by q without as
// many twos and fives as there are missing places.
type divisor struct {
	q, zeros, places int
	want             bool  // the number has to be a multiple; else it must not be
	by               []int // by[i] divides after i decimal places
	tens             []int // 10^i modulo q, up to zeros
}

// never is the state of a divisor after digits that no multiple begins with.
const never = -1

// newDivisor divides by a positive number.
func newDivisor(d Decimal, want bool) (*divisor, error) {
	q, ok := normal(false, d.digits, 0).Int64()
	switch {
	case q == 0 && ok:
		return nil, errors.New("multiples of 0; use a positive number")
	case !ok || q > mostRemainders:
		return nil, fmt.Errorf("multiples of %.20s; use a number whose digits, without zeros at the "+
			"end, are at most %d", d, mostRemainders)
	case d.top() > mostDigits || -d.exponent > mostDigits:
		return nil, fmt.Errorf("multiples of %.20s; use a number from 1e-%d to 1e%d", d, mostDigits, mostDigits)
	}
	v := &divisor{q: int(q), zeros: max(d.exponent, 0), places: max(-d.exponent, 0), want: want}
	v.by = make([]int, v.places+1)
	v.by[v.places] = v.q
	for i := v.places; i > 0; i-- {
		v.by[i-1] = v.by[i] / gcd(v.by[i], 10)
	}
	v.tens = []int{1 % v.q}
	for range v.zeros {
		v.tens = append(v.tens, v.tens[len(v.tens)-1]*10%v.q)
	}
	return v, nil
}

// whole returns the state after a further digit of the whole part. A state is the remainder of the digits before the
// zeros at the end, plus q for each zero that is missing. So multiples end in state 0, the first one.
func (v *divisor) whole(state, digit int) int {
	missing, rest := state/v.q, state%v.q
	switch {
	case digit != 0:
		rest = rest * v.tens[v.zeros-missing]
		missing = v.zeros
	case missing > 0:
		return state - v.q
	}
	return missing*v.q + (rest*10+digit)%v.by[0]
}

// fraction returns the state after decimal place i, counted from 0.
func (v *divisor) fraction(state, i, digit int) int {
	switch {
	case state == never || i >= v.places && digit != 0:
		return never
	case i >= v.places:
		return state
	}
	return (state*10 + digit) % v.by[i+1]
}

// point returns the state after the decimal point.
func (v *divisor) point(state int) int {
	if v.zeros > 0 && state != 0 {
		return never
	}
	return state
}

// division reads numbers digit by digit, zeros before them included.
type division struct {
	next  [][point + 1]int32 // by symbol; 0 where no number of the set can follow
	good  []bool
	start int32   // 0: there is no number
	whole []int32 // the states that a whole part can have
}

// dividing has divisors run in step.
type dividing struct {
	m        *lang.Maker
	broke    bool // work ran out
	divisors []*divisor
	places   int // the places after which the divisors only wait for zeros
	ids      map[string]int32
	states   [][]int // of each divisor; before them the places read, -1 in the whole part
	key      []byte
	division
}

// The units of work for a state of a division: to make it, and to tell it from others.
const stateUnits, roundUnits = 24, 8

// divide joins divisors in the smallest automaton. It is nil if work ran out.
func divide(m *lang.Maker, divisors []*divisor) (*division, error) {
	d := &dividing{m: m, divisors: divisors, ids: map[string]int32{}, states: [][]int{nil}}
	for _, v := range divisors {
		d.places = max(d.places, v.places)
	}
	d.start = d.id(append([]int{-1}, make([]int, len(divisors))...))
	d.next, d.good = make([][point + 1]int32, 1), make([]bool, 1)
	for i := 1; i < len(d.states) && i <= mostRemainders*(d.places+2); i++ {
		d.add(d.states[i])
	}
	var out *division
	if !d.broke && len(d.next) == len(d.states) {
		if out = d.reduce(m); out == nil || len(out.whole) <= mostKept {
			return out, nil
		}
	}
	if d.broke {
		return nil, nil
	}
	return nil, fmt.Errorf("multiples that leave more than %d remainders; use multiples of fewer digits, not counting "+
		"zeros at the end", mostKept)
}

// id returns the number of a state, 0 if work ran out.
func (d *dividing) id(state []int) int32 {
	d.key = d.key[:0]
	for _, s := range state {
		d.key = binary.AppendVarint(d.key, int64(s))
	}
	id, ok := d.ids[string(d.key)]
	if !ok {
		if d.broke = d.broke || !spend(d.m, stateUnits+2*len(state)); d.broke {
			return 0
		}
		id = int32(len(d.states))
		d.ids[string(d.key)] = id
		d.states = append(d.states, slices.Clone(state))
	}
	return id
}

// add follows all symbols after a state.
func (d *dividing) add(at []int) {
	var next [point + 1]int32
	good := true
	for i, v := range d.divisors {
		good = good && v.want == (at[i+1] == 0)
	}
	to := make([]int, len(at))
	for symbol := range next {
		switch places := at[0]; {
		case places < 0 && symbol == point:
			to[0] = 0
		case places < 0:
			to[0] = places
		case symbol == point:
			continue
		default:
			to[0] = min(places+1, d.places)
		}
		possible := true
		for i, v := range d.divisors {
			switch state := at[i+1]; {
			case symbol == point:
				to[i+1] = v.point(state)
			case at[0] < 0:
				to[i+1] = v.whole(state, symbol)
			default:
				to[i+1] = v.fraction(state, at[0], symbol)
			}
			possible = possible && (to[i+1] != never || !v.want)
		}
		if possible {
			next[symbol] = d.id(to)
		}
	}
	d.next, d.good = append(d.next, next), append(d.good, good)
}

// reduce joins the states that have the same future, by rounds that look one symbol further each (Moore,
// "Gedanken-experiments on sequential machines", 1956). Those without a future join state 0.
func (d *division) reduce(m *lang.Maker) *division {
	type signature struct {
		class int32
		next  [point + 1]int32
	}
	class := make([]int32, len(d.next))
	for i, good := range d.good {
		if good {
			class[i] = 1
		}
	}
	for before := 0; ; {
		if !spend(m, roundUnits*len(class)) {
			return nil
		}
		ids := make(map[signature]int32, before)
		refined := make([]int32, len(class))
		for i := range d.next {
			s := signature{class: class[i]}
			for symbol, to := range d.next[i] {
				s.next[symbol] = class[to]
			}
			id, ok := ids[s]
			if !ok {
				id = int32(len(ids))
				ids[s] = id
			}
			refined[i] = id
		}
		class = refined
		if len(ids) == before {
			return d.quotient(class, len(ids))
		}
		before = len(ids)
	}
}

// quotient makes one state of each class.
func (d *division) quotient(class []int32, classes int) *division {
	out := &division{next: make([][point + 1]int32, classes), good: make([]bool, classes), start: class[d.start]}
	for i := range d.next {
		for symbol, to := range d.next[i] {
			out.next[class[i]][symbol] = class[to]
		}
		out.good[class[i]] = d.good[i]
	}
	seen := make([]bool, classes)
	seen[0], seen[out.start], out.whole = true, true, []int32{out.start}
	for i := 0; i < len(out.whole); i++ {
		for _, to := range out.next[out.whole[i]][:point] {
			if !seen[to] {
				seen[to] = true
				out.whole = append(out.whole, to)
			}
		}
	}
	return out
}

func spend(m *lang.Maker, units int) bool { return m.Spend == nil || m.Spend(units) }
