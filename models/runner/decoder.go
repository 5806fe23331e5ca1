// Package runner decodes with models on a webgpu.Device: a graph with a sequence. Target implements spec.Target, and
// Draft implements spec.DraftModel, with the graph of a draft model or of an EAGLE-3 head.
package runner

import (
	"context"
	"time"

	"foretoken/models/gguf"
	"foretoken/models/graph"
	"foretoken/models/kv"
	"foretoken/spec"
	"foretoken/webgpu"
	"foretoken/webgpu/kernels"
)

// decoder consumes tokens: a model on a device with one sequence. It is not safe for concurrent use.
type decoder struct {
	Graph     *graph.Graph // the network
	seq       *kv.Sequence
	prefill   prefillPrograms
	norms     map[int]webgpu.Program    // by bucket, of Hidden
	drawWords [kernels.DrawWords]uint32 // content of Space.Draw; zeros before the first draw
}

// load reads a GGUF file onto a device. Before that it calls plan, which returns an error if the caller's buffers do
// not fit the device.
func load(ctx context.Context, dev webgpu.Device, f *gguf.File, o graph.Options,
	plan func(*gguf.File, graph.Options, webgpu.Limits) (graph.Memory, error)) (*decoder, error) {
	if _, ok := dev.(*graph.DryRun); !ok {
		if _, err := plan(f, o, dev.Info().Limits); err != nil {
			return nil, err
		}
	}
	return newDecoder(graph.Load(ctx, dev, f, o))
}

// newDecoder returns a decoder of a graph and its sequence, if they were loaded without error.
func newDecoder(g *graph.Graph, seq *kv.Sequence, err error) (*decoder, error) {
	if err != nil {
		return nil, err
	}
	m := &decoder{Graph: g, seq: seq, norms: map[int]webgpu.Program{}}
	rows := max(g.Options.MaxRows, graph.MaxPrefill)
	stride := min(rows, spec.MaxDepth+2)
	inputs, err := g.Buffer("inputs", 4*kv.PassWords(rows, stride))
	if err != nil {
		g.Close()
		return nil, err
	}
	m.prefill.batch = kv.NewPass(seq, inputs.Buffer, 0, rows, stride)
	m.prefill.batch.Committed = true
	return m, nil
}

// run submits programs and waits for the readback of the regions, if there are any.
func (d *decoder) run(programs []webgpu.Program, reads ...webgpu.Region) error {
	err := d.Graph.Run(programs, reads...)
	if err == nil {
		d.seq.MarkWritten()
	}
	return err
}

// Close frees the model's device memory and programs.
func (d *decoder) Close() { d.Graph.Close() }

// Sync waits until the device has finished all runs.
func (d *decoder) Sync() error { return d.Graph.Sync() }

// ReadbackTime returns the total time that runs have waited for the device.
func (d *decoder) ReadbackTime() time.Duration { return d.Graph.ReadbackTime() }
