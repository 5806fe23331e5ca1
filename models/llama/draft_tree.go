package llama

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"

	"foretoken/spec"
	"foretoken/webgpu"
	"foretoken/webgpu/kernels"
)

// growth is a tree as the host knows it. Level 0 is what the root proposed.
type growth struct {
	plan    *plan // nil: the last draft was no tree
	sampled bool  // its children are drawn without replacement
	base    int   // committed tokens, the root included
	levels  []spec.Level
	values  [][]float32 // V of the proposing beams of each level
	first   []int       // in Draft.slots, of each level's beams
	arrays  []arrays    // of each level, kept from tree to tree
	order   []int32     // for ranking a level's candidates
	scores  []float32   // V of the beams that the host chose
}

// arrays is the memory of a level.
type arrays struct {
	candidates []spec.Candidate
	beams      []int32
	entropies  []float32
	accepts    []float32
	values     []float32
}

// plant begins a tree after base committed tokens.
func (g *growth) plant(p *plan, base int, sampled bool) {
	g.plan, g.base, g.sampled = p, base, sampled
	g.levels, g.values, g.first = g.levels[:0], g.values[:0], g.first[:0]
}

// last is the deepest level.
func (g *growth) last() int { return len(g.levels) - 1 }

// add appends a level that n beams proposed, V of which are still to be set.
func (g *growth) add(n int, estimated bool) *spec.Level {
	at := len(g.levels)
	if at == len(g.arrays) {
		g.arrays = append(g.arrays, arrays{})
	}
	a := &g.arrays[at]
	a.candidates, a.entropies = resize(a.candidates, n*g.plan.k), resize(a.entropies, n)
	a.accepts, a.values = resize(a.accepts, n), resize(a.values, n)
	l := spec.Level{Candidates: a.candidates, Entropies: a.entropies}
	if estimated {
		l.Accepts = a.accepts
	}
	g.levels, g.values = append(g.levels, l), append(g.values, a.values)
	return &g.levels[at]
}

func resize[T any](s []T, n int) []T {
	if n <= cap(s) {
		return s[:n]
	}
	return make([]T, n)
}

// choose makes candidates of the last level its beams, which have not been fed.
func (g *growth) choose(beams []int32) {
	a := &g.arrays[g.last()]
	a.beams = append(a.beams[:0], beams...)
	g.levels[g.last()].Beams = a.beams
}

// extend makes candidates of the last level its beams, whose slots begin at index
// first of Draft.slots.
func (g *growth) extend(beams []int32, first int) {
	g.choose(beams)
	g.first = append(g.first, first)
}

// value is V of a candidate: the sum of ln q along its path, added up as kernels.Select does.
func (g *growth) value(level int, candidate int32) float32 {
	c := g.levels[level].Candidates[candidate]
	return number(g.values[level][c.Beam]) + number(c.LogQ)
}

// number is v, or the lowest of all for what is not a number.
func number(v float32) float32 {
	if v != v {
		return -math.MaxFloat32
	}
	return v
}

// best is the k best candidates of the last level by V, ties to the lower index.
func (g *growth) best() []int32 {
	level := g.last()
	g.order = resize(g.order, len(g.levels[level].Candidates))
	for i := range g.order {
		g.order[i] = int32(i)
	}
	slices.SortStableFunc(g.order, func(a, b int32) int {
		switch x, y := g.value(level, a), g.value(level, b); {
		case x > y:
			return -1
		case x < y:
			return 1
		}
		return 0
	})
	return g.order[:g.plan.k]
}

// decode takes in what n beams proposed, as it came back.
func (g *growth) decode(out *proposal, n int, estimated bool) {
	k, words := g.plan.k, out.result.memory()
	l := g.add(n, estimated)
	for beam := range n {
		got := kernels.DecodeSample(words[out.at:], beam, k)
		l.Entropies[beam] = got.Entropy
		for i := range k {
			c := spec.Candidate{Token: int32(got.IDs[i]), LogQ: got.Values[i], Beam: int32(beam)}
			if g.sampled && c.LogQ <= kernels.LowLogit/2 {
				c.LogQ = float32(math.Inf(-1))
			}
			l.Candidates[beam*k+i] = c
		}
	}
	level := g.last()
	if level == 0 {
		g.values[0][0] = 0
		if estimated {
			l.Accepts[0] = 1
		}
		return
	}
	for beam, c := range g.levels[level-1].Beams {
		g.values[level][beam] = g.value(level-1, c)
	}
	if estimated {
		copy(l.Accepts, words[out.estimates:].F32())
	}
}

