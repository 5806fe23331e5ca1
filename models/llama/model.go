// Package llama decodes with models on a webgpu.Device: a graph with a sequence. Target implements spec.Target, Draft
// implements spec.DraftModel, and EAGLE3 drafts with an EAGLE-3 head.
package llama

import (
	"context"

	"foretoken/models/gguf"
	"foretoken/models/graph"
	"foretoken/models/kv"
	"foretoken/spec"
	"foretoken/webgpu"
	"foretoken/webgpu/kernels"
)

// Model is one model on one device, with one sequence. It is not safe for concurrent use.
type Model struct {
	*graph.Graph
	seq       *kv.Sequence
	prefill   prefillPrograms
	norms     map[int]webgpu.Program    // by bucket, of Hidden
	drawWords [kernels.DrawWords]uint32 // content of Space.Draw; zeros before the first draw
}

// load reads a GGUF file onto a device, after plan has found that its caller can make all that it makes: a dry run
// makes nothing.
func load(ctx context.Context, dev webgpu.Device, f *gguf.File, o graph.Options,
	plan func(*gguf.File, graph.Options, webgpu.Limits) (graph.Memory, error)) (*Model, error) {
	if _, ok := dev.(*graph.DryRun); !ok {
		if _, err := plan(f, o, dev.Info().Limits); err != nil {
			return nil, err
		}
	}
	return newModel(graph.Load(ctx, dev, f, o))
}

// newModel returns a model of a graph and its sequence, if they were loaded without error.
func newModel(g *graph.Graph, seq *kv.Sequence, err error) (*Model, error) {
	if err != nil {
		return nil, err
	}
	m := &Model{Graph: g, seq: seq, norms: map[int]webgpu.Program{}}
	inputs, err := m.Buffer("inputs", 4*kv.PassWords(m.batchRows(), m.ancestorStride()))
	if err != nil {
		m.Close()
		return nil, err
	}
	m.prefill.batch = kv.NewPass(seq, inputs.Buffer, 0, m.batchRows(), m.ancestorStride())
	m.prefill.batch.Committed = true
	return m, nil
}

// batchRows returns the capacity of the batch pass.
func (m *Model) batchRows() int { return max(m.Options.MaxRows, graph.MaxPrefill) }

// ancestorStride returns the length of a row's list of ancestors, itself included, in the batch pass.
func (m *Model) ancestorStride() int { return min(m.batchRows(), spec.MaxDepth+2) }

// run submits programs and waits for the readback of the regions, if there are any.
func (m *Model) run(programs []webgpu.Program, reads ...webgpu.Region) error {
	err := m.Run(programs, reads...)
	if err == nil {
		m.seq.MarkWritten()
	}
	return err
}
