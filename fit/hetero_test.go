package fit

import (
	"math"
	"testing"

	"foretoken/spec/adapt"
)

// heteroPrompts returns the points of n prompts whose ranks are steps of Φ, shifted by up to shift from the first
// prompt to the last.
func heteroPrompts(n int, shift float64) [][]adapt.HeteroPoint {
	var all [][]adapt.HeteroPoint
	for p := range n {
		var points []adapt.HeteroPoint
		for i := range 80 {
			phi := float64(i) / 10
			rank := 2 + 6*int(phi+shift*float64(p)/float64(n))
			points = append(points, adapt.HeteroPoint{Phi: phi, TCR: rank, Full: true})
		}
		all = append(all, points)
	}
	return all
}

func TestCompareHetero(t *testing.T) {
	settings := []adapt.HeteroFitting{{CARTDepth: 3, LowBins: 3}, {CARTDepth: 2, LowBins: 3},
		{CARTDepth: 3, LowBins: 3, Weighted: true}}
	all, err := CompareHetero(heteroPrompts(30, 0), settings, 20, 1)
	if err != nil {
		t.Fatal(err)
	}
	// Eight steps from 0 to 8: the three lowest of eight bins end below 3, of four bins below 6.
	deep, shallow := all[0], all[1]
	if deep.Bins != 8 || math.Abs(deep.LowEdge-2.95) > 1e-9 || math.Abs(deep.Low-3.0/8) > 1e-9 || deep.Overlap != 1 ||
		shallow.Bins != 4 || math.Abs(shallow.LowEdge-5.95) > 1e-9 || math.Abs(shallow.Overlap-0.5) > 1e-9 ||
		all[2].Overlap != 1 || !all[2].Weighted {
		t.Errorf("%+v", all)
	}
	if deep.EdgeSD > 1e-9 || deep.LowSD > 1e-9 || math.Abs(deep.Redrawn-1) > 1e-9 {
		t.Errorf("prompts that agree: %+v", deep)
	}
	mixed, err := CompareHetero(heteroPrompts(30, 1), settings[:1], 20, 1)
	if err != nil || mixed[0].EdgeSD == 0 || mixed[0].LowSD == 0 || !(mixed[0].Redrawn < 1) {
		t.Errorf("prompts that disagree: %+v (%v)", mixed, err)
	}
	if _, err := CompareHetero(heteroPrompts(2, 0), settings, 1, 1); err == nil {
		t.Error("160 paths were enough")
	}
}

func TestLowOverlap(t *testing.T) {
	points := []adapt.HeteroPoint{{Phi: 1}, {Phi: 2}, {Phi: 3}, {Phi: 4}}
	low := func(edge float64) *adapt.HeteroFit {
		return &adapt.HeteroFit{HeteroFitting: adapt.HeteroFitting{LowBins: 1}, Edges: []float64{edge}}
	}
	none := &adapt.HeteroFit{}
	for _, c := range []struct {
		a, b *adapt.HeteroFit
		want float64
	}{{low(1), low(3), 1.0 / 3}, {low(3), low(1), 1.0 / 3}, {low(2), low(2), 1}, {none, low(2), 0}, {none, none, 1}} {
		if got := LowOverlap(points, c.a, c.b); got != c.want {
			t.Errorf("%v and %v: %v, want %v", c.a.Edges, c.b.Edges, got, c.want)
		}
	}
}
