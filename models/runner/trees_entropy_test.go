package runner

import (
	"math"
	"testing"

	"foretoken/models/graph"
	"foretoken/spec"
	"foretoken/webgpu"
)

// TestTopEntropies compares the entropies of the 3 likeliest tokens with the ones of the candidates, which are the 5
// likeliest: in trees that the device grows, grown further, and expanded by the host. Nothing is compiled while
// drafting, and drafts without EntropyTop keep the entropies of all tokens.
func TestTopEntropies(t *testing.T) {
	onDevices(t, func(t *testing.T, dev webgpu.Device) {
		const k, top = 5, 3
		d := loadDraft(t, dev, "tiny-f32", graph.Options{})
		programs := growth(2, k, true)
		programs.EntropyTop = top
		if err := d.Prepare(programs); err != nil {
			t.Fatal(err)
		}
		made := dev.Counters().Programs
		draft := func(entropyTop int) []spec.Level {
			prefilled(t, d, text[:4])
			levels, err := d.Draft(background, spec.DraftRequest{Pending: text[4:6], Depth: 1, K: k,
				EntropyTop: entropyTop})
			if err == nil {
				levels, err = d.Extend(background, spec.Extension{Passes: 1})
			}
			if err == nil {
				levels, err = d.Extend(background, spec.Extension{Beams: []int32{1, 7, 0}})
			}
			if err != nil {
				t.Fatal(err)
			}
			return levels
		}
		of := func(l *spec.Level, beam int) float64 {
			sum, moment := 0.0, 0.0
			for _, c := range l.Candidates[beam*k : beam*k+top] {
				q := math.Exp(float64(c.LogQ))
				sum, moment = sum+q, moment+q*float64(c.LogQ)
			}
			return math.Log(sum) - moment/sum
		}
		beams, all := 0, [][]float32{}
		for _, l := range draft(0) {
			all = append(all, append([]float32(nil), l.Entropies...))
		}
		for level, l := range draft(top) {
			for beam, h := range l.Entropies {
				if want := of(&l, beam); math.Abs(float64(h)-want) > 1e-4 || !(all[level][beam] > h) {
					t.Errorf("level %d, beam %d: entropy %v, want %v of at most %v", level, beam, h, want,
						all[level][beam])
				}
				beams++
			}
		}
		if beams != 1+k+k+3 {
			t.Errorf("%d beams", beams)
		}
		for level, l := range draft(0) {
			for beam, h := range l.Entropies {
				if h != all[level][beam] {
					t.Errorf("level %d, beam %d: entropy %v, before %v", level, beam, h, all[level][beam])
				}
			}
		}
		if n := dev.Counters().Programs; n != made {
			t.Errorf("drafting compiled %d programs", n-made)
		}
	})
}
