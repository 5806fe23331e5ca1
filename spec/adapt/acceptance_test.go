package adapt

import (
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"foretoken/spec"
)

func TestStopThresholdByHand(t *testing.T) {
	const ms = time.Millisecond
	for _, c := range []struct {
		tv, td, tr time.Duration
		want       float64
	}{
		{20 * ms, 1 * ms, 20 * ms, 0.95},
		{20 * ms, 5 * ms, 60 * ms, 0.25},
		{20 * ms, 20 * ms, 5 * ms, 0},
		{20 * ms, 30 * ms, 5 * ms, -2},
		{20 * ms, 1 * ms, 10 * ms, 1.9},
		{20 * ms, 1 * ms, 0, math.Inf(1)},
		{20 * ms, 30 * ms, -ms, math.Inf(1)},
	} {
		if got := StopThreshold(c.tv, c.td, c.tr); math.Abs(got-c.want) > 1e-12 && got != c.want {
			t.Errorf("T_v %v, T_d %v, T_r %v: h is %v, want %v", c.tv, c.td, c.tr, got, c.want)
		}
	}
}

func TestStopsByHand(t *testing.T) {
	for _, c := range []struct {
		h         float64
		any       bool
		pathProbs []float64 // P_rej is 1 minus these
		want      bool
	}{
		{0.5, false, []float64{0.6, 0.1}, false},
		{0.5, true, []float64{0.6, 0.1}, true},
		{0.5, false, []float64{0.4, 0.1}, true},
		{0.5, false, []float64{0.5, 0.1}, false}, // not more than h
		{0.95, false, []float64{0.04, 0.01}, true},
		{1, false, []float64{0}, false},
		{1, true, []float64{0}, false},
		{math.Inf(1), true, []float64{0}, false},
		{0, false, []float64{1}, true},
		{-2, false, []float64{1}, true},
	} {
		if got := (&AcceptanceStop{Any: c.any}).stops(c.h, c.pathProbs); got != c.want {
			t.Errorf("h %v, any %v, %v: %v", c.h, c.any, c.pathProbs, got)
		}
	}
}

// TestGatherByHand checks two levels of beams: the probability of a beam is its parent's times its own estimate.
func TestGatherByHand(t *testing.T) {
	levels := []spec.Level{
		{Candidates: []spec.Candidate{{Token: 10, LogQ: 0, Beam: 0}, {Token: 11, LogQ: 0, Beam: 0},
			{Token: 12, LogQ: 0, Beam: 0}}, Beams: []int32{2, 0}, Accepts: []float32{1}},
		{Candidates: []spec.Candidate{{Token: 20, LogQ: 0, Beam: 0}, {Token: 21, LogQ: 0, Beam: 1},
			{Token: 22, LogQ: 0, Beam: 1}}, Beams: []int32{1, 0, 2}, Accepts: []float32{0.5, 0.25}},
		{Accepts: []float32{0.5, float32(math.NaN()), 7}},
	}
	a := acceptanceSession{pathProbs: []float64{1}}
	for d, want := range [][]float64{{0.5, 0.25}, {0.25 * 0.5, 0.5, 0.25}} {
		if err := a.gather(levels, d+1); err != nil || !slices.Equal(a.pathProbs, want) {
			t.Errorf("level %d: %v, want %v (%v)", d+1, a.pathProbs, want, err)
		}
	}
	levels[1].Accepts = nil
	a.pathProbs = []float64{1}
	if err := a.gather(levels, 1); err == nil || !strings.Contains(err.Error(), "acceptance head") {
		t.Errorf("a level without estimates: %v", err)
	}
	levels[1].Accepts, levels[0].Beams = []float32{1}, []int32{5}
	if err := a.gather(levels, 1); err == nil {
		t.Error("a beam that is no candidate was taken")
	}
}

