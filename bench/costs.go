package bench

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"foretoken"
	"foretoken/internal/quote"
	"foretoken/spec"
	"foretoken/spec/goodput"
	"foretoken/spec/method"
)

// CostOptions selects the passes that MeasureCosts times. The zero value times passes of 1 to 32 rows and chains of
// up to 8 tokens, and continues no text.
type CostOptions struct {
	Rows   []int // of the target's passes, ascending; empty: 1 to 32, up to the target's limit
	Tokens int   // of the longest drafted chain; 0: 8
	Repeat int   // timed passes of each kind; 0: 9
	Length int   // tokens in the cache before a pass; 0: 64, or as many as fit
	// Shorter are lengths below Length, at which the target's passes are timed too, in turn with the others.
	Shorter []int
	// Prompts are continued greedily by MaxTokens tokens (0: 64) to count the tokens that the draft would have
	// chosen too.
	Prompts   []Prompt
	MaxTokens int
	Progress  func(done, total int) // of passes, then of prompts
}

// PassCost is the median time of a pass.
type PassCost struct {
	N     int     `json:"n"` // rows of the target, or tokens of a drafted chain
	MS    float64 `json:"ms"`
	Ratio float64 `json:"ratio"` // to the target's pass of one row
}

// ChainCeiling bounds the gain of chains of K drafted tokens a round: E tokens on average, and E·T(1)/(T_v + T_d)
// times the speed of plain decoding if a round cost only the target's pass of K+1 rows and the draft's K. Speedup
// is 0 if that pass was not timed.
type ChainCeiling struct {
	K       int     `json:"k"`
	Tokens  float64 `json:"tokens"`
	Speedup float64 `json:"speedup"`
}

// PromptCeiling is the best chain for a text; K is 0 if none pays off.
type PromptCeiling struct {
	Prompt   string         `json:"prompt"`
	Category string         `json:"category"`
	Best     ChainCeiling   `json:"best"`
	Chains   []ChainCeiling `json:"chains"`
}

// CostReport holds the times of a pair's passes on a device, in milliseconds, and the most that drafting can gain.
type CostReport struct {
	Device string `json:"device"`
	Target string `json:"target"`
	Draft  string `json:"draft,omitempty"`
	Length int    `json:"length"` // tokens in the cache
	Repeat int    `json:"repeat"`

	Verify []PassCost      `json:"verify"`           // the target's passes by rows, readback included
	After  []LengthCosts   `json:"after,omitempty"`  // after each of CostOptions.Shorter
	Chain  []PassCost      `json:"chain,omitempty"`  // the draft's chains by tokens, readback included
	Texts  int             `json:"texts,omitempty"`  // continued, of Ceilings
	Chains []ChainCeiling  `json:"chains,omitempty"` // by K, over all texts
	Best   ChainCeiling    `json:"best"`             // of Chains
	Each   []PromptCeiling `json:"prompts,omitempty"`
}

// LengthCosts are the target's passes by rows after Length tokens. Ratios are to the pass of one row at that length.
type LengthCosts struct {
	Length int        `json:"length"`
	Verify []PassCost `json:"verify"`
}

// defaultLength is the default number of tokens in the cache.
const defaultLength = 64

// complete fills in defaults and refuses what the models cannot run.
func (o *CostOptions) complete(m *foretoken.Models) error {
	most, room := maxRows(m), contextOfBoth(m)
	if len(o.Rows) == 0 {
		for _, n := range goodput.RowBuckets() {
			if n <= min(most, 32) {
				o.Rows = append(o.Rows, n)
			}
		}
	}
	for i, n := range o.Rows {
		if n < 1 || n > most || i > 0 && n <= o.Rows[i-1] {
			return fmt.Errorf("foretoken: costs of passes of %v rows; want 1 to %d, ascending", o.Rows, most)
		}
	}
	if o.Rows[0] != 1 {
		o.Rows = append([]int{1}, o.Rows...) // the base of all ratios
	}
	o.Tokens, o.Repeat, o.MaxTokens = cmp.Or(o.Tokens, 8), cmp.Or(o.Repeat, 9), cmp.Or(o.MaxTokens, 64)
	deepest := max(o.Rows[len(o.Rows)-1], o.Tokens)
	if o.Length == 0 {
		o.Length = max(1, min(defaultLength, room-deepest-1))
	}
	if o.Tokens < 1 || o.Tokens > spec.MaxDepth || o.Repeat < 1 || o.Length < 1 || o.MaxTokens < 1 {
		return fmt.Errorf("foretoken: costs of chains of %d tokens, %d passes each, after %d tokens; want 1 to %d, "+
			"and 1 or more", o.Tokens, o.Repeat, o.Length, spec.MaxDepth)
	}
	for _, n := range o.Shorter {
		if n < 1 || n >= o.Length {
			return fmt.Errorf("foretoken: costs after %d of %d tokens; want 1 or more, and fewer", n, o.Length)
		}
	}
	if o.Length+deepest+1 > room {
		return fmt.Errorf("foretoken: costs after %d tokens of passes %d deep; the context holds %d", o.Length,
			deepest, room)
	}
	return nil
}

