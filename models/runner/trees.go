package runner

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"

	"foretoken/models/kv"
	"foretoken/spec"
	"foretoken/webgpu"
	"foretoken/webgpu/kernels"
	"foretoken/webgpu/kernels/sample"
	"foretoken/webgpu/kernels/tree"
)

// trees grows token trees for a draft.
type trees struct {
	draft         *Draft
	programs      map[int]*treePrograms // by k
	last          hostTree              // the last tree; its programs are nil if the last draft was a chain
	distributions distributionRows
	pruner        pruner
	top           topEntropies

	hostPass    kv.Pass          // beams chosen by the host, at any level
	hostForward []webgpu.Program // their blocks and logits, by bucket; compiled at first use
	slotWords   []uint32         // scratch of placeLevel
}

// hostRows returns the most rows of a pass over beams that the host chose.
func (t *trees) hostRows() int { return kv.Buckets[kv.Bucket(t.draft.Graph.Options.TopK)] }

// hostTree is the host's copy of a tree. Level 0 holds the root's candidates.
type hostTree struct {
	programs *treePrograms // nil: the last draft was no tree
	rule     candidateRule
	base     int // committed tokens, the root included
	levels   []spec.Level
	values   [][]float32   // V of the beams that proposed each level
	first    []int         // index in Draft.slots of each level's first beam
	memory   []levelMemory // of each level, reused from tree to tree
	order    []int32       // scratch: a level's candidates by rank
	scores   []float32     // V of the beams that the host chose
	broken   int           // first level with logits that are not finite; -1: none
	top      bool          // entropies are of the likeliest tokens alone
}

// levelMemory is the memory of a level.
type levelMemory struct {
	candidates []spec.Candidate
	beams      []int32
	entropies  []float32
	accepts    []float32
	values     []float32
}

// begin starts a tree after base committed tokens.
func (g *hostTree) begin(p *treePrograms, base int, rule candidateRule, top bool) {
	g.programs, g.base, g.rule, g.top = p, base, rule, top
	g.levels, g.values, g.first, g.broken = g.levels[:0], g.values[:0], g.first[:0], -1
}

// last returns the deepest level.
func (g *hostTree) last() int { return len(g.levels) - 1 }

