package simd_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"

	"foretoken/webgpu"
	"foretoken/webgpu/kernels"
	"foretoken/webgpu/kernels/attention"
	"foretoken/webgpu/kernels/kerneltest"
	"foretoken/webgpu/kernels/layer"
	"foretoken/webgpu/kernels/matmul"
	"foretoken/webgpu/kernels/sample"
	"foretoken/webgpu/kernels/tree"
)

// bitsPrograms are those of TestBits, with their inputs on a device.
func bitsPrograms(b kerneltest.Bench) []bitsProgram {
	return slices.Concat(productBits(b), layerBits(b), cacheBits(b), sampleBits(b), treeBits(b))
}

// bitsRun runs a program and frees the views.
func bitsRun(b kerneltest.Bench, record func(*kernels.Recorder), out kernels.View, others ...kernels.View) []uint32 {
	defer b.Free(append(others, out)...)
	return b.Run(record, out)[0]
}

// ofRows returns the value of each row.
func ofRows(order []int, value func(row int) uint32) []uint32 {
	var values []uint32
	for _, row := range order {
		values = append(values, value(row))
	}
	return values
}

// productBits are products and lookups of weights of every format, with groups of blocks, chunks and panels that are
// not full.
func productBits(b kerneltest.Bench) (all []bitsProgram) {
	const rows, eps = 68, 1e-5
	for f := range kernels.Formats {
		cols := kerneltest.Cols(f, 352)
		if f.Block() == 256 {
			cols = 768
		}
		w := kerneltest.NewWeight(f, rows, cols).Upload(b, rows)
		family, stride := matmul.Families(b.Dev.Info(), f)[0], matmul.NextStride(cols)
		x, gain := kerneltest.Normals(4, bitsRows*cols), b.F32(kerneltest.Normals(6, cols))
		all = append(all, bitsProgram{name: "product " + f.String(), rows: func(order []int) []uint32 {
			in, out := b.F32(kerneltest.Gather(x, cols, order)), b.Poisoned(len(order)*rows)
			return bitsRun(b, func(r *kernels.Recorder) {
				matmul.Record(r, family, w, kernels.Rows{View: in, Stride: cols}, kernels.Rows{View: out, Stride: rows},
					len(order), false)
			}, out, in)
		}}, bitsProgram{name: "lookup " + f.String(), rows: func(order []int) []uint32 {
			tokens, next := b.U32(ofRows(order, func(i int) uint32 { return uint32(i) })), b.Poisoned(len(order)*stride)
			found := b.Poisoned(len(order) * cols)
			got := bitsRun(b, func(r *kernels.Recorder) {
				layer.RecordEmbedNext(r, w, tokens, found, len(order), 1, gain,
					kernels.Rows{View: next, Stride: stride}, eps)
			}, next, tokens, found)
			return kerneltest.Gather(got, stride, countTo(len(order)))
		}}, bitsProgram{name: "lookup and multiplier " + f.String(), rows: func(order []int) []uint32 {
			tokens := b.U32(ofRows(order, func(i int) uint32 { return uint32(i) }))
			found := b.Poisoned(len(order) * cols)
			return bitsRun(b, func(r *kernels.Recorder) {
				layer.RecordEmbed(r, w, tokens, found, len(order), 54.5)
			}, found, tokens)
		}})
	}
	return append(all, endBits(b)...)
}

// scaled multiplies numbers by a power of two in place.
func scaled(x []float32, by float32) []float32 {
	for i := range x {
		x[i] *= by
	}
	return x
}

// countTo returns 0 to n-1.
func countTo(n int) []int {
	numbers := make([]int, n)
	for i := range numbers {
		numbers[i] = i
	}
	return numbers
}

