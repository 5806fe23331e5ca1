package llama

import (
	"fmt"
	"slices"
	"sort"
	"strconv"
	"time"

	"foretoken/webgpu"
	"foretoken/webgpu/kernels"
)

// tuning is which kernel family serves what on this device.
type tuning struct {
	lanes    kernels.Lanes
	families map[string]kernels.Family
	proofs   map[string]*proof // by format and family
	err      error             // what went wrong with a proof since the last build
}

// class names the matrices that share a choice: those of one format and shape.
func class(w *kernels.Weight) string { return fmt.Sprintf("%s %dx%d", w.Format, w.Rows, w.Cols) }

func (t *tuning) family(w *kernels.Weight) kernels.Family { return t.families[class(w)] }

func proofKey(w *kernels.Weight, f kernels.Family) string { return fmt.Sprint(w.Format, " ", f) }

// Tuning is the choice made for each class of kernels, to be kept for the next
// Load on the same adapter: a choice made anew may differ, and with it the last
// bits of the logits.
func (m *Model) Tuning() map[string]string {
	out := map[string]string{"rows": strconv.Itoa(int(m.tuning.lanes))}
	for _, w := range m.weights() {
		f := m.tuning.family(w)
		if p := m.tuning.proofs[proofKey(w, f)]; p != nil && p.failed {
			f.Fixed = true
		}
		out[class(w)] = f.String()
	}
	return out
}

// tuneRows is how many rows of x the families are timed at: the size of a small
// tree, where verification lives.
const tuneRows = 4

// repeats makes a program long enough that the wait for its end is not what is timed.
const repeats = 16

// tune chooses a family for each class of matrix: as it was chosen before, as
// was measured on an adapter like this one (choices.json), or by timing.
//
// On a software adapter the largest matrix of a format decides for all: there the
// shape matters little, and each class would put half a second before the first token.
func (m *Model) tune() error {
	m.tuning = tuning{lanes: kernels.Serial, families: map[string]kernels.Family{}, proofs: map[string]*proof{}}
	weights := m.weights()
	if m.dev.Info().Backend == "cpu" { // references have no families
		for _, w := range weights {
			m.tuning.families[class(w)] = kernels.Families(m.dev.Info())[0]
		}
		return nil
	}
	t := &timer{m: m}
	defer t.free()
	if m.planning() {
		t.refuse = fmt.Errorf("llama: %s: kernels are still to be timed on this device", m.file)
	}
	var shipped choices
	if !m.opts.timed {
		shipped = choicesFor(m.dev.Info())
	}
	if err := t.chooseLanes(shipped); err != nil {
		return err
	}
	sort.SliceStable(weights, func(i, j int) bool { return weights[i].Rows*weights[i].Cols > weights[j].Rows*weights[j].Cols })
	chosen := map[kernels.Format]kernels.Family{} // for the largest
	for _, w := range weights {
		key := class(w)
		if _, ok := m.tuning.families[key]; ok {
			continue
		}
		family, ok := kernels.ParseFamily(m.dev.Info(), m.opts.Tuning[key])
		if first, had := chosen[w.Format]; !ok && had && m.dev.Info().Software {
			family, ok = first, true
		}
		if !ok {
			candidates := shipped.candidates(m.dev.Info(), w.Format)
			if len(candidates) == 0 {
				candidates = everyFamily(m.dev.Info(), w)
			}
			var err error
			if family, err = t.choose(w, candidates); err != nil {
				return err
			}
		}
		if _, had := chosen[w.Format]; !had {
			chosen[w.Format] = family
		}
		m.tuning.families[key] = family.For(w)
	}
	return nil
}

func (m *Model) preparing(step string) {
	if m.opts.Preparing != nil {
		m.opts.Preparing(step)
	}
}

