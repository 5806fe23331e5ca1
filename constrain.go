package foretoken

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"foretoken/internal/hint"
	"foretoken/models/grammar"
	"foretoken/spec"
)

// Constraints restrict the draws of a request. They change the target's distribution, for plain decoding and
// speculation alike, so both still give the same text.
type Constraints struct {
	// Grammar is GBNF, JSONSchema a JSON Schema, JSONObject any JSON object: at most one of them. The
	// text ends where nothing can follow.
	Grammar    string          `json:"grammar,omitempty"`
	JSONSchema json.RawMessage `json:"json_schema,omitempty"`
	JSONObject bool            `json:"json_object,omitempty"`
	// JSONCompact leaves out the white space of JSON, but for one space after a colon or a comma: a model spends
	// tokens on indents otherwise.
	JSONCompact bool `json:"json_compact,omitempty"`
	// JSONOpen reads what a JSON Schema leaves out as the standard does: an object may have properties that the schema
	// does not name, after those that it names, and a schema without a type allows values of every type. Otherwise an
	// object has the named properties only.
	JSONOpen bool `json:"json_open,omitempty"`
	// Unchecked names keywords of a JSON Schema, of [grammar.Unheld], that are left out where the text cannot be held
	// to them; otherwise the schema is refused. Result.Unchecked says which were left out.
	Unchecked []string `json:"unchecked,omitempty"`
	// FrequencyPenalty is taken off a token's logit as often as the text holds it, PresencePenalty once if it
	// does; both from -2 to 2. The prompt does not count.
	FrequencyPenalty float64 `json:"frequency_penalty,omitempty"`
	PresencePenalty  float64 `json:"presence_penalty,omitempty"`
	// LogitBias is added to the logits of tokens, from -100, which rules a token out, to 100.
	LogitBias map[int32]float32 `json:"logit_bias,omitempty"`

	LogitsProcessor LogitsProcessor `json:"-"`

	compiled *compiled // by Compile; nil before
}

// LogitsProcessor changes the logits by the text so far. It is asked once a pass, with the tokens after the prompt at
// each node of the tree, which hold until it returns; its answer has, for each node, what is added to the logits of at
// most 1024 tokens, from -100, which rules a token out, to 100. A text's answer must depend on its tokens alone: then
// every method gives the text of plain decoding.
type LogitsProcessor func(texts [][]int32) ([][]spec.Bias, error)

// compiled is a grammar and what it was compiled from: fields of Constraints, which may have changed since.
type compiled struct {
	gbnf, schema string
	object       bool
	options      grammar.SchemaOptions
	grammar      *grammar.Grammar
}

// ruledOut is the bias added for -100.
const ruledOut = -1e30

// Call constrains the text to a function call by the schema from [chat.ToolChoice], in the layout of JSONCompact, which
// may be set to false afterwards. It fails if another constraint is set.
func (c *Constraints) Call(schema json.RawMessage) error {
	if c.needs().Masks {
		return errors.New("foretoken: tool_choice asks for a call, and the text is held to another form already; " +
			"remove one of the two")
	}
	c.JSONSchema, c.JSONCompact = schema, true
	return c.Validate()
}

// Validate refuses what does not go together or is out of its range, and grammars that cannot be read.
func (c *Constraints) Validate() error {
	own := *c // Compile keeps the grammar
	return own.Compile(context.Background())
}

// Compile is Validate, and keeps the grammar: requests with a copy of the constraints share it instead of compiling it
// again. Compiling ends with ctx.
func (c *Constraints) Compile(ctx context.Context) error {
	if err := c.check(); err != nil {
		return err
	}
	g, err := c.grammar(ctx)
	if err != nil {
		return err
	}
	o := c.schemaOptions()
	o.Unchecked = slices.Clone(o.Unchecked)
	c.compiled = &compiled{c.Grammar, string(c.JSONSchema), c.JSONObject, o, g}
	return nil
}

// check is Validate but for reading the grammar.
func (c *Constraints) check() error {
	grammars := 0
	for _, set := range []bool{c.Grammar != "", len(c.JSONSchema) > 0, c.JSONObject} {
		if set {
			grammars++
		}
	}
	if grammars > 1 {
		return fmt.Errorf("foretoken: of grammar, json_schema and json_object only one can be asked for")
	}
	if n := len(c.Unchecked); n > mostUnchecked {
		return spec.Refuse("unchecked", "has %d names, want at most %d", n, mostUnchecked)
	}
	may := grammar.Unheld()
	for _, name := range c.Unchecked {
		if !slices.Contains(may, name) { // bound: the table of keywords
			return spec.Refuse("unchecked", "names %.80q, want keywords among %s%s", name, strings.Join(may, ", "),
				hint.DidYouMean(name, may))
		}
	}
	for id, b := range c.LogitBias {
		if !spec.LimitBias.Holds(float64(b)) {
			return spec.Refuse("logit_bias", "of token %d is %v, want %s", id, b, spec.LimitBias.Want())
		}
	}
	if len(c.LogitBias) > mostBiases {
		return spec.Refuse("logit_bias", "names %d tokens, want at most %d", len(c.LogitBias), mostBiases)
	}
	return cmp.Or(spec.LimitFrequency.Check(c.FrequencyPenalty), spec.LimitPresence.Check(c.PresencePenalty))
}

