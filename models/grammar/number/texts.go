package number

import (
	"fmt"
	"slices"
	"strings"

	"foretoken/models/grammar/lang"
)

// The most digits of numbers before the point, after it and in an exponent, where bounds and multiples need no more: a
// model that has nothing to say would go on with them for ever.
const WholeDigits, FractionDigits, ExponentDigits = 16, 16, 2

const (
	// exactDigits is the most digits of a bound, on either side of the point, up to which numbers are written with as
	// many.
	exactDigits = 40
	// mostDigits is the most that numbers are written with where the set has none that are shorter.
	mostDigits = 400
	// moreDigits are written besides those that the shortest numbers of a set need.
	moreDigits = 3
	// listed is the most values that are written one by one where the automaton would be too large.
	listed = 1000
	// countedPlaces bounds the states of a division times the digits of a whole part that are counted.
	countedPlaces = 512
)

// Texts returns the language of the JSON numbers (RFC 8259, section 6) in the set, in the forms that we write:
//
//   - Points are written as Decimal.String does.
//   - Integers, which are multiples of a whole number, have neither fraction nor exponent. -0 is one only without
//     bounds.
//   - Other numbers may have a fraction, in which zeros may end. Multiples have no more decimal places than their
//     divisor.
//   - An exponent is written where it leads across no bound, whatever it is: one below 0 if there is no bound between
//     the numbers and 0, one from 0 if there is none on the far side, or one of more than 40 digits. Multiples and
//     numbers with exceptions other than 0 have none.
//   - There are at most 16 digits before the point, 16 after it and three in an exponent; as many as a bound has, up
//     to 40; and a few more than the shortest numbers of the set need, up to 400. A number without a bound has any
//     number of digits if their count and its division would make too many states.
//
// The language of an empty set is empty. It is nil if the Maker's work ran out. The error says what a set has that
// cannot be written so.
func Texts(m *lang.Maker, s Set) (*lang.Lang, error) {
	w := &writer{m: m, set: s}
	divisors := len(s.Multiples) + len(s.NotMultiples)
	if !w.spend(8 * (len(s.Points) + len(s.Except) + divisors + 1) * (divisors + 1)) {
		return nil, nil
	}
	if s.hasLong() {
		return nil, fmt.Errorf("multiples of numbers of more than %d digits; use fewer digits", stepDigits)
	}
	if s.Points != nil {
		return list(m, s.points()), nil
	}
	if s.hollow() {
		return m.None(), nil
	}
	l, err := w.texts()
	if err == nil && !w.broke {
		return l, nil
	}
	if !w.spend(8 * listed * passedOver * (divisors + 1)) {
		return nil, nil
	}
	if all, ok := s.List(listed); ok {
		return list(m, all), nil
	}
	return nil, err
}

// list writes each number in one way.
func list(m *lang.Maker, all []Decimal) *lang.Lang {
	texts := make([]string, len(all))
	for i, d := range all {
		texts[i] = d.String()
	}
	return m.Texts(texts...)
}

// writer has what both sides of zero share.
type writer struct {
	m        *lang.Maker
	set      Set
	step     Decimal // all numbers are multiples of it; 0: of nothing
	division *division
	places   int  // the decimal places that tell multiples from others
	cut      bool // numbers were left out because they have too many digits
	broke    bool // work ran out
}

func (w *writer) spend(units int) bool {
	w.broke = w.broke || !spend(w.m, units)
	return !w.broke
}

// integers reports whether the numbers are whole.
func (w *writer) integers() bool { return w.step.digits != "" && w.step.exponent >= 0 }

func (w *writer) texts() (*lang.Lang, error) {
	some, err := w.divide()
	if err != nil || w.broke {
		return nil, err
	}
	if !some {
		return w.m.None(), nil
	}
	negative, err := w.side(true)
	if err != nil {
		return nil, err
	}
	positive, err := w.side(false)
	if err != nil {
		return nil, err
	}
	k := &maker{m: w.m, ids: map[node]int32{}}
	start := k.begin(negative)
	below := k.intern(start)
	if !positive.same(negative) {
		start = k.begin(positive)
	}
	start.to[minus] = below
	if w.broke = w.broke || k.broke; w.broke {
		return nil, nil
	}
	if start == (node{}) {
		if w.cut {
			return nil, fmt.Errorf("the bounds leave no number of at most %d decimal places; write bounds that are "+
				"further apart", mostDigits)
		}
		return w.m.None(), nil
	}
	k.add(start)
	return w.m.Of(k.states()), nil
}

// divide makes the division by all multiples. It reports false where they exclude all numbers.
func (w *writer) divide() (some bool, err error) {
	var divisors []*divisor
	add := func(q Decimal, want bool) {
		var v *divisor
		if err == nil {
			v, err = newDivisor(q, want)
			divisors = append(divisors, v)
		}
	}
	if len(w.set.Multiples) > 0 {
		step, ok := w.set.step()
		if !ok {
			return false, fmt.Errorf("the least common multiple of %s is 0 or has too many digits; use one multiple "+
				"of few digits", brief(w.set.Multiples))
		}
		w.step, w.places = step, max(-step.exponent, 0)
		if add(step, true); step.digits == "1" && step.exponent <= 0 {
			divisors = nil // the number of places divides
		}
	}
	nots := w.nots()
	for _, q := range nots {
		add(q, false)
		w.places = max(w.places, -q.exponent)
	}
	if slices.Contains(nots, w.step) {
		return false, err
	}
	if err != nil || len(divisors) == 0 {
		return true, err
	}
	w.division, err = divide(w.m, divisors)
	w.broke = w.broke || w.division == nil && err == nil
	return err == nil && !w.broke && w.division.start != 0, err
}

