package spec

import (
	"context"
	"fmt"
	"math"
	"slices"
)

// scriptedDraft drafts by the script with a share of its logits replaced. It is
// every kind of draft model there is.
type scriptedDraft struct {
	model
	differ float64
	target *scriptedTarget // whose sequence this one follows; nil: unchecked
	accept bool            // has an acceptance head, which knows the chance of agreeing

	request DraftRequest
	levels  []Level // drafted and not yet committed; nil for a chain
	beams   []scriptedBeam
	drawn   []Drawn // likewise, sampled
	q       [][]float64
	rowAt   []prefix // of each distribution
	sampled SampleRequest
	trees   bool // the last draft is a tree drawn without replacement
	at      prefix
	open    bool // drafted and not yet committed
	pending int  // the longest lag seen
	passes  int
}

// scriptedBeam is a fed row: the prefix that ends with it and its V.
type scriptedBeam struct {
	at prefix
	v  float32
}

var (
	_ SamplingDraft = (*scriptedDraft)(nil)
	_ TreeSampler   = (*scriptedDraft)(nil)
)

func newDraft(t *scriptedTarget, context int, differ float64) *scriptedDraft {
	return &scriptedDraft{
		model:  model{script: t.script, limits: Limits{Context: context, MaxRows: 64, Vocab: t.script.vocab, TopK: 16}},
		differ: differ, target: t,
	}
}

func (d *scriptedDraft) Reset() { d.cells, d.open = d.cells[:0], false }

func (d *scriptedDraft) feed(pending []int32, slots int) {
	if len(pending) < 1 || len(pending) > MaxPending || d.open {
		panic(fmt.Sprintf("%d pending tokens, the last draft open: %v", len(pending), d.open))
	}
	d.pending = max(d.pending, len(pending))
	d.append(pending...)
	if d.target != nil {
		n := len(d.target.cells)
		if len(d.cells) != n+1 || !slices.Equal(d.cells[:n], d.target.cells) {
			panic(fmt.Sprintf("the draft holds %v, the target %v and a root", d.cells, d.target.cells))
		}
	}
	d.room(slots)
	d.open, d.passes = true, 1
	d.levels, d.drawn, d.q, d.rowAt, d.trees = nil, nil, nil, nil, false
}

func (d *scriptedDraft) room(slots int) {
	if len(d.cells)+slots > d.limits.Context {
		panic(fmt.Sprintf("%d slots after %d tokens in a cache of %d", slots, len(d.cells), d.limits.Context))
	}
}

func (d *scriptedDraft) check(r DraftRequest) {
	if r.K < 1 || r.K > d.limits.TopK || r.Depth < 0 || r.Coupled && r.Sampling.Temperature == 0 {
		panic(fmt.Sprintf("request %+v", r))
	}
}

func (d *scriptedDraft) DraftTree(ctx context.Context, r DraftRequest) ([]Level, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	d.check(r)
	d.feed(r.Pending, r.K*r.Depth)
	d.request = r
	d.beams = []scriptedBeam{{at: of(d.cells)}}
	d.propose()
	return d.Grow(ctx, r.Depth)
}

func (d *scriptedDraft) SampleTree(ctx context.Context, r DraftRequest) ([]Level, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if r.Sampling.Temperature == 0 {
		panic("drawing without replacement at temperature 0")
	}
	d.check(r)
	d.feed(r.Pending, 0)
	d.request, d.trees = r, true
	d.beams = []scriptedBeam{{at: of(d.cells)}}
	d.propose()
	return d.levels, nil
}

func (d *scriptedDraft) Grow(ctx context.Context, passes int) ([]Level, error) {
	if d.trees {
		panic("Grow of a sampled tree")
	}
	for range passes {
		last := &d.levels[len(d.levels)-1]
		values := make([]float64, len(last.Candidates))
		for i, c := range last.Candidates {
			values[i] = float64(d.beams[c.Beam].v + c.LogQ)
		}
		if _, err := d.Expand(ctx, bestOf(values, d.request.K)); err != nil {
			return nil, err
		}
	}
	return d.levels, nil
}

func (d *scriptedDraft) Expand(ctx context.Context, beams []int32) ([]Level, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if !d.open || d.levels == nil || len(beams) == 0 || len(beams) > d.limits.TopK {
		panic(fmt.Sprintf("Expand(%v) of an open draft: %v", beams, d.open))
	}
	last := &d.levels[len(d.levels)-1]
	last.Beams = slices.Clone(beams)
	var next []scriptedBeam
	for i, b := range beams {
		if slices.Contains(beams[:i], b) {
			panic(fmt.Sprintf("Expand(%v) repeats a beam", beams))
		}
		c := last.Candidates[b]
		next = append(next, scriptedBeam{d.beams[c.Beam].at.then(c.Token), d.beams[c.Beam].v + c.LogQ})
	}
	d.beams = next
	fed := 0
	for _, l := range d.levels {
		fed += len(l.Beams)
	}
	d.room(fed)
	d.passes++
	d.propose()
	return d.levels, nil
}