// slotOf is the index in Draft.slots of the last of a path of beams, one a level.
func (g *growth) slotOf(path []int32) (int, error) {
	level := len(path) - 1
	beam := path[level]
	if level >= len(g.first) || beam < 0 || int(beam) >= len(g.levels[level].Beams) {
		return 0, fmt.Errorf("llama: beam %d of level %d was committed of a draft of %d levels by %d", beam, level, len(g.first), g.plan.k)
	}
	if level > 0 {
		if c := g.levels[level].Candidates[g.levels[level].Beams[beam]]; c.Beam != path[level-1] {
			return 0, fmt.Errorf("llama: beam %d of level %d was committed after beam %d; beam %d proposed it", beam, level, path[level-1], c.Beam)
		}
	}
	return g.first[level] + int(beam), nil
}

// DraftTree feeds the pending tokens and grows the levels in one submit and one
// readback.
func (d *Draft) DraftTree(ctx context.Context, r spec.DraftRequest) ([]spec.Level, error) {
	if err := d.startTree(ctx, r, ranked, nil); err != nil {
		return nil, err
	}
	if err := d.run(d.programs, d.regions...); err != nil {
		return nil, err
	}
	return d.endTree(r, ranked, nil), nil
}

// startTree puts the run of DraftTree together, or of a tree that is drawn without replacement. beams, where there are any, are
// the candidates of each level but the last that become its beams, up to k of them; what is drawn has them.
func (d *Draft) startTree(ctx context.Context, r spec.DraftRequest, how want, beams [][]int32) error {
	p, err := d.plan(r.Depth, r.K)
	if err != nil {
		return err
	}
	if how == drawn {
		if err := d.PrepareSampled(r.Depth, r.K); err != nil {
			return err
		}
	}
	rows, err := d.begin(ctx, r.Pending, r.Depth)
	if err != nil {
		return err
	}
	if how == drawn {
		if err := d.writeDraw(r.Sampling, spec.StreamDraft, true); err != nil {
			return err
		}
		d.kept.used = 0
		if err := d.keep(d.kept.place, 1); err != nil {
			return err
		}
		d.programs = append(d.programs, d.rootFeed[rows-1], d.kept.root, p.root.draw)
	} else {
		if err := d.writeDraw(r.Sampling, spec.StreamTarget, r.Coupled && r.Sampling.Temperature > 0); err != nil {
			return err
		}
		d.programs = append(d.programs, d.rootFeed[rows-1], p.root.rank)
	}
	for level := range r.Depth {
		var given []int32
		if beams != nil {
			given = beams[level]
		}
		if how == drawn {
			if err := d.checkKept(len(given)); err != nil {
				return err
			}
			if err := d.keep(p.room.places[level].view(0, kernels.KeepWords), len(given)); err != nil {
				return err
			}
		}
		if err := d.placeLevel(p, level, d.Len(), how, given); err != nil {
			return err
		}
	}
	d.readLevels(&p.root.result, p.levels[:r.Depth])
	return nil
}

// endTree takes in what came back of a run that startTree put together.
func (d *Draft) endTree(r spec.DraftRequest, how want, beams [][]int32) []spec.Level {
	p := d.plans[r.K]
	d.tree.plant(p, d.Len(), how == drawn)
	d.tree.decode(&p.root, 1, d.estimator != nil)
	d.decodeLevels(p.levels[:r.Depth], 0, how, beams)
	return d.tree.levels
}

// placeLevel is seatLevel, and feeds the beams.
func (d *Draft) placeLevel(p *plan, level, base int, how want, given []int32) error {
	if err := d.seatLevel(p, level, base, how, given); err != nil {
		return err
	}
	d.feedLevel(&p.levels[level], how)
	return nil
}

// seatLevel takes slots for the beams of a level that the device chooses, or that are given, and has them chosen.
func (d *Draft) seatLevel(p *plan, level, base int, how want, given []int32) error {
	l, first := &p.levels[level], len(d.slots)
	var err error
	if d.slots, err = d.seq.take(p.k, d.slots); err != nil {
		return err
	}
	own := d.slots[first:]
	for i, slot := range own { // tokens and ancestors come from Select
		l.pass.set(i, 0, base+level, slot, base)
	}
	if err := l.pass.writePlaces(d.dev); err != nil {
		return err
	}
	choose := l.choose
	if how == pruned {
		choose = l.prune
	}
	d.programs = append(d.programs, choose)
	d.own = append(d.own[:0], own...)
	for i := range own {
		switch {
		case i < len(given):
			d.own = append(d.own, uint32(given[i]))
		case len(given) > 0:
			d.own = append(d.own, uint32(given[0])) // a row that nothing is taken from
		default:
			d.own = append(d.own, kernels.NotGiven)
		}
	}
	return d.dev.Write(l.own.Buffer, l.own.Offset, webgpu.U32Bytes(d.own))
}