// endBits are products that end otherwise than by a store, of formats of each kind of tile.
func endBits(b kerneltest.Bench) (all []bitsProgram) {
	const eps = 1e-5
	h := kernels.Heads{Query: 4, KV: 2, Dim: 16, Rotary: 12}
	for _, f := range []kernels.Format{kernels.Q8_0, kernels.BF16, kernels.Q6_K} {
		const dim = 96 // of sums; twice the outputs of gates
		cols := 288
		if f.Block() == 256 {
			cols = 512
		}
		w := kerneltest.NewWeight(f, dim, cols).Upload(b, dim)
		family, x := matmul.Families(b.Dev.Info(), f)[0], kerneltest.Normals(14, bitsRows*2*cols)
		for i := range x {
			if i%(2*cols) >= cols {
				x[i] *= x[i] // the sums of squares behind the elements
			}
		}
		residual, gain := kerneltest.Normals(15, bitsRows*dim), b.F32(kerneltest.Normals(16, dim))
		input := func(in kernels.View) kernels.Rows {
			return kernels.Rows{View: in, Stride: 2 * cols, Squares: cols / 4, Eps: eps}
		}
		all = append(all, bitsProgram{name: "sum and norm " + f.String(), rows: func(order []int) []uint32 {
			in, sum := b.F32(kerneltest.Gather(x, 2*cols, order)), b.F32(kerneltest.Gather(residual, dim, order))
			next := b.U32(make([]uint32, len(order)*2*dim))
			return bitsRun(b, func(r *kernels.Recorder) {
				matmul.RecordNext(r, family, w, input(in), kernels.Rows{View: sum, Stride: dim}, len(order), gain,
					kernels.Rows{View: next, Stride: 2 * dim}, eps)
			}, next, in, sum)
		}}, bitsProgram{name: "gate " + f.String(), rows: func(order []int) []uint32 {
			in, out := b.F32(kerneltest.Gather(x, 2*cols, order)), b.Poisoned(len(order)*dim/2)
			return bitsRun(b, func(r *kernels.Recorder) {
				matmul.RecordSiLU(r, family, w, input(in), kernels.Rows{View: out, Stride: dim / 2}, len(order))
			}, out, in)
		}})

		turned := kerneltest.NewWeight(f, h.Width(), cols).Upload(b, h.Width())
		for _, h.Format = range []kernels.KVFormat{kernels.KVF32, kernels.KVF16} {
			h := h
			h.HalfSplit = h.Format == kernels.KVF16
			all = append(all, bitsProgram{name: fmt.Sprintf("rotation %s %d", f, h.Format),
				rows: cacheRows(b, h, func(r *kernels.Recorder, order []int, c cacheViews) func() {
					in := b.F32(kerneltest.Gather(x, 2*cols, order))
					matmul.RecordRope(r, family, turned, h, input(in), c.rows, c.table, c.qkv, c.keys, c.values,
						len(order))
					return func() { b.Free(in) }
				})})
		}
	}
	return all
}

// cacheViews are the bindings of a rotation.
type cacheViews struct{ rows, table, qkv, keys, values kernels.View }

// cacheRows runs a rotation: a row is queries, then the row's slots of the caches of keys and values.
func cacheRows(b kerneltest.Bench, h kernels.Heads,
	record func(r *kernels.Recorder, order []int, c cacheViews) (free func())) func(order []int) []uint32 {
	const positions, slots = 300, 80
	table := b.F32(kerneltest.Normals(20, positions*h.Rotary))
	x, size := kerneltest.Normals(10, bitsRows*h.Width()), h.Layout().Slot()
	slot := func(row int) int { return (row*11 + 5) % slots }
	return func(order []int) []uint32 {
		var rows []uint32
		for _, row := range order {
			rows = append(rows, uint32(row*37%positions), uint32(slot(row)), 0, 0)
		}
		c := cacheViews{b.U32(rows), table, b.F32(kerneltest.Gather(x, h.Width(), order)),
			b.U32(make([]uint32, slots*size)), b.U32(make([]uint32, slots*size))}
		free := func() {}
		got := b.Run(func(r *kernels.Recorder) { free = record(r, order, c) }, c.qkv, c.keys, c.values)
		free()
		b.Free(c.rows, c.qkv, c.keys, c.values)
		var out []uint32
		for at, row := range order {
			out = append(out, got[0][at*h.Width():][:h.Query*h.Dim]...)
			out = append(append(out, got[1][slot(row)*size:][:size]...), got[2][slot(row)*size:][:size]...)
		}
		return out
	}
}

