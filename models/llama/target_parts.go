package llama

import (
	"fmt"

	"foretoken/webgpu"
	"foretoken/webgpu/kernels"
)

// part is a run of a tree's rows that goes through the blocks at once: rows rows from row from
// on. A tree of up to passRows nodes is one part.
type part struct{ from, rows int }

// partPrograms are those of a part.
type partPrograms struct {
	verify webgpu.Program // blocks and logits of every row
	sample webgpu.Program // what Verify returns of each row
	filter webgpu.Program // thresholds and draws where there are filters
}

// partRows pads the n rows of a tree from row from on to the size of a part: to a bucket if the
// tree is one part, to a quarter of one if it goes on from another, so that a large tree
// needs few programs.
func (t *Target) partRows(from, n int) int {
	most := t.passRows()
	if n >= most {
		return most
	}
	if from == 0 {
		return buckets[bucket(n)]
	}
	quarter := most / 4
	return (n + quarter - 1) / quarter * quarter
}

// lastPart is the last part of a tree of n nodes.
func (t *Target) lastPart(n int) part {
	from := (n - 1) / t.passRows() * t.passRows()
	return part{from, t.partRows(from, n-from)}
}

// eachPart calls do with the parts of a tree of n nodes, in order.
func (t *Target) eachPart(n int, do func(part, *partPrograms)) {
	for from := 0; from < n; from += t.passRows() {
		p := part{from, t.partRows(from, n-from)}
		do(p, t.parts[p])
	}
}

// paddedRows is how many rows the parts of a tree of n nodes have.
func (t *Target) paddedRows(n int) int {
	last := t.lastPart(n)
	return last.from + last.rows
}

// partLogits are the logits that a part leaves, until the next one runs.
func (t *Target) partLogits(p part) kernels.Logits { return t.logitRows(p.rows) }

// defaultRows is the largest tree that Load prepares for.
const defaultRows = 16

// Prepare makes the programs for trees of up to rows nodes, so that the first
// round does not have to.
func (t *Target) Prepare(rows int) error {
	if rows > t.opts.MaxRows {
		return fmt.Errorf("llama: a tree of %d nodes; at most %d can be verified", rows, t.opts.MaxRows)
	}
	if rows <= t.prepared {
		return nil
	}
	var recorders []*kernels.Recorder
	var into []*webgpu.Program
	made := map[part]*partPrograms{}
	add := func(label string, p *webgpu.Program, record func(r *kernels.Recorder)) {
		r := t.recorder(label)
		record(r)
		recorders, into = append(recorders, r), append(into, p)
	}
	for n := 1; n <= rows; n++ {
		key := t.lastPart(n)
		if t.parts[key] != nil || made[key] != nil {
			continue
		}
		p, logits, batch, w, from := &partPrograms{}, t.partLogits(key), t.feeding.batch.rowsFrom(key.from), &t.work, key.from
		made[key] = p
		add(fmt.Sprintf("verify %d from %d", key.rows, from), &p.verify, func(r *kernels.Recorder) {
			t.forward(r, batch, key.rows)
			t.head(r, 0, key.rows, w.logits, 0)
		})
		add(fmt.Sprintf("sample %d from %d", key.rows, from), &p.sample, func(r *kernels.Recorder) {
			r.Sample(t.tuning.lanes, logits, t.opts.TopK, kernels.RawLogits, w.draw, batch.drawn, w.scratch, t.results.records.from(from))
		})
		if !t.single {
			add(fmt.Sprintf("filter %d from %d", key.rows, from), &p.filter, func(r *kernels.Recorder) { t.recordFilter(r, key) })
		}
	}
	if len(recorders) > 0 {
		t.preparing(fmt.Sprintf("compiling for trees of %d nodes", rows))
		programs, err := t.build(recorders...)
		if err != nil {
			return err
		}
		for i, p := range programs {
			*into[i] = p
		}
		for key, p := range made {
			t.parts[key] = p
		}
	}
	t.prepared = rows
	return nil
}
