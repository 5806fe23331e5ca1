package costmodel

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"testing"
	"testing/synctest"
	"time"

	"foretoken/spec"
	"foretoken/spec/goodput"
	"foretoken/spec/method"
	"foretoken/spec/spectest"
)

// slowTarget is a scripted target whose passes take time on the test's clock.
type slowTarget struct {
	*spectest.Target
	pass  time.Duration // of one row; each further row adds a tenth
	calls int
}

func (t *slowTarget) Verify(ctx context.Context, r spec.PassRequest) (*spec.Pass, error) {
	t.calls++
	time.Sleep(t.pass + t.pass*time.Duration(r.Tree.Len()-1)/10)
	return t.Target.Verify(ctx, r)
}

// slowDraft is a scripted draft whose levels take time on the test's clock.
type slowDraft struct {
	*spectest.DraftModel
	level   time.Duration
	calls   int
	refusal error // of Prepare
}

func (d *slowDraft) ReusePrefix(tokens []int32) int {
	d.Reset() // drops the last draft, which was not committed
	return 0
}

func (d *slowDraft) Draft(ctx context.Context, r spec.DraftRequest) ([]spec.Level, error) {
	d.calls++
	time.Sleep(d.level * time.Duration(r.Depth+1))
	return d.DraftModel.Draft(ctx, r)
}

func (d *slowDraft) Extend(ctx context.Context, e spec.Extension) ([]spec.Level, error) {
	time.Sleep(d.level * time.Duration(e.Passes))
	return d.DraftModel.Extend(ctx, e)
}

func (d *slowDraft) Prepare(spec.Programs) error { return d.refusal }

// newPasses returns the passes of a pair whose target takes 10 ms and whose draft takes 1 ms for one row.
func newPasses(contextLength, rows int) (Passes, *slowTarget, *slowDraft) {
	target := &slowTarget{Target: spectest.NewTarget(&spectest.Script{Vocab: 100, Steps: 1e6}, contextLength, 64),
		pass: 10 * time.Millisecond}
	draft := &slowDraft{DraftModel: spectest.NewDraft(target.Target, contextLength, 0.1), level: time.Millisecond}
	draft.Target = nil // timing follows no target
	p := Passes{Target: target, Config: method.Config{Drafter: method.DrafterAuto, Depth: 3, TopK: 4, Nodes: rows}}
	p.Drafts[goodput.SmallDraft] = draft
	return p, target, draft
}

// predicted are costs far from those of newPasses.
func predicted() *goodput.Costs {
	return goodput.Predict(goodput.Rates{Bytes: 1, Row: 1}, goodput.Work{Dispatches: 1, Bytes: 1},
		[goodput.MostModels]goodput.Work{})
}

// near reports whether costs are those of newPasses.
func near(c *goodput.Costs) bool {
	one, six, level := c.Verify.At(1), c.Verify.At(6), c.Drafts[goodput.SmallDraft].Level.At(1)
	return one > 0.0099 && one < 0.0101 && six > 0.014 && six < 0.018 && level > 0.0009 && level < 0.0011
}

// TestPassesAreTimedOnceAndStored times passes, stores the costs and checks them in a later session.
func TestPassesAreTimedOnceAndStored(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, target, draft := newPasses(256, 6)
		m := New("pair", map[string]string{"another": "{}"}, predicted)
		if m.Stored() != nil || m.Timed() {
			t.Error("costs are stored before any request asked for them")
		}
		first, err := m.Ensure(t.Context(), p)
		if err != nil || !near(first) || !m.Timed() {
			t.Fatalf("timed %+v, %v", first, err)
		}
		if target.Len() != 0 || draft.Len() != 0 {
			t.Error("timing left tokens in the caches")
		}
		calls := target.calls
		if again, err := m.Ensure(t.Context(), p); err != nil || again != first || target.calls != calls {
			t.Errorf("timed twice; %v", err)
		}
		stored := m.Stored()
		if len(stored) != 1 || stored["pair"] == "" {
			t.Fatalf("stored %v", stored)
		}

		later := New("pair", stored, predicted)
		if c := later.Known(); !near(c) {
			t.Errorf("stored costs came back as %+v", c)
		}
		drafted := draft.calls
		if c, err := later.Ensure(t.Context(), p); err != nil || !near(c) || draft.calls != drafted {
			t.Errorf("costs that still hold became %+v after %d drafts; %v", c, draft.calls-drafted, err)
		}
		if !maps.Equal(later.Stored(), stored) {
			t.Errorf("stored %v, then %v", stored, later.Stored())
		}
	})
}

