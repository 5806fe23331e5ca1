package runner

import (
	"context"

	"foretoken/models/gguf"
	"foretoken/models/graph"
	"foretoken/webgpu"
)

// Plan returns what LoadTarget would allocate for a file with these options on a device with these limits. It is
// exact: the total equals the GPUBytes of Info. It reads no weights. It returns an error if the model cannot be
// loaded: a tensor is missing or unknown, or a buffer exceeds the limits.
func Plan(f *gguf.File, o graph.Options, limits webgpu.Limits) (graph.Memory, error) {
	t, err := planTarget(f, o, limits)
	if err != nil {
		return graph.Memory{}, err
	}
	return t.Graph.Memory(), nil
}

func planTarget(f *gguf.File, o graph.Options, limits webgpu.Limits) (*Target, error) {
	m, err := newDecoder(graph.Load(context.Background(), graph.NewLedger(limits), f, o))
	if err != nil {
		return nil, err
	}
	t := newTarget(m)
	return t, t.passes.allocate()
}

// PlanDraft is Plan for LoadDraft.
func PlanDraft(f *gguf.File, o graph.Options, limits webgpu.Limits) (graph.Memory, error) {
	if err := completeDraft(&o); err != nil {
		return graph.Memory{}, err
	}
	m, err := newDecoder(graph.Load(context.Background(), graph.NewLedger(limits), f, o))
	if err != nil {
		return graph.Memory{}, err
	}
	if err := newDraft(m).allocateInputs(); err != nil {
		return graph.Memory{}, err
	}
	return m.Graph.Memory(), nil
}

// PlanEAGLE3 returns what LoadEAGLE3 would allocate for a target loaded from f with the options of: the head's
// memory, and the features that the target stores for it, which Info counts as the target's.
func PlanEAGLE3(f *gguf.File, of graph.Options, h *gguf.File, o graph.Options,
	limits webgpu.Limits) (head graph.Memory, features int64, err error) {
	target, err := planTarget(f, of, limits)
	if err != nil {
		return graph.Memory{}, 0, err
	}
	before := target.Graph.Bytes()
	m, layers, err := loadHead(context.Background(), target, h, o)
	if err != nil {
		return graph.Memory{}, 0, err
	}
	if _, err := target.Graph.Tap(target.seq, layers); err != nil {
		return graph.Memory{}, 0, err
	}
	if err := newDraft(m).allocateInputs(); err != nil {
		return graph.Memory{}, 0, err
	}
	return m.Graph.Memory(), target.Graph.Bytes() - before, nil
}
