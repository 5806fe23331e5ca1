package number

import (
	"math/big"
	"slices"
)

// Bound is a least or a most value. An open one is not itself within.
type Bound struct {
	Value Decimal
	Open  bool
}

// Set is the conjunction of its fields; the zero Set is all numbers. Multiples are positive.
type Set struct {
	Least, Most  *Bound
	Multiples    []Decimal // a number is a multiple of each of these; of 1: an integer
	NotMultiples []Decimal // and of none of these
	Points       []Decimal // nil: any; else one of these
	Except       []Decimal // none of these
}

const (
	// farthest bounds the decimal places between the ends of a calculation; sets beyond are left as they are.
	farthest = 2000
	// passedOver bounds how many values List looks at for each that it may return.
	passedOver = 16
)

// And returns the numbers that are in both sets.
func (s Set) And(t Set) Set {
	out := Set{
		Least: closest(s.Least, t.Least, 1), Most: closest(s.Most, t.Most, -1),
		Multiples: union(s.Multiples, t.Multiples), NotMultiples: union(s.NotMultiples, t.NotMultiples),
		Points: s.Points, Except: union(s.Except, t.Except),
	}
	if s.Points == nil {
		out.Points = t.Points
	} else if t.Points != nil {
		in := make(map[Decimal]bool, len(t.Points))
		for _, p := range t.Points {
			in[p] = true
		}
		out.Points = slices.DeleteFunc(slices.Clone(s.Points), func(p Decimal) bool { return !in[p] })
	}
	if out.Points == nil {
		return out
	}
	return Set{Points: out.points()} // what they fulfil need not be said again
}

// closest returns the bound that leaves less; sign is 1 for least values, -1 for most values.
func closest(a, b *Bound, sign int) *Bound {
	switch {
	case a == nil:
		return b
	case b == nil:
		return a
	}
	if c := a.Value.Cmp(b.Value) * sign; c < 0 || c == 0 && b.Open {
		return b
	}
	return a
}

// union returns the values of both lists, each once.
func union(a, b []Decimal) []Decimal {
	if len(b) == 0 {
		return a
	}
	in := make(map[Decimal]bool, len(a)+len(b))
	out := make([]Decimal, 0, len(a)+len(b))
	for _, list := range [][]Decimal{a, b} {
		for _, d := range list {
			if !in[d] {
				in[d] = true
				out = append(out, d)
			}
		}
	}
	return out
}

// points returns the points that are in the set, each once.
func (s Set) points() []Decimal {
	except := make(map[Decimal]bool, len(s.Except)+len(s.Points))
	for _, e := range s.Except {
		except[e] = true
	}
	out := []Decimal{}
	for _, p := range s.Points {
		if !except[p] && s.within(p) && s.divides(p) {
			out = append(out, p)
		}
		except[p] = true
	}
	return out
}

// Has reports whether d is in the set.
func (s Set) Has(d Decimal) bool {
	return s.within(d) && (s.Points == nil || slices.Contains(s.Points, d)) && !slices.Contains(s.Except, d) &&
		s.divides(d)
}

// within reports whether d keeps to the bounds.
func (s Set) within(d Decimal) bool {
	if s.Least != nil {
		if c := d.Cmp(s.Least.Value); c < 0 || c == 0 && s.Least.Open {
			return false
		}
	}
	if s.Most != nil {
		if c := d.Cmp(s.Most.Value); c > 0 || c == 0 && s.Most.Open {
			return false
		}
	}
	return true
}

// divides reports whether d is a multiple of what it should be, and of nothing else.
func (s Set) divides(d Decimal) bool {
	return !slices.ContainsFunc(s.Multiples, func(q Decimal) bool { return !d.isMultiple(q) }) &&
		!slices.ContainsFunc(s.NotMultiples, func(q Decimal) bool { return d.isMultiple(q) })
}

// hollow reports whether the bounds exclude each other.
func (s Set) hollow() bool {
	if s.Least == nil || s.Most == nil {
		return false
	}
	c := s.Least.Value.Cmp(s.Most.Value)
	return c > 0 || c == 0 && (s.Least.Open || s.Most.Open)
}

// step returns the positive number whose multiples are those of all of s.Multiples; false where there is none, or it
// has too many digits.
func (s Set) step() (Decimal, bool) {
	if len(s.Multiples) == 0 {
		return Decimal{}, false
	}
	out, ok := s.Multiples[0].abs(), s.Multiples[0].digits != ""
	for _, q := range s.Multiples[1:] {
		if out, ok = common(out, q.abs()); !ok {
			break
		}
	}
	return out, ok
}

// common returns the least common multiple of two positive numbers; false where it has too many digits.
func common(p, q Decimal) (Decimal, bool) {
	if q.digits == "" || p.isMultiple(q) {
		return p, q.digits != ""
	}
	if q.isMultiple(p) {
		return q, true
	}
	low := min(p.exponent, q.exponent)
	if max(p.top(), q.top())-low > farthest {
		return Decimal{}, false
	}
	a, b := p.coefficient(low), q.coefficient(low)
	a.Div(a, new(big.Int).GCD(nil, nil, a, b))
	out := scaled(a.Mul(a, b), low)
	return out, len(out.digits) <= farthest
}

// List returns all numbers of the set if there are at most `most`. False: there are more, or too many to look at.
func (s Set) List(most int) ([]Decimal, bool) {
	if s.Points != nil {
		all := s.points()
		return all, len(all) <= most
	}
	step, stepped := s.step()
	switch {
	case s.hollow() || stepped && slices.ContainsFunc(s.NotMultiples, step.isMultiple):
		return nil, true
	case s.Least == nil || s.Most == nil:
		return nil, false
	case s.Least.Value == s.Most.Value:
		s.Points = []Decimal{s.Least.Value}
		all := s.points()
		return all, len(all) <= most
	case !stepped:
		return nil, false
	}
	return s.steps(step, most)
}

// steps lists the multiples of step between both bounds.
func (s Set) steps(step Decimal, most int) ([]Decimal, bool) {
	least, last := s.Least.Value, s.Most.Value
	low := min(step.exponent, least.exponent, last.exponent)
	if max(step.top(), least.top(), last.top())-low > farthest {
		return nil, false
	}
	size, one := step.coefficient(low), big.NewInt(1)
	at, over := new(big.Int).DivMod(least.coefficient(low), size, new(big.Int))
	if over.Sign() > 0 || s.Least.Open {
		at.Add(at, one)
	}
	end, over := new(big.Int).DivMod(last.coefficient(low), size, new(big.Int))
	if over.Sign() > 0 || !s.Most.Open {
		end.Add(end, one)
	}
	count := new(big.Int).Sub(end, at)
	if count.Cmp(big.NewInt(int64(most)*passedOver+int64(len(s.Except)))) > 0 {
		return nil, false
	}
	s.Points = []Decimal{}
	for ; at.Cmp(end) < 0; at.Add(at, one) {
		s.Points = append(s.Points, scaled(new(big.Int).Mul(at, size), low))
	}
	all := s.points()
	return all, len(all) <= most
}