// TestWrongCostsAreTimedAgain begins with stored costs that do not describe the device, or cannot.
func TestWrongCostsAreTimedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, target, _ := newPasses(256, 6)
		target.pass *= 100
		m := New("pair", nil, predicted)
		if _, err := m.Ensure(t.Context(), p); err != nil {
			t.Fatal(err)
		}
		target.pass /= 100
		for what, stored := range map[string]map[string]string{"a hundred times too high": m.Stored(),
			"impossible": {"pair": `{"root":{"s":-1}}`}, "unreadable": {"pair": "{"}} {
			c, err := New("pair", stored, predicted).Ensure(t.Context(), p)
			if err != nil || !near(c) {
				t.Errorf("costs that are %s became %+v; %v", what, c, err)
			}
		}
	})
}

// TestTimingKeepsTheTargetsText times passes after a request's text, which the target keeps.
func TestTimingKeepsTheTargetsText(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, target, draft := newPasses(256, 6)
		p.After = true
		if err := target.Prefill(t.Context(), []int32{3, 1, 2}); err != nil {
			t.Fatal(err)
		}
		c, err := New("pair", nil, predicted).Ensure(t.Context(), p)
		if err != nil || !near(c) || fmt.Sprint(target.Cells) != "[3 1 2]" || draft.Len() != 0 {
			t.Errorf("timed %+v, the target holds %v, the draft %d tokens; %v", c, target.Cells, draft.Len(), err)
		}
	})
}

// TestShortContextsAreNotTimed: trees do not matter there.
func TestShortContextsAreNotTimed(t *testing.T) {
	p, target, _ := newPasses(100, 6)
	m := New("pair", nil, predicted)
	if _, err := m.Ensure(t.Context(), p); err != nil || target.calls > 0 || !m.Timed() {
		t.Errorf("%d passes, %v", target.calls, err)
	}
}

// TestFailedTimingIsRepeated fails before the first pass, and in one.
func TestFailedTimingIsRepeated(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, target, draft := newPasses(256, 6)
		m := New("pair", nil, predicted)
		draft.refusal = errors.New("no memory")
		if _, err := m.Ensure(t.Context(), p); err == nil || m.Timed() || target.calls > 0 {
			t.Errorf("programs that cannot be recorded: %v after %d passes", err, target.calls)
		}
		draft.refusal = nil
		ended, end := context.WithCancel(t.Context())
		end()
		if _, err := m.Ensure(ended, p); !errors.Is(err, context.Canceled) || m.Timed() || m.Stored() != nil {
			t.Errorf("timing that was cancelled: %v", err)
		}
		if c, err := m.Ensure(t.Context(), p); err != nil || !near(c) {
			t.Errorf("timed %+v, %v", c, err)
		}
	})
}

// TestRoundsStandInForTiming lets requests decide by predictions: their rounds time what an idle session then need not.
func TestRoundsStandInForTiming(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, target, draft := newPasses(256, 6)
		m := New("pair", nil, predicted)
		for request, tokens := range []int{4, 64} {
			costs, guessed := m.Guess(p)
			if !guessed || m.Timed() || m.Stored() != nil {
				t.Errorf("request %d: guessed %t, timed %t, stored %v", request, guessed, m.Timed(), m.Stored())
			}
			c := p.Config
			c.Fitted.Costs = costs
			g, err := method.New(target, c, draft)
			if err != nil {
				t.Fatal(err)
			}
			target.Reset()
			o := spec.Options{MaxTokens: tokens}
			if _, err := g.Generate(t.Context(), []int32{3, 1, 2}, o, nil); err != nil {
				t.Fatal(err)
			}
		}
		costs, guessed := m.Guess(p)
		if one := costs.Verify.At(1); guessed || !m.Timed() || len(m.Stored()) != 1 || one < 0.0095 || one > 0.0105 {
			t.Errorf("guessed %t, timed %t, stored %v, one row takes %v s", guessed, m.Timed(), m.Stored(), one)
		}
	})
}
