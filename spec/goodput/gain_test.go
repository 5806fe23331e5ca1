package goodput

import (
	"math"
	"testing"
)

// TestGain compares rounds with a head and without it, by the costs and by what is known of the yields.
func TestGain(t *testing.T) {
	widths, sizes := []int{1, 4}, RowBuckets()[1:]
	// machine is one on which a level of each model takes so long, in passes of the target over one row.
	machine := func(small, head float64) *Costs {
		c := NewCosts()
		c.Verify.guess(1, 0.02)
		c.Host.Seconds = 0
		for i, seconds := range []float64{SmallDraft: small, EAGLE3: head} {
			c.Drafts[i].guess(seconds, 0)
			c.Drafts[i].Root.Count = 1
		}
		return c
	}
	// drafted sets the yield of a model to its first guess, scaled.
	drafted := func(c *Costs, model int, scale float64) {
		p := &c.acceptance("greedy match").Models[model].Yield
		p.ready(model, widths, 6, sizes)
		p.Seen = enoughDrafts
		for i := range p.Gains {
			p.Gains[i] *= scale
		}
	}
	for _, c := range []struct {
		name        string
		small, head float64 // passes
		learnt, of  float64 // scales of their yields; 0: it never drafted
		least, most float64
	}{
		{"a head as cheap as the draft, and right more often", 0.2, 0.2, 1, 0, 1.1, 1.4},
		{"the same by first guesses", 0.2, 0.2, 0, 0, 1.1, 1.4},
		{"a dear head", 0.05, 0.6, 1, 0, 0.3, 0.9},
		{"a cheap head", 0.6, 0.05, 1, 0, 1.6, 3},
		{"a text that both fail on", 0.2, 0.2, 0.05, 0, 0.8, 1},
		{"a head that was tried and failed", 0.2, 0.2, 1, 0.05, 0.3, 0.9},
		{"a head that was tried and did as expected", 0.2, 0.2, 1, 1, 1.1, 1.4},
	} {
		m := machine(c.small, c.head)
		if c.learnt > 0 {
			drafted(m, SmallDraft, c.learnt)
		}
		if c.of > 0 {
			drafted(m, EAGLE3, c.of)
		}
		if gain := m.Gain(EAGLE3); !(gain >= c.least && gain <= c.most) {
			t.Errorf("%s: %.3f times as fast, want %.2f to %.2f", c.name, gain, c.least, c.most)
		}
	}
	alone := machine(0.01, 0.2) // the small draft was never timed: there is none
	alone.Drafts[SmallDraft].Root.Count = 0
	if gain := alone.Gain(EAGLE3); !(gain > 1.3) {
		t.Errorf("beside lookups a head is %.2f times as fast, want the gain over plain decoding", gain)
	}
}

// TestExpect sets the costs of a draft that no device has run in proportion to those of the target.
func TestExpect(t *testing.T) {
	c := NewCosts()
	c.Verify.guess(2, 0.1)
	c.Drafts[EAGLE3].Root = Cell{Seconds: 5, Count: 3}
	c.Expect(EAGLE3, Rates{Bytes: 100, Row: 0.5}, Work{Dispatches: 5, Bytes: 500}, Work{Dispatches: 39, Bytes: 100})
	if d := &c.Drafts[EAGLE3]; d.Root != (Cell{Seconds: 0.5}) || math.Abs(d.Level.At(3)-0.75) > 1e-9 {
		t.Errorf("a draft of 10 where the target has 40, of 2 s: %+v", d)
	}
}