// add appends a level that n beams proposed. The caller sets their V.
func (g *hostTree) add(n int, estimated bool) *spec.Level {
	at := len(g.levels)
	if at == len(g.memory) {
		g.memory = append(g.memory, levelMemory{})
	}
	a := &g.memory[at]
	a.candidates, a.entropies = resize(a.candidates, n*g.programs.k), resize(a.entropies, n)
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

// choose makes candidates of the last level its beams, without slots.
func (g *hostTree) choose(beams []int32) {
	a := &g.memory[g.last()]
	a.beams = append(a.beams[:0], beams...)
	g.levels[g.last()].Beams = a.beams
}

// extend makes candidates of the last level its beams, whose slots begin at index first of Draft.slots.
func (g *hostTree) extend(beams []int32, first int) {
	g.choose(beams)
	g.first = append(g.first, first)
}

// value returns V of a candidate, the sum of ln q along its path, added in the order of tree.RecordSelect.
func (g *hostTree) value(level int, candidate int32) float32 {
	c := g.levels[level].Candidates[candidate]
	return nanToLowest(g.values[level][c.Beam]) + nanToLowest(c.LogQ)
}

// nanToLowest returns v, or the lowest float for a NaN.
func nanToLowest(v float32) float32 {
	if v != v {
		return -math.MaxFloat32
	}
	return v
}

// best returns the k best candidates of the last level by V; ties go to the lower index.
func (g *hostTree) best() []int32 {
	level := g.last()
	g.order = resize(g.order, len(g.levels[level].Candidates))
	for i := range g.order {
		g.order[i] = int32(i)
	}
	slices.SortStableFunc(g.order, func(a, b int32) int { return cmp.Compare(g.value(level, b), g.value(level, a)) })
	return g.order[:g.programs.k]
}

// decode reads a level that n beams proposed from the readback.
func (g *hostTree) decode(out *proposal, n int, estimated bool) {
	k, words := g.programs.k, out.result.memory()
	l, level := g.add(n, estimated), g.last()
	for beam := range n {
		got := sample.Decode(words[out.at:], beam, k)
		if l.Entropies[beam] = got.Entropy; g.top {
			l.Entropies[beam] = out.topEntropy(beam)
		}
		if !got.Finite() && g.broken < 0 {
			g.broken = level
		}
		for i := range k {
			c := spec.Candidate{Token: int32(got.IDs[i]), LogQ: got.Values[i], Beam: int32(beam)}
			if g.rule == drawn && c.LogQ <= kernels.LowLogit/2 {
				c.LogQ = float32(math.Inf(-1))
			}
			l.Candidates[beam*k+i] = c
		}
	}
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

// slotOf returns the index in Draft.slots of the last beam of a path with one beam a level.
func (g *hostTree) slotOf(path []int32) (int, error) {
	level := len(path) - 1
	beam := path[level]
	if level >= len(g.first) || beam < 0 || int(beam) >= len(g.levels[level].Beams) {
		return 0, fmt.Errorf("runner: beam %d of level %d was committed of a draft of %d levels by %d", beam, level,
			len(g.first), g.programs.k)
	}
	if level > 0 {
		if c := g.levels[level].Candidates[g.levels[level].Beams[beam]]; c.Beam != path[level-1] {
			return 0, fmt.Errorf("runner: beam %d of level %d was committed after beam %d; beam %d proposed it", beam,
				level, path[level-1], c.Beam)
		}
	}
	return g.first[level] + int(beam), nil
}

// draftLevels starts, runs and decodes a tree.
func (t *trees) draftLevels(ctx context.Context, r *spec.DraftRequest) ([]spec.Level, error) {
	d := t.draft
	if err := t.start(ctx, r); err != nil {
		return nil, err
	}
	if err := d.run(d.programs, d.regions...); err != nil {
		return nil, err
	}
	return t.end(r)
}

// given returns the beams of a request's level that its layout names; nil: the draft chooses them.
func given(r *spec.DraftRequest, level int) []int32 {
	if r.Layout == nil {
		return nil
	}
	return r.Layout.Beams[level]
}

// checkLayout refuses layouts that do not name beams of every level of a tree, and trees that need a layout.
func checkLayout(r *spec.DraftRequest) error {
	if r.Layout == nil {
		if r.Drawn && r.Depth > 0 {
			return errors.New("runner: a tree drawn without replacement needs a layout")
		}
		return nil
	}
	if len(r.Layout.Beams) != r.Depth {
		return fmt.Errorf("runner: a layout of %d levels for a tree of %d", len(r.Layout.Beams)+1, r.Depth+1)
	}
	for _, beams := range r.Layout.Beams {
		if len(beams) == 0 || len(beams) > r.K {
			return fmt.Errorf("runner: a layout with %d beams of a level; want 1 to %d", len(beams), r.K)
		}
	}
	return nil
}

// start starts the run of a tree.
func (t *trees) start(ctx context.Context, r *spec.DraftRequest) error {
	d := t.draft
	rule := ruleOf(r)
	if err := checkLayout(r); err != nil {
		return err
	}
	p, err := t.programsFor(r.Depth, r.K)
	if err != nil {
		return err
	}
	if r.EntropyTop == 0 {
		t.top.count = 0
	} else if err := t.prepareTop(p, r.EntropyTop); err != nil {
		return err
	}
	if rule == drawn {
		if drawParams(r.Sampling, 0, true).Words()[0] == 0 {
			return errors.New("runner: children cannot be drawn without replacement at temperature 0; rank them")
		}
		if err := t.prepareDrawn(r.Depth, r.K); err != nil {
			return err
		}
		if err := t.checkDistributions(r); err != nil {
			return err
		}
	}
	rows, err := d.begin(ctx, r.Pending, r.Depth)
	if err != nil {
		return err
	}
	if rule == drawn {
		if err := d.writeDraw(r.Sampling, spec.StreamDraft, true); err != nil {
			return err
		}
		t.distributions.used = 0
		if err := t.placeDistributions(t.distributions.place, 1); err != nil {
			return err
		}
		d.programs = append(d.programs, d.rootForward[rows-1], t.distributions.root, p.root.draw)
	} else {
		if err := d.writeDraw(r.Sampling, spec.StreamTarget, r.Coupled && r.Sampling.Temperature > 0); err != nil {
			return err
		}
		d.programs = append(d.programs, d.rootForward[rows-1])
		t.rank(&p.root)
	}
	for level := range r.Depth {
		beams := given(r, level)
		if rule == drawn {
			if err := t.placeDistributions(p.buffers.places[level].view(0, sample.KeepWords), len(beams)); err != nil {
				return err
			}
		}
		if err := t.addLevel(p, level, d.seq.Len(), rule, beams); err != nil {
			return err
		}
	}
	t.readLevels(&p.root, p.levels[:r.Depth])
	return nil
}

// end decodes the readback of a run that start started.
func (t *trees) end(r *spec.DraftRequest) ([]spec.Level, error) {
	d := t.draft
	p := t.programs[r.K]
	t.last.begin(p, d.seq.Len(), ruleOf(r), t.top.count > 0)
	t.last.decode(&p.root, 1, d.estimator != nil)
	t.decodeLevels(p.levels[:r.Depth], 0, r.Layout)
	return t.drafted()
}

// drafted returns the levels of the tree, or an error if logits that they come from are not finite.
func (t *trees) drafted() ([]spec.Level, error) {
	if g := &t.last; g.broken >= 0 {
		return nil, t.draft.notFinite(g.base - 1 + g.broken)
	}
	return t.last.levels, nil
}

// addLevel places the beams of a level and adds its pass to the run.
func (t *trees) addLevel(p *treePrograms, level, base int, rule candidateRule, given []int32) error {
	if err := t.placeLevel(p, level, base, rule, given); err != nil {
		return err
	}
	t.addForward(&p.levels[level], rule)
	return nil
}

// placeLevel takes slots for the beams of a level and adds their selection, by the device or as given, to the run.
func (t *trees) placeLevel(p *treePrograms, level, base int, rule candidateRule, given []int32) error {
	d := t.draft
	l, first := &p.levels[level], len(d.slots)
	var err error
	if d.slots, err = d.seq.Take(p.k, d.slots); err != nil {
		return err
	}
	own := d.slots[first:]
	for i, slot := range own { // tree.RecordSelect writes tokens and ancestors
		l.pass.Set(i, 0, base+level, slot, base)
	}
	if err := l.pass.WritePlaces(); err != nil {
		return err
	}
	choose := l.choose
	if rule == pruned {
		choose = l.prune
	}
	d.programs = append(d.programs, choose)
	t.slotWords = append(t.slotWords[:0], own...)
	for i := range own {
		switch {
		case i < len(given):
			t.slotWords = append(t.slotWords, uint32(given[i]))
		case len(given) > 0:
			t.slotWords = append(t.slotWords, uint32(given[0])) // an unused row
		default:
			t.slotWords = append(t.slotWords, tree.NotGiven)
		}
	}
	return d.Graph.Dev.Write(l.slots.Buffer, l.slots.Offset, webgpu.U32Bytes(t.slotWords))
}

// addForward adds the programs of a level whose beams are chosen.
func (t *trees) addForward(l *levelPrograms, rule candidateRule) {
	d := t.draft
	if rule == drawn {
		d.programs = append(d.programs, l.forward, l.store, l.out.draw)
	} else {
		d.programs = append(d.programs, l.forward)
		t.rank(&l.out)
	}
	if d.estimator != nil {
		d.programs = append(d.programs, *l.out.accept.of(d.estimator))
	}
}

// readLevels reads the levels back, and a proposal before them if before is not nil.
func (t *trees) readLevels(before *proposal, levels []levelPrograms) {
	t.draft.regions = t.draft.regions[:0]
	if before != nil {
		t.read(before)
	}
	for i := range levels {
		t.read(&levels[i].out)
	}
}

// decodeLevels decodes levels whose beams the device chose or a layout names; their slots begin at index first. A
// pruned tree ends at the first level without beams.
func (t *trees) decodeLevels(levels []levelPrograms, first int, layout *spec.Layout) {
	g := &t.last
	for i := range levels {
		chosen := t.chosenBeams(&levels[i])
		if layout != nil {
			chosen = chosen[:len(layout.Beams[i])]
		}
		if len(chosen) == 0 {
			return
		}
		g.extend(chosen, first+i*g.programs.k)
		g.decode(&levels[i].out, len(chosen), t.draft.estimator != nil)
	}
}

// chosenBeams returns the candidates of the last level that became the beams of next, from the readback; valid
// until the next call.
func (t *trees) chosenBeams(next *levelPrograms) []int32 {
	g := &t.last
	n, k := g.programs.k, g.programs.k
	chosen, _ := tree.DecodeSelect(next.out.result.memory(), len(g.values[g.last()]), k)
	if end := slices.Index(chosen, tree.NotGiven); g.rule == pruned && end >= 0 { // bound: TopK
		n = end
	}
	g.order = resize(g.order, n)
	for j, c := range chosen[:n] {
		g.order[j] = int32(c)
	}
	return g.order
}

// ruleOf returns the rule by which a request drafts.
func ruleOf(r *spec.DraftRequest) candidateRule {
	switch {
	case r.Classifier != nil:
		return pruned
	case r.Drawn:
		return drawn
	}
	return ranked
}

// ready reports whether the programs of a request's tree are compiled and its beams fit them.
func (t *trees) ready(r *spec.DraftRequest) bool {
	p := t.programs[r.K]
	if p == nil || len(p.levels) < r.Depth || checkLayout(r) != nil {
		return false
	}
	return !r.Drawn || t.drawnReady(p, r.Depth) && t.checkDistributions(r) == nil
}

// extend grows the last tree.
func (t *trees) extend(e spec.Extension) ([]spec.Level, error) {
	switch {
	case t.last.programs == nil:
		return nil, errors.New("runner: no tree to grow; Draft begins one, and Commit ends it")
	case t.last.rule == drawn:
		return nil, errors.New("runner: a tree drawn without replacement cannot grow")
	case t.last.rule == pruned:
		return t.finishPruned()
	case len(e.Beams) > 0:
		return t.expand(e.Beams)
	}
	return t.grow(e.Passes)
}

// grow runs passes over the best candidates.
func (t *trees) grow(passes int) ([]spec.Level, error) {
	d := t.draft
	g := &t.last
	if passes < 1 {
		return nil, fmt.Errorf("runner: a tree to grow by %d passes; want at least one", passes)
	}
	level := g.last()
	p, err := t.programsFor(level+passes, g.programs.k)
	if err != nil {
		return nil, err
	}
	if err := d.checkContext(g.base, level+passes); err != nil {
		return nil, err
	}
	if passes*p.k > d.seq.Free() {
		return nil, kv.ErrFull
	}
	levels := p.levels[level : level+passes]
	// The host knows the candidates of the last level and chooses the first beams; the device chooses the later
	// ones.
	first, beams := len(d.slots), g.best()
	if err := t.placeBeams(&levels[0].pass, beams); err != nil {
		return nil, err
	}
	g.scores = resize(g.scores, p.k)
	for i, c := range beams {
		g.scores[i] = g.value(level, c)
	}
	scores := levels[0].scores
	if err := d.Graph.Dev.Write(scores.Buffer, scores.Offset, webgpu.F32Bytes(g.scores)); err != nil {
		return nil, err
	}
	if err := levels[0].pass.Write(p.k); err != nil {
		return nil, err
	}
	return t.runLevels(level, level+passes, ranked, beams, first)
}

// runLevels runs the levels [level, end) in one submit and adds them to the tree. The beams of the first level have
// their places, with slots from d.slots[first] on; the device chooses the beams of the other levels.
func (t *trees) runLevels(level, end int, rule candidateRule, beams []int32, first int) ([]spec.Level, error) {
	d, g := t.draft, &t.last
	p := g.programs
	levels := p.levels[level:end]
	d.programs = d.programs[:0]
	t.addForward(&levels[0], rule)
	for i := level + 1; i < end; i++ {
		if err := t.addLevel(p, i, g.base, rule, nil); err != nil {
			return nil, err
		}
	}
	t.readLevels(nil, levels)
	if err := d.run(d.programs, d.regions...); err != nil {
		return nil, err
	}
	g.extend(beams, first)
	g.decode(&levels[0].out, len(beams), d.estimator != nil)
	t.decodeLevels(levels[1:], first+p.k, nil)
	return t.drafted()
}

// expand runs one pass over beams that the host chose.
func (t *trees) expand(beams []int32) ([]spec.Level, error) {
	d := t.draft
	g := &t.last
	n, level := len(beams), g.last()
	if n > d.Graph.Options.TopK {
		return nil, fmt.Errorf("runner: %d beams to expand; want at most %d", n, d.Graph.Options.TopK)
	}
	for i, b := range beams {
		if b < 0 || int(b) >= len(g.levels[level].Candidates) || slices.Contains(beams[:i], b) { // bound: TopK
			return nil, fmt.Errorf("runner: candidate %d of %d to expand, twice or out of range", b,
				len(g.levels[level].Candidates))
		}
	}
	if level >= maxPasses {
		return nil, fmt.Errorf("runner: a tree of more than %d levels", maxPasses+1)
	}
	if err := d.checkContext(g.base, level+1); err != nil {
		return nil, err
	}
	if n > d.seq.Free() {
		return nil, kv.ErrFull
	}
	if err := t.prepareHost(g.programs, n); err != nil {
		return nil, err
	}
	if g.top {
		if err := t.prepareTop(g.programs, t.top.count); err != nil {
			return nil, err
		}
	}
	first := len(d.slots)
	if err := t.placeBeams(&t.hostPass, beams); err != nil {
		return nil, err
	}
	rows := kv.Buckets[kv.Bucket(n)]
	t.hostPass.Pad(n, rows)
	if err := t.hostPass.Write(rows); err != nil {
		return nil, err
	}
	out := g.programs.hostProposal(n)
	d.programs = append(d.programs[:0], t.hostForward[kv.Bucket(n)])
	t.rank(out)
	if d.estimator != nil {
		d.programs = append(d.programs, *out.accept.of(d.estimator))
	}
	d.regions = d.regions[:0]
	t.read(out)
	if err := d.run(d.programs, d.regions...); err != nil {
		return nil, err
	}
	g.extend(beams, first)
	g.decode(out, n, d.estimator != nil)
	return t.drafted()
}

// placeBeams takes slots for candidates of the last level and fills the first rows of a pass with them.
func (t *trees) placeBeams(b *kv.Pass, beams []int32) error {
	d := t.draft
	g, first := &t.last, len(d.slots)
	var err error
	if d.slots, err = d.seq.Take(len(beams), d.slots); err != nil {
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
		b.Set(i, token, g.base+level, d.slots[first+i], g.base, path[:level+1]...)
	}
	return nil
}