// weights lists every weight once.
func (m *Model) weights() []*kernels.Weight {
	var all []*kernels.Weight
	for i := range m.layers {
		for _, w := range []*matrix{m.layers[i].qkv, m.layers[i].out, m.layers[i].gates, m.layers[i].down} {
			all = append(all, w.weights...)
		}
	}
	for _, e := range m.extra {
		all = append(all, e.matrix.weights...)
	}
	return append(all, m.output.weights...)
}

// extra is a matrix that a network has beside those of a model's blocks, and the
// buffers that hold the rows it reads and writes.
type extra struct {
	matrix *matrix
	x, out kernels.View
}

// timer times programs on the model's workspace, which holds nothing yet.
type timer struct {
	m      *Model
	built  []*kernels.Built
	refuse error // why nothing can be timed
}

func (t *timer) free() {
	for _, b := range t.built {
		b.Free()
	}
}

// programs records and builds several programs, whose kernels compile together.
func (t *timer) programs(records ...func(*kernels.Recorder)) ([]webgpu.Program, error) {
	var recorders []*kernels.Recorder
	for _, record := range records {
		r := t.m.recorder("tuning")
		record(r)
		recorders = append(recorders, r)
	}
	b, err := kernels.Build(t.m.dev, recorders...)
	if err != nil {
		return nil, err
	}
	t.built = append(t.built, b)
	return b.Programs, nil
}

// cost is the shortest of a few runs after one that pays for what the driver does late.
func (t *timer) cost(p webgpu.Program, runs int) (time.Duration, error) {
	var word [4]byte
	best := time.Duration(1 << 62)
	for i := range runs + 1 {
		begin := time.Now()
		if err := t.m.dev.Run([]webgpu.Program{p}, webgpu.Region{Buffer: t.m.work.scratch.Buffer, Dst: word[:]}); err != nil {
			return 0, err
		}
		if i > 0 {
			best = min(best, time.Since(begin))
		}
	}
	return best, nil
}

// fastest is the index of the program that takes least. Each comes once and, when
// its first timing is not hopeless, repeated. A later one must be clearly
// better: what timing noise decides would change from load to load.
func (t *timer) fastest(records ...func(*kernels.Recorder)) (int, error) {
	var all []func(*kernels.Recorder)
	for _, record := range records {
		all = append(all, record, func(r *kernels.Recorder) {
			for range repeats {
				record(r)
			}
		})
	}
	programs, err := t.programs(all...)
	if err != nil {
		return 0, err
	}
	once, limit := make([]time.Duration, len(records)), time.Duration(1<<62)
	for i := range records {
		if once[i], err = t.cost(programs[2*i], 1); err != nil {
			return 0, err
		}
		limit = min(limit, 3*once[i]+time.Millisecond) // a single timing may be twice what it should
	}
	chosen, best := -1, time.Duration(0)
	for i := range records {
		if once[i] > limit {
			continue
		}
		took, err := t.cost(programs[2*i+1], 3)
		if err != nil {
			return 0, err
		}
		if chosen < 0 || float64(took) < 0.93*float64(best) {
			chosen, best = i, took
		}
	}
	return chosen, nil
}

func (t *timer) chooseLanes(shipped choices) error {
	m := t.m
	for _, known := range []string{m.opts.Tuning["rows"], shipped.Rows} {
		if v, err := strconv.Atoi(known); err == nil && (v == int(kernels.Serial) || v == int(kernels.Grouped)) {
			m.tuning.lanes = kernels.Lanes(v)
			return nil
		}
	}
	// There barriers cost several times what they spare (attention five times after 4,096 tokens on lavapipe), but a busy
	// processor makes timings say otherwise one time in four.
	if m.dev.Info().Software {
		m.tuning.lanes = kernels.Serial
		return nil
	}
	if t.refuse != nil {
		return t.refuse
	}
	m.preparing("timing reductions")
	lanes := []kernels.Lanes{kernels.Serial, kernels.Grouped}
	var records []func(*kernels.Recorder)
	for _, l := range lanes {
		records = append(records, func(r *kernels.Recorder) {
			r.RMSNorm(l, m.work.x, m.outNorm, m.work.norm, tuneRows, m.cfg.Dim, m.cfg.Eps)
			r.Sample(l, m.logitRows(min(tuneRows, m.opts.MaxRows)), m.opts.TopK, kernels.RawLogits, m.work.draw, m.work.inputs, m.work.scratch, m.work.scores)
		})
	}
	i, err := t.fastest(records...)
	if err == nil {
		m.tuning.lanes = lanes[i]
	}
	return err
}