// feedLevel adds the programs of a level whose beams are chosen.
func (d *Draft) feedLevel(l *planLevel, how want) {
	if how == drawn {
		d.programs = append(d.programs, l.feed, l.keep, l.out.draw)
	} else {
		d.programs = append(d.programs, l.feed, l.out.rank)
	}
	if d.estimator != nil {
		d.programs = append(d.programs, l.out.accept)
	}
}

// readLevels has the levels come back, and a result before them.
func (d *Draft) readLevels(before *result, levels []planLevel) {
	d.regions = d.regions[:0]
	if before != nil {
		d.regions = before.read(d.regions)
	}
	for i := range levels {
		d.regions = levels[i].out.result.read(d.regions)
	}
}

// decodeLevels takes in levels whose beams the device chose, or which were given; their slots begin at index first. A tree of which
// a classifier left no beam ends there.
func (d *Draft) decodeLevels(levels []planLevel, first int, how want, beams [][]int32) {
	g := &d.tree
	for i := range levels {
		chosen := d.chosen(&levels[i], how)
		if beams != nil {
			chosen = chosen[:len(beams[i])]
		}
		if len(chosen) == 0 {
			return
		}
		g.extend(chosen, first+i*g.plan.k)
		g.decode(&levels[i].out, len(chosen), d.estimator != nil)
	}
}

// chosen is the candidates of the last level that the device made beams of the next, as it came back; valid until the next call.
func (d *Draft) chosen(next *planLevel, how want) []int32 {
	g := &d.tree
	n, k := g.plan.k, g.plan.k
	chosen, _ := kernels.DecodeSelect(next.out.result.memory(), len(g.values[g.last()]), k)
	if end := slices.Index(chosen, kernels.NotGiven); how == pruned && end >= 0 {
		n = end
	}
	g.order = resize(g.order, n)
	for j, c := range chosen[:n] {
		g.order[j] = int32(c)
	}
	return g.order
}

// howOf is the way to draft that a request asks for.
func howOf(r *spec.JointRequest) want {
	if r.Drawn {
		return drawn
	}
	return ranked
}

// Shapes implements spec.Shaper. Beams that are given are as many as a level has.
func (d *Draft) Shapes(r *spec.JointRequest) bool {
	p := d.plans[r.K]
	if r.Depth < 0 || p == nil || len(p.levels) < r.Depth || (r.Chosen != nil || r.Drawn) && len(r.Beams) < r.Depth {
		return false
	}
	fed := 1
	for _, beams := range r.Beams {
		if len(beams) == 0 || len(beams) > r.K {
			return false
		}
		fed += len(beams)
	}
	return !r.Drawn || d.drawnReady(p, r.Depth) && fed <= d.kept.logits.Rows
}

// DraftShaped implements spec.Shaper, in one submit and one readback.
func (d *Draft) DraftShaped(ctx context.Context, r *spec.JointRequest) ([]spec.Level, error) {
	return d.draftShaped(ctx, d, r)
}

// DraftShaped is Draft's, from the target's features.
func (e *EAGLE3) DraftShaped(ctx context.Context, r *spec.JointRequest) ([]spec.Level, error) {
	return e.Draft.draftShaped(ctx, e, r)
}

func (d *Draft) draftShaped(ctx context.Context, starter treeStarter, r *spec.JointRequest) ([]spec.Level, error) {
	if err := starter.startTree(ctx, r.DraftRequest, howOf(r), r.Beams); err != nil {
		return nil, err
	}
	if err := d.run(d.programs, d.regions...); err != nil {
		return nil, err
	}
	return d.endTree(r.DraftRequest, howOf(r), r.Beams), nil
}

var errNoTree = errors.New("llama: there is no tree to grow; DraftTree or SampleTree begins one, and Commit ends it")