// nots returns what the numbers are no multiples of, as multiples of w.step and without those that say nothing more.
func (w *writer) nots() []Decimal {
	var all []Decimal
	for _, q := range w.set.NotMultiples {
		q = q.abs()
		if w.step.digits != "" {
			if joined, ok := common(w.step, q); ok {
				q = joined
			}
		}
		if slices.ContainsFunc(all, q.isMultiple) { // bound: Texts spent work for each pair
			continue
		}
		all = append(slices.DeleteFunc(all, func(p Decimal) bool { return p.isMultiple(q) }), q)
	}
	return all
}

func brief(all []Decimal) string {
	var texts []string
	for _, d := range all[:min(len(all), 4)] {
		texts = append(texts, fmt.Sprintf("%.20s", d))
	}
	if len(all) > len(texts) {
		texts = append(texts, "…")
	}
	return strings.Join(texts, ", ")
}

// side returns the numbers of one sign. Zero belongs to both, without a bound of that sign.
func (w *writer) side(negative bool) (*side, error) {
	least, most := w.set.Least, w.set.Most
	if negative {
		least, most = mirror(most), mirror(least)
	}
	if most != nil && (most.Value.sign() < 0 || most.Value.sign() == 0 && (negative || most.Open)) {
		return nil, nil
	}
	if least == nil || least.Value.sign() < 0 {
		least = &Bound{}
	}
	free := w.set.Least == nil && w.set.Most == nil && w.division == nil && len(w.set.Except) == 0
	if negative && w.integers() && !free && least.Value.sign() == 0 {
		least = &Bound{Open: true}
	}
	if least.Value.sign() != 0 && least.Value.top() < -mostDigits {
		least = &Bound{Open: true} // no number that we write lies between
	}
	if most != nil && most.Value.sign() != 0 && most.Value.top() < -mostDigits {
		if most = (&Bound{}); *least != *most {
			w.cut = true
			return nil, nil
		}
	}
	return w.between(negative, *least, most)
}

func mirror(b *Bound) *Bound {
	if b == nil || b.Value.digits == "" {
		return b
	}
	out := *b
	out.Value.negative = !out.Value.negative
	return &out
}

// between returns the numbers whose sizes are between bounds of at least 0.
func (w *writer) between(negative bool, least Bound, most *Bound) (*side, error) {
	s := &side{division: w.division, wholeDigits: WholeDigits}
	for _, d := range []Decimal{least.Value, w.step} {
		if d.top() > mostDigits {
			return nil, fmt.Errorf("numbers of more than %d digits; use bounds and multiples below 1e%d", mostDigits,
				mostDigits)
		}
		if d.top() >= WholeDigits {
			s.wholeDigits = max(s.wholeDigits, d.top()+moreDigits)
		}
	}
	s.least = split(least)
	if most != nil && most.Value.top() <= max(exactDigits, s.wholeDigits) {
		e := split(*most)
		s.most, s.wholeDigits = &e, len(e.whole)
	}
	nonzero := func(d Decimal) bool { return d != Decimal{} }
	if w.step == (Decimal{}) && w.division == nil && !slices.ContainsFunc(w.set.Except, nonzero) {
		s.upDigits = exponents(s, most)
		if least.Value.sign() == 0 {
			s.downDigits = ExponentDigits
		}
	}
	s.endless = most == nil && w.division != nil && len(w.division.whole)*s.wholeDigits > countedPlaces
	w.decimals(s)
	w.except(s, negative)
	return s, nil
}

// exponents returns the most digits of an exponent from 0 that leads across no bound.
func exponents(s *side, most *Bound) int {
	digits, largest := ExponentDigits, 99
	for ; digits > 0 && most != nil && (s.most != nil || most.Value.top() <= s.wholeDigits+largest); digits-- {
		largest /= 10
	}
	return digits
}

// decimals sets the most digits after the point.
func (w *writer) decimals(s *side) {
	if w.step.digits != "" {
		s.fractionDigits = w.places
		return
	}
	s.fractionDigits = max(FractionDigits, w.places+moreDigits)
	edges := []edge{s.least}
	if s.most != nil {
		edges = append(edges, *s.most)
	}
	for _, e := range edges {
		if len(e.fraction) <= exactDigits {
			s.fractionDigits = max(s.fractionDigits, len(e.fraction))
		}
	}
	if s.most == nil || s.most.whole != s.least.whole {
		return
	}
	same := 0
	for same < max(len(s.least.fraction), len(s.most.fraction)) && s.least.decimal(same) == s.most.decimal(same) {
		same++
	}
	if same+moreDigits <= mostDigits {
		s.fractionDigits = max(s.fractionDigits, same+moreDigits)
	} else {
		w.cut = true
	}
}

// decimal returns the digit of a bound after i decimal places.
func (e edge) decimal(i int) byte {
	if i < len(e.fraction) {
		return e.fraction[i]
	}
	return '0'
}

// split writes out a bound of at least 0.
func split(b Bound) edge {
	digits, top := b.Value.digits, b.Value.top()
	switch {
	case top <= 0:
		return edge{"0", strings.Repeat("0", -top) + digits, b.Open}
	case top >= len(digits):
		return edge{digits + strings.Repeat("0", top-len(digits)), "", b.Open}
	}
	return edge{digits[:top], digits[top:], b.Open}
}

// except makes the tree of the exceptions that can be written.
func (w *writer) except(s *side, negative bool) {
	for _, d := range w.set.Except {
		if d.sign() != 0 && d.negative != negative || d.top() > mostDigits ||
			-d.exponent > s.fractionDigits {
			continue
		}
		e := split(Bound{Value: d})
		if !w.spend(8 * (len(e.whole) + len(e.fraction) + 1)) {
			return
		}
		s.except = s.except.add(e.whole, e.fraction)
	}
	s.except = s.except.close()
}
