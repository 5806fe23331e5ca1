package llama

import (
	"fmt"
	"maps"

	"foretoken/models/graph"
	"foretoken/models/kv"
	"foretoken/webgpu"
	"foretoken/webgpu/kernels"
	"foretoken/webgpu/kernels/sample"
)

// part is a run of a tree's rows that goes through the blocks at once: rows rows, starting at row from. A tree of
// up to passRows nodes is one part.
type part struct{ from, rows int }

type partPrograms struct {
	verify webgpu.Program // blocks and logits of every row
	sample webgpu.Program // the outputs of Verify for every row
	filter webgpu.Program // thresholds and draws, for sampling with filters
}

// partRows pads the n rows of a tree from row from on to the size of a part. The first part is padded to a bucket,
// a later one to a quarter of passRows, so that large trees need few programs.
func (t *Target) partRows(from, n int) int {
	most := t.PassRows()
	if n >= most {
		return most
	}
	if from == 0 {
		return kv.Buckets[kv.Bucket(n)]
	}
	quarter := most / 4
	return (n + quarter - 1) / quarter * quarter
}

// lastPart returns the last part of a tree of n nodes.
func (t *Target) lastPart(n int) part {
	from := (n - 1) / t.PassRows() * t.PassRows()
	return part{from, t.partRows(from, n-from)}
}

// eachPart calls do with the parts of a tree of n nodes, in order.
func (t *Target) eachPart(n int, do func(part, *partPrograms)) {
	for from := 0; from < n; from += t.PassRows() {
		p := part{from, t.partRows(from, n-from)}
		do(p, t.parts[p])
	}
}

// paddedRows returns the number of rows of all parts of a tree of n nodes.
func (t *Target) paddedRows(n int) int {
	last := t.lastPart(n)
	return last.from + last.rows
}

// partLogits returns the logits of a part, valid until the next part runs.
func (t *Target) partLogits(p part) kernels.Logits { return t.LogitRows(p.rows) }

// defaultRows is the largest tree that LoadTarget prepares for.
const defaultRows = 16

// prepareTrees compiles the programs for trees of up to rows nodes, so that no round waits for them.
func (t *Target) prepareTrees(rows int) error {
	if rows > t.Options.MaxRows {
		return fmt.Errorf("llama: a tree of %d nodes; at most %d can be verified", rows, t.Options.MaxRows)
	}
	if rows <= t.prepared {
		return nil
	}
	b, made := &graph.Batch{}, map[part]*partPrograms{}
	for n := 1; n <= rows; n++ {
		key := t.lastPart(n)
		if t.parts[key] != nil || made[key] != nil {
			continue
		}
		p, w, from := &partPrograms{}, &t.Space, key.from
		made[key] = p
		t.recordVerify(b, key, p)
		r := t.Recorder(fmt.Sprintf("sample %d from %d", key.rows, from))
		sample.Record(r, t.Kernels.Lanes, t.partLogits(key), t.Options.TopK, sample.RawLogits, w.Draw,
			t.prefill.batch.From(from).Drawn, w.Scratch, t.results.records.from(from))
		b.Add(r, &p.sample)
		if !t.Single {
			t.recordFilter(b, key, p)
		}
	}
	if len(made) > 0 {
		t.Preparing(fmt.Sprintf("compiling for trees of %d nodes", rows))
		if err := t.Build(b); err != nil {
			return err
		}
		maps.Copy(t.parts, made)
	}
	t.prepared = rows
	return nil
}

// recordVerify records the blocks and the logits of a part.
func (t *Target) recordVerify(b *graph.Batch, key part, p *partPrograms) {
	r := t.Recorder(fmt.Sprintf("verify %d from %d", key.rows, key.from))
	t.Forward(r, t.prefill.batch.From(key.from), key.rows)
	t.Head(r, 0, key.rows, 0)
	b.Add(r, &p.verify)
}
