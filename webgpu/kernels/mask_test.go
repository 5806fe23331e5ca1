package kernels

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"foretoken/webgpu"
)

// TestMask compares every logit of every row, for each of 64 rows alone and in batches.
func TestMask(t *testing.T) {
	onDevices(t, func(t *testing.T, dev webgpu.Device) {
		b := bench{t, dev}
		rng := rand.New(rand.NewPCG(1, 9))
		for _, vocab := range []int{1, 31, 32, 33, 2048, 2500} {
			const rows, count = 64, 3
			words, stride := MaskWords(vocab), (vocab+63)/64*64
			masks := make([]uint32, count*words)
			for i := range masks {
				if masks[i] = rng.Uint32(); i%3 == 0 {
					masks[i] = math.MaxUint32
				}
			}
			clear(masks[2*words:]) // nothing is left
			which := make([]uint32, rows)
			for i := range which {
				which[i] = []uint32{0, 1, 2, NoMask, count}[i%5]
			}
			x := bits(normals(3, rows*stride))
			held := b.u32(masks)
			run := func(order []int) []uint32 {
				in, of := b.u32(gather(x, stride, order)), b.u32(gather(which, 1, order))
				defer b.free(in, of)
				return b.run(func(r *Recorder) {
					r.Mask(Logits{View: in, Rows: len(order), Vocab: vocab, Stride: stride}, of, held, count)
				}, in)[0]
			}
			for row := range rows {
				for id, got := range run([]int{row}) {
					want := x[row*stride+id]
					if m := which[row]; m < count && id < vocab && masks[int(m)*words+id/32]>>(id%32)&1 == 0 {
						want = math.Float32bits(LowLogit)
					}
					if got != want {
						t.Fatalf("vocabulary %d, mask %d: logit %d is %#x, want %#x", vocab, which[row], id, got, want)
					}
				}
			}
			if vocab == 2500 {
				invariant(t, stride, run)
			}
			b.free(held)
		}
	})
}

// TestAdjust compares sums in float64 over lists that overlap and lists that are empty.
func TestAdjust(t *testing.T) {
	onDevices(t, func(t *testing.T, dev webgpu.Device) {
		b := bench{t, dev}
		for _, c := range []struct{ vocab, shared, own, entries int }{{50, 8, 4, 8}, {2048, 300, 10, 200}, {2048, 64, 1, 0}, {33, 1, 33, 1}} {
			t.Run(fmt.Sprint(c), func(t *testing.T) {
				rng := rand.New(rand.NewPCG(uint64(c.vocab), uint64(c.shared)))
				const rows = 64
				stride := (c.vocab + 63) / 64 * 64
				list := func(words []uint32, n, room int) {
					ids := rng.Perm(c.vocab)
					for i := range room {
						words[2*i], words[2*i+1] = math.MaxUint32, math.Float32bits(77)
						if i < n {
							words[2*i], words[2*i+1] = uint32(ids[i]), math.Float32bits(float32(rng.NormFloat64()))
						}
					}
				}
				common, lists := make([]uint32, AdjustWords(c.shared)), make([]uint32, rows*c.own*2)
				list(common[2:], c.shared, c.shared)
				common[0] = uint32(c.entries)
				for row := range rows {
					list(lists[row*c.own*2:], rng.IntN(c.own+1), c.own)
				}
				x := normals(5, rows*stride)
				shared := b.u32(common)
				defer b.free(shared)
				run := func(order []int) []uint32 {
					in, of := b.f32(gather(x, stride, order)), b.u32(gather(lists, c.own*2, order))
					defer b.free(in, of)
					return b.run(func(r *Recorder) {
						r.Adjust(Logits{View: in, Rows: len(order), Vocab: c.vocab, Stride: stride}, shared, c.shared, of, c.own)
					}, in)[0]
				}
				for row := range rows {
					got := run([]int{row})
					for id := range c.vocab {
						want := float64(x[row*stride+id])
						for i := range c.entries {
							if common[2+2*i] == uint32(id) {
								want = float64(x[row*stride+id]) + float64(math.Float32frombits(common[3+2*i]))
							}
						}
						for i := range c.own {
							if at := (row*c.own + i) * 2; lists[at] == uint32(id) {
								want = float64(x[row*stride+id]) + float64(math.Float32frombits(lists[at+1]))
							}
						}
						if g := float64(math.Float32frombits(got[id])); math.Abs(g-want) > 1e-6*math.Max(math.Abs(want), 1) {
							t.Fatalf("row %d: logit %d is %g, want %g", row, id, g, want)
						}
					}
				}
				invariant(t, stride, run)
			})
		}
	})
}