func layerBits(b kerneltest.Bench) []bitsProgram {
	const dim, eps = 172, 1e-5
	h := kernels.Heads{Query: 7, KV: 1, Dim: 40}
	x, gates, heads := kerneltest.Normals(1, bitsRows*dim), kerneltest.Normals(2, bitsRows*2*dim),
		kerneltest.Normals(3, bitsRows*h.Width())
	for i, v := range []float32{float32(math.Inf(-1)), -90, -88, 88, 90, -1e-30, 0} {
		gates[2*dim+i] = v
	}
	weight, headWeight := b.F32(kerneltest.Normals(5, dim)), b.F32(kerneltest.Normals(6, 2*h.Dim))
	rowWeight, residual := b.F32(kerneltest.Normals(12, 8*h.Dim)), kerneltest.Normals(13, bitsRows*dim)
	square, bias, end := b.F32(kerneltest.Normals(7, dim*dim)), b.F32(kerneltest.Normals(8, dim)),
		b.F32(scaled(kerneltest.Normals(9, dim+1), 1.0/64))
	return []bitsProgram{
		{name: "norm", rows: func(order []int) []uint32 {
			in, out := b.F32(kerneltest.Gather(x, dim, order)), b.Poisoned(len(order)*dim)
			return bitsRun(b, func(r *kernels.Recorder) {
				layer.RecordNorm(r, kernels.Serial, in, weight, out, len(order), dim, eps)
			}, out, in)
		}},
		{name: "norm of heads", rows: func(order []int) []uint32 {
			qkv := b.F32(kerneltest.Gather(heads, h.Width(), order))
			return bitsRun(b, func(r *kernels.Recorder) {
				layer.RecordNormHeads(r, kernels.Serial, h, headWeight, qkv, len(order), eps)
			}, qkv)
		}},
		{name: "norm of all heads", rows: func(order []int) []uint32 {
			qkv := b.F32(kerneltest.Gather(heads, h.Width(), order))
			return bitsRun(b, func(r *kernels.Recorder) {
				layer.RecordNormRow(r, h, rowWeight, qkv, len(order), eps)
			}, qkv)
		}},
		{name: "sum with norm, and norm", rows: func(order []int) []uint32 {
			in, sum := b.F32(kerneltest.Gather(x, dim, order)), b.F32(kerneltest.Gather(residual, dim, order))
			next := b.Poisoned(len(order) * 2 * dim)
			return bitsRun(b, func(r *kernels.Recorder) {
				layer.RecordAddNormNext(r, in, weight, sum, len(order), dim, eps, bias,
					kernels.Rows{View: next, Stride: 2 * dim})
			}, next, in, sum)
		}},
		{name: "silu", rows: func(order []int) []uint32 {
			in, out := b.F32(kerneltest.Gather(gates, 2*dim, order)), b.Poisoned(len(order)*dim)
			return bitsRun(b, func(r *kernels.Recorder) { layer.RecordSiLU(r, in, out, len(order), dim) }, out, in)
		}},
		{name: "acceptance", rows: func(order []int) []uint32 {
			in, out := b.F32(kerneltest.Gather(x, dim, order)), b.Poisoned(len(order)*dim)
			return bitsRun(b, func(r *kernels.Recorder) {
				layer.RecordAcceptLayer(r, square, bias, in, out, len(order), dim)
			}, out, in)
		}},
		{name: "acceptance score", rows: func(order []int) []uint32 {
			in, out := b.F32(kerneltest.Gather(x, dim, order)), b.Poisoned(len(order))
			return bitsRun(b, func(r *kernels.Recorder) {
				layer.RecordAcceptScore(r, kernels.Serial, end, in, out, 0, len(order), dim)
			}, out, in)
		}},
	}
}

