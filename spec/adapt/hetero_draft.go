package adapt

import (
	"context"

	"foretoken/spec"
	"foretoken/spec/draft"
)

// HeteroDrafter is HeteroSpec: EAGLE-2's tree, grown deeper and pruned to fewer nodes if the entropy of its
// meta-path says that the continuation is predictable. It decides once per round, after the base depth, from the
// draft alone. The base tree of the other rounds is fixed beforehand, so it may be verified in the run that drafts it.
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

// joinedLowShare is the greatest share of rounds in low bins at which the target verifies the base tree in the run that
// drafts it. In a low bin that pass is for nothing: the tree is verified again after its extension.
const joinedLowShare = 1.0 / 16

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
	depth := min(h.settings.Depth, most)
	// The bins do not apply to the Φ of a tree that the context or the remaining tokens cut short.
	binned := depth == h.settings.Depth && width == h.settings.TopK
	d, err := h.ProposeBest(ctx, seq, depth, width, min(h.settings.Nodes, b.Nodes),
		!binned || h.fit.LowShare() <= joinedLowShare)
	if err != nil || !binned {
		return d, err
	}
	phi, path := MetaPath(d.Levels)
	bin := h.fit.Bin(phi)
	if bin < h.fit.Low() { // a pass that joined the draft is dropped
		levels, cut := d.Levels, h.settings.Bin(bin)
		if more := min(cut.Levels-1, most) - depth; more > 0 {
			if levels, err = h.Model.Extend(ctx, spec.Extension{Passes: more}); err != nil {
				return nil, err
			}
		}
		if d, err = h.ProposeTree(seq, min(max(cut.Nodes, path), b.Nodes), spec.Draft{Levels: levels}); err != nil {
			return nil, err
		}
	}
	d.Bin, d.Phi = bin+1, phi
	return d, nil
}
