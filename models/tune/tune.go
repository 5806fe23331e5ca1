// Package tune chooses, for one model on one device, the lanes of reductions and a kernel family for every matrix
// product, and proves that the family gives a row the same bits in every batch. The speed of a family differs by
// several times from device to device, so the choice comes from timing, by an earlier load or at load. A product
// whose tiles change the bits falls back to the pipeline of one row, because speculation is exact only if batches do
// not change bits.
//
// The package takes a device, matrices and scratch buffers; it does not know the model.
package tune

import (
	"fmt"
	"slices"
	"strconv"
	"time"

	"foretoken/webgpu"
	"foretoken/webgpu/kernels"
	"foretoken/webgpu/kernels/matmul"
)

// Matrix is a matrix of the model, split by rows into weights, with buffers of its input and output rows.
type Matrix struct {
	Weights []*kernels.Weight
	X, Out  kernels.View
}

// Config configures New. Matrices whose weights share a class use the buffers of the first of them.
type Config struct {
	Device    webgpu.Device
	Matrices  []Matrix
	Scratch   kernels.View                           // its first word is read back to wait for a run
	Rounded   kernels.View                           // see kernels.Recorder
	Reduce    func(*kernels.Recorder, kernels.Lanes) // records reductions to time lanes with
	Rows      int                                    // most rows of a pass; a proof uses as many
	Known     map[string]string                      // choices made before on the same adapter, see Tuning.Choices
	Timed     bool                                   // time on software adapters too
	Refuse    error                                  // returned instead of timing; nil if the device can time
	Preparing func(step string)                      // called with each step; may be nil
}

// Tuning holds the kernel choices for one model on one device.
type Tuning struct {
	Lanes    kernels.Lanes
	config   Config
	families map[string]matmul.Family
	proofs   map[string]*proof // by format and family
	err      error             // error of a proof since the last call of Err
}

// Class names the matrices that share a choice: they have the same format and shape.
func Class(w *kernels.Weight) string { return fmt.Sprintf("%s %dx%d", w.Format, w.Rows, w.Cols) }

// Family returns the family chosen for a weight.
func (t *Tuning) Family(w *kernels.Weight) matmul.Family { return t.families[Class(w)] }

// Choices returns the choice for each class of kernels, for Config.Known of the next load on the same adapter.
// Timing again may choose differently, which changes the last bits of the logits.
func (t *Tuning) Choices() map[string]string {
	out := map[string]string{"rows": strconv.Itoa(int(t.Lanes))}
	for _, w := range t.weights() {
		f := t.Family(w)
		if p := t.proofs[proofKey(w, f)]; p != nil && p.failed {
			f.Fixed = true
		}
		out[Class(w)] = f.String()
	}
	return out
}

// New chooses the lanes, and a family for each class of matrix: the known one or the fastest. On software adapters,
// which serve tests, it takes the first and times nothing.
func New(c Config) (*Tuning, error) {
	info := c.Device.Info()
	if info.Host() {
		c.Known = nil // its kernels have no families
	}
	tuning := &Tuning{config: c, families: map[string]matmul.Family{}, proofs: map[string]*proof{}}
	t := newTimer(tuning, budget)
	t.untimed = info.Software && !c.Timed
	if info.Software {
		t.Budget = time.Minute // of a test, which expects every choice to be timed
	}
	defer t.free()
	if err := t.chooseLanes(); err != nil {
		return nil, err
	}
	for _, w := range tuning.weights() {
		key := Class(w)
		if _, ok := tuning.families[key]; ok {
			continue
		}
		family, ok := matmul.ParseFamily(info, w.Format, c.Known[key])
		if !ok {
			var err error
			if family, err = t.chooseFamily(w); err != nil {
				return nil, err
			}
		}
		tuning.families[key] = family
	}
	return tuning, nil
}

func (t *Tuning) preparing(step string) {
	if t.config.Preparing != nil {
		t.config.Preparing(step)
	}
}

func (t *Tuning) weights() []*kernels.Weight {
	var all []*kernels.Weight
	for _, m := range t.config.Matrices {
		all = append(all, m.Weights...)
	}
	return all
}

// scratch returns buffers for the inputs and outputs of a weight. It searches all matrices, because blocks may
// store the same matrix in different formats.
func (t *Tuning) scratch(w *kernels.Weight) (x, out kernels.View) {
	for _, m := range t.config.Matrices {
		if slices.ContainsFunc(m.Weights, // bound: 3 in a matrix
			func(other *kernels.Weight) bool { return Class(other) == Class(w) }) {
			return m.X, m.Out
		}
	}
	panic("tune: a weight of " + Class(w) + " belongs to no matrix")
}

// rows returns how many rows of a weight's inputs and outputs fit in its buffers.
func (t *Tuning) rows(w *kernels.Weight) int {
	x, out := t.scratch(w)
	return min(x.Size/(4*w.Cols), out.Size/(4*w.Rows))
}
