package tune

import (
	"slices"
	"strconv"
	"time"

	"foretoken/webgpu"
	"foretoken/webgpu/kernels"
	"foretoken/webgpu/kernels/matmul"
)

// TimedRows is the number of rows at which families are timed: the size of a small tree, the common case of
// verification.
const TimedRows = 4

// repeats makes a program long enough that its run dominates the wait for it.
const repeats = 16

// timer times programs in buffers that hold no data yet.
type timer struct {
	*Tuning
	built []*kernels.Built
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
		r := kernels.NewRecorder("tuning", t.config.Device.Info())
		record(r)
		recorders = append(recorders, r)
	}
	b, err := kernels.Build(t.config.Device, recorders...)
	if err != nil {
		return nil, err
	}
	t.built = append(t.built, b)
	return b.Programs, nil
}

// cost returns the shortest of several runs, after a run that warms up the driver.
func (t *timer) cost(p webgpu.Program, runs int) (time.Duration, error) {
	var word [4]byte
	best := time.Duration(1 << 62)
	for i := range runs + 1 {
		begin := time.Now()
		if err := t.config.Device.Run([]webgpu.Program{p}, webgpu.Region{Buffer: t.config.Scratch.Buffer,
			Dst: word[:]}); err != nil {
			return 0, err
		}
		if i > 0 {
			best = min(best, time.Since(begin))
		}
	}
	return best, nil
}

// fastest returns the index of the program that takes least time. It times each once and, unless that is far
// behind, repeated. A later program must be clearly faster than an earlier one; otherwise noise would change the
// choice from load to load.
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
		limit = min(limit, 3*once[i]+time.Millisecond) // a single timing may be off by a factor of two
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

func (t *timer) chooseLanes(shipped Choices) error {
	for _, known := range []string{t.config.Known["rows"], shipped.Rows} {
		if v, err := strconv.Atoi(known); err == nil && (v == int(kernels.Serial) || v == int(kernels.Grouped)) {
			t.Lanes = kernels.Lanes(v)
			return nil
		}
	}
	// On software adapters barriers cost several times what they save, but timings on a busy processor often say
	// otherwise.
	if t.config.Device.Info().Software {
		t.Lanes = kernels.Serial
		return nil
	}
	if t.config.Refuse != nil {
		return t.config.Refuse
	}
	t.preparing("timing reductions")
	lanes := []kernels.Lanes{kernels.Serial, kernels.Grouped}
	var records []func(*kernels.Recorder)
	for _, l := range lanes {
		records = append(records, func(r *kernels.Recorder) {
			t.config.Reduce(r, l)
		})
	}
	i, err := t.fastest(records...)
	if err == nil {
		t.Lanes = lanes[i]
	}
	return err
}

// everyFamily lists the device's families that accept a weight, narrow tiles before wide ones, because they compile
// faster.
func everyFamily(info webgpu.Info, w *kernels.Weight) []matmul.Family {
	var all []matmul.Family
	for _, f := range matmul.Families(info) {
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

// choose times families on a weight: first the kinds that differ at the size of a small tree, then, among families
// of the fastest kind, those that differ only in large tiles.
func (t *timer) choose(w *kernels.Weight, candidates []matmul.Family) (matmul.Family, error) {
	var kinds []matmul.Family
	for _, f := range candidates {
		if !slices.Contains(kinds, f.Narrow()) {
			kinds = append(kinds, f.Narrow())
		}
	}
	kind, err := t.fastestFamily(w, kinds, TimedRows)
	if err != nil {
		return matmul.Family{}, err
	}
	same := slices.DeleteFunc(slices.Clone(candidates), func(f matmul.Family) bool { return f.Narrow() != kind })
	if t.config.Refuse != nil || same[0].For(w) == same[len(same)-1].For(w) || t.rows(w) < kind.Most {
		return same[0], nil
	}
	return t.fastestFamily(w, same, kind.Most)
}

// fastestFamily returns the family that takes least time for a product of so many rows.
func (t *timer) fastestFamily(w *kernels.Weight, families []matmul.Family, rows int) (matmul.Family, error) {
	if len(families) == 1 {
		return families[0], nil
	}
	if t.config.Refuse != nil {
		return matmul.Family{}, t.config.Refuse
	}
	t.preparing("timing " + Class(w))
	var records []func(*kernels.Recorder)
	for _, f := range families {
		records = append(records, func(r *kernels.Recorder) {
			x, out := t.scratch(w)
			matmul.Record(r, f, w, kernels.Rows{View: x, Stride: w.Cols}, kernels.Rows{View: out, Stride: w.Rows},
				rows, false)
		})
	}
	i, err := t.fastest(records...)
	if err != nil {
		return matmul.Family{}, err
	}
	return families[i], nil
}
