package kernels

import (
	"math/rand/v2"
	"testing"

	"foretoken/webgpu"
)

// TestFeatures stores rows at slots and gathers them by another sequence's table and by
// parent, in batches of every size, against plain indexing.
func TestFeatures(t *testing.T) {
	onDevices(t, func(t *testing.T, dev webgpu.Device) {
		b := bench{t, dev}
		const slots, span, stride = 97, 40, 6
		for _, dim := range []int{4, 96, 132, 192} {
			rng := rand.New(rand.NewPCG(uint64(dim), 7))
			x, stored := normals(1, 64*dim), normals(2, slots*dim)
			table, free := rng.Perm(slots)[:span], rng.Perm(slots)
			rows, ancestors := make([]uint32, 64*RowWords), make([]uint32, 64*stride)
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
				copy(rows[i*RowWords:], []uint32{uint32(max(position, 0)), uint32(free[i]), uint32(shared)})
				for j := range stride {
					ancestors[i*stride+j] = uint32(rng.IntN(slots))
				}
			}
			tableWords := make([]uint32, span)
			for i, s := range table {
				tableWords[i] = uint32(s)
			}
			want := func(i int) (gathered, parent []float32) {
				position, slot, shared := int(rows[i*RowWords]), int(rows[i*RowWords+1]), int(rows[i*RowWords+2])
				if position > 0 && position <= shared {
					slot = table[position-1]
				} else if position > 0 {
					slot = int(ancestors[i*stride+position-1-shared])
				}
				return stored[table[position]*dim:][:dim], stored[slot*dim:][:dim]
			}
			tableView, features := b.u32(tableWords), b.f32(stored)
			for _, m := range batchSizes {
				order := rng.Perm(64)[:m]
				in, at, list := b.f32(gather(x, dim, order)), b.u32(gather(rows, RowWords, order)), b.u32(gather(ancestors, stride, order))
				kept, gathered, parents := b.poisoned(slots*dim), b.poisoned(m*dim), b.poisoned(m*dim)
				got := b.run(func(r *Recorder) {
					r.StoreFeatures(at, in, kept, m, dim)
					r.GatherFeatures(at, tableView, features, gathered, m, dim)
					r.ParentFeatures(Slots{Rows: at, Table: tableView, Ancestors: list, Stride: stride}, features, parents, m, dim)
				}, kept, gathered, parents)
				touched := map[int]bool{}
				for place, i := range order {
					slot := int(rows[i*RowWords+1])
					touched[slot] = true
					sameBits(t, "stored", got[0][slot*dim:][:dim], bits(x[i*dim:][:dim]))
					g, p := want(i)
					sameBits(t, "gathered", got[1][place*dim:][:dim], bits(g))
					sameBits(t, "parent's", got[2][place*dim:][:dim], bits(p))
				}
				for slot := range slots {
					if !touched[slot] && got[0][slot*dim] != 0x7fc0dead {
						t.Fatalf("slot %d was written by a row of another slot", slot)
					}
				}
				b.free(in, at, list, kept, gathered, parents)
			}
			b.free(tableView, features)
		}
	})
}

// TestSpread puts logits over part of a vocabulary in their places and leaves the rest impossible.
func TestSpread(t *testing.T) {
	onDevices(t, func(t *testing.T, dev webgpu.Device) {
		b := bench{t, dev}
		for _, c := range []struct{ vocab, some, stride, offset int }{{64, 1, 64, 0}, {100, 37, 128, 64}, {2048, 1536, 2048, 4096}, {5000, 4999, 5056, 0}} {
			rng := rand.New(rand.NewPCG(uint64(c.vocab), 3))
			const m = 5
			in := c.some + 3
			x, source := normals(4, m*in), make([]uint32, c.vocab)
			for i := range source {
				source[i] = NoSource
			}
			for i, id := range rng.Perm(c.vocab)[:c.some] {
				source[id] = uint32(i)
			}
			from, logits, out := b.u32(source), b.f32(x), b.poisoned(c.offset+m*c.stride)
			got := b.run(func(r *Recorder) {
				r.Spread(from, logits, in, c.some, Rows{View: out, Offset: c.offset, Stride: c.stride}, c.vocab, m)
			}, out)[0]
			for i, w := range got[:c.offset] {
				if w != 0x7fc0dead {
					t.Fatalf("word %d before the rows was written", i)
				}
			}
			words := bits(x)
			for row := range m {
				line := got[c.offset+row*c.stride:]
				for id, i := range source {
					want := f32(LowLogit)
					if i != NoSource {
						want = words[row*in+int(i)]
					}
					if line[id] != want {
						t.Fatalf("vocab %d: row %d id %d is %#x, want %#x", c.vocab, row, id, line[id], want)
					}
				}
			}
			b.free(from, logits, out)
		}
	})
}