// cacheBits are rotations and attention over each format of the cache.
func cacheBits(b kerneltest.Bench) (all []bitsProgram) {
	for _, format := range []kernels.KVFormat{kernels.KVF32, kernels.KVF16, kernels.KVQ8} {
		h := kernels.Heads{Query: 2, KV: 1, Dim: 40, Rotary: 12, HalfSplit: format == kernels.KVF16, Format: format}
		bias, gain := b.F32(kerneltest.Normals(11, h.Width())), b.F32(kerneltest.Normals(12, 2*h.Dim))
		all = append(all, bitsProgram{name: fmt.Sprintf("rope %d", format),
			rows: cacheRows(b, h, func(r *kernels.Recorder, order []int, c cacheViews) func() {
				attention.RecordRope(r, h, c.rows, c.table, bias, c.qkv, c.keys, c.values, len(order))
				return func() {}
			})}, bitsProgram{name: fmt.Sprintf("rope and gain %d", format),
			rows: cacheRows(b, h, func(r *kernels.Recorder, order []int, c cacheViews) func() {
				attention.RecordRopeGain(r, h, c.rows, c.table, gain, c.qkv, c.keys, c.values, len(order))
				return func() {}
			})})
		for _, window := range []int{0, 21} {
			all = append(all, attentionBits(b, kernels.Heads{Query: 6, KV: 2, Dim: 48, Format: format, Window: window}),
				attentionBits(b, kernels.Heads{Query: 7, KV: 1, Dim: 8, Format: format, Window: window}))
		}
	}
	return all
}

// attentionBits attends to a context in shuffled slots, the last of them in a tree.
func attentionBits(b kerneltest.Bench, h kernels.Heads) bitsProgram {
	const context, tree, slots = 150, 8, 190
	rng := rand.New(rand.NewPCG(uint64(h.Dim), uint64(h.Window)))
	var at, table, ancestors []uint32
	for _, slot := range rng.Perm(slots)[:context] {
		table = append(table, uint32(slot))
	}
	for row := range bitsRows {
		position := row * 7 % context
		at = append(at, uint32(position), 0, uint32(position+1-min(row%tree, position)), 0)
		for range tree {
			ancestors = append(ancestors, rng.Uint32N(slots))
		}
	}
	x := scaled(kerneltest.Normals(7, bitsRows*h.Width()), 1.0/8)
	keys := b.U32(kerneltest.Packed(h, kerneltest.Normals(8, slots*h.KV*h.Dim)))
	values := b.U32(kerneltest.Packed(h, kerneltest.Normals(9, slots*h.KV*h.Dim)))
	positions := b.U32(table)
	return bitsProgram{name: fmt.Sprintf("attention %d, %d elements, window %d", h.Format, h.Dim, h.Window),
		rows: func(order []int) []uint32 {
			s := kernels.Slots{Rows: b.U32(kerneltest.Gather(at, kernels.RowWords, order)), Table: positions,
				Ancestors: b.U32(kerneltest.Gather(ancestors, tree, order)), Stride: tree}
			qkv, out := b.F32(kerneltest.Gather(x, h.Width(), order)), b.Poisoned(len(order)*h.Query*h.Dim)
			scratch := b.Poisoned(len(order) * attention.Scratch(h, context, context))
			return bitsRun(b, func(r *kernels.Recorder) {
				attention.Record(r, h, s, qkv, keys, values, scratch, out, len(order), context)
			}, out, s.Rows, s.Ancestors, qkv, scratch)
		}}
}

// bitsLogits are rows of target and draft: near each other in half of the rows.
type bitsLogits struct {
	vocab         int
	target, draft []float32
}

func newBitsLogits(vocab int) bitsLogits {
	l := bitsLogits{vocab, kerneltest.Logits(21, bitsRows, vocab), kerneltest.Logits(22, bitsRows, vocab)}
	for i, v := range l.draft {
		if i/vocab%2 == 0 {
			l.target[i] = v + l.target[i]/10
		}
	}
	return l
}

func (l bitsLogits) of(b kerneltest.Bench, x []float32, order []int) kernels.Logits {
	return kernels.Logits{View: b.F32(kerneltest.Gather(x, l.vocab, order)), Rows: len(order), Vocab: l.vocab}
}

