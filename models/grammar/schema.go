package grammar

import (
	"cmp"
	"context"
	"encoding/binary"
	"fmt"
	"slices"

	"foretoken/models/grammar/lang"
)

// SchemaOptions say how a schema is read.
type SchemaOptions struct {
	Layout Layout
	// Open reads what a schema leaves out as the standard does: objects may have properties that it does not name,
	// written after those that it names, and a schema without a type allows values of every type. Else an object has
	// the named properties alone, and the keywords imply its type.
	Open bool
	// Unchecked names keywords that are left out where they cannot be held to; see [Grammar.Unchecked].
	Unchecked []string
}

// FromSchema is the grammar of the JSON values that a JSON Schema (drafts 4 to 2020-12) allows, each written in one
// way: properties in the schema's order, then further ones, numbers without needless digits, strings free. [Keywords]
// says what is held to; what cannot be is refused by its place. Compiling ends with ctx, and is refused where it takes
// more work than any schema should.
func FromSchema(ctx context.Context, schema []byte, o SchemaOptions) (*Grammar, error) {
	return newBuilder(ctx).schema(schema, o)
}

func (b *builder) schema(schema []byte, o SchemaOptions) (g *Grammar, err error) {
	defer func() { err = presentable(err) }()
	if err := sized(len(schema)); err != nil {
		return nil, err
	}
	b.layout, b.where = o.Layout, "#"
	v, err := b.readValue(schema)
	if err != nil {
		return nil, err
	}
	r := newKeywordReader(b, o)
	if r.root, err = r.rootOf(v); err != nil {
		return nil, err
	}
	s := newRuleWriter(newFormMaker(newLanguages(r)))
	root := s.rule(s.want(r.root))
	if s.writeRules(); b.err != nil {
		return nil, b.err
	}
	g, err = b.grammar(root)
	if _, ok := err.(noText); ok {
		return nil, s.nothing(root)
	}
	if err == nil {
		g.unchecked = s.unchecked
	}
	return g, err
}

// A schema becomes a grammar in three steps, of keywordReader, formMaker and ruleWriter. A goal is a set of schemas
// that a value must pass, or must not. A goal's forms are its alternatives: each is a conjunction of bounds on numbers,
// languages of strings, schemas for the places of a list and for the members of an object, without allOf, anyOf, oneOf,
// not, if and $ref. The members' and items' schemas are goals again. Each goal becomes a rule once, so a schema that
// refers to itself ends.

// literal is a schema that a value must pass, or must not.
type literal struct {
	of   *node
	not  bool
	wide bool // its alternatives are joined too, for unevaluated…, which heeds all those that a value passes
}

// goal is a conjunction of schemas, in order of their ids.
type goal []literal

// formMaker makes the forms of goals.
type formMaker struct {
	*languages

	forms map[literal][]*form
	joins map[string]*form // by their atoms; nil: no value passes
	atoms int32
	under map[literal]int // those whose forms are being made, and at which level
	level int             // of questions whether goals are dead
	// unsure is set where a question comes back to itself; then it has no answer, which is no fault.
	unsure bool
	depth  int

	goals   map[string]*found
	only    map[*lang.Lang]string // of languages of one string
	parts   map[*node]*part
	members map[string]*form // that ask for one member, or for its absence
	heeds   int              // schemas under way that heed which others a value passes

	why map[string]string // of a place, the reason that a value of it fell away
}

// found caches the results of a goal.
type found struct {
	rule  int // 0 before it has one: that is never the first rule
	fate  fate
	forms []*form
	ready bool
	// strings are those that pass, made when asked for.
	strings *lang.Lang
}

type fate uint8

const (
	unknownFate fate = iota
	asking
	deadFate
	aliveFate
)

func newFormMaker(l *languages) *formMaker {
	return &formMaker{languages: l, forms: map[literal][]*form{}, joins: map[string]*form{}, under: map[literal]int{},
		goals: map[string]*found{}, only: map[*lang.Lang]string{}, parts: map[*node]*part{},
		members: map[string]*form{}, why: map[string]string{}}
}

// want is the goal to pass a schema; nil is any value.
func (s *formMaker) want(n *node) goal {
	if n == nil || len(n.keys) == 0 && n != s.never {
		return nil
	}
	return goal{{of: s.target(n)}}
}

// target is the schema that one refers to which asks for nothing else, or itself: places that refer to one schema have
// one goal.
func (s *formMaker) target(n *node) *node {
	const most = 20 // references in a row; a circle is found where they are followed
	for range most {
		ref, ok := n.has("$ref")
		name, isText := ref.(string)
		if !ok || !isText || !s.b.spend(len(n.keys)) || !n.onlyRefers() {
			return n
		}
		v, ok := s.find(n, name)
		to, isNode := v.(*node)
		if !ok || !isNode || to.id == 0 || len(to.keys) == 0 {
			return n
		}
		n = to
	}
	return n
}

// avoid is the goal not to pass a schema.
func (s *formMaker) avoid(n *node) goal {
	switch {
	case n == s.never:
		return nil
	case n == nil || len(n.keys) == 0:
		return goal{{of: s.never}}
	}
	return goal{{of: s.target(n), not: true}}
}