// propose appends the level that the beams propose.
func (d *scriptedDraft) propose() {
	var l Level
	for b, from := range d.beams {
		q := d.logQ(from.at)
		ranked := q
		if d.trees {
			p := make([]float64, len(q))
			ranked = make([]float64, len(q))
			for i := range q {
				p[i] = math.Exp(q[i])
				ranked[i] = q[i] + Gumbel(d.request.Sampling.Seed, StreamDraft, uint32(from.at.len), uint32(i))
			}
			d.q, d.rowAt = append(d.q, p), append(d.rowAt, from.at)
		}
		for _, id := range bestOf(ranked, d.request.K) {
			l.Candidates = append(l.Candidates, Candidate{Token: id, LogQ: float32(q[id]), Beam: int32(b)})
		}
		plain := Sampling{Temperature: 1}.Distribution(nil, d.script.logits(from.at, d.differ))
		l.Entropies = append(l.Entropies, float32(entropy(plain)))
		if d.accept {
			l.Accepts = append(l.Accepts, d.chance(from.at))
		}
	}
	d.levels = append(d.levels, l)
}

func (d *scriptedDraft) logQ(at prefix) []float64 {
	z := d.script.logits(at, d.differ)
	s := Sampling{Temperature: 1}
	if d.request.Coupled {
		return d.request.Sampling.Coupled(nil, z, uint32(at.len))
	} else if d.trees {
		s.Temperature = d.request.Sampling.Temperature
	}
	q := s.Distribution(nil, z)
	for i := range q {
		q[i] = math.Log(q[i])
	}
	return q
}

// chance is the acceptance head's estimate for the last token of a prefix: a hash of it,
// and 1 for the root.
func (d *scriptedDraft) chance(at prefix) float32 {
	if at == of(d.cells) {
		return 1
	}
	return float32(unit(mix(at.hash ^ 0xACCE97)))
}

func entropy(p []float64) float64 {
	h := 0.0
	for _, x := range p {
		if x > 0 {
			h -= x * math.Log(x)
		}
	}
	return h
}

// bestOf gives the indices of the k largest values, ties to the lower index.
func bestOf(x []float64, k int) []int32 {
	order := make([]int32, len(x))
	for i := range order {
		order[i] = int32(i)
	}
	slices.SortStableFunc(order, func(a, b int32) int {
		switch {
		case x[a] > x[b]:
			return -1
		case x[a] < x[b]:
			return 1
		}
		return 0
	})
	return order[:min(k, len(order))]
}

func (d *scriptedDraft) DraftSampled(ctx context.Context, r SampleRequest) ([]Drawn, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if r.Count < 1 {
		panic(fmt.Sprintf("request %+v", r))
	}
	d.feed(r.Pending, 0)
	d.sampled, d.at = r, of(d.cells)
	return d.draw(r.Count)
}

func (d *scriptedDraft) DrawMore(ctx context.Context, count int) ([]Drawn, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if !d.open || len(d.drawn) == 0 || count < 1 {
		panic(fmt.Sprintf("DrawMore(%d) of %d tokens", count, len(d.drawn)))
	}
	d.passes++
	return d.draw(count)
}

func (d *scriptedDraft) draw(count int) ([]Drawn, error) {
	s, stream := d.sampled.Sampling, StreamDraft
	if d.sampled.Coupled {
		stream = StreamTarget
	}
	for range count {
		d.room(len(d.drawn))
		z := d.script.logits(d.at, d.differ)
		shown := s
		if s.Temperature == 0 {
			shown = Sampling{Temperature: 1}
		}
		q := shown.Distribution(nil, z)
		token := s.Draw(z, stream, uint32(d.at.len))
		if n := len(d.drawn); n > 0 && d.accept {
			d.drawn[n-1].Accept = d.chance(d.at)
		}
		d.drawn = append(d.drawn, Drawn{Token: token, Prob: float32(q[token]), Entropy: float32(entropy(q)), Accept: float32(math.NaN())})
		d.q = append(d.q, s.Distribution(nil, z))
		d.at = d.at.then(token)
	}
	return d.drawn, nil
}

// checkChain panics unless a chain is the one sampled last, or its beginning.
func (d *scriptedDraft) checkChain(chain *Tree, s Sampling) {
	for i, t := range chain.Tokens[1:] {
		if i >= len(d.drawn) || t != d.drawn[i].Token || s != d.sampled.Sampling {
			panic("the chain is not what the draft sampled last")
		}
	}
}

func (d *scriptedDraft) Commit(beams []int32) error {
	if !d.open {
		panic("Commit without a draft")
	}
	d.open = false
	if d.levels == nil {
		if len(beams) > len(d.drawn)-1 || slices.Max(append([]int32{0}, beams...)) != 0 {
			panic(fmt.Sprintf("Commit(%v) of a chain of %d", beams, len(d.drawn)))
		}
		for _, t := range d.drawn[:len(beams)] {
			d.append(t.Token)
		}
		return nil
	}
	for i, b := range beams {
		c := d.levels[i].Candidates[d.levels[i].Beams[b]]
		if i > 0 && c.Beam != beams[i-1] {
			panic(fmt.Sprintf("Commit(%v): beam %d of level %d has parent %d", beams, b, i, c.Beam))
		}
		d.append(c.Token)
	}
	return nil
}