func bitsPositions(b kerneltest.Bench, order []int) kernels.View {
	return b.U32(ofRows(order, func(row int) uint32 { return uint32(100 + row) }))
}

// sampleBits are the kernels over rows of logits.
func sampleBits(b kerneltest.Bench) (all []bitsProgram) {
	l := newBitsLogits(701)
	words := func(p kernels.DrawParams) kernels.View { return b.U32(kerneltest.Words(p)) }
	for i, p := range []kernels.DrawParams{{Seed: 1}, {Temperature: 0.7, Seed: 2},
		{Temperature: 0.8, Seed: 1 << 40, Coupled: true}} {
		const k = 10
		draw := words(p)
		for _, values := range []sample.Values{sample.LogProbs, sample.TemperedLogProbs} {
			all = append(all, bitsProgram{name: fmt.Sprintf("sample %d, values %d", i, values),
				rows: func(order []int) []uint32 {
					in, at := l.of(b, l.target, order), bitsPositions(b, order)
					scratch, out := b.Poisoned(sample.Scratch(len(order), l.vocab)/4),
						b.Poisoned(len(order)*kernels.SampleWords(k))
					return bitsRun(b, func(r *kernels.Recorder) {
						sample.Record(r, kernels.Serial, in, k, values, draw, at, scratch, out)
					}, out, in.View, at, scratch)
				}})
		}
	}
	for i, p := range []kernels.DrawParams{{Seed: 1}, {Temperature: 0.7, Seed: 2},
		{Temperature: 0.9, Seed: 8, TopK: 100, TopP: 0.8, MinP: 0.02}} {
		all = append(all, chainBits(b, l, p, i)...)
	}
	common, own := make([]uint32, sample.AdjustWords(8)), kerneltest.Normals(30, bitsRows*4*2)
	common[0] = 8
	for i := range 8 {
		common[2+2*i], common[3+2*i] = uint32(3*i), math.Float32bits(float32(i)/3)
	}
	lists := kerneltest.Bits(own)
	for i := 0; i < len(lists); i += 2 {
		lists[i] = uint32(i/2) % 4 * 6
	}
	shared := b.U32(common)
	return append(all, bitsProgram{name: "score", rows: func(order []int) []uint32 {
		in, out := l.of(b, l.target, order), b.Poisoned(len(order))
		next := b.U32(ofRows(order, func(row int) uint32 { return uint32(row * 7919 % l.vocab) }))
		return bitsRun(b, func(r *kernels.Recorder) {
			sample.RecordScore(r, kernels.Serial, in, next, out)
		}, out, in.View, next)
	}}, bitsProgram{name: "adjust", rows: func(order []int) []uint32 {
		in, of := l.of(b, l.draft, order), b.U32(kerneltest.Gather(lists, 8, order))
		return bitsRun(b, func(r *kernels.Recorder) { sample.RecordAdjust(r, in, shared, 8, of, 4) }, in.View, of)
	}})
}