// timedPass is a kind of pass with its times in seconds.
type timedPass struct {
	n     int
	run   func() error
	tried bool // its untimed run is done
	took  []float64
}

// MeasureCosts times the target's passes by rows and the draft's by the tokens of a chain. Every kind runs once
// untimed; then all run in turn, so that a drifting clock speed favours none, and the median counts. A pass during
// which the device was lost runs again on the new device. MeasureCosts ends any running generation.
func MeasureCosts(ctx context.Context, s *foretoken.Session, o CostOptions) (*CostReport, error) {
	var passes []*timedPass
	told := 0
	err := s.Exclusive(ctx, func(m foretoken.Models) error { // called again after a loss, it continues where it stopped
		if passes == nil {
			if err := o.complete(&m); err != nil {
				return err
			}
			passes = costPasses(ctx, &m, &o)
		}
		defer m.Reset()
		if err := prepareCosts(ctx, &m, &o); err != nil {
			return err
		}
		return timeInTurn(ctx, &m, passes, o.Repeat, func() {
			if told++; o.Progress != nil {
				o.Progress(told, len(passes)*(o.Repeat+1))
			}
		})
	})
	if err != nil {
		return nil, err
	}
	r := &CostReport{Length: o.Length, Repeat: o.Repeat}
	r.Device, r.Target, r.Draft = Describe(s)
	rows := len(o.Rows)
	one := median(passes[0].took)
	r.Verify = costsOf(passes[:rows], one)
	for n, length := range o.Shorter {
		after := passes[rows*(n+1):][:rows]
		r.After = append(r.After, LengthCosts{Length: length, Verify: costsOf(after, median(after[0].took))})
	}
	r.Chain = costsOf(passes[rows*(len(o.Shorter)+1):], one)
	if len(r.Chain) > 0 && len(o.Prompts) > 0 {
		if err := ceilings(ctx, s, &o, r); err != nil {
			return nil, err
		}
	}
	return r, nil
}

// costsOf returns the medians of passes and their ratios to one, in seconds.
func costsOf(passes []*timedPass, one float64) (costs []PassCost) {
	for _, p := range passes {
		seconds := median(p.took)
		costs = append(costs, PassCost{N: p.n, MS: 1000 * seconds, Ratio: seconds / one})
	}
	return costs
}

// prepareCosts compiles the programs of the passes and fills the caches.
func prepareCosts(ctx context.Context, m *foretoken.Models, o *CostOptions) error {
	if err := m.Target.Prepare(spec.Programs{Budget: spec.Budget{Nodes: o.Rows[len(o.Rows)-1]}}); err != nil {
		return err
	}
	if m.Draft != nil {
		chains := spec.Programs{Draft: spec.DraftTree, Depth: o.Tokens - 1, Widths: []int{1}}
		if err := m.Draft.Prepare(chains); err != nil {
			return err
		}
	}
	return fillCaches(ctx, m, o.Length)
}

// costPasses lists the passes: the target's at the full length, then at the shorter lengths, then the draft's.
func costPasses(ctx context.Context, m *foretoken.Models, o *CostOptions) []*timedPass {
	var passes []*timedPass
	for _, length := range append([]int{o.Length}, o.Shorter...) {
		for _, n := range o.Rows {
			tree := fillerTree(m, n)
			verify := func() error {
				_, err := m.Target.Verify(ctx, spec.PassRequest{Tree: tree})
				return err
			}
			passes = append(passes, &timedPass{n: n, run: func() error { return m.Target.Within(length, verify) }})
		}
	}
	if m.Draft == nil {
		return passes
	}
	pending := fillerTokens(m, 1)
	for n := 1; n <= o.Tokens; n++ {
		passes = append(passes, &timedPass{n: n, run: func() error {
			_, err := m.Draft.Draft(ctx, spec.DraftRequest{Pending: pending, Depth: n - 1, K: 1})
			return err
		}})
	}
	return passes
}

// timeInTurn runs every pass once untimed and then repeat times, all in turn, and skips runs that an earlier call
// timed. It calls ran after each new run.
func timeInTurn(ctx context.Context, m *foretoken.Models, passes []*timedPass, repeat int, ran func()) error {
	for rep := -1; rep < repeat; rep++ {
		for _, p := range passes {
			if rep >= 0 && len(p.took) > rep {
				continue
			}
			if err := ctx.Err(); err != nil {
				return err
			}
			begin := time.Now()
			if err := p.run(); err != nil {
				return err
			}
			if took := time.Since(begin); rep >= 0 {
				p.took = append(p.took, took.Seconds())
				m.Progressed()
			} else if p.tried {
				continue
			}
			p.tried = true
			ran()
		}
	}
	return nil
}

