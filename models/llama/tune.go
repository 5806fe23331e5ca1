package llama

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"time"

	"foretoken/webgpu"
	"foretoken/webgpu/kernels"
)

// tuning is which kernel family serves what on this device.
type tuning struct {
	lanes    kernels.Lanes
	families map[string]kernels.Family
}

// class names the matrices that share a choice: those of one format and shape.
func class(w *kernels.Weight) string { return fmt.Sprintf("%s %dx%d", w.Format, w.Rows, w.Cols) }

func (t *tuning) family(w *kernels.Weight) kernels.Family { return t.families[class(w)] }

// Tuning is the choice made for each class of kernels, to be kept for the next
// Load on the same adapter: a choice made anew may differ, and with it the last
// bits of the logits.
func (m *Model) Tuning() map[string]string {
	out := map[string]string{"rows": strconv.Itoa(int(m.tuning.lanes))}
	for k, f := range m.tuning.families {
		out[k] = f.String()
	}
	return out
}

// tuneRows is how many rows of x the families are timed at: the size of a small
// tree, where verification lives.
const tuneRows = 4

// tune chooses a family for each class of matrix by timing, unless it was
// chosen before, and proves on the device that the bits of a row do not depend
// on how many rows there are. A family that fails is replaced by its one-row
// pipeline.
func (m *Model) tune() error {
	m.tuning = tuning{lanes: kernels.Serial, families: map[string]kernels.Family{}}
	if m.dev.Info().Backend == "cpu" { // references have no families
		for _, w := range m.weights() {
			m.tuning.families[class(w)] = kernels.Families[0]
		}
		return nil
	}
	t := &timer{m: m}
	defer t.free()
	if err := t.chooseLanes(); err != nil {
		return err
	}
	proved := map[string]kernels.Family{}
	for _, w := range m.weights() {
		key := class(w)
		if _, ok := m.tuning.families[key]; ok {
			continue
		}
		family, ok := parseFamily(m.opts.Tuning[key])
		if !ok {
			var err error
			if family, err = t.choose(w); err != nil {
				return err
			}
		}
		proof := fmt.Sprint(w.Format, family)
		if _, ok := proved[proof]; !ok {
			m.preparing("checking " + proof)
			same, err := t.invariant(w, family)
			if err != nil {
				return err
			}
			if proved[proof] = family; !same {
				family.Fixed = true
				proved[proof] = family
			}
		}
		m.tuning.families[key] = proved[proof]
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
	return append(all, m.output.weights...)
}

func parseFamily(s string) (kernels.Family, bool) {
	for _, f := range kernels.Families {
		for _, f.Fixed = range []bool{false, true} {
			if f.String() == s {
				return f, true
			}
		}
	}
	return kernels.Family{}, false
}

// timer times programs on the model's workspace, which holds nothing yet.
type timer struct {
	m     *Model
	built []*kernels.Built
}

func (t *timer) free() {
	for _, b := range t.built {
		b.Free()
	}
}

func (t *timer) program(record func(*kernels.Recorder)) (webgpu.Program, error) {
	r := t.m.recorder("tuning")
	record(r)
	b, err := kernels.Build(t.m.dev, r)
	if err != nil {
		return 0, err
	}
	t.built = append(t.built, b)
	return b.Programs[0], nil
}

// cost is the shortest of a few runs; it gives up after the first where that
// took longer than limit.
func (t *timer) cost(p webgpu.Program, limit time.Duration) (time.Duration, error) {
	var word [4]byte
	best := time.Duration(1 << 62)
	for i := range 4 {
		begin := time.Now()
		if err := t.m.dev.Run([]webgpu.Program{p}, webgpu.Region{Buffer: t.m.work.scratch.Buffer, Dst: word[:]}); err != nil {
			return 0, err
		}
		took := time.Since(begin)
		if i > 0 || took > limit { // the first run also pays for what the driver does late
			best = min(best, took)
		}
		if took > limit {
			break
		}
	}
	return best, nil
}

// repeats makes a program long enough that the wait for its end is not what is timed.
const repeats = 16

func (t *timer) chooseLanes() error {
	m := t.m
	if v, err := strconv.Atoi(m.opts.Tuning["rows"]); err == nil && (v == int(kernels.Serial) || v == int(kernels.Grouped)) {
		m.tuning.lanes = kernels.Lanes(v)
		return nil
	}
	m.preparing("timing reductions")
	best, limit := time.Duration(0), time.Duration(1<<62)
	for _, lanes := range []kernels.Lanes{kernels.Serial, kernels.Grouped} {
		p, err := t.program(func(r *kernels.Recorder) {
			for range repeats {
				r.RMSNorm(lanes, m.work.x, m.outNorm, m.work.norm, tuneRows, m.cfg.Dim, m.cfg.Eps)
			}
		})
		if err != nil {
			return err
		}
		took, err := t.cost(p, limit)
		if err != nil {
			return err
		}
		if best == 0 || took < best {
			m.tuning.lanes, best, limit = lanes, took, 4*took
		}
	}
	return nil
}

// choose times every family on a weight.
func (t *timer) choose(w *kernels.Weight) (kernels.Family, error) {
	m := t.m
	m.preparing("timing " + class(w))
	best, limit, chosen := time.Duration(0), time.Duration(1<<62), kernels.Families[0]
	for _, f := range kernels.Families {
		p, err := t.program(func(r *kernels.Recorder) {
			for range repeats {
				t.product(r, f, w, tuneRows)
			}
		})
		if err != nil {
			return chosen, err
		}
		took, err := t.cost(p, limit)
		if err != nil {
			return chosen, err
		}
		// A later family must be clearly better: what timing noise decides would
		// change from load to load.
		if best == 0 || float64(took) < 0.93*float64(best) {
			chosen, best, limit = f, took, 4*took
		}
	}
	return chosen, nil
}

// product records x·wᵀ on the workspace: gates and act are the widest of its buffers.
func (t *timer) product(r *kernels.Recorder, f kernels.Family, w *kernels.Weight, rows int) {
	x, out := t.scratch(w)
	r.MatMul(f, w, kernels.Rows{View: x, Stride: w.Cols}, kernels.Rows{View: out, Stride: w.Rows}, rows, false)
}

// scratch finds workspace buffers that hold the inputs and outputs of a weight.
func (t *timer) scratch(w *kernels.Weight) (x, out kernels.View) {
	k := &t.m.work
	switch {
	case t.m.output.weights[0] == w:
		return k.norm, k.logits
	case w.Rows == t.m.cfg.Dim: // attention output or down
		if w.Cols == t.m.cfg.FFN {
			return k.act, k.x
		}
		return k.att, k.x
	case w.Rows > t.m.heads.Width():
		return k.norm, k.gates
	}
	for _, q := range t.m.layers[0].qkv.weights {
		if class(q) == class(w) {
			return k.norm, k.qkv
		}
	}
	return k.norm, k.gates
}

// invariant runs a family at every tile on random rows and compares the bits with
// those of each row alone.
func (t *timer) invariant(w *kernels.Weight, f kernels.Family) (bool, error) {
	m := t.m
	x, out := t.scratch(w)
	rows := min(m.opts.MaxRows, prefillRows)
	rng := rand.New(rand.NewPCG(1, 2))
	floats := make([]float32, rows*w.Cols)
	for i := range floats {
		floats[i] = float32(rng.NormFloat64())
	}
	if err := m.dev.Write(x.Buffer, x.Offset, webgpu.F32Bytes(floats)); err != nil {
		return false, err
	}
	var want webgpu.Memory
	for _, tile := range kernels.Tiles {
		if tile > rows {
			break
		}
		p, err := t.program(func(r *kernels.Recorder) {
			for from := 0; from < rows; from += tile {
				r.MatMul(f, w, kernels.Rows{View: x, Offset: from * w.Cols, Stride: w.Cols},
					kernels.Rows{View: out, Offset: from * w.Rows, Stride: w.Rows}, min(tile, rows-from), false)
			}
		})
		if err != nil {
			return false, err
		}
		got := webgpu.NewMemory(rows * w.Rows * 4)
		if err := m.dev.Run([]webgpu.Program{p}, webgpu.Region{Buffer: out.Buffer, Offset: out.Offset, Dst: got.Bytes()}); err != nil {
			return false, err
		}
		if want == nil {
			want = got
			continue
		}
		for i := range got {
			if got[i] != want[i] {
				return false, nil
			}
		}
	}
	return true, nil
}