// chainBits are the kernels that filter rows of target and draft and compare them.
func chainBits(b kerneltest.Bench, l bitsLogits, p kernels.DrawParams, number int) []bitsProgram {
	draft := p
	draft.Stream = 1
	draw, draftDraw := b.U32(kerneltest.Words(p)), b.U32(kerneltest.Words(draft))
	last := l.target[:l.vocab]
	name := func(s string) string { return fmt.Sprintf("%s %d", s, number) }
	filtered := func(order []int, out int, record func(r *kernels.Recorder, target, draft kernels.Logits,
		records [2]kernels.View, out kernels.View)) []uint32 {
		target, draft := l.of(b, l.target, order), l.of(b, l.draft, order)
		at := bitsPositions(b, order)
		records := [2]kernels.View{}
		for i := range records {
			records[i] = b.Poisoned(len(order) * kernels.FilterWords)
		}
		scratch, to := b.Poisoned(sample.FilterScratch(len(order))/4), b.Poisoned(len(order)*out)
		return bitsRun(b, func(r *kernels.Recorder) {
			sample.RecordFilter(r, kernels.Serial, draft, draftDraw, at, scratch, records[1])
			sample.RecordFilter(r, kernels.Serial, target, draw, at, scratch, records[0])
			record(r, target, draft, records, to)
		}, to, target.View, draft.View, at, records[0], records[1], scratch)
	}
	return []bitsProgram{{name: name("filter"), rows: func(order []int) []uint32 {
		in, at := l.of(b, l.target, order), bitsPositions(b, order)
		scratch, out := b.Poisoned(sample.FilterScratch(len(order))/4), b.Poisoned(len(order)*kernels.FilterWords)
		return bitsRun(b, func(r *kernels.Recorder) {
			sample.RecordFilter(r, kernels.Serial, in, draw, at, scratch, out)
		}, out, in.View, at, scratch)
	}}, {name: name("divergence"), rows: func(order []int) []uint32 {
		return filtered(order, sample.DivergenceWords, func(r *kernels.Recorder, target, draft kernels.Logits,
			records [2]kernels.View, out kernels.View) {
			sample.RecordDivergence(r, kernels.Serial, sample.Comparison{Target: target, Draft: draft,
				TargetRecord: records[0], DraftRecord: records[1], Draw: draw, Out: out})
		})
	}}, {name: name("reject"), rows: func(order []int) []uint32 {
		n := len(order) + 1
		target := kernels.Logits{View: b.F32(append(kerneltest.Gather(l.target, l.vocab, order), last...)), Rows: n,
			Vocab: l.vocab}
		draft, at := l.of(b, l.draft, order), bitsPositions(b, append(slices.Clone(order), 0))
		records := [2]kernels.View{b.Poisoned(n * kernels.FilterWords), b.Poisoned(len(order) * kernels.FilterWords)}
		scratch, out := b.Poisoned(sample.FilterScratch(n)/4), b.Poisoned(n*sample.RejectWords)
		return bitsRun(b, func(r *kernels.Recorder) {
			sample.RecordFilter(r, kernels.Serial, draft, draftDraw, at, scratch, records[1])
			sample.RecordFilter(r, kernels.Serial, target, draw, at, scratch, records[0])
			sample.RecordReject(r, kernels.Serial, sample.Rejection{Target: target, Draft: draft,
				TargetRecord: records[0], DraftRecord: records[1], Draw: draw, Positions: at, Out: out})
		}, out, target.View, draft.View, at, records[0], records[1], scratch)[:len(order)*sample.RejectWords]
	}}, {name: name("verify"), rows: func(order []int) []uint32 {
		var lists tree.ChildLists
		for at, row := range order {
			lists.Add(uint32(100+row), uint32(at), []int32{int32(row), int32(200 + row), int32(400 + row)})
		}
		nodes, children := b.U32(lists.Nodes), b.U32(lists.Children)
		defer b.Free(nodes, children)
		return filtered(order, tree.VerdictWords, func(r *kernels.Recorder, target, draft kernels.Logits,
			records [2]kernels.View, out kernels.View) {
			tree.RecordVerify(r, kernels.Serial, tree.Verification{Target: target, Draft: draft,
				TargetRecord: records[0], Draw: draw, Nodes: nodes, Children: children, Out: out})
		})
	}}}
}

