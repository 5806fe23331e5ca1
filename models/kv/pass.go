package kv

import (
	"errors"
	"fmt"
	"slices"

	"foretoken/webgpu"
	"foretoken/webgpu/kernels"
)

// Buckets are the row counts for which passes are recorded.
var Buckets = []int{1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512, 768, 1024}

// Bucket returns the index of the smallest bucket that holds n rows.
func Bucket(n int) int {
	i, _ := slices.BinarySearch(Buckets, n)
	if i == len(Buckets) {
		panic(fmt.Sprintf("kv: no bucket for %d rows", n))
	}
	return i
}

// Pass is the input of one forward pass. Its parts lie in one buffer, so that one write before the run fills them.
type Pass struct {
	Tokens    kernels.View // u32 (rows)
	Drawn     kernels.View // u32 (rows): the position each row draws for
	Rows      kernels.View // u32 (rows, kernels.RowWords)
	Ancestors kernels.View // u32 (rows, Stride)
	Stride    int          // most ancestors of a row, itself included
	Committed bool         // the rows are tokens that Append commits, not drafted ones

	seq      *Sequence // the rows attend through its table
	lender   *Sequence // the sequence whose cache the rows read too; nil: none
	lent     kernels.View
	words    []uint32 // host copy, in the buffer's layout
	capacity int
}

// PassWords returns the size of a pass of capacity rows in words.
func PassWords(capacity, stride int) int {
	return 2*webgpu.AlignWords(capacity) + webgpu.AlignWords(capacity*kernels.RowWords) +
		webgpu.AlignWords(capacity*stride)
}

// NewPass places a pass of capacity rows over a sequence at byte offset at of a buffer.
func NewPass(seq *Sequence, buffer webgpu.Buffer, at, capacity, stride int) Pass {
	p := Pass{seq: seq, capacity: capacity, Stride: stride, words: make([]uint32, PassWords(capacity, stride))}
	view := func(words int) kernels.View {
		v := kernels.View{Buffer: buffer, Offset: at, Size: 4 * words}
		at += 4 * webgpu.AlignWords(words)
		return v
	}
	p.Tokens, p.Drawn = view(capacity), view(capacity)
	p.Rows, p.Ancestors = view(capacity*kernels.RowWords), view(capacity*stride)
	return p
}

// Capacity returns the number of rows.
func (p *Pass) Capacity() int { return p.capacity }

// Slots locates the keys that the rows attend to.
func (p *Pass) Slots() kernels.Slots {
	return kernels.Slots{Rows: p.Rows, Table: p.seq.Table, Ancestors: p.Ancestors, Stride: p.Stride}
}

// Cache returns a layer's part of the cache.
func (p *Pass) Cache(layer int) Layer { return p.seq.Layers[layer] }

// Borrow gives the pass read access to the cache of another sequence on the device: its rows attend to all committed
// positions of that sequence. rows, u32 (rows, kernels.RowWords), is filled by WriteBorrowed.
func (p *Pass) Borrow(from *Sequence, rows kernels.View) { p.lender, p.lent = from, rows }

// WriteBorrowed uploads, for a run, where the rows attend to in the sequence of Borrow, which must not be empty.
func (p *Pass) WriteBorrowed() error {
	n := uint32(p.lender.Len())
	if n == 0 {
		return errors.New("kv: the sequence that lends its cache is empty")
	}
	row := []uint32{n - 1, p.lender.Padding(), n, uint32(p.lender.identityPrefix())}
	return p.seq.dev.Write(p.lent.Buffer, p.lent.Offset, webgpu.U32Bytes(slices.Repeat(row, p.capacity)))
}

// Borrowed returns a layer of the sequence of Borrow, and the slots that the rows attend to there.
func (p *Pass) Borrowed(layer int) (kernels.Slots, Layer) {
	return kernels.Slots{Rows: p.lent, Table: p.lender.Table, Ancestors: p.Ancestors, Stride: p.Stride},
		p.lender.Layers[layer]
}

// part returns the index in the host copy of a view's first word.
func (p *Pass) part(v kernels.View) int { return (v.Offset - p.Tokens.Offset) / 4 }

// Set fills row i, which draws for the position after its own. ancestors holds the slots of the positions from shared
// on, ending with the row's own.
func (p *Pass) Set(i int, token int32, position int, slot uint32, shared int, ancestors ...uint32) {
	p.words[i] = uint32(token)
	p.SetDrawn(i, uint32(position+1))
	copy(p.words[p.part(p.Rows)+i*kernels.RowWords:], []uint32{uint32(position), slot, uint32(shared),
		uint32(min(shared, p.seq.identityPrefix()))})
	list := p.part(p.Ancestors) + i*p.Stride
	copy(p.words[list:list+p.Stride], ancestors)
}

// SetDrawn replaces the position that row i draws for.
func (p *Pass) SetDrawn(i int, position uint32) { p.words[p.part(p.Drawn)+i] = position }

// Pad fills unused rows. They attend to the padding slot, which belongs to no position.
func (p *Pass) Pad(from, to int) {
	for i := from; i < to; i++ {
		p.Set(i, 0, 0, p.seq.Padding(), 0, p.seq.Padding())
	}
}

// Append fills the first rows with tokens and commits them: each attends to the table up to itself. It uploads the
// table.
func (p *Pass) Append(tokens []int32) error {
	for i, t := range tokens {
		if p.seq.Free() == 0 {
			return ErrFull
		}
		slot, position := p.seq.takeOne(), p.seq.Len()
		p.seq.Commit(slot, t)
		p.Set(i, t, position, slot, position+1)
	}
	return p.seq.Flush()
}

// Write uploads the first n rows.
func (p *Pass) Write(n int) error {
	return p.write(p.Tokens, p.part(p.Ancestors)+n*p.Stride)
}

// WritePlaces uploads the rows' positions and slots. tree.RecordSelect writes their tokens and ancestors on the
// device.
func (p *Pass) WritePlaces() error {
	return p.write(p.Drawn, p.part(p.Rows)-p.part(p.Drawn)+p.capacity*kernels.RowWords)
}

// write uploads so many words from the start of a view on.
func (p *Pass) write(from kernels.View, words int) error {
	return p.seq.dev.Write(from.Buffer, from.Offset, webgpu.U32Bytes(p.words[p.part(from):][:words]))
}

// From returns the pass without its first rows, for recording. rows must be a multiple of 64, so that the views
// are aligned for binding.
func (p *Pass) From(rows int) *Pass {
	q := *p
	q.Tokens, q.Drawn = p.Tokens.From(rows), p.Drawn.From(rows)
	q.Rows, q.Ancestors = p.Rows.From(rows*kernels.RowWords), p.Ancestors.From(rows*p.Stride)
	return &q
}