// mostUnchecked is the most names of keywords that may be left unchecked.
const mostUnchecked = 64

// mostBiases is the most tokens with a bias, as in OpenAI's API, rounded up, and of a node's by a LogitsProcessor.
const mostBiases = 1024

// errNoContinuation reports a grammar that the vocabulary cannot follow.
var errNoContinuation = ofKind(ErrRequest, errors.New("foretoken: no token of the model's vocabulary continues the "+
	"text as the grammar wants it"))

// grammar returns the grammar, nil without one. It is compiled unless Compile did so.
func (c *Constraints) grammar(ctx context.Context) (*grammar.Grammar, error) {
	k, o := c.compiled, c.schemaOptions()
	if k != nil && k.gbnf == c.Grammar && k.schema == string(c.JSONSchema) && k.object == c.JSONObject &&
		k.options.Layout == o.Layout && k.options.Open == o.Open &&
		slices.Equal(k.options.Unchecked, o.Unchecked) {
		return k.grammar, nil
	}
	switch {
	case c.Grammar != "":
		g, err := grammar.ParseGBNF(ctx, c.Grammar)
		return g, ofField("grammar", err)
	case len(c.JSONSchema) > 0:
		g, err := grammar.FromSchema(ctx, c.JSONSchema, o)
		return g, ofField("json_schema", err)
	case c.JSONObject:
		return grammar.FromSchema(ctx, []byte(`{"type":"object"}`), o)
	}
	return nil, nil
}

func (c *Constraints) schemaOptions() grammar.SchemaOptions {
	o := grammar.SchemaOptions{Open: c.JSONOpen, Unchecked: c.Unchecked}
	if c.JSONCompact {
		o.Layout = grammar.Compact
	}
	return o
}

// ofField names the field of an error of package grammar; nil stays nil.
func ofField(field string, err error) error {
	if err == nil {
		return nil
	}
	reason := "cannot be used: " + strings.TrimPrefix(err.Error(), "grammar: ")
	return fmt.Errorf("foretoken: %w", &spec.FieldError{Field: field, Reason: reason, Err: err})
}

// vocabulary is the tokens' bytes for grammars, made once.
func (s *Session) vocabulary() *grammar.Vocab {
	if s.pieces == nil {
		piece := func(id int32) []byte {
			if int(id) >= s.tok.VocabSize() || s.tok.Special(id) {
				return nil
			}
			return s.tok.Piece(id)
		}
		s.pieces = grammar.NewVocab(s.target.Limits().Vocab, piece, s.tok.EOG)
	}
	return s.pieces
}

// guide is a request's constraints while it runs. It implements spec.Guide.
type guide struct {
	c       Constraints
	vocab   int32
	rules   *grammar.Grammar // nil without
	matcher *grammar.Matcher // of rules
	state   *grammar.State
	states  []*grammar.State // of a tree's nodes; nil after a token that is not allowed
	base    []spec.Bias      // of every token that was drawn or has a bias
	place   map[int32]int    // of tokens in base
	counts  map[int32]int    // of tokens in the text
	own     [][]spec.Bias    // scratch
	text    []int32          // after the prompt, for a LogitsProcessor
	texts   [][]int32        // scratch: those of a tree's nodes
}

// newGuide is nil for a request without constraints. The guide ends with ctx.
func (s *Session) newGuide(ctx context.Context, c Constraints) (*guide, error) {
	if err := c.check(); err != nil {
		return nil, err
	}
	if c.needs() == (spec.AdjustmentKinds{}) {
		return nil, nil
	}
	vocab := int32(s.target.Limits().Vocab)
	g := &guide{c: c, vocab: vocab, place: map[int32]int{}, counts: map[int32]int{}}
	var err error
	if g.rules, err = c.grammar(ctx); err != nil {
		return nil, err
	}
	if g.rules != nil {
		g.matcher = grammar.NewMatcher(ctx, g.rules, s.vocabulary())
		g.state = g.matcher.Start()
	}
	for id := range c.LogitBias {
		if id < 0 || id >= vocab {
			return nil, fmt.Errorf("foretoken: logit_bias names token %d, and the vocabulary has %d", id, vocab)
		}
		g.note(id, 0)
	}
	return g, nil
}

// bias returns the bias of a token that the text holds n times, and to which more is added.
func (g *guide) bias(id int32, n int, more float32) spec.Bias {
	b := float64(g.c.LogitBias[id])
	if b <= -100 || more <= -100 {
		return spec.Bias{Token: id, Add: ruledOut}
	}
	if n > 0 {
		b -= g.c.FrequencyPenalty*float64(n) + g.c.PresencePenalty
	}
	return spec.Bias{Token: id, Add: float32(b + float64(more))}
}

