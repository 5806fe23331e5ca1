package foretoken

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"foretoken/models/llama"
	"foretoken/spec/goodput"
	"foretoken/spec/method"
	"foretoken/webgpu"
)

// twin is a copy of a small draft model on a device of its own, mostly the cpu device beside a GPU: there a pass waits
// for no submit, and the draft goes on while the target verifies. Auto drafts with the twin if it grows a tree sooner.
// Other methods keep to the draft on the target's device, some of whose verifiers compare both models' distributions.
type twin struct {
	dev    webgpu.Device
	draft  *llama.Draft
	faster bool // than the draft on the target's device
}

// bytesADispatch is the number of bytes of weights that a processor reads while a GPU begins a dispatch: ten
// microseconds at ten gigabytes a second. A draft with more of them than this for each of its dispatches has no twin.
const bytesADispatch = 100_000

// openTwin loads the draft's twin, if the session may have one and does not have it yet. Without one auto drafts on the
// target's device, so failures only leave it out.
func (s *Session) openTwin(ctx context.Context) {
	if s.twin != nil || s.options.Twin == nil || s.twinless || s.draft == nil || s.second != nil {
		return
	}
	if dispatches, bytes := s.draft.Work(); bytes > int64(dispatches)*bytesADispatch {
		s.twinless = true
		return
	}
	t := &twin{}
	if t.load(ctx, s) == nil {
		s.twin = t
	} else if ctx.Err() == nil { // otherwise a request came meanwhile
		s.twinless = true
	}
}

// load opens the twin's device and loads the draft there. After a loss it overwrites the model in place.
func (t *twin) load(ctx context.Context, s *Session) error {
	dev, err := s.options.Twin(ctx)
	if err != nil {
		return err
	}
	draft, err := llama.LoadDraft(ctx, dev, s.files.draft, s.files.options(0))
	if err != nil {
		dev.Destroy()
		return err
	}
	t.dev = dev
	replace(&t.draft, draft)
	return nil
}

// withTwin reports whether auto drafts with the twin.
func (s *Session) withTwin() bool { return s.twin != nil && s.twin.faster }

// drafting returns the small draft that a config drafts with.
func (s *Session) drafting(c method.Config) *llama.Draft {
	if s.withTwin() && c.WeighsCosts() && c.Adapt == "" {
		return s.twin.draft
	}
	return s.draft
}

// apart reports whether a draft has a device of its own.
func (s *Session) apart(d drafter) bool {
	small, ok := d.(*llama.Draft)
	return ok && (s.second != nil || s.twin != nil && small == s.twin.draft)
}

// chooseDraft times the twin's passes like those of the draft, whose costs are measured, and has auto draft with the
// twin where that takes less time. It then puts the twin's costs in the place of the draft's. The twin of a lean
// session first drafts for a moment, because an engine of WebAssembly compiles code when it ran often.
func (s *Session) chooseDraft(ctx context.Context, costs *goodput.Costs, probe goodput.DraftProbe) error {
	const levels = 4 // of a tree to compare by
	begin, own := time.Now(), goodput.NewCosts()
	for s.options.Lean && time.Since(begin) < optimising {
		if err := cmp.Or(probe.Draft(levels, 1), ctx.Err()); err != nil {
			return err
		}
	}
	err := own.Measure(goodput.Probe{Drafts: []goodput.DraftProbe{goodput.SmallDraft: probe},
		Clock: func() float64 { return time.Since(begin).Seconds() }}, 0, measureFor)
	if err != nil {
		return fmt.Errorf("foretoken: timing the copy of the draft: %w", err)
	}
	draft, twin := &costs.Drafts[goodput.SmallDraft], &own.Drafts[goodput.SmallDraft]
	if twin.Time(levels, 1) < draft.Time(levels, 1) {
		*draft = *twin
		s.twin.faster = costs == s.costs // a rehearsal decides nothing
	}
	return nil
}
