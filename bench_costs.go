package foretoken

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"foretoken/spec"
)

// CostOptions say what MeasureCosts times. The zero value times passes of 1 to 32 rows and
// drafts of up to 8 tokens, and judges no text.
type CostOptions struct {
	Rows   []int // of the target's passes, ascending; empty: 1 to 32, as far as the target verifies
	Tokens int   // of the longest drafted chain; 0: 8
	Repeat int   // timed passes of each kind; 0: 9
	Length int   // tokens that a pass finds in the cache; 0: 64, or as many as fit
	// Shorter are lengths below Length, after which the target's passes are timed too, in turn with the others.
	Shorter []int
	// Prompts are continued greedily by MaxTokens tokens (0: 64), to see how many of them
	// the draft foresees.
	Prompts   []BenchPrompt
	MaxTokens int
	Progress  func(done, total int) // of passes, then of prompts
}

// PassCost is the median time of a pass.
type PassCost struct {
	N     int     `json:"n"` // rows of the target, or tokens of a drafted chain
	MS    float64 `json:"ms"`
	Ratio float64 `json:"ratio"` // to the target's pass of one row
}

// ChainCeiling is what a chain of K drafted tokens a round can bring: E tokens in the mean,
// and E·T(1)/(T_v + T_d) times the speed of plain decoding if a round cost nothing but
// the target's pass of K+1 rows and the draft's K. Speedup is 0 where that pass was not timed.
type ChainCeiling struct {
	K       int     `json:"k"`
	Tokens  float64 `json:"tokens"`
	Speedup float64 `json:"speedup"`
}

// PromptCeiling is a text's best chain; K is 0 where none pays.
type PromptCeiling struct {
	Prompt   string         `json:"prompt"`
	Category string         `json:"category"`
	Best     ChainCeiling   `json:"best"`
	Chains   []ChainCeiling `json:"chains"`
}

// CostReport is what passes of a pair take on a device, in milliseconds, and what drafting
// can bring there at most.
type CostReport struct {
	Device string `json:"device"`
	Target string `json:"target"`
	Draft  string `json:"draft,omitempty"`
	Length int    `json:"length"` // tokens in the cache
	Repeat int    `json:"repeat"`

	Verify []PassCost      `json:"verify"`           // the target's passes by rows, readback included
	After  []LengthCosts   `json:"after,omitempty"`  // likewise, after each of CostOptions.Shorter
	Chain  []PassCost      `json:"chain,omitempty"`  // the draft's chains by tokens, likewise
	Texts  int             `json:"texts,omitempty"`  // continued, of Ceilings
	Chains []ChainCeiling  `json:"chains,omitempty"` // by K, over all texts
	Best   ChainCeiling    `json:"best"`             // of Chains
	Each   []PromptCeiling `json:"prompts,omitempty"`
}

// LengthCosts are the target's passes by rows after so many tokens. Ratios are to the pass of one row there.
type LengthCosts struct {
	Length int        `json:"length"`
	Verify []PassCost `json:"verify"`
}

// costCache is how many tokens are in the cache where nothing else is asked for.
const costCache = 64

