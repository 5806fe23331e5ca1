package adapt

import (
	"context"

	"foretoken/spec"
	"foretoken/spec/draft"
)

// HeteroDrafter is HeteroSpec: EAGLE-2's tree, grown deeper and pruned to fewer nodes if the entropy of its
// meta-path says that the continuation is predictable. It decides once per round, after the base depth, from the
// draft alone.
type HeteroDrafter struct {
	Model spec.DraftModel
	HeteroSettings
	Bins      *HeteroCalibration
	Uncoupled bool // see draft.TreeDrafter
}

var _ spec.Drafter = (*HeteroDrafter)(nil)

// Begin implements Drafter. It fails if there are no bins for the temperature and the way the session ranks its trees.
func (h *HeteroDrafter) Begin(ctx context.Context, o spec.SessionOptions) (spec.DraftSession, error) {
	fit, err := h.Bins.Fit(o.Sampling.Temperature, o.Sampling.Temperature > 0 && !h.Uncoupled)
	if err != nil {
		return nil, err
	}
	session := &heteroSession{
		LevelSession: draft.NewLevelSession(h.Model, o, h.Uncoupled), settings: h.HeteroSettings, fit: fit,
	}
	return session, session.Prefill(ctx, o)
}

type heteroSession struct {
	draft.LevelSession
	settings HeteroSettings
	fit      *HeteroFit
}

func (h *heteroSession) Propose(ctx context.Context, seq []int32, b spec.Budget) (*spec.Draft, error) {
	b.Width = min(b.Width, h.settings.TopK)
	width, most := h.Room(seq, b)
	if most < 0 {
		return h.ProposeRoot(seq), nil
	}
	depth, nodes := min(h.settings.Depth, most), h.settings.Nodes
	levels, err := h.DraftTree(ctx, seq, depth, width)
	if err != nil {
		return nil, err
	}
	var d spec.Draft
	// The bins do not apply to the Φ of a tree that the context or the remaining tokens cut short.
	if depth == h.settings.Depth && width == h.settings.TopK {
		phi, path := MetaPath(levels)
		bin := h.fit.Bin(phi)
		d.Bin, d.Phi = bin+1, phi
		if bin < h.fit.Low() {
			cut := h.settings.Bin(bin)
			if more := min(cut.Levels-1, most) - depth; more > 0 {
				if levels, err = h.Model.Extend(ctx, spec.Extension{Passes: more}); err != nil {
					return nil, err
				}
			}
			nodes = max(cut.Nodes, path)
		}
	}
	d.Levels = levels
	return h.ProposeTree(seq, min(nodes, b.Nodes), d)
}
