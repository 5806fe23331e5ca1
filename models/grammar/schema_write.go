package grammar

import (
	"encoding/binary"
	"fmt"
	"slices"

	"foretoken/models/grammar/lang"
	"foretoken/models/grammar/number"
)

// ruleWriter writes the rules of goals.
type ruleWriter struct {
	*formMaker
	queue []goal              // whose rules are to be written
	texts map[*lang.Lang]int  // rules of what follows the opening quote
	runes map[string]sequence // of the characters of a class
}

func newRuleWriter(s *formMaker) *ruleWriter {
	s.b.anonymous("schema") // so that no rule of a goal is 0
	return &ruleWriter{formMaker: s, texts: map[*lang.Lang]int{}, runes: map[string]sequence{}}
}

// plainNumber is a number of the schema as numbers are written.
func plainNumber[T ~string](text T) string {
	d, err := number.Parse(string(text))
	if err != nil {
		return string(text)
	}
	return d.String()
}

// write are the texts of the values that a form allows.
func (s *ruleWriter) write(f *form) []sequence {
	b := s.b
	if f.value != nil {
		return []sequence{b.text(s.written(f.value))}
	}
	k := f.kinds
	if !s.o.Open && !f.stated && f.used != 0 {
		k &= f.used
	}
	if f.plain {
		return []sequence{b.value()}
	}
	var out []sequence
	for _, name := range []struct {
		kind kinds
		text string
	}{{aNull, "null"}, {aTrue, "true"}, {aFalse, "false"}} {
		if k&name.kind != 0 {
			out = append(out, b.text(name.text))
		}
	}
	for _, part := range []struct {
		kind  kinds
		write func(*form) sequence
	}{{aNumber, s.writeNumber}, {aString, s.writeString}, {anArray, s.writeArray}, {anObject, s.writeObject}} {
		if k&part.kind != 0 && b.err == nil {
			if text := part.write(f); text != nil {
				out = append(out, text)
			}
		}
	}
	return out
}

func (s *ruleWriter) writeNumber(f *form) sequence {
	n := f.numbers
	if n.Least == nil && n.Most == nil && n.Points == nil && len(n.Except)+len(n.NotMultiples) == 0 {
		if len(n.Multiples) == 0 {
			return s.b.number()
		}
		if slices.Equal(n.Multiples, []number.Decimal{one}) {
			return s.b.integer()
		}
	}
	return s.lang(s.cached(numbersKey(&n), func() *lang.Lang {
		l, err := number.Texts(s.m, n)
		if err != nil && f.steps != nil {
			s.refuse(f.steps, "multipleOf", "multipleOf", "%s", err)
			n.Multiples, n.NotMultiples = nil, nil
			l, err = number.Texts(s.m, n)
		}
		if err != nil {
			s.b.fail("%s%s", place(s.b.where), err)
		}
		return l
	}), nil)
}

// numbersKey tells sets of numbers apart.
func numbersKey(n *number.Set) string {
	key := fmt.Sprint("#", n.Points == nil, n.Multiples, n.NotMultiples, n.Points, n.Except)
	for _, b := range []*number.Bound{n.Least, n.Most} {
		if key += "|"; b != nil {
			key += fmt.Sprint(b.Value, b.Open)
		}
	}
	return key
}

func (s *ruleWriter) writeString(f *form) sequence {
	b := s.b
	switch {
	case len(f.langs) > 0:
	case f.short == 0 && f.long < 0:
		return b.str()
	case f.long >= 0 && f.short > f.long:
		return nil
	default:
		return b.once(fmt.Sprint("string ", f.short, " ", f.long), func() []sequence {
			return []sequence{b.quoted(b.repeat(b.character(), f.short, f.long))}
		})
	}
	l, _ := s.joined(f)
	c := s.counterOf(f)
	if c == nil || b.err != nil {
		return nil
	}
	if first := c.states[0]; first.near >= f.short && (f.long < 0 || first.far >= 0 && first.far <= f.long) {
		return s.quotedLang(l)
	}
	if c.rule == 0 {
		for i, st := range l.States() {
			for k, e := range st.Edges {
				c.states[i].edges[k].rule = b.asRule(s.edge(e, true))
			}
		}
		c.rule = b.count(c)[0].rule
	}
	return b.quoted(b.call(c.rule))
}

// quotedLang are the strings of a language, in one spelling each.
func (s *ruleWriter) quotedLang(l *lang.Lang) sequence {
	if l.Empty() {
		return nil
	}
	return s.b.join(s.b.text(`"`), s.lang(l, s.b.text(`"`)))
}