func (o *CostOptions) complete(s *Session) error {
	most, room := s.target.Limits().MaxRows, s.target.Limits().Context
	if s.draft != nil {
		room = min(room, s.draft.Limits().Context)
	}
	if len(o.Rows) == 0 {
		for _, n := range spec.RowBuckets() {
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
		o.Rows = append([]int{1}, o.Rows...) // what everything is compared with
	}
	o.Tokens, o.Repeat, o.MaxTokens = orDefault(o.Tokens, 8), orDefault(o.Repeat, 9), orDefault(o.MaxTokens, 64)
	deepest := max(o.Rows[len(o.Rows)-1], o.Tokens)
	if o.Length == 0 {
		o.Length = max(1, min(costCache, room-deepest-1))
	}
	if o.Tokens < 1 || o.Tokens > spec.MaxDepth || o.Repeat < 1 || o.Length < 1 || o.MaxTokens < 1 {
		return fmt.Errorf("foretoken: costs of chains of %d tokens, %d passes each, after %d tokens; want 1 to %d, and 1 or more", o.Tokens, o.Repeat, o.Length, spec.MaxDepth)
	}
	for _, n := range o.Shorter {
		if n < 1 || n >= o.Length {
			return fmt.Errorf("foretoken: costs after %d of %d tokens; want 1 or more, and fewer", n, o.Length)
		}
	}
	if o.Length+deepest+1 > room {
		return fmt.Errorf("foretoken: costs after %d tokens of passes %d deep; the context holds %d", o.Length, deepest, room)
	}
	return nil
}

func orDefault(n, value int) int {
	if n == 0 {
		return value
	}
	return n
}

// timedPass is a kind of pass and what it took, in seconds.
type timedPass struct {
	n     int
	run   func() error
	tried bool // untimed
	took  []float64
}

// MeasureCosts times the target's passes by their rows and the draft's by the tokens of a
// chain. Every kind runs once untimed; then all of them run in turn, so that a machine
// whose speed drifts favours none, and the median counts. A pass during which the device was lost is in none: it runs
// again on the one that replaces it. It ends whatever the session was generating.
func (s *Session) MeasureCosts(ctx context.Context, o CostOptions) (*CostReport, error) {
	if err := s.Warm(ctx); err != nil {
		return nil, err
	}
	if err := o.complete(s); err != nil {
		return nil, err
	}
	passes := s.costPasses(ctx, &o)
	told := 0
	err := s.alone(ctx, func() error { // called again, it goes on where it stopped
		defer s.forget()
		if err := s.prepareCosts(ctx, &o); err != nil {
			return err
		}
		return s.timeInTurn(ctx, passes, o.Repeat, func() {
			if told++; o.Progress != nil {
				o.Progress(told, len(passes)*(o.Repeat+1))
			}
		})
	})
	if err != nil {
		return nil, err
	}
	i := s.Info()
	r := &CostReport{Device: i.Device.Backend + ", " + i.Device.Adapter, Target: i.Target.File + " " + i.Target.Quant, Length: o.Length, Repeat: o.Repeat}
	if i.Draft != nil {
		r.Draft = i.Draft.File + " " + i.Draft.Quant
	}
	rows := len(o.Rows)
	one := median(passes[0].took)
	r.Verify = costsOf(passes[:rows], one)
	for n, length := range o.Shorter {
		after := passes[rows*(n+1):][:rows]
		r.After = append(r.After, LengthCosts{Length: length, Verify: costsOf(after, median(after[0].took))})
	}
	r.Chain = costsOf(passes[rows*(len(o.Shorter)+1):], one)
	if s.draft != nil && len(o.Prompts) > 0 {
		if err := s.ceilings(ctx, &o, r); err != nil {
			return nil, err
		}
	}
	return r, nil
}

// costsOf are the medians of passes, beside the seconds of the target's of one row.
func costsOf(passes []*timedPass, one float64) (costs []PassCost) {
	for _, p := range passes {
		seconds := median(p.took)
		costs = append(costs, PassCost{N: p.n, MS: 1000 * seconds, Ratio: seconds / one})
	}
	return costs
}

// prepareCosts makes what the passes run, and fills the caches.
func (s *Session) prepareCosts(ctx context.Context, o *CostOptions) error {
	if err := s.target.Prepare(o.Rows[len(o.Rows)-1]); err != nil {
		return err
	}
	if s.draft != nil {
		if err := s.draft.PrepareGrowth(o.Tokens-1, 1, false); err != nil {
			return err
		}
	}
	return s.fillCaches(ctx, o.Length)
}

// costPasses lists the passes: those of the target first, after all tokens and then after the shorter texts.
func (s *Session) costPasses(ctx context.Context, o *CostOptions) []*timedPass {
	var passes []*timedPass
	for _, length := range append([]int{o.Length}, o.Shorter...) {
		for _, n := range o.Rows {
			tree := s.tree(n)
			verify := func() error {
				_, err := s.target.Verify(ctx, tree, spec.Sampling{})
				return err
			}
			passes = append(passes, &timedPass{n: n, run: func() error { return s.target.Within(length, verify) }})
		}
	}
	if s.draft == nil {
		return passes
	}
	pending := s.meaningless(1)
	for n := 1; n <= o.Tokens; n++ {
		passes = append(passes, &timedPass{n: n, run: func() error {
			_, err := s.draft.DraftTree(ctx, spec.DraftRequest{Pending: pending, Depth: n - 1, K: 1})
			return err
		}})
	}
	return passes
}

// timeInTurn runs every pass once untimed and then so many times, each in its turn, those left out that an earlier call timed.
// ran is told of each that is new.
func (s *Session) timeInTurn(ctx context.Context, passes []*timedPass, repeat int, ran func()) error {
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
				s.losses = 0 // it goes forward
			} else if p.tried {
				continue
			}
			p.tried = true
			ran()
		}
	}
	return nil
}

// foreseen tells of every token of the greedy continuation of a prompt whether the draft, after the
// tokens before it, would have chosen it too. A long chain shows that of each
// token it reaches: up to the first that it misses, the draft has read what the target
// wrote. Of a token after a whole chain, and of one that no draft was made for, nothing is
// known, and it counts as foreseen: a ceiling may be too high, never too low.
func (s *Session) foreseen(ctx context.Context, prompt string, tokens int) ([]bool, error) {
	var hits []bool
	r := Request{Policy: spec.DrafterChain, Depth: 12, MaxTokens: tokens, NoReuse: true}
	result, err := s.Generate(ctx, prompt, r, func(e *Event) error {
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

// chainRounds is how many rounds of chains of k tokens make a text of foreseen tokens.
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

// ceilings continues the prompts and works out what chains can bring.
func (s *Session) ceilings(ctx context.Context, o *CostOptions, r *CostReport) error {
	tokens, rounds := 0, make([]int, o.Tokens+1)
	for i, p := range o.Prompts {
		hits, err := s.foreseen(ctx, p.Prompt, o.MaxTokens)
		if err != nil {
			return fmt.Errorf("foretoken: costs: prompt %s: %w", p.ID, err)
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

// chainCeilings are those of chains of 1 token on; rounds[k] is how many of them make so many tokens.
func (r *CostReport) chainCeilings(tokens int, rounds []int) (all []ChainCeiling, best ChainCeiling) {
	best = ChainCeiling{Tokens: 1, Speedup: 1}
	for k := 1; k < len(rounds); k++ {
		c := ChainCeiling{K: k, Tokens: float64(tokens) / float64(rounds[k])}
		if verify, ok := r.verifyMS(k + 1); ok {
			c.Speedup = c.Tokens * r.Verify[0].MS / (verify + r.Chain[k-1].MS)
		}
		if all = append(all, c); c.Speedup > best.Speedup {
			best = c
		}
	}
	return all, best
}

// verifyMS is the time of a pass of n rows: that of the smallest measured one that holds them.
func (r *CostReport) verifyMS(n int) (float64, bool) {
	i := slices.IndexFunc(r.Verify, func(c PassCost) bool { return c.N >= n })
	if i < 0 {
		return 0, false
	}
	return r.Verify[i].MS, true
}
