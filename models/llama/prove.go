package llama

import (
	"fmt"
	"math/rand/v2"
	"slices"

	"foretoken/webgpu"
	"foretoken/webgpu/kernels"
)

// proof is what is known of a family's batch invariance for a format on this device. Each tile
// is proved before a program is recorded with it: what no program uses is never compiled.
type proof struct {
	weight *kernels.Weight // the smallest of its kind
	want   webgpu.Memory   // what rows alone give
	proved map[int]bool    // tiles whose bits are those of rows alone
	failed bool            // a tile's are not
}

// familyFor is the family that a product of so many rows is recorded with: a weight's own, or, once
// a tile was found to change the bits, its one-row pipeline, which gives the bits that the
// tiles proved before give too.
func (m *Model) familyFor(w *kernels.Weight, rows int) kernels.Family {
	f := m.tuning.family(w)
	f.Fixed = f.Fixed || m.single
	tile := f.Tile(rows)
	if _, counts := m.dev.(*ledger); f.Fixed || counts || tile == 1 || m.dev.Info().Backend == "cpu" {
		return f
	}
	key := proofKey(w, f)
	p := m.tuning.proofs[key]
	if p == nil {
		p = &proof{weight: m.smallest(w, f), proved: map[int]bool{}}
		m.tuning.proofs[key] = p
	}
	if !p.failed && !p.proved[tile] && m.tuning.err == nil {
		m.preparing(fmt.Sprintf("checking %s, %d rows", key, tile))
		same, err := m.prove(p, f, tile)
		p.proved[tile], p.failed, m.tuning.err = same, !same && err == nil, err
	}
	f.Fixed = p.failed
	return f
}

// smallest is the smallest weight of a weight's format that a family was chosen for: how large a matrix
// is decides how long it takes, and not what a pipeline does with a row.
func (m *Model) smallest(w *kernels.Weight, f kernels.Family) *kernels.Weight {
	for _, other := range m.weights() {
		if other.Format == w.Format && m.tuning.family(other) == f && other.Rows*other.Cols < w.Rows*w.Cols {
			w = other
		}
	}
	return w
}

// prove runs a tile on random rows and compares the bits with those of each row alone. The workspace
// holds nothing that anybody needs: programs are recorded at load and between rounds.
func (m *Model) prove(p *proof, f kernels.Family, tile int) (bool, error) {
	t := &timer{m: m}
	defer t.free()
	w := p.weight
	x, out := t.scratch(w)
	rows := min(m.prefillRows(), t.rows(w))
	rng := rand.New(rand.NewPCG(1, 2))
	floats := make([]float32, rows*w.Cols)
	for i := range floats {
		floats[i] = float32(rng.NormFloat64())
	}
	if err := m.dev.Write(x.Buffer, x.Offset, webgpu.F32Bytes(floats)); err != nil {
		return false, err
	}
	tiles := []int{tile}
	if p.want == nil {
		tiles = []int{1, tile}
	}
	var records []func(*kernels.Recorder)
	for _, tile := range tiles {
		records = append(records, func(r *kernels.Recorder) {
			for from := 0; from < rows; from += tile {
				r.MatMul(f, w, kernels.Rows{View: x, Offset: from * w.Cols, Stride: w.Cols},
					kernels.Rows{View: out, Offset: from * w.Rows, Stride: w.Rows}, min(tile, rows-from), false)
			}
		})
	}
	programs, err := t.programs(records...)
	if err != nil {
		return false, err
	}
	for _, program := range programs {
		got := webgpu.NewMemory(rows * w.Rows * 4)
		if err := m.dev.Run([]webgpu.Program{program}, webgpu.Region{Buffer: out.Buffer, Offset: out.Offset, Dst: got.Bytes()}); err != nil {
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