// lang matches the strings of a language, and what follows them: a rule a state, but for states that only one edge
// leads to and one leaves.
func (s *ruleWriter) lang(l *lang.Lang, end sequence) sequence {
	if l.Empty() || s.b.err != nil {
		return nil
	}
	inside := end != nil
	if r, ok := s.texts[l]; ok {
		return s.b.call(r)
	}
	states := l.States()
	if !s.b.spend(8 * len(states)) {
		return nil
	}
	into := make([]int32, len(states))
	into[0] = 2 // the start, and whoever calls it
	for _, st := range states {
		for _, e := range st.Edges {
			into[e.To]++
		}
	}
	rules := make([]int, len(states))
	inline := func(i int32) bool { return into[i] == 1 && len(states[i].Edges) == 1 && !states[i].Final }
	for i := range states {
		if !inline(int32(i)) {
			rules[i] = s.b.anonymous("text")
		}
	}
	for i, st := range states {
		if inline(int32(i)) || s.b.err != nil {
			continue
		}
		var each []sequence
		for _, e := range st.Edges {
			part := s.edge(e, inside)
			for inline(e.To) && s.b.err == nil {
				e = states[e.To].Edges[0]
				part = append(slices.Clip(part), s.edge(e, inside)...)
			}
			each = append(each, append(slices.Clip(part), s.b.call(rules[e.To])...))
		}
		if st.Final {
			each = append(each, append(sequence{}, end...))
		}
		s.b.define(rules[i], each...)
	}
	s.texts[l] = rules[0]
	return s.b.call(rules[0])
}

// edge matches one character of an edge, inside a JSON string or as it is.
func (s *ruleWriter) edge(e lang.Edge, inside bool) sequence {
	if len(e.Ranges) == 1 && e.Ranges[0].Lo == e.Ranges[0].Hi {
		if text := string(e.Ranges[0].Lo); inside {
			return s.b.text(escaped(text))
		} else {
			return s.b.text(text)
		}
	}
	key := make([]byte, 0, 8*len(e.Ranges))
	for _, r := range e.Ranges {
		key = binary.AppendUvarint(binary.AppendUvarint(key, uint64(r.Lo)), uint64(r.Hi))
	}
	if q, ok := s.runes[string(key)]; ok {
		return q
	}
	ranges := make([]runeRange, len(e.Ranges))
	for i, r := range e.Ranges {
		ranges[i] = runeRange{r.Lo, r.Hi}
	}
	q := s.b.short("character", s.inString(ranges))
	s.runes[string(key)] = q
	return q
}

// inString is one of some characters as JSON writes them in a string.
func (s *ruleWriter) inString(ranges []runeRange) sequence {
	special := []runeRange{{0, 0x1f}, {'"', '"'}, {'\\', '\\'}, {0x7f, 0x7f}}
	var each []sequence
	for _, r := range ranges {
		for _, p := range special {
			for c := max(r.lo, p.lo); c <= min(r.hi, p.hi); c++ {
				each = append(each, s.b.text(escaped(string(c))))
			}
		}
	}
	if plain := except(append(except(ranges...), special...)...); len(plain) > 0 {
		each = append(each, s.b.class(plain...))
	}
	return s.b.either(each...)
}

// value matches the values that pass a goal.
func (s *ruleWriter) value(g goal) sequence {
	if len(g) == 0 {
		return s.b.value()
	}
	return s.b.call(s.rule(g))
}

// rule is the rule of the values that pass a goal.
func (s *ruleWriter) rule(g goal) int {
	if len(g) == 0 {
		return s.b.value()[0].rule
	}
	f := s.known(g)
	if f.rule == 0 {
		was := s.b.where
		s.b.where = g[0].of.path()
		f.rule = s.b.anonymous(s.b.where)
		s.b.where = was
		s.queue = append(s.queue, g)
	}
	return f.rule
}

// writeRules writes the rules of all goals. Each that it writes may ask for more.
func (s *ruleWriter) writeRules() {
	for ; len(s.queue) > 0 && s.b.err == nil; s.queue = s.queue[1:] {
		s.writeRule(s.queue[0])
	}
}

func (s *ruleWriter) writeRule(g goal) {
	f := s.known(g)
	s.b.where = s.b.rules[f.rule].home
	each := []sequence{}
	for _, form := range s.formsOfGoal(g) {
		if s.b.err == nil {
			each = append(each, s.write(form)...)
		}
	}
	if s.b.err == nil {
		s.b.define(f.rule, each...)
	}
}