// everyFamily lists the families of a device that a weight takes, wide tiles after narrow ones, which compile faster.
func everyFamily(info webgpu.Info, w *kernels.Weight) []kernels.Family {
	var all []kernels.Family
	for _, f := range kernels.Families(info) {
		if !f.Takes(w.Format) {
			continue
		}
		all = append(all, f.Narrow())
		if f.For(w) != f.Narrow() {
			all = append(all, f)
		}
	}
	return all
}

// choose times families on a weight: those with different tiles for a small tree at its size, and then,
// of the one that was chosen, those that only differ in large tiles at these.
func (t *timer) choose(w *kernels.Weight, candidates []kernels.Family) (kernels.Family, error) {
	var kinds []kernels.Family
	for _, f := range candidates {
		if !slices.Contains(kinds, f.Narrow()) {
			kinds = append(kinds, f.Narrow())
		}
	}
	kind, err := t.fastestFamily(w, kinds, tuneRows)
	if err != nil {
		return kernels.Family{}, err
	}
	same := slices.DeleteFunc(slices.Clone(candidates), func(f kernels.Family) bool { return f.Narrow() != kind })
	if t.refuse != nil || same[0].For(w) == same[len(same)-1].For(w) || t.rows(w) < kind.Most {
		return same[0], nil
	}
	return t.fastestFamily(w, same, kind.Most)
}

// fastestFamily is the one that takes least for a product of so many rows.
func (t *timer) fastestFamily(w *kernels.Weight, families []kernels.Family, rows int) (kernels.Family, error) {
	if len(families) == 1 {
		return families[0], nil
	}
	if t.refuse != nil {
		return kernels.Family{}, t.refuse
	}
	t.m.preparing("timing " + class(w))
	var records []func(*kernels.Recorder)
	for _, f := range families {
		records = append(records, func(r *kernels.Recorder) {
			x, out := t.scratch(w)
			r.MatMul(f, w, kernels.Rows{View: x, Stride: w.Cols}, kernels.Rows{View: out, Stride: w.Rows}, rows, false)
		})
	}
	i, err := t.fastest(records...)
	if err != nil {
		return kernels.Family{}, err
	}
	return families[i], nil
}

// rows is how many rows of a weight's inputs and outputs the workspace holds.
func (t *timer) rows(w *kernels.Weight) int {
	x, out := t.scratch(w)
	return min(x.Size/(4*w.Cols), out.Size/(4*w.Rows))
}

// scratch finds workspace buffers that hold the inputs and outputs of a weight. Blocks have
// matrices of one shape in different formats, so a class may be missing from any of them.
func (t *timer) scratch(w *kernels.Weight) (x, out kernels.View) {
	k := &t.m.work
	same := func(m *matrix) bool {
		return slices.ContainsFunc(m.weights, func(other *kernels.Weight) bool { return class(other) == class(w) })
	}
	for _, e := range t.m.extra {
		if same(e.matrix) {
			return e.x, e.out
		}
	}
	if same(t.m.output) {
		return k.norm, k.logits
	}
	for i := range t.m.layers {
		switch y := &t.m.layers[i]; {
		case same(y.qkv):
			return k.norm, k.qkv
		case same(y.out):
			return k.att, k.x
		case same(y.down):
			return k.act, k.x
		case same(y.gates):
			return k.norm, k.gates
		}
	}
	panic("llama: a weight of " + class(w) + " belongs to no block")
}
