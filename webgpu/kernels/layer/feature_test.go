package layer

import (
	"math/rand/v2"
	"testing"

	"foretoken/webgpu"
	"foretoken/webgpu/kernels"
	"foretoken/webgpu/kernels/kerneltest"
)

// TestFeatures compares storing rows at slots and gathering them by another sequence's table and by parent with
// plain indexing, in batches of every size.
func TestFeatures(t *testing.T) {
	kerneltest.OnDevices(t, func(t *testing.T, dev webgpu.Device) {
		b := kerneltest.New(t, dev)
		const slots, span, stride = 97, 40, 6
		for _, dim := range []int{4, 96, 132, 192} {
			rng := rand.New(rand.NewPCG(uint64(dim), 7))
			x, stored := kerneltest.Normals(1, 64*dim), kerneltest.Normals(2, slots*dim)
			table, free := rng.Perm(slots)[:span], rng.Perm(slots)
			rows, ancestors := make([]uint32, 64*kernels.RowWords), make([]uint32, 64*stride)
			for i := range 64 {
				shared := rng.IntN(span - stride)
				position := shared + rng.IntN(stride)
				switch i {
				case 0:
					shared, position = 0, 0
				case 1:
					shared, position = 3, 3 // the first drafted level: the parent is committed
				case 2:
					position = shared - 1 // a committed row itself
				}
				copy(rows[i*kernels.RowWords:], []uint32{uint32(max(position, 0)), uint32(free[i]), uint32(shared)})
				for j := range stride {
					ancestors[i*stride+j] = uint32(rng.IntN(slots))
				}
			}
			tableWords := make([]uint32, span)
			for i, s := range table {
				tableWords[i] = uint32(s)
			}
			want := func(i int) (gathered, parent []float32) {
				position, slot := int(rows[i*kernels.RowWords]), int(rows[i*kernels.RowWords+1])
				shared := int(rows[i*kernels.RowWords+2])
				if position > 0 && position <= shared {
					slot = table[position-1]
				} else if position > 0 {
					slot = int(ancestors[i*stride+position-1-shared])
				}
				return stored[table[position]*dim:][:dim], stored[slot*dim:][:dim]
			}
			tableView, features := b.U32(tableWords), b.F32(stored)
			for _, m := range kerneltest.BatchSizes {
				order := rng.Perm(64)[:m]
				in := b.F32(kerneltest.Gather(x, dim, order))
				at := b.U32(kerneltest.Gather(rows, kernels.RowWords, order))
				list := b.U32(kerneltest.Gather(ancestors, stride, order))
				kept, gathered, parents := b.Poisoned(slots*dim), b.Poisoned(m*dim), b.Poisoned(m*dim)
				got := b.Run(func(r *kernels.Recorder) {
					RecordStoreFeatures(r, at, in, kept, m, dim)
					RecordGatherFeatures(r, at, tableView, features, gathered, m, dim)
					RecordParentFeatures(r, kernels.Slots{Rows: at, Table: tableView, Ancestors: list, Stride: stride},
						features, parents, m, dim)
				}, kept, gathered, parents)
				touched := map[int]bool{}
				for place, i := range order {
					slot := int(rows[i*kernels.RowWords+1])
					touched[slot] = true
					kerneltest.SameBits(t, "stored", got[0][slot*dim:][:dim], kerneltest.Bits(x[i*dim:][:dim]))
					g, p := want(i)
					kerneltest.SameBits(t, "gathered", got[1][place*dim:][:dim], kerneltest.Bits(g))
					kerneltest.SameBits(t, "parent's", got[2][place*dim:][:dim], kerneltest.Bits(p))
				}
				for slot := range slots {
					if !touched[slot] && got[0][slot*dim] != 0x7fc0dead {
						t.Fatalf("slot %d was written by a row of another slot", slot)
					}
				}
				b.Free(in, at, list, kept, gathered, parents)
			}
			b.Free(tableView, features)
		}
	})
}
