package number

import "slices"

// Bound is a least or a most value. An open one is not itself within.
type Bound struct {
	Value Decimal
	Open  bool
}

// Set is the conjunction of its fields; the zero Set is all numbers. Multiples are positive and have at most 18 digits,
// zeros at the ends aside. Of longer ones only 0 counts as a multiple, and Texts refuses them.
type Set struct {
	Least, Most  *Bound
	Multiples    []Decimal // a number is a multiple of each of these; of 1: an integer
	NotMultiples []Decimal // and of none of these
	Points       []Decimal // nil: any; else one of these
	Except       []Decimal // none of these
}

// passedOver bounds how many values List looks at for each that it may return.
const passedOver = 16

// And returns the numbers that are in both sets. It looks at each point once for each multiple.
func (s Set) And(t Set) Set {
	out := Set{
		Least: closest(s.Least, t.Least, 1), Most: closest(s.Most, t.Most, -1),
		Multiples: union(s.Multiples, t.Multiples), NotMultiples: union(s.NotMultiples, t.NotMultiples),
		Points: s.Points, Except: union(s.Except, t.Except),
	}
	if s.Points == nil {
		out.Points = t.Points
	} else if t.Points != nil {
		out.Points = []Decimal{}
		in := setOf(t.Points)
		for _, p := range s.Points {
			if in[p] {
				out.Points = append(out.Points, p)
			}
		}
	}
	if out.Points == nil || out.hasLong() {
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

func setOf(list []Decimal) map[Decimal]bool {
	in := make(map[Decimal]bool, len(list))
	for _, d := range list {
		in[d] = true
	}
	return in
}

// union returns the values of both lists.
func union(a, b []Decimal) []Decimal {
	if len(b) == 0 {
		return a
	}
	return without(slices.Concat(a, b), nil)
}

// without returns the values of a list that are not in out, each once.
func without(list, out []Decimal) []Decimal {
	seen := setOf(out)
	left := []Decimal{}
	for _, d := range list {
		if !seen[d] {
			seen[d] = true
			left = append(left, d)
		}
	}
	return left
}

// points returns the points that are in the set, each once.
func (s Set) points() []Decimal {
	return slices.DeleteFunc(without(s.Points, s.Except), func(p Decimal) bool { return !s.within(p) || !s.divides(p) })
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
	for _, q := range s.Multiples {
		if !d.isMultiple(q) {
			return false
		}
	}
	for _, q := range s.NotMultiples {
		if d.isMultiple(q) {
			return false
		}
	}
	return true
}

// hollow reports whether the bounds exclude each other.
func (s Set) hollow() bool {
	if s.Least == nil || s.Most == nil {
		return false
	}
	c := s.Least.Value.Cmp(s.Most.Value)
	return c > 0 || c == 0 && (s.Least.Open || s.Most.Open)
}

// hasLong reports whether there is a multiple of too many digits.
func (s Set) hasLong() bool {
	return slices.ContainsFunc(s.Multiples, Decimal.long) || slices.ContainsFunc(s.NotMultiples, Decimal.long)
}

// step returns the least common multiple of s.Multiples; false where there is none, or it has too many digits.
func (s Set) step() (Decimal, bool) {
	if len(s.Multiples) == 0 {
		return Decimal{}, false
	}
	out, ok := s.Multiples[0].abs(), true
	for _, q := range s.Multiples {
		if out, ok = common(out, q.abs()); !ok {
			break
		}
	}
	return out, ok
}

// List returns all numbers of the set if there are at most `most`. False: there are more, or too many to look at.
func (s Set) List(most int) ([]Decimal, bool) {
	if s.hollow() {
		return nil, true
	}
	if s.hasLong() {
		return nil, false
	}
	step, stepped := s.step()
	switch {
	case s.Points != nil:
	case stepped && slices.ContainsFunc(s.NotMultiples, step.isMultiple):
		return nil, true
	case s.Least == nil || s.Most == nil:
		return nil, false
	case s.Least.Value == s.Most.Value:
		s.Points = []Decimal{s.Least.Value}
	case !stepped:
		return nil, false
	default:
		var ok bool
		if s.Points, ok = s.steps(step, (most+1)*passedOver+len(s.Except)); !ok {
			return nil, false
		}
	}
	all := s.points()
	return all, len(all) <= most
}

// steps lists the multiples of step between both bounds if there are at most `most`.
func (s Set) steps(step Decimal, most int) ([]Decimal, bool) {
	from, exact, ok := s.Least.Value.floor(step.exponent)
	if !exact || s.Least.Open {
		from++
	}
	to, exact, good := s.Most.Value.floor(step.exponent)
	if exact && s.Most.Open {
		to--
	}
	n := int64(step.step())
	first, last := quotient(from+n-1, n), quotient(to, n)
	if !ok || !good || last-first >= int64(most) {
		return nil, false
	}
	all := []Decimal{}
	for k := first; k <= last; k++ {
		d := Int(k * n)
		if d.digits != "" {
			d.exponent += step.exponent
		}
		all = append(all, d)
	}
	return all, true
}

// quotient is a / b rounded down, for a positive b.
func quotient(a, b int64) int64 {
	if a%b < 0 {
		return a/b - 1
	}
	return a / b
}
