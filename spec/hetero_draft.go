package spec

import (
	"context"
	"errors"
	"time"
)

// HeteroDrafter is HeteroSpec: EAGLE-2's tree, grown deeper and cut to fewer nodes where the
// entropy of its meta-path says that the continuation is predictable. The decision
// is made once a round, after the base depth, from the draft alone.
type HeteroDrafter struct {
	Model Grower
	// Config gives depth, top-k and nodes of the base tree, HeteroSpec's settings and, in Aids,
	// the entropy bins.
	Config    Config
	Uncoupled bool // see TreeDrafter
}

var (
	_ Drafter       = (*HeteroDrafter)(nil)
	_ ReadbackTimer = (*HeteroDrafter)(nil)
)

// Begin implements Drafter. Bins that do not fit the way of ranking are an error.
func (h *HeteroDrafter) Begin(ctx context.Context, prompt []int32, s Sampling, progress func(int)) (DraftSession, error) {
	coupled := s.Temperature > 0 && !h.Uncoupled
	fit := h.Config.Aids.Hetero.Greedy
	if coupled {
		fit = h.Config.Aids.Hetero.Coupled
	}
	switch {
	case fit == nil && coupled:
		return nil, errors.New("spec: the entropy bins hold none for drafts that use the target's noise (temperature above 0); " +
			"fit them with foretoken calibrate hetero --temperature, or draft uncoupled")
	case fit == nil:
		return nil, errors.New("spec: the entropy bins hold none for drafts without the target's noise (temperature 0 or uncoupled); " +
			"fit them with foretoken calibrate hetero")
	}
	session := &heteroSession{
		treeDraft: treeDraft{feed: feed{model: h.Model}, coupled: coupled, sampling: s},
		grower:    h.Model, config: h.Config, fit: fit,
	}
	return session, session.begin(ctx, prompt, progress)
}

// ReadbackTime is the model's.
func (h *HeteroDrafter) ReadbackTime() time.Duration { return readback(h.Model) }

type heteroSession struct {
	treeDraft
	grower Grower
	config Config
	fit    *HeteroFit
}

func (h *heteroSession) Propose(ctx context.Context, seq []int32, b Budget) (*Draft, error) {
	root := seq[len(seq)-1]
	h.drafted = false
	lim := h.model.Limits()
	width := min(h.config.TopK, b.Width, lim.TopK, lim.MaxRows)
	most := min(b.Levels, h.levels(seq, width)) - 1
	if most < 0 || b.Nodes < 2 {
		h.lone.Reset(root)
		h.draft = Draft{Tree: &h.lone}
		return &h.draft, nil
	}
	pending, err := h.pending(ctx, seq)
	if err != nil {
		return nil, err
	}
	depth, nodes := min(h.config.Depth, most), h.config.Nodes
	levels, err := h.grower.DraftTree(ctx, DraftRequest{Pending: pending, Depth: depth, K: width, Coupled: h.coupled, Sampling: h.sampling})
	if err != nil {
		return nil, err
	}
	if err := h.consumed(seq); err != nil {
		return nil, err
	}
	h.draft = Draft{}
	// A tree cut short by the context or by the tokens left has a Φ that the bins know
	// nothing of.
	if depth == h.config.Depth && width == h.config.TopK {
		phi, path := MetaPath(levels)
		bin := h.fit.Bin(phi)
		h.draft.Bin, h.draft.Phi = bin+1, phi
		if bin < h.fit.Low() {
			shape := h.config.heteroBin(bin)
			if more := min(shape.Levels-1, most) - depth; more > 0 {
				if levels, err = h.grower.Grow(ctx, more); err != nil {
					return nil, err
				}
			}
			nodes = max(shape.Nodes, path)
		}
	}
	tree, err := h.builder.Build(root, levels, min(nodes, b.Nodes))
	if err != nil {
		return nil, err
	}
	h.drafted = true
	h.draft.Tree, h.draft.Levels = tree, levels
	return &h.draft, nil
}