// TestGrowByHand lets branches end one by one: only candidates of beams that P_rej spares become beams.
func TestGrowByHand(t *testing.T) {
	candidates := []spec.Candidate{{LogQ: -1, Beam: 0}, {LogQ: -3, Beam: 0}, {LogQ: -0.5, Beam: 1}, {LogQ: -2, Beam: 1},
		{LogQ: 0, Beam: 2}}
	a := acceptanceSession{pathProbs: []float64{0.9, 0.5, 0.1}}
	values := []float32{-1, -2, -0.25}
	for _, c := range []struct {
		h     float64
		width int
		beams []int32
		next  []float32
	}{
		{math.Inf(1), 5, []int32{4, 0, 2, 1, 3}, []float32{-0.25, -2, -2.5, -4, -4}},
		{0.9, 2, []int32{4, 0}, []float32{-0.25, -2}}, // not more than h
		{0.5, 5, []int32{0, 2, 1, 3}, []float32{-2, -2.5, -4, -4}},
		{0.3, 5, []int32{0, 1}, []float32{-2, -4}},
		{0.05, 5, nil, nil},
	} {
		beams, next := a.grow(candidates, values, c.width, c.h)
		if !slices.Equal(beams, c.beams) || !slices.Equal(next, c.next) {
			t.Errorf("h %v: beams %v of %v, want %v of %v", c.h, beams, next, c.beams, c.next)
		}
	}
}

func TestPassTimesByHand(t *testing.T) {
	const ms = time.Millisecond
	var p PassTimes
	if h := p.threshold(); !math.IsInf(h, 1) {
		t.Errorf("before anything was measured h is %v", h)
	}
	round := func(levels, depth, accepted, verified int, draft, verify time.Duration) *spec.Event {
		e := &spec.Event{Tree: &spec.Tree{}, Proposal: &spec.Draft{}, Levels: make([]spec.Level, levels),
			VerifiedDepth: verified, Draft: draft, Verify: verify}
		e.Tree.Reset(0)
		for i := range int32(depth) {
			e.Tree.Add(i, 1, 0)
		}
		e.Path = make([]int32, accepted+1)
		return e
	}
	near := func(what string, want float64) {
		t.Helper()
		if h := p.threshold(); math.Abs(h-want) > 1e-9 {
			t.Errorf("%s: h is %v, want %v", what, h, want)
		}
	}
	p.observe(round(0, 0, 0, 0, 0, 99*ms)) // plain decoding has no draft to time
	// 5 levels in 5 ms, all accepted: T_v 20, T_d 1, nothing wasted.
	p.observe(round(5, 5, 5, 5, 5*ms, 20*ms))
	near("all accepted", (20.0-1)/20)
	// Cut after 2: the rest was not verified, so the wasted time is unknown.
	p.observe(round(5, 5, 2, 2, 5*ms, 20*ms))
	near("cut", (20.0-1)/20)
	// One accepted, the second rejected, three levels thrown away: 3 ms.
	p.observe(round(5, 5, 1, 5, 5*ms, 20*ms))
	near("rejected", (20.0-1)/(20+3))
	// The averages move by an eighth.
	p.observe(round(5, 5, 0, 5, 45*ms, 28*ms))
	near("moved", (21.0-2)/(21+(3+(36.0-3)/8)))
	// Levels below the tree's depth were drafted too and count as wasted.
	p = PassTimes{}
	p.observe(round(6, 2, 1, 2, 6*ms, 10*ms))
	near("deeper levels", (10.0-1)/(10+4))
}

func TestRuleByHand(t *testing.T) {
	unknown := float32(math.NaN())
	for _, c := range []struct {
		h       float64
		accepts []float32
		want    bool
	}{
		{0.5, []float32{unknown}, false},
		{0.5, []float32{0.6, unknown}, false},
		{0.5, []float32{0.6, 0.6, unknown}, true}, // 1-0.36
		{0.65, []float32{0.6, 0.6, unknown}, false},
		{0.65, []float32{0.6, 0.6, 0.9, unknown}, true}, // 1-0.324
		{0, []float32{unknown}, false},                  // nothing measured yet
	} {
		rule := AcceptanceRule{AcceptanceStop: AcceptanceStop{H: c.h, Times: &PassTimes{}}}
		var drawn []spec.Drawn
		for _, a := range c.accepts {
			drawn = append(drawn, spec.Drawn{Accept: a})
		}
		if got := rule.Stop(drawn); got != c.want {
			t.Errorf("h %v, estimates %v: %v", c.h, c.accepts, got)
		}
	}
}
