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
	untimed bool // take the first choice
	built   []*kernels.Built
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

func (t *timer) chooseLanes() error {
	lanes := kernels.Ways(t.config.Device.Info())
	known, err := strconv.Atoi(t.config.Known["rows"])
	if err == nil && slices.Contains(lanes, kernels.Lanes(known)) {
		t.Lanes = kernels.Lanes(known)
		return nil
	}
	var records []func(*kernels.Recorder)
	for _, l := range lanes {
		records = append(records, func(r *kernels.Recorder) {
			t.config.Reduce(r, l)
		})
	}
	i, err := t.choose("reductions", records)
	if err == nil {
		t.Lanes = lanes[i]
	}
	return err
}

func (t *timer) chooseFamily(w *kernels.Weight) (matmul.Family, error) {
	families := matmul.Families(t.config.Device.Info())
	var records []func(*kernels.Recorder)
	for _, f := range families {
		records = append(records, func(r *kernels.Recorder) {
			x, out := t.scratch(w)
			matmul.Record(r, f, w, kernels.Rows{View: x, Stride: w.Cols}, kernels.Rows{View: out, Stride: w.Rows},
				TimedRows, false)
		})
	}
	i, err := t.choose(Class(w), records)
	return families[i], err
}

// choose returns the index of the fastest of several programs, or 0 if there is one or nothing is timed.
func (t *timer) choose(what string, records []func(*kernels.Recorder)) (int, error) {
	switch {
	case t.untimed || len(records) == 1:
		return 0, nil
	case t.config.Refuse != nil:
		return 0, t.config.Refuse
	}
	t.preparing("timing " + what)
	return t.fastest(records...)
}