// note sets what is added to a token that the text holds n times.
func (g *guide) note(id int32, n int) {
	at, ok := g.place[id]
	if !ok {
		at = len(g.base)
		g.place[id], g.base = at, append(g.base, spec.Bias{})
	}
	g.base[at] = g.bias(id, n, 0)
}

// needs returns how the constraints change a pass: grammars need masks, what is added to logits biases.
func (c *Constraints) needs() spec.AdjustmentKinds {
	n := spec.AdjustmentKinds{Masks: c.Grammar != "" || len(c.JSONSchema) > 0 || c.JSONObject,
		Biases: c.penalises() || len(c.LogitBias) > 0 || c.LogitsProcessor != nil}
	if c.LogitsProcessor != nil {
		n.Own = mostBiases
	}
	return n
}

func (c *Constraints) penalises() bool { return c.FrequencyPenalty != 0 || c.PresencePenalty != 0 }

// Adjust implements spec.Guide.
func (g *guide) Adjust(tree *spec.Tree, s *spec.Adjustment) error {
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
		which := slices.IndexFunc(s.Masks, func(m []uint32) bool { return &m[0] == &mask[0] })
		if which < 0 {
			which = len(s.Masks)
			s.Masks = append(s.Masks, mask)
		}
		s.Which = append(s.Which, int32(which))
	}
	if err := g.matcher.Err(); err != nil {
		return ofKind(ErrRequest, err)
	}
	if w := s.Which[0]; w >= 0 && !slices.ContainsFunc(s.Masks[w], func(word uint32) bool { return word != 0 }) {
		return errNoContinuation
	}
	return nil
}

// adjustPaths sets what is added after each node to the tokens on the way to it.
func (g *guide) adjustPaths(tree *spec.Tree, s *spec.Adjustment) {
	for len(g.own) < tree.Len() {
		g.own = append(g.own, nil)
	}
	g.own[0] = g.own[0][:0]
	for i := 1; i < tree.Len(); i++ {
		own := g.own[i][:0]
		for n := int32(i); n > 0; n = tree.Parents[n] {
			id := tree.Tokens[n]
			if slices.ContainsFunc(own, func(b spec.Bias) bool { return b.Token == id }) {
				continue
			}
			own = append(own, g.bias(id, g.times(tree, i, id), 0))
		}
		g.own[i] = own
	}
	s.Own = append(s.Own, g.own[:tree.Len()]...)
}

// process adds the answers of the request's LogitsProcessor to the lists of the nodes.
func (g *guide) process(tree *spec.Tree, s *spec.Adjustment) error {
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
		return refused("foretoken: logits_processor: %d answers to %d texts, want one for each", len(answers),
			tree.Len())
	}
	if len(s.Own) == 0 {
		for range tree.Len() {
			s.Own = append(s.Own, nil)
		}
	}
	for i, answer := range answers {
		own := slices.Clone(s.Own[i])
		for _, b := range answer {
			if !spec.LimitBias.Holds(float64(b.Add)) {
				return refused("foretoken: logits_processor: %v for token %d, want %s", b.Add, b.Token,
					spec.LimitBias.Want())
			}
			if b.Token < 0 || b.Token >= g.vocab {
				return refused("foretoken: logits_processor: token %d, want 0 to %d", b.Token, g.vocab-1)
			}
			at := slices.IndexFunc(own, func(o spec.Bias) bool { return o.Token == b.Token })
			if at < 0 {
				own, at = append(own, spec.Bias{}), len(own)
			}
			own[at] = g.bias(b.Token, g.times(tree, i, b.Token), b.Add)
		}
		if s.Own[i] = own; len(own) > mostBiases {
			return refused("foretoken: logits_processor: %d tokens after one text, want at most %d", len(own),
				mostBiases)
		}
	}
	return nil
}

// times returns how often the text up to a node holds a token.
func (g *guide) times(tree *spec.Tree, node int, id int32) int {
	n := g.counts[id]
	for i := int32(node); i > 0; i = tree.Parents[i] {
		if tree.Tokens[i] == id {
			n++
		}
	}
	return n
}

// Take implements spec.Guide.
func (g *guide) Take(tokens []int32) error {
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
			return ofKind(ErrRequest, err)
		}
		if !ok {
			return errNoContinuation
		}
		g.state = next
	}
	return nil
}

// unchecked returns the keywords of the JSON Schema that texts are not held to.
func (g *guide) unchecked() []string {
	if g == nil || g.rules == nil {
		return nil
	}
	return g.rules.Unchecked()
}

// complete returns how many of a round's tokens the grammar accepts until it must end, all of them if it may go on, and
// whether it must.
func (g *guide) complete(tokens []int32) (n int, ended bool) {
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
