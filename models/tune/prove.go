package tune

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"

	"foretoken/webgpu"
	"foretoken/webgpu/kernels"
	"foretoken/webgpu/kernels/matmul"
)

// proof records the batch invariance of a family for a format on this device. A tile is proved before a program is
// recorded with it, so that tiles that no program uses are never compiled.
type proof struct {
	weight *kernels.Weight // smallest weight with this format and family
	want   webgpu.Memory   // outputs of rows run alone
	proved map[int]bool    // tiles with the same bits as rows run alone
	failed bool            // some tile's bits differ
}

// Proved returns the family with which a product of so many rows is recorded: the weight's own, or its one-row
// pipeline once a tile has changed the bits. The one-row pipeline gives the bits that the proved tiles give. Err
// returns the error of a proof that could not run.
func (t *Tuning) Proved(w *kernels.Weight, rows int) matmul.Family {
	f := t.Family(w)
	tile := f.Tile(rows)
	if f.Fixed || tile == 1 || t.config.Device.Info().Host() {
		return f
	}
	key := proofKey(w, f)
	p := t.proofs[key]
	if p == nil {
		p = &proof{weight: t.smallest(w, f), proved: map[int]bool{}}
		t.proofs[key] = p
	}
	if !p.failed && !p.proved[tile] && t.err == nil {
		t.preparing(fmt.Sprintf("checking %s, %d rows", key, tile))
		same, err := t.prove(p, f, tile)
		p.proved[tile], p.failed, t.err = same, !same && err == nil, err
	}
	f.Fixed = p.failed
	return f
}

// Err returns and clears the first error of a proof.
func (t *Tuning) Err() error {
	err := t.err
	t.err = nil
	return err
}

func proofKey(w *kernels.Weight, f matmul.Family) string { return fmt.Sprint(w.Format, " ", f) }

// smallest returns the smallest weight with w's format that uses the same family. The size of a matrix affects the
// time of a proof but not what a pipeline does with a row.
func (t *Tuning) smallest(w *kernels.Weight, f matmul.Family) *kernels.Weight {
	for _, other := range t.weights() {
		if other.Format == w.Format && t.Family(other) == f && other.Rows*other.Cols < w.Rows*w.Cols {
			w = other
		}
	}
	return w
}

// prove runs a tile on random rows and then each row alone, and compares the bits. It may overwrite the buffers:
// programs are recorded at load and between rounds, when no pass reads them.
func (t *Tuning) prove(p *proof, f matmul.Family, tile int) (bool, error) {
	timed := newTimer(t, 0)
	defer timed.free()
	w := p.weight
	x, out := t.scratch(w)
	rows := min(t.config.Rows, t.rows(w))
	if err := t.writeRows(x, rows*w.Cols); err != nil {
		return false, err
	}
	tiles := []int{tile}
	if p.want == nil {
		tiles = []int{1, tile}
	}
	var records []func(*kernels.Recorder)
	for _, tile := range tiles {
		records = append(records, func(r *kernels.Recorder) {
			inTiles(r, f, w, x, out, rows, tile)
		})
	}
	programs, err := timed.programs(records...)
	if err != nil {
		return false, err
	}
	for _, program := range programs {
		got, err := t.outputs(program, out, rows*w.Rows)
		if err != nil {
			return false, err
		}
		if p.want == nil {
			p.want = got
		} else if !slices.Equal(got, p.want) {
			return false, nil
		}
	}
	return true, nil
}

// inTiles records the products of rows, so many at a time.
func inTiles(r *kernels.Recorder, f matmul.Family, w *kernels.Weight, x, out kernels.View, rows, tile int) {
	for from := 0; from < rows; from += tile {
		matmul.Record(r, f, w, kernels.Rows{View: x, Offset: from * w.Cols, Stride: w.Cols},
			kernels.Rows{View: out, Offset: from * w.Rows, Stride: w.Rows}, min(tile, rows-from), false)
	}
}

// agrees reports whether a packed family gives the products of another, up to rounding, for rows alone: proofs compare
// larger tiles with these. Few programs use packed products, so drivers may get them wrong.
func (t *timer) agrees(w *kernels.Weight, packed, other matmul.Family) (bool, error) {
	const allowed = 1e-3 // of the largest product
	x, out := t.scratch(w)
	rows := min(TimedRows, t.rows(w))
	if err := t.writeRows(x, rows*w.Cols); err != nil {
		return false, err
	}
	var records []func(*kernels.Recorder)
	for _, f := range []matmul.Family{packed, other} {
		records = append(records, func(r *kernels.Recorder) {
			inTiles(r, f, w, x, out, rows, 1)
		})
	}
	// Timing may have left the products of the other family.
	if err := t.config.Device.Write(out.Buffer, out.Offset, make([]byte, 4*rows*w.Rows)); err != nil {
		return false, err
	}
	programs, err := t.programs(records...)
	if err != nil {
		return false, err
	}
	got, err := t.outputs(programs[0], out, rows*w.Rows)
	if err != nil {
		return false, err
	}
	want, err := t.outputs(programs[1], out, rows*w.Rows)
	if err != nil {
		return false, err
	}
	largest, off := 0.0, 0.0
	for i, v := range want.F32() {
		largest, off = max(largest, math.Abs(float64(v))), max(off, math.Abs(float64(got.F32()[i]-v)))
	}
	return off <= allowed*largest, nil // false for NaN
}

// writeRows fills rows of activations with n random numbers.
func (t *Tuning) writeRows(x kernels.View, n int) error {
	rng := rand.New(rand.NewPCG(1, 2))
	floats := make([]float32, n)
	for i := range floats {
		floats[i] = float32(rng.NormFloat64())
	}
	return t.config.Device.Write(x.Buffer, x.Offset, webgpu.F32Bytes(floats))
}

// outputs runs a program and returns the first n words of its output.
func (t *Tuning) outputs(p webgpu.Program, out kernels.View, n int) (webgpu.Memory, error) {
	got := webgpu.NewMemory(4 * n)
	return got, t.config.Device.Run([]webgpu.Program{p},
		webgpu.Region{Buffer: out.Buffer, Offset: out.Offset, Dst: got.Bytes()})
}