// both joins goals, which are in order.
func (s *formMaker) both(goals ...goal) goal {
	var out goal
	for _, g := range goals {
		if len(g) > 0 && len(out) > 0 && s.b.spend(len(out)+len(g)) {
			out = merged(out, g)
		} else if len(g) > 0 {
			out = g
		}
	}
	return out
}

func merged(a, b goal) goal {
	out := make(goal, 0, len(a)+len(b))
	for len(a) > 0 && len(b) > 0 {
		p, q := a[0].rank(), b[0].rank()
		if p <= q {
			out, a = append(out, a[0]), a[1:]
		} else {
			out = append(out, b[0])
		}
		if q <= p {
			b = b[1:]
		}
	}
	return append(append(out, a...), b...)
}

func (l literal) rank() int64 {
	r := int64(l.of.id) << 2
	if l.not {
		r |= 1
	}
	if l.wide {
		r |= 2
	}
	return r
}

// known returns the results of a goal so far.
func (s *formMaker) known(g goal) *found {
	key := make([]byte, 0, 4*len(g))
	for _, l := range g {
		key = binary.AppendUvarint(key, uint64(l.rank()))
	}
	f, ok := s.goals[string(key)]
	if !ok {
		s.b.spend(16 + len(key)/8)
		f = &found{}
		s.goals[string(key)] = f
	}
	return f
}

// isDead reports whether no value passes a goal. It may say no where that cannot be told.
func (s *formMaker) isDead(g goal) bool {
	if len(g) == 0 || s.b.err != nil {
		return false
	}
	f := s.known(g)
	switch f.fate {
	case deadFate, aliveFate:
		return f.fate == deadFate
	case asking:
		return false
	}
	if s.depth > deepestSchema {
		return false
	}
	f.fate = asking
	unsure := s.unsure
	s.level++
	s.depth++
	s.unsure = false
	forms := s.formsOfGoal(g)
	s.depth--
	s.level--
	if f.fate = aliveFate; len(forms) == 0 && !s.unsure {
		f.fate = deadFate
	}
	s.unsure = unsure
	return f.fate == deadFate
}

// formsOfGoal are the alternatives of a goal; those that no value takes are left out.
func (s *formMaker) formsOfGoal(g goal) []*form {
	if len(g) == 0 {
		return []*form{&anything}
	}
	f := s.known(g)
	if f.ready {
		return f.forms
	}
	last := g[len(g)-1]
	out := s.formsOf(last)
	if len(g) > 1 {
		out = s.product(s.formsOfGoal(g[:len(g)-1]), out)
	}
	if last.not && slices.Contains(g, literal{of: last.of}) { // bound: schemas of one goal
		out = nil
	}
	if !s.unsure && s.b.err == nil {
		f.forms, f.ready = out, true
	}
	return out
}

// formsOf are the alternatives of one schema.
func (s *formMaker) formsOf(l literal) []*form {
	if l.of == s.never {
		if l.not {
			return []*form{&anything}
		}
		return nil
	}
	if all, ok := s.forms[l]; ok {
		return all
	}
	if level, ok := s.under[l]; ok {
		if level == s.level {
			s.fail(l.of, "", "leads back to itself by $ref, allOf or the like; have it refer to another schema")
		}
		s.unsure = true
		return nil
	}
	if s.depth++; s.depth > 4*deepestSchema {
		s.fail(l.of, "", "nested deeper than %d", 4*deepestSchema)
	}
	defer func(was string) { s.depth, s.b.where = s.depth-1, was }(s.b.where)
	if s.b.err != nil {
		return nil
	}
	s.b.where = l.of.path()
	if !s.b.spend(16 + len(s.b.where)/2) {
		return nil
	}
	s.under[l] = s.level
	var all []*form
	null := s.flag(l.of, "nullable") && !l.of.dated
	switch {
	case l.not && null:
		all = s.product(s.deny(l.of), []*form{only(allKinds &^ aNull)})
	case l.not:
		all = slices.DeleteFunc(slices.Clone(s.deny(l.of)), func(f *form) bool { return !s.settle(f) })
	case null:
		all = append(slices.Clip(s.assert(l.of, l.wide)), only(aNull))
	default:
		all = s.assert(l.of, l.wide)
	}
	delete(s.under, l)
	if !s.unsure && s.b.err == nil {
		s.forms[l] = all
	}
	return all
}

// nothing is the error of a schema that no value passes: it names the place where the last alternative fell away.
func (s *formMaker) nothing(root int) error {
	seen := map[int]bool{}
	at, reason := root, ""
	for reason == "" {
		seen[at] = true
		if len(s.b.rules[at].alternatives) == 0 {
			reason = cmp.Or(s.why[s.b.rules[at].home], "no value passes all that is asked for here")
			break
		}
		for _, t := range s.b.rules[at].alternatives[0] {
			if t.set == nil && !s.b.ending[t.rule] {
				if at = t.rule; seen[at] {
					reason = "each value needs another one within it, without end"
				}
				break
			}
		}
	}
	return fmt.Errorf("grammar: schema at %s: allows nothing: %s", s.b.rules[at].home, reason)
}
