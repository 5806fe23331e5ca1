package foretoken

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"time"

	"foretoken/models/llama"
	"foretoken/spec/goodput"
	"foretoken/spec/method"
	"foretoken/webgpu"
)

// twin is a copy of a small draft model on a device of its own, mostly the cpu device beside a GPU: there a pass waits
// for no submit, has no kernels to compile, and the draft goes on while the target verifies. Auto drafts with the twin
// until both are timed, and then with the one that grows a tree sooner. Other methods keep to the draft on the target's
// device, some of whose verifiers compare both models' distributions.
type twin struct {
	dev   webgpu.Device
	draft *llama.Draft
}

// What Session.sooner and the store say: which of the two grows a tree sooner.
const (
	undecided   = ""
	draftSooner = "draft"
	twinSooner  = "twin"
)

// bytesADispatch is the number of bytes of weights that a processor reads while a GPU begins a dispatch: ten
// microseconds at ten gigabytes a second. A draft with more of them than this for each of its dispatches has no twin.
const bytesADispatch = 100_000

// loadTwin loads the draft's twin, if the session may have one, and takes an earlier session's choice. Without a twin
// auto drafts on the target's device, so one that cannot be loaded is left out. After a loss it loads the twin again.
func (s *Session) loadTwin(ctx context.Context) error {
	if t := s.twin; t != nil {
		err := t.open(ctx, s)
		if err == nil {
			err = t.load(ctx, s)
		}
		if err != nil && ctx.Err() == nil {
			s.loseTwin()
		}
		return ctx.Err()
	}
	if s.twinKey != "" || s.options.Twin == nil || s.draft == nil || s.second != nil {
		return nil
	}
	if dispatches, bytes := s.draft.Work(); bytes > int64(dispatches)*bytesADispatch {
		return nil
	}
	t := &twin{}
	if t.open(ctx, s) != nil {
		return ctx.Err()
	}
	info := t.dev.Info()
	s.info.Twin, s.twinKey = &info, fmt.Sprintf(" and its twin on %d threads", info.Threads)
	if s.sooner = s.stored[s.soonerKey()]; s.sooner == draftSooner {
		t.dev.Destroy()
		return nil
	}
	if t.load(ctx, s) != nil {
		s.loseTwin()
		return ctx.Err()
	}
	s.twin = t
	return nil
}

// open opens the twin's device.
func (t *twin) open(ctx context.Context, s *Session) error {
	dev, err := s.options.Twin(ctx)
	if err == nil {
		t.dev = dev
	}
	return err
}

// load loads the draft onto the twin's device. After a loss it overwrites the model in place.
func (t *twin) load(ctx context.Context, s *Session) error {
	draft, err := llama.LoadDraft(ctx, t.dev, s.files.draft, s.files.options(0))
	if err != nil {
		t.dev.Destroy()
		return err
	}
	replace(&t.draft, draft)
	return nil
}

// loseTwin makes the session one that may have no twin. What it knows of costs goes: it was with the twin.
func (s *Session) loseTwin() {
	if s.twin != nil {
		s.dropTwin()
	}
	s.options.Twin, s.info.Twin, s.twinKey, s.sooner = nil, nil, "", undecided
	s.costs, s.timed, s.stale, s.guessed = nil, false, false, 0
}

// dropTwin has auto draft on the target's device from now on.
func (s *Session) dropTwin() {
	s.twin.draft.Close()
	s.twin.dev.Destroy()
	s.twin, s.sooner = nil, draftSooner
}

// soonerKey returns the key of the choice between the draft and its twin.
func (s *Session) soonerKey() string { return "sooner of " + s.costsKey() }

// drafting returns the small draft that a config drafts with.
func (s *Session) drafting(c method.Config) *llama.Draft {
	if s.twin != nil && c.WeighsCosts() {
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
// twin where that takes less time; otherwise, and where it fails, the twin goes. The twin of a lean session first
// drafts for a moment, because an engine of WebAssembly compiles code when it ran often.
func (s *Session) chooseDraft(ctx context.Context, costs *goodput.DraftCosts,
	probe func(d drafter) (goodput.DraftProbe, error)) error {
	const levels = 4 // of a tree to compare by
	p, err := probe(s.twin.draft)
	begin, own := time.Now(), goodput.NewCosts()
	for err == nil && s.options.Lean && time.Since(begin) < optimising {
		err = cmp.Or(p.Draft(levels, 1), ctx.Err())
	}
	if err == nil {
		err = own.Measure(goodput.Probe{Drafts: []goodput.DraftProbe{goodput.SmallDraft: p},
			Clock: func() float64 { return time.Since(begin).Seconds() }}, 0, measureFor)
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if by := &own.Drafts[goodput.SmallDraft]; err == nil && by.Time(levels, 1) < costs.Time(levels, 1) {
		s.twin.draft.Reset()
		*costs, s.sooner = *by, twinSooner
		return nil
	}
	if s.dropTwin(); err != nil {
		s.sooner = undecided
	}
	r := s.defaultRequest(math.MaxInt)
	_, err = s.compileRequest(&r) // records the programs that draft and verify in one run
	return err
}