// treeBits are the kernels that choose beams and nodes: each row is a problem.
func treeBits(b kerneltest.Bench) []bitsProgram {
	const k, width, levels = 5, 8, 3
	// drafted are Sample's records of beams.
	drafted := func(rng *rand.Rand, beams int) []uint32 {
		records := make([]uint32, beams*kernels.SampleWords(k))
		for beam := range beams {
			r := records[beam*kernels.SampleWords(k):]
			r[3] = math.Float32bits(2 * rng.Float32())
			for i := range k {
				r[4+i], r[4+k+i] = rng.Uint32N(32000), math.Float32bits(-float32(i)-rng.Float32())
			}
		}
		return records
	}
	negative := func(rng *rand.Rand, n int) []float32 {
		x := make([]float32, n)
		for i := range x {
			x[i] = -3 * rng.Float32()
		}
		return x
	}
	each := func(problem func(rng *rand.Rand) []webgpu.Memory) func(order []int) []uint32 {
		return func(order []int) (out []uint32) {
			for _, row := range order {
				for _, m := range problem(rand.New(rand.NewPCG(uint64(row), 3))) {
					out = append(out, m...)
				}
			}
			return out
		}
	}
	return []bitsProgram{{name: "prune", apart: true, rows: each(func(rng *rand.Rand) []webgpu.Memory {
		const units = 9
		net := webgpu.NewMemory(4 * tree.PruneWords)
		copy(net, []uint32{3, k, 60, math.Float32bits(-0.5), units, math.Float32bits(0.25), 0, 0})
		for i := range 5 * units {
			net[8+i] = math.Float32bits(4*rng.Float32() - 2)
		}
		p := tree.Pruning{Beams: k, K: k, Depth: 2, MaxDepth: width, Samples: b.U32(drafted(rng, k)),
			Paths: b.F32(negative(rng, 64+k)), To: 64, Ancestors: b.U32(make([]uint32, k*width)),
			Slots: b.U32(make([]uint32, k)), NextTokens: b.Poisoned(k), NextAncestors: b.Poisoned(k * width),
			Out: b.Poisoned(tree.SelectWords(k, k)), Net: b.U32(net)}
		defer b.Free(p.Samples, p.Paths, p.Ancestors, p.Slots, p.NextTokens, p.NextAncestors, p.Out, p.Net)
		return b.Run(func(r *kernels.Recorder) { tree.RecordPrune(r, p) }, p.NextTokens, p.Out, p.Paths)
	})}, {name: "select", apart: true, rows: each(func(rng *rand.Rand) []webgpu.Memory {
		s := tree.Selection{Beams: k, K: k, Depth: 2, MaxDepth: width, Samples: b.U32(drafted(rng, k)),
			Scores: b.F32(negative(rng, k)), Ancestors: b.U32(make([]uint32, k*width)),
			Slots:      b.U32(slices.Repeat([]uint32{tree.NotGiven}, 2*k)),
			NextTokens: b.Poisoned(k), NextScores: b.Poisoned(k), NextAncestors: b.Poisoned(k * width),
			Out: b.Poisoned(tree.SelectWords(k, k))}
		defer b.Free(s.Samples, s.Scores, s.Ancestors, s.Slots, s.NextTokens, s.NextScores, s.NextAncestors, s.Out)
		return b.Run(func(r *kernels.Recorder) { tree.RecordSelect(r, s) }, s.NextTokens, s.NextScores, s.Out)
	})}, {name: "gather", apart: true, rows: each(func(rng *rand.Rand) []webgpu.Memory {
		const nodes, rows, stride = 17, 20, 8
		words := drafted(rng, 1)
		for range levels - 1 { // a level's beams are the candidates of the one before that it chose, then their records
			words = append(append(words, 0, 1, 2, 3, 4), make([]uint32, k*k)...)
			words = append(words, drafted(rng, k)...)
		}
		head := append([]uint32{levels, nodes, rows, 40, 7777, 9, 0}, make([]uint32, 2*nodes)...)
		for i := range nodes {
			head[tree.GatherHeadWords+i] = uint32(1000 + i)
		}
		picks := tree.SelectWords(k, k)
		g := tree.Gathering{K: k, Drafted: b.U32(words), First: kernels.SampleWords(k), Picks: picks,
			Level: picks + k*kernels.SampleWords(k), Head: b.U32(head), Tokens: b.Poisoned(rows),
			Drawn: b.Poisoned(rows), Rows: b.Poisoned(rows * kernels.RowWords),
			Ancestors: b.U32(make([]uint32, rows*stride)), Stride: stride, Chosen: b.Poisoned(nodes)}
		defer b.Free(g.Drafted, g.Head, g.Tokens, g.Drawn, g.Rows, g.Ancestors, g.Chosen)
		return b.Run(func(r *kernels.Recorder) { tree.RecordGather(r, g) }, g.Tokens, g.Drawn, g.Rows, g.Ancestors,
			g.Chosen)
	})}}
}
