package spectest

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"

	"foretoken/spec"
)

// DraftModel is a scripted draft model that follows the target's script with a share of its logits replaced. It leaves
// pruning to the host.
type DraftModel struct {
	Model
	Differ float64
	Target *Target // the target whose sequence this draft must follow; nil: not checked
	Accept bool    // has an acceptance head

	Request spec.DraftRequest
	Levels  []spec.Level // drafted and not yet committed; nil for a chain
	beams   []scriptedBeam
	Drawn   []spec.Drawn // the chain drafted and not yet committed
	q       [][]float64
	rowAt   []Prefix // the prefix of each distribution
	sampled spec.SampleRequest
	at      Prefix
	open    bool // drafted and not yet committed
	Pending int  // the largest number of pending tokens so far
	Passes  int
}

// scriptedBeam is a row of a draft pass: the prefix that ends with it, and its V.
type scriptedBeam struct {
	at Prefix
	v  float32
}

var _ spec.DraftModel = (*DraftModel)(nil)

func NewDraft(t *Target, context int, differ float64) *DraftModel {
	return &DraftModel{
		Model: Model{Script: t.Script, limits: spec.Limits{Context: context, MaxRows: 64, Vocab: t.Script.Vocab,
			TopK: 16}},
		Differ: differ, Target: t,
	}
}

func (d *DraftModel) Reset() { d.Cells, d.open = d.Cells[:0], false }

func (d *DraftModel) consume(pending []int32, slots int) {
	if len(pending) < 1 || len(pending) > spec.MaxPending || d.open {
		panic(fmt.Sprintf("%d pending tokens, the last draft open: %v", len(pending), d.open))
	}
	d.Pending = max(d.Pending, len(pending))
	d.append(pending...)
	if d.Target != nil {
		n := len(d.Target.Cells)
		if len(d.Cells) != n+1 || !slices.Equal(d.Cells[:n], d.Target.Cells) {
			panic(fmt.Sprintf("the draft holds %v, the target %v and a root", d.Cells, d.Target.Cells))
		}
	}
	d.checkRoom(slots)
	d.open, d.Passes = true, 1
	d.Levels, d.Drawn, d.q, d.rowAt = nil, nil, nil, nil
}

func (d *DraftModel) checkRoom(slots int) {
	if len(d.Cells)+slots > d.limits.Context {
		panic(fmt.Sprintf("%d slots after %d tokens in a cache of %d", slots, len(d.Cells), d.limits.Context))
	}
}

func (d *DraftModel) Draft(ctx context.Context, r spec.DraftRequest) ([]spec.Level, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if r.Classifier != nil {
		return nil, nil // the host prunes
	}
	if r.K < 1 || r.K > d.limits.TopK || r.Depth < 0 || (r.Coupled || r.Drawn) && r.Sampling.Temperature == 0 ||
		r.Drawn && r.Layout == nil && r.Depth > 0 {
		panic(fmt.Sprintf("request %+v", r))
	}
	slots := r.K * r.Depth
	if r.Layout != nil {
		slots = 0
		for _, beams := range r.Layout.Beams {
			slots += len(beams)
		}
	}
	d.consume(r.Pending, slots)
	d.Request = r
	d.beams = []scriptedBeam{{at: PrefixOf(d.Cells)}}
	d.propose()
	if r.Layout == nil {
		return d.grow(r.Depth), nil
	}
	for _, beams := range r.Layout.Beams {
		d.expand(beams)
	}
	return d.Levels, nil
}

func (d *DraftModel) Extend(ctx context.Context, e spec.Extension) ([]spec.Level, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if !d.open || d.Levels == nil || (e.Beams == nil) == (e.Passes == 0) || len(e.Beams) > d.limits.TopK ||
		d.Request.Drawn && e.Passes > 0 {
		panic(fmt.Sprintf("%+v of an open draft: %v", e, d.open))
	}
	if e.Beams != nil {
		d.expand(e.Beams)
	}
	return d.grow(e.Passes), nil
}

// grow runs passes over the best beams.
func (d *DraftModel) grow(passes int) []spec.Level {
	for range passes {
		last := &d.Levels[len(d.Levels)-1]
		values := make([]float64, len(last.Candidates))
		for i, c := range last.Candidates {
			values[i] = float64(d.beams[c.Beam].v + c.LogQ)
		}
		d.expand(BestOf(values, d.Request.K))
	}
	return d.Levels
}

// expand runs a pass over beams.
func (d *DraftModel) expand(beams []int32) {
	last := &d.Levels[len(d.Levels)-1]
	last.Beams = slices.Clone(beams)
	var next []scriptedBeam
	for i, b := range beams {
		if slices.Contains(beams[:i], b) {
			panic(fmt.Sprintf("beams %v of a level", beams))
		}
		c := last.Candidates[b]
		next = append(next, scriptedBeam{d.beams[c.Beam].at.Then(c.Token), d.beams[c.Beam].v + c.LogQ})
	}
	d.beams = next
	fed := 0
	for _, l := range d.Levels {
		fed += len(l.Beams)
	}
	d.checkRoom(fed)
	d.Passes++
	d.propose()
}