// draftAgrees reports for every token of the greedy continuation of a prompt whether the draft chooses it after the
// same tokens. A long chain shows this for each token up to the first miss: until there the draft has read the
// target's text. Tokens after a fully accepted chain and tokens without a draft are unknown and count as agreement:
// a ceiling may be too high, never too low.
func draftAgrees(ctx context.Context, s *foretoken.Session, prompt string, tokens int) ([]bool, error) {
	var hits []bool
	r := foretoken.Request{Policy: method.DrafterChain, Depth: 12, MaxTokens: tokens, NoReuse: true}
	result, err := s.Generate(ctx, prompt, r, func(e *foretoken.Event) error {
		for _, t := range e.Tokens {
			hits = append(hits, t.Kind != spec.Corrected)
		}
		return nil
	})
	if err == nil && result.Finish == spec.FinishAborted {
		err = context.Canceled
	}
	return hits, err
}

// chainRounds counts the rounds of chains of k tokens that produce a text, from the tokens that the draft agrees on.
func chainRounds(hits []bool, k int) int {
	rounds := 0
	for at := 0; at < len(hits); rounds++ {
		n := 0
		for n < k && at+n < len(hits) && hits[at+n] {
			n++
		}
		at += n + 1 // the target's own token follows the accepted ones
	}
	return rounds
}

// ceilings continues the prompts and computes the ceilings of chains.
func ceilings(ctx context.Context, s *foretoken.Session, o *CostOptions, r *CostReport) error {
	tokens, rounds := 0, make([]int, o.Tokens+1)
	for i, p := range o.Prompts {
		hits, err := draftAgrees(ctx, s, p.Prompt, o.MaxTokens)
		if err != nil {
			return fmt.Errorf("foretoken: costs: prompt %s: %w", quote.Name(p.ID), err)
		}
		if o.Progress != nil {
			o.Progress(i+1, len(o.Prompts))
		}
		if len(hits) == 0 {
			continue
		}
		own := make([]int, o.Tokens+1)
		for k := range own {
			own[k] = chainRounds(hits, k)
			rounds[k] += own[k]
		}
		tokens += len(hits)
		each := PromptCeiling{Prompt: p.ID, Category: p.Category}
		each.Chains, each.Best = r.chainCeilings(len(hits), own)
		r.Each = append(r.Each, each)
	}
	if tokens == 0 {
		return errors.New("foretoken: costs: none of the prompts was continued by a token")
	}
	r.Texts = len(r.Each)
	r.Chains, r.Best = r.chainCeilings(tokens, rounds)
	return nil
}

// chainCeilings returns the ceilings of chains of 1 token on; rounds[k] is the number of rounds with chains of k
// tokens.
func (r *CostReport) chainCeilings(tokens int, rounds []int) (all []ChainCeiling, best ChainCeiling) {
	best = ChainCeiling{Tokens: 1, Speedup: 1}
	for k := 1; k < len(rounds); k++ {
		c := ChainCeiling{K: k, Tokens: float64(tokens) / float64(rounds[k])}
		// The smallest timed pass with as many rows verifies the chain and the root.
		if i := slices.IndexFunc(r.Verify, func(v PassCost) bool { return v.N > k }); i >= 0 {
			c.Speedup = c.Tokens * r.Verify[0].MS / (r.Verify[i].MS + r.Chain[k-1].MS)
		}
		if all = append(all, c); c.Speedup > best.Speedup {
			best = c
		}
	}
	return all, best
}

// Passes are timed over filler: the time of a pass does not depend on its tokens.

// maxRows returns the number of rows that one pass of the target verifies.
func maxRows(m *foretoken.Models) int { return m.Target.Limits().MaxRows }

// contextOfBoth returns the number of positions that fit in the cache of every model.
func contextOfBoth(m *foretoken.Models) int {
	if m.Draft == nil {
		return m.Target.Limits().Context
	}
	return min(m.Target.Limits().Context, m.Draft.Limits().Context)
}

// fillerTokens returns n tokens to time passes with.
func fillerTokens(m *foretoken.Models, n int) []int32 {
	text := make([]int32, n)
	for i := range text {
		text[i] = int32(i % m.Target.Limits().Vocab)
	}
	return text
}

// fillCaches resets both models and prefills n tokens.
func fillCaches(ctx context.Context, m *foretoken.Models, n int) error {
	m.Reset()
	text := fillerTokens(m, n)
	if err := m.Target.Prefill(ctx, text); err != nil || m.Draft == nil {
		return err
	}
	return m.Draft.Prefill(ctx, text)
}

// fillerTree returns a binary tree of n nodes to time a verification with.
func fillerTree(m *foretoken.Models, n int) *spec.Tree {
	text, t := fillerTokens(m, n), &spec.Tree{}
	t.Reset(text[0])
	for i := 1; i < n; i++ {
		t.Add(int32(i-1)/2, text[i], 0)
	}
	return t
}

// Describe names device, target and draft for people; draft is "" without one.
func Describe(s *foretoken.Session) (device, target, draft string) {
	i := s.Info()
	if i.Draft != nil {
		draft = i.Draft.File + " " + i.Draft.Quant
	}
	return i.Device.Backend + ", " + i.Device.Adapter, i.Target.File + " " + i.Target.Quant, draft
}
