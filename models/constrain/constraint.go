package constrain

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"foretoken/models/grammar"
	"foretoken/models/tokenizer"
	"foretoken/spec"
)

// Error reports constraints that a text cannot follow, or an answer of a LogitsProcessor that cannot be added.
type Error struct{ Err error }

func (e *Error) Error() string { return e.Err.Error() }
func (e *Error) Unwrap() error { return e.Err }

func refuse(format string, args ...any) error {
	return &Error{fmt.Errorf("constrain: "+format, args...)}
}

// errNoContinuation reports a grammar that the vocabulary cannot follow.
var errNoContinuation error = &Error{errors.New("constrain: no token of the model's vocabulary continues the text as " +
	"the grammar wants it")}

// Vocab is a model's vocabulary. It is not for concurrent use.
type Vocab struct {
	tok    *tokenizer.Tokenizer
	size   int
	pieces *grammar.Vocab // of the tokens, once a grammar was asked for
	never  map[int32]bool // the tokens that the file rules out
}

// NewVocab returns the vocabulary of a model with rows of size logits: size may exceed the tokenizer's.
func NewVocab(tok *tokenizer.Tokenizer, size int) *Vocab {
	v := &Vocab{tok: tok, size: size, never: map[int32]bool{}}
	if tok != nil {
		for _, id := range tok.Suppressed() {
			v.never[id] = true
		}
	}
	return v
}

// Needs returns how a request's constraints, and the tokens that the model's file rules out, change a pass.
func (v *Vocab) Needs(c *Constraints) spec.AdjustmentKinds {
	n := c.needs()
	n.Biases = n.Biases || len(v.never) > 0
	return n
}

// grammars returns the tokens' bytes for grammars, made once.
func (v *Vocab) grammars() *grammar.Vocab {
	if v.pieces == nil {
		v.pieces = grammar.NewVocab(v.size, v.tok.Piece, v.tok.EOG)
	}
	return v.pieces
}

// ruledOut is the bias added for -100.
const ruledOut = -1e30

// Constraint applies the Constraints of a request while it runs. Adjust and Take return an Error for what the text
// cannot follow, and a LogitsProcessor's own errors as they are.
type Constraint struct {
	c       Constraints
	vocab   int32
	never   map[int32]bool   // as Vocab's
	rules   *grammar.Grammar // nil without
	matcher *grammar.Matcher // of rules
	state   *grammar.State
	states  []*grammar.State // of a tree's nodes; nil after a token that is not allowed
	base    []spec.Bias      // of every token that was drawn or has a bias
	place   map[int32]int    // of tokens in base
	counts  map[int32]int    // of tokens in the text
	own     [][]spec.Bias    // scratch
	text    []int32          // after the prompt, for a LogitsProcessor
	texts   [][]int32        // scratch: the texts up to a tree's nodes
}

// New returns the constraint of a request, which ends with ctx, or nil if nothing constrains it. It refuses what
// Validate refuses and biases of tokens that the vocabulary does not have.
func New(ctx context.Context, c Constraints, v *Vocab) (*Constraint, error) {
	if err := c.check(); err != nil {
		return nil, err
	}
	if v.Needs(&c) == (spec.AdjustmentKinds{}) {
		return nil, nil
	}
	g := &Constraint{c: c, vocab: int32(v.size), never: v.never, place: map[int32]int{}, counts: map[int32]int{}}
	var err error
	if g.rules, err = c.grammar(ctx); err != nil {
		return nil, err
	}
	if g.rules != nil {
		g.matcher = grammar.NewMatcher(ctx, g.rules, v.grammars())
		g.state = g.matcher.Start()
	}
	for id := range c.LogitBias {
		if id < 0 || id >= g.vocab {
			return nil, fmt.Errorf("constrain: logit_bias names token %d, and the vocabulary has %d", id, g.vocab)
		}
		g.note(id, 0)
	}
	for id := range g.never {
		g.note(id, 0)
	}
	return g, nil
}

// bias returns the bias of a token that the text holds n times, and to which more is added.
func (g *Constraint) bias(id int32, n int, more float32) spec.Bias {
	b := float64(g.c.LogitBias[id])
	if b <= -100 || more <= -100 || g.never[id] {
		return spec.Bias{Token: id, Add: ruledOut}
	}
	if n > 0 {
		b -= g.c.FrequencyPenalty*float64(n) + g.c.PresencePenalty
	}
	return spec.Bias{Token: id, Add: float32(b + float64(more))}
}

// note sets what is added to a token that the text holds n times.
func (g *Constraint) note(id int32, n int) {
	at, ok := g.place[id]
	if !ok {
		at = len(g.base)
		g.place[id], g.base = at, append(g.base, spec.Bias{})
	}
	g.base[at] = g.bias(id, n, 0)
}

