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

const (
	// longEnough is the time of a submit beside which the wait for it matters little.
	longEnough = 4 * time.Millisecond
	// settled is how long a device is run before the first timing without getting faster.
	settled = 400 * time.Millisecond
	// budget bounds the time that all timings of a load take. Choices after it are the first ones.
	budget = 2 * time.Second
)

// timer times programs in buffers that hold no data yet.
type timer struct {
	*Tuning
	Timer
	untimed bool // take the first choice
	begun   bool
	built   []*kernels.Built
}

func newTimer(t *Tuning, budget time.Duration) *timer {
	read := webgpu.Region{Buffer: t.config.Scratch.Buffer, Dst: make([]byte, 4)}
	return &timer{Tuning: t, Timer: Timer{Device: t.config.Device, Read: read, Budget: budget}}
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
		r.Rounded = t.config.Rounded
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

// fastest returns the index of the program that takes least time, or 0 when the budget runs out. It times each once
// and, unless that is far behind, repeated. A later program must be clearly faster than an earlier one; otherwise noise
// would change the choice from load to load.
func (t *timer) fastest(records ...func(*kernels.Recorder)) (int, error) {
	programs, err := t.programs(records...)
	if err != nil {
		return 0, err
	}
	if !t.begun {
		if err := t.Begin(programs[0], settled); err != nil {
			return 0, err
		}
		t.begun = true
	}
	once := make([]time.Duration, len(records))
	for i, p := range programs {
		if once[i], err = t.Cost(p, 1, 2); err != nil { // the first one may wait for the driver
			return 0, err
		}
	}
	least := slices.Min(once)
	repeat, err := t.Repeats(programs[slices.Index(once, least)], least, longEnough) // bound: variants
	if err != nil {
		return 0, err
	}
	shortest := slices.Repeat([]time.Duration{1 << 62}, len(programs))
	for range 3 { // in turn, because the device may still get faster
		for i, p := range programs {
			if once[i] > 3*least+time.Millisecond { // a single timing may be off by a factor of two
				continue
			}
			took, err := t.Cost(p, repeat, 1)
			if err != nil {
				return 0, err
			}
			shortest[i] = min(shortest[i], took)
		}
	}
	if t.over() {
		return 0, nil
	}
	chosen := 0
	for i, took := range shortest {
		if float64(took) < 0.93*float64(shortest[chosen]) {
			chosen = i
		}
	}
	return chosen, nil
}

func (t *timer) chooseLanes() error {
	lanes := kernels.Ways(t.config.Device.Info())
	known, err := strconv.Atoi(t.config.Known["rows"])
	if err == nil && slices.Contains(lanes, kernels.Lanes(known)) { // bound: 4 ways
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
	families := matmul.Families(t.config.Device.Info(), w.Format)
	f, err := t.fastestFamily(w, families)
	if err != nil || !f.Packed() {
		return f, err
	}
	right, err := t.agrees(w, f, families[0])
	if err != nil || right {
		return f, err
	}
	return t.fastestFamily(w, slices.DeleteFunc(families, matmul.Family.Packed))
}

func (t *timer) fastestFamily(w *kernels.Weight, families []matmul.Family) (matmul.Family, error) {
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
	case t.untimed || len(records) == 1 || t.over():
		return 0, nil
	case t.config.Refuse != nil:
		return 0, t.config.Refuse
	}
	t.preparing("timing " + what)
	return t.fastest(records...)
}