// propose appends the level of candidates that the beams propose.
func (d *DraftModel) propose() {
	var l spec.Level
	for b, from := range d.beams {
		q := d.LogQ(from.at)
		ranked := q
		if d.Request.Drawn {
			p := make([]float64, len(q))
			ranked = make([]float64, len(q))
			for i := range q {
				p[i] = math.Exp(q[i])
				ranked[i] = q[i] + Gumbel(d.Request.Sampling.Seed, spec.StreamDraft, uint32(from.at.Len),
					uint32(i))
			}
			d.q, d.rowAt = append(d.q, p), append(d.rowAt, from.at)
		}
		for _, id := range BestOf(ranked, d.Request.K) {
			l.Candidates = append(l.Candidates, spec.Candidate{Token: id, LogQ: float32(q[id]), Beam: int32(b)})
		}
		for d.Request.Layout != nil && len(l.Candidates) < (b+1)*d.Request.K { // a place for which there is no token
			l.Candidates = append(l.Candidates, spec.Candidate{LogQ: float32(math.Inf(-1)), Beam: int32(b)})
		}
		plain := Distribution(spec.Sampling{Temperature: 1, TopK: d.Request.EntropyTop},
			d.Script.Logits(from.at, d.Differ))
		l.Entropies = append(l.Entropies, float32(Entropy(plain)))
		if d.Accept {
			l.Accepts = append(l.Accepts, d.Chance(from.at))
		}
	}
	d.Levels = append(d.Levels, l)
}

func (d *DraftModel) LogQ(at Prefix) []float64 {
	z := d.Script.Logits(at, d.Differ)
	s := spec.Sampling{Temperature: 1}
	if d.Request.Coupled {
		return coupled(d.Request.Sampling, z, uint32(at.Len))
	} else if d.Request.Drawn {
		s.Temperature = d.Request.Sampling.Temperature
	}
	q := Distribution(s, z)
	for i := range q {
		q[i] = math.Log(q[i])
	}
	return q
}

// Chance returns the acceptance head's estimate for the last token of a prefix: 1 for the root, else a hash.
func (d *DraftModel) Chance(at Prefix) float32 {
	if at == PrefixOf(d.Cells) {
		return 1
	}
	return d.ChanceAfter(at)
}

func Entropy(p []float64) float64 {
	h := 0.0
	for _, x := range p {
		if x > 0 {
			h -= x * math.Log(x)
		}
	}
	return h
}

// BestOf returns the indices of the k largest values, the lower index first among equals.
func BestOf(x []float64, k int) []int32 {
	order := make([]int32, len(x))
	for i := range order {
		order[i] = int32(i)
	}
	slices.SortStableFunc(order, func(a, b int32) int { return cmp.Compare(x[b], x[a]) })
	return order[:min(k, len(order))]
}

func (d *DraftModel) Sample(ctx context.Context, r spec.SampleRequest) ([]spec.Drawn, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if more := len(r.Pending) == 0; r.Count < 1 || more && (!d.open || len(d.Drawn) == 0) {
		panic(fmt.Sprintf("%+v of %d tokens", r, len(d.Drawn)))
	} else if more {
		d.Passes++
	} else {
		d.consume(r.Pending, 0)
		d.sampled, d.at = r, PrefixOf(d.Cells)
	}
	return d.draw(r.Count)
}

func (d *DraftModel) draw(count int) ([]spec.Drawn, error) {
	s, stream := d.sampled.Sampling, spec.StreamDraft
	if d.sampled.Coupled {
		stream = spec.StreamTarget
	}
	for range count {
		d.checkRoom(len(d.Drawn))
		z := d.Script.Logits(d.at, d.Differ)
		shown := s
		if s.Temperature == 0 {
			shown = spec.Sampling{Temperature: 1}
		}
		q := Distribution(shown, z)
		token := Draw(s, z, stream, uint32(d.at.Len))
		if n := len(d.Drawn); n > 0 && d.Accept {
			d.Drawn[n-1].Accept = d.Chance(d.at)
		}
		d.Drawn = append(d.Drawn, spec.Drawn{Token: token, Prob: float32(q[token]), Entropy: float32(Entropy(q)),
			Accept: float32(math.NaN())})
		d.q = append(d.q, Distribution(s, z))
		d.at = d.at.Then(token)
	}
	return d.Drawn, nil
}

// checkChain panics unless chain is a prefix of the chain sampled last.
func (d *DraftModel) checkChain(chain *spec.Tree, s spec.Sampling) {
	for i, t := range chain.Tokens[1:] {
		if i >= len(d.Drawn) || t != d.Drawn[i].Token || s != d.sampled.Sampling {
			panic("the chain is not what the draft sampled last")
		}
	}
}

func (d *DraftModel) Prepare(spec.Programs) error { return nil }

func (d *DraftModel) Commit(beams []int32) error {
	if !d.open {
		panic("Commit without a draft")
	}
	d.open = false
	if d.Levels == nil {
		if len(beams) > len(d.Drawn)-1 || slices.Max(append([]int32{0}, beams...)) != 0 {
			panic(fmt.Sprintf("Commit(%v) of a chain of %d", beams, len(d.Drawn)))
		}
		for _, t := range d.Drawn[:len(beams)] {
			d.append(t.Token)
		}
		return nil
	}
	for i, b := range beams {
		c := d.Levels[i].Candidates[d.Levels[i].Beams[b]]
		if i > 0 && c.Beam != beams[i-1] {
			panic(fmt.Sprintf("Commit(%v): beam %d of level %d has parent %d", beams, b, i, c.Beam))
		}
		d.append(c.Token)
	}
	return nil
}

func (d *DraftModel) ReusePrefix(tokens []int32) int {
	d.open = false
	return d.prefix(tokens)
}

// ChanceAfter returns the acceptance head's estimate for a token after the root.
func (d *DraftModel) ChanceAfter(at Prefix) float32 {
	return float32(Unit(Mix(at.Hash ^ 0xACCE97)))
}