// Grow runs more passes in one submit and one readback.
func (d *Draft) Grow(ctx context.Context, passes int) ([]spec.Level, error) {
	g := &d.tree
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if g.plan == nil {
		return nil, errNoTree
	}
	if g.sampled {
		return nil, errors.New("llama: Grow of a tree drawn without replacement would rank what was drawn; use Expand")
	}
	if passes < 1 {
		return g.levels, nil
	}
	level := g.last()
	p, err := d.plan(level+passes, g.plan.k)
	if err != nil {
		return nil, err
	}
	if err := d.checkContext(g.base, level+passes); err != nil {
		return nil, err
	}
	if passes*p.k > len(d.seq.free) {
		return nil, errFull
	}
	levels := p.levels[level : level+passes]
	// The host knows the candidates of the last level, however they came about, and chooses
	// the first beams; what follows is chosen on the device.
	first, beams := len(d.slots), g.best()
	if err := d.seat(&levels[0].pass, beams); err != nil {
		return nil, err
	}
	g.scores = resize(g.scores, p.k)
	for i, c := range beams {
		g.scores[i] = g.value(level, c)
	}
	if err := d.dev.Write(levels[0].scores.Buffer, levels[0].scores.Offset, webgpu.F32Bytes(g.scores)); err != nil {
		return nil, err
	}
	if err := levels[0].pass.writeRows(d.dev, p.k); err != nil {
		return nil, err
	}
	d.programs = d.programs[:0]
	d.feedLevel(&levels[0], ranked)
	for i := 1; i < passes; i++ {
		if err := d.placeLevel(p, level+i, g.base, ranked, nil); err != nil {
			return nil, err
		}
	}
	d.readLevels(nil, levels)
	if err := d.run(d.programs, d.regions...); err != nil {
		return nil, err
	}
	g.extend(beams, first)
	g.decode(&levels[0].out, p.k, d.estimator != nil)
	d.decodeLevels(levels[1:], first+p.k, ranked, nil)
	return g.levels, nil
}

// Expand runs one pass over beams that the host chose, in one submit and one readback.
func (d *Draft) Expand(ctx context.Context, beams []int32) ([]spec.Level, error) {
	g := &d.tree
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if g.plan == nil {
		return nil, errNoTree
	}
	n, level := len(beams), g.last()
	if n < 1 || n > d.opts.TopK {
		return nil, fmt.Errorf("llama: %d beams to expand; want 1 to %d", n, d.opts.TopK)
	}
	for i, b := range beams {
		if b < 0 || int(b) >= len(g.levels[level].Candidates) || slices.Contains(beams[:i], b) {
			return nil, fmt.Errorf("llama: candidate %d of %d to expand, twice or out of range", b, len(g.levels[level].Candidates))
		}
	}
	if level >= maxPasses {
		return nil, fmt.Errorf("llama: a tree of more than %d levels", maxPasses+1)
	}
	if err := d.checkContext(g.base, level+1); err != nil {
		return nil, err
	}
	if n > len(d.seq.free) {
		return nil, errFull
	}
	how := ranked
	if g.sampled {
		how = drawn
		if err := d.checkKept(n); err != nil {
			return nil, err
		}
	}
	if err := d.prepareHost(g.plan, how, n); err != nil {
		return nil, err
	}
	first := len(d.slots)
	if err := d.seat(&d.hostPass, beams); err != nil {
		return nil, err
	}
	rows := buckets[bucket(n)]
	d.hostPass.pad(n, rows, d.work.trash)
	if err := d.hostPass.writeRows(d.dev, rows); err != nil {
		return nil, err
	}
	out := g.plan.hostProposal(n)
	d.programs = append(d.programs[:0], d.hostFeed[bucket(n)])
	if g.sampled {
		if err := d.keep(d.kept.place, n); err != nil {
			return nil, err
		}
		d.programs = append(d.programs, d.kept.programs[bucket(n)], out.draw)
	} else {
		d.programs = append(d.programs, out.rank)
	}
	if d.estimator != nil {
		d.programs = append(d.programs, out.accept)
	}
	d.regions = out.result.read(d.regions[:0])
	if err := d.run(d.programs, d.regions...); err != nil {
		return nil, err
	}
	g.extend(beams, first)
	g.decode(out, n, d.estimator != nil)
	return g.levels, nil
}

// seat fills the first rows of a pass with candidates of the last level, in slots
// that are taken for them.
func (d *Draft) seat(b *pass, beams []int32) error {
	g, first := &d.tree, len(d.slots)
	var err error
	if d.slots, err = d.seq.take(len(beams), d.slots); err != nil {
		return err
	}
	var path [maxPasses]uint32
	level := g.last()
	for i, beam := range beams {
		token := g.levels[level].Candidates[beam].Token
		path[level] = d.slots[first+i]
		for l, c := level, beam; l > 0; l-- {
			parent := g.levels[l].Candidates[c].Beam
			path[l-1] = d.slots[g.first[l-1]+int(parent)]
			c = g.levels[l-1].Beams[parent]
		}
		b.set(i, token, g.base+level, d.slots[first+i], g.base, path[:level+1]...)
	}
	return nil
}