// Adjust implements spec.Constraint.
func (g *Constraint) Adjust(tree *spec.Tree, s *spec.Adjustment) error {
	s.Common = append(s.Common, g.base...)
	if g.c.penalises() && tree.Len() > 1 {
		g.adjustPaths(tree, s)
	}
	if g.c.LogitsProcessor != nil {
		if err := g.process(tree, s); err != nil {
			return err
		}
	}
	if g.matcher == nil {
		return nil
	}
	g.states = append(g.states[:0], g.state)
	for i, token := range tree.Tokens {
		if i > 0 {
			var state *grammar.State
			if above := g.states[tree.Parents[i]]; above != nil {
				if next, ok := g.matcher.Accept(above, token); ok {
					state = next
				}
			}
			g.states = append(g.states, state)
		}
		if g.states[i] == nil || g.states[i].MustEnd() { // never reached, or what follows is cut
			s.Which = append(s.Which, -1)
			continue
		}
		mask := g.matcher.Mask(g.states[i])
		which := slices.IndexFunc(s.Masks, // bound: the nodes of a tree
			func(m []uint32) bool { return &m[0] == &mask[0] })
		if which < 0 {
			which = len(s.Masks)
			s.Masks = append(s.Masks, mask)
		}
		s.Which = append(s.Which, int32(which))
	}
	if err := g.matcher.Err(); err != nil {
		return &Error{err}
	}
	if w := s.Which[0]; w >= 0 && !slices.ContainsFunc(s.Masks[w], func(word uint32) bool { return word != 0 }) {
		return errNoContinuation
	}
	return nil
}

// adjustPaths sets what is added after each node to the tokens on the way to it.
func (g *Constraint) adjustPaths(tree *spec.Tree, s *spec.Adjustment) {
	for len(g.own) < tree.Len() {
		g.own = append(g.own, nil)
	}
	g.own[0] = g.own[0][:0]
	for i := 1; i < tree.Len(); i++ {
		own := g.own[i][:0]
		for n := int32(i); n > 0; n = tree.Parents[n] {
			id := tree.Tokens[n]
			if slices.ContainsFunc(own, // bound: the depth of a tree
				func(b spec.Bias) bool { return b.Token == id }) {
				continue
			}
			own = append(own, g.bias(id, g.times(tree, i, id), 0))
		}
		g.own[i] = own
	}
	s.Own = append(s.Own, g.own[:tree.Len()]...)
}

// process adds the answers of the request's LogitsProcessor to the lists of the nodes.
func (g *Constraint) process(tree *spec.Tree, s *spec.Adjustment) error {
	for len(g.texts) < tree.Len() {
		g.texts = append(g.texts, []int32{}) // in JSON a list, too
	}
	g.texts[0] = append(g.texts[0][:0], g.text...)
	for i := 1; i < tree.Len(); i++ {
		g.texts[i] = append(append(g.texts[i][:0], g.texts[tree.Parents[i]]...), tree.Tokens[i])
	}
	answers, err := g.c.LogitsProcessor(g.texts[:tree.Len()])
	if err != nil {
		return err
	}
	if len(answers) != tree.Len() {
		return refuse("logits_processor: %d answers to %d texts, want one for each", len(answers),
			tree.Len())
	}
	if len(s.Own) == 0 {
		for range tree.Len() {
			s.Own = append(s.Own, nil)
		}
	}
	places := map[int32]int{} // of tokens in a node's list
	for i, answer := range answers {
		own := slices.Clone(s.Own[i])
		clear(places)
		for at, b := range own {
			places[b.Token] = at
		}
		for _, b := range answer {
			if !biasLimit.Holds(float64(b.Add)) {
				return refuse("logits_processor: %v for token %d, want %s", b.Add, b.Token,
					biasLimit.Want())
			}
			if b.Token < 0 || b.Token >= g.vocab {
				return refuse("logits_processor: token %d, want 0 to %d", b.Token, g.vocab-1)
			}
			at, ok := places[b.Token]
			if !ok {
				own, at = append(own, spec.Bias{}), len(own)
				places[b.Token] = at
			}
			own[at] = g.bias(b.Token, g.times(tree, i, b.Token), b.Add)
		}
		if s.Own[i] = own; len(own) > mostBiases {
			return refuse("logits_processor: %d tokens after one text, want at most %d", len(own),
				mostBiases)
		}
	}
	return nil
}

// times returns how often the text up to a node holds a token.
func (g *Constraint) times(tree *spec.Tree, node int, id int32) int {
	n := g.counts[id]
	for i := int32(node); i > 0; i = tree.Parents[i] {
		if tree.Tokens[i] == id {
			n++
		}
	}
	return n
}

// Take implements spec.Constraint.
func (g *Constraint) Take(tokens []int32) error {
	if g.c.LogitsProcessor != nil {
		g.text = append(g.text, tokens...)
	}
	for _, id := range tokens {
		if g.c.penalises() {
			g.counts[id]++
			g.note(id, g.counts[id])
		}
		if g.matcher == nil {
			continue
		}
		next, ok := g.matcher.Commit(g.state, id)
		if err := g.matcher.Err(); err != nil {
			return &Error{err}
		}
		if !ok {
			return errNoContinuation
		}
		g.state = next
	}
	return nil
}

// Unchecked returns the keywords of the JSON Schema that texts are not held to. g may be nil.
func (g *Constraint) Unchecked() []string {
	if g == nil || g.rules == nil {
		return nil
	}
	return g.rules.Unchecked()
}

// Complete returns how many of a round's tokens the grammar accepts until it must end, all of them if it may go on, and
// whether it must. g may be nil.
func (g *Constraint) Complete(tokens []int32) (n int, ended bool) {
	if g == nil || g.matcher == nil {
		return len(tokens), false
	}
	state := g.state
	for i, id := range tokens {
		next, ok := g.matcher.Accept(state, id)
		if !ok {
			break // Take says so
		}
		if state = next; state.MustEnd() {
			return i + 1, true
		}
	}
	return len(tokens), false
}
