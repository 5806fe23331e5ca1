//go:build !js

package bench

import (
	"encoding/json"
	"math"
	"reflect"
	"testing"
	"time"

	"foretoken/spec"
)

func near(a, b float64) bool { return math.Abs(a-b) < 1e-9 }

// byHand returns cells whose figures are computed below: two categories, two repetitions.
func byHand() []Cell {
	cell := func(prompt, category string, rep int, speed, plain float64, calls, nodes, out int) Cell {
		return Cell{Index: 1, Method: "m", Prompt: prompt, Category: category, Rep: rep, TokS: speed,
			PlainTokS: plain, Lossy: true,
			Stats: spec.Stats{Requests: 1, Calls: calls, Rounds: calls,
				Nodes: nodes, OutputTokens: out, Relaxed: rep, Draft: time.Duration(calls) * 2 * time.Millisecond,
				Verify: time.Duration(calls) * 5 * time.Millisecond},
			Prefix: 1, Equal: 2, Length: 4, Edits: 2 + rep, Loss: 2, LossTokens: 4,
			Judgement: Judgement{Judged: prompt != "b-1", Parses: prompt == "a-0"}}
	}
	plain := cell("a-0", "a", 0, 50, 50, 8, 8, 8)
	plain.Method, plain.Plain, plain.Lossy, plain.Prefix = PlainName, true, false, plain.Length
	return []Cell{
		cell("b-1", "b", 1, 300, 100, 2, 20, 8),
		cell("a-0", "a", 0, 100, 50, 4, 40, 8),
		cell("b-0", "b", 0, 80, 80, 8, 80, 8),
		cell("b-0", "b", 1, 120, 80, 8, 80, 8),
		plain,
		cell("b-1", "b", 0, 90, 100, 2, 20, 8),
		cell("a-0", "a", 1, 150, 50, 4, 44, 8),
	}
}

func TestSummaryByHand(t *testing.T) {
	r := Summarise(byHand())
	var got [][2]string
	for _, row := range r.Rows {
		got = append(got, [2]string{row.Method, row.Category})
	}
	if want := [][2]string{{"plain", ""}, {"plain", "a"}, {"m", ""}, {"m", "a"},
		{"m", "b"}}; !reflect.DeepEqual(got, want) {
		t.Fatalf("rows %v, want %v", got, want)
	}
	all, b := r.Row("m", ""), r.Row("m", "b")
	// Repetition 0: 2, 1 and 0.9; repetition 1: 3, 1.5 and 3.
	if !near(all.Speedup.Mean, (1.3+2.5)/2) || !near(all.Speedup.SD, 1.2/math.Sqrt2) || all.Speedup.N != 2 ||
		all.Prompts != 3 || !all.Lossy {
		t.Errorf("speedup %+v", all.Speedup)
	}
	// Mean speed over mean plain speed: 90/(230/3) and 190/(230/3).
	if want := (270.0/230 + 570.0/230) / 2; !near(all.SpeedRatio.Mean, want) {
		t.Errorf("speed ratio %v, want %v", all.SpeedRatio.Mean, want)
	}
	if !near(b.Speedup.Mean, (0.95+2.25)/2) || !near(b.TokS.Mean, (85+210)/2.0) {
		t.Errorf("category b: %+v, %+v", b.Speedup, b.TokS)
	}
	// Over all passes: 24 tokens in 14, not the mean of 2, 1 and 4.
	if !near(all.AcceptanceLength.Mean, 24.0/14) || all.AcceptanceLength.SD != 0 {
		t.Errorf("acceptance length %+v", all.AcceptanceLength)
	}
	if !near(all.Calls.Mean, 14) || !near(all.Tokens.Mean, 142) || !near(all.Tokens.SD, 4/math.Sqrt2) ||
		!near(all.Output.Mean, 24) || !near(all.Relaxed.Mean, 1.5) {
		t.Errorf("calls %+v, tokens %+v, output %+v, relaxed %+v", all.Calls, all.Tokens, all.Output, all.Relaxed)
	}
	if !near(all.DraftMS.Mean, 2) || !near(all.VerifyMS.Mean, 5) || !near(all.HostMS.Mean, 0) {
		t.Errorf("per round %+v %+v %+v", all.DraftMS, all.VerifyMS, all.HostMS)
	}
	if !near(all.SamePrefix.Mean, 0.25) || !near(all.SamePlace.Mean, 0.5) || !near(all.Loss.Mean, 0.5) {
		t.Errorf("agreement %+v %+v, loss %+v", all.SamePrefix, all.SamePlace, all.Loss)
	}
	if !near(all.Edits.Mean, 0.625) || !near(all.Edits.SD, 0.25/math.Sqrt2) {
		t.Errorf("edits %+v", all.Edits)
	}
	// b-1 was not judged; a-0 parses and b-0 does not. Greedy repetitions count once.
	if all.Parses != proportionOf(1, 2) || all.Exact != proportionOf(0, 3) || all.TypeChecks.N != 0 {
		t.Errorf("parses %+v, exact %+v, type-checks %+v", all.Parses, all.Exact, all.TypeChecks)
	}
	if p := r.Row("plain", ""); p.Exact != proportionOf(1, 1) {
		t.Errorf("plain: exact %+v", p.Exact)
	}
	// Medians: a-0 2.5, b-0 1.25, b-1 1.95.
	if all.Worst == nil || all.Worst.Prompt != "b-0" || !near(all.Worst.Speedup, 1.25) || all.Slow != 0 ||
		!near(all.Median, (2.5+1.25+1.95)/3) || b.Worst != nil {
		t.Errorf("worst %+v, slow %v", all.Worst, all.Slow)
	}
	if p := r.Row("plain", ""); !near(p.Speedup.Mean, 1) || p.Speedup.N != 1 || p.Speedup.SD != 0 || p.Loss.N != 1 {
		t.Errorf("plain %+v", p)
	}
}

func TestSlowPromptsAreCounted(t *testing.T) {
	var cells []Cell
	for rep, x := range []float64{0.9, 0.94, 1.2} {
		cells = append(cells, Cell{Method: "m", Prompt: "p", Rep: rep, TokS: x, PlainTokS: 1},
			Cell{Method: "m", Prompt: "q", Rep: rep, TokS: 0.95, PlainTokS: 1})
	}
	row := Summarise(cells).Rows[0]
	if row.Slow != 0.5 || row.Worst.Prompt != "p" || !near(row.Worst.Speedup, 0.94) {
		t.Errorf("slow %v, worst %+v", row.Slow, row.Worst)
	}
	if len(Summarise(cells).Rows) != 1 {
		t.Error("a row for no category")
	}
}

func TestWhatWasNotMeasuredIsNot(t *testing.T) {
	row := Summarise([]Cell{{Method: "m", Prompt: "p"}}).Rows[0]
	for name, m := range map[string]Measure{"speedup": row.Speedup, "loss": row.Loss, "edits": row.Edits,
		"calls": row.Calls, "same": row.SamePlace} {
		if m.N != 0 || m.Mean != 0 {
			t.Errorf("%s %+v", name, m)
		}
	}
	if row.Parses.N != 0 || row.TypeChecks.N != 0 || row.Exact.N != 0 {
		t.Errorf("parses %+v, type-checks %+v, exact %+v", row.Parses, row.TypeChecks, row.Exact)
	}
	if r := Summarise(nil); r.Rows == nil || len(r.Rows) != 0 {
		t.Errorf("rows %v", r.Rows)
	}
}

// TestSampledRepetitionsCount: above temperature 0 every repetition draws another output.
func TestSampledRepetitionsCount(t *testing.T) {
	var cells []Cell
	for rep := range 4 {
		cells = append(cells, Cell{Method: "m", Prompt: "p", Rep: rep, Temperature: 1, Length: 3,
			Prefix:    3 * min(rep, 1),
			Judgement: Judgement{Judged: true, Parses: true, Completed: rep > 0, TypeChecks: rep > 1}})
	}
	row := Summarise(cells).Rows[0]
	if row.Exact != proportionOf(3, 4) || row.Parses != proportionOf(4, 4) || row.TypeChecks != proportionOf(2, 3) {
		t.Errorf("exact %+v, parses %+v, type-checks %+v", row.Exact, row.Parses, row.TypeChecks)
	}
}

func TestReportSurvivesJSON(t *testing.T) {
	cells := byHand()
	cells[0].Figures = newFigures()
	cells[0].Figures.Entropy.Add(0.7, true)
	cells[0].Figures.bin(2).TCR.Add(12, false)
	b, err := json.Marshal(cells)
	if err != nil {
		t.Fatal(err)
	}
	var read []Cell
	if err := json.Unmarshal(b, &read); err != nil {
		t.Fatal(err)
	}
	want := Summarise(cells)
	if got := Summarise(read); !reflect.DeepEqual(got, want) {
		t.Errorf("cells through JSON give\n%+v\nwant\n%+v", got, want)
	}
	want.Device, want.Missing = "d", []Missing{{"x", "", "no"}}
	if b, err = json.Marshal(want); err != nil {
		t.Fatal(err)
	}
	var report Report
	if err := json.Unmarshal(b, &report); err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(report, want) {
		t.Errorf("a report through JSON is\n%+v\nwant\n%+v", report, want)
	}
}

func TestHistogramByHand(t *testing.T) {
	h := Histogram{Width: 0.5, Most: 4}
	for _, v := range []struct {
		x   float64
		hit bool
	}{{-0.1, false}, {0.49, false}, {0.5, true}, {1.2, false}, {1.3, true}, {99, true}, {math.NaN(), true},
		{math.Inf(1), true}} {
		h.Add(v.x, v.hit)
	}
	if want := (Histogram{0.5, 4, []int{2, 1, 2, 2}, []int{0, 1, 1, 2}}); !reflect.DeepEqual(h, want) {
		t.Fatalf("%+v, want %+v", h, want)
	}
	// Hits at intervals 1, 2, 3, 3; misses at 0, 0, 2. Of 12 pairs 11 in order at first
	// sight: 1 beats two, 2 beats two and ties one, 3 beats three twice.
	if got, want := h.AUC(), (2+2.5+3+3)/12; !near(got, want) {
		t.Errorf("AUC %v, want %v", got, want)
	}
	if (&Histogram{Width: 1, Most: 2}).AUC() != 0 {
		t.Error("an empty histogram has an AUC")
	}
	sum := Histogram{}
	sum.merge(&h)
	sum.merge(&Histogram{0.5, 4, []int{1}, []int{1}})
	if n, hits := sum.Total(); n != 8 || hits != 5 || sum.N[0] != 3 || sum.Most != 4 {
		t.Errorf("merged %+v", sum)
	}
}

// TestFiguresFollowTheAcceptedPath checks a tree of two levels by hand: the root has the children 20 and 21, both
// read by the draft; 21 has 30 and 31.
func TestFiguresFollowTheAcceptedPath(t *testing.T) {
	ln := func(p float64) float32 { return float32(math.Log(p)) }
	levels := []spec.Level{
		{Candidates: []spec.Candidate{{Token: 20, LogQ: ln(0.5), Beam: 0}, {Token: 21, LogQ: ln(0.25), Beam: 0}},
			Beams: []int32{0, 1}, Entropies: []float32{1.2}, Accepts: []float32{1}},
		{Candidates: []spec.Candidate{{Token: 29, LogQ: ln(0.1), Beam: 0}, {Token: 30, LogQ: ln(0.6), Beam: 1},
			{Token: 31, LogQ: ln(0.2), Beam: 1}}, Entropies: []float32{3.1, 0.3}, Accepts: []float32{0.91, 0.42}},
	}
	tree := &spec.Tree{}
	tree.Reset(1)
	tree.Add(0, 20, ln(0.5))
	b := tree.Add(0, 21, ln(0.25))
	c := tree.Add(b, 30, ln(0.15))
	tree.Add(b, 31, ln(0.05))
	event := func(path ...int32) *spec.Event {
		return &spec.Event{Tree: tree, Path: path, Levels: levels, VerifiedDepth: 2,
			Proposal: &spec.Draft{Tree: tree, Levels: levels, Bin: 3}}
	}
	f := newFigures()
	f.observe(event(0, b, c), 1)
	// The root's children at 1.2 nats and 21's at 0.3 were both accepted from; of the root's,
	// 20 at 0.91 was not and 21 at 0.42 was.
	if f.Entropy.N[2] != 1 || f.Entropy.Hits[2] != 1 || f.Entropy.N[0] != 1 || f.Entropy.Hits[0] != 1 {
		t.Errorf("entropy %+v", f.Entropy)
	}
	if f.Estimates.N[18] != 1 || f.Estimates.Hits[18] != 0 || f.Estimates.N[8] != 1 || f.Estimates.Hits[8] != 1 {
		t.Errorf("estimates %+v", f.Estimates)
	}
	// By V 20, 21, 30, 31: the last accepted one is third. It is at the base depth.
	bin := f.bin(3)
	if bin.TCR.N[0] != 1 || bin.TCR.Hits[0] != 1 || len(f.Bins) != 1 {
		t.Errorf("bins %+v", f.Bins)
	}
	h := func(p ...float64) (e float64) {
		for _, x := range p {
			e -= x * math.Log(x)
		}
		return e
	}
	phi := h(2.0/3, 1.0/3) + h(0.75, 0.25) // through 21, whose best child is the likeliest of the level
	if n := bin.Phi.N[int(phi/0.5)]; n != 1 {
		t.Errorf("Φ %+v, want %v", bin.Phi, phi)
	}
	f.observe(event(0), 1) // nothing accepted: a miss at the root, no TCR
	if n, hits := f.Entropy.Total(); n != 3 || hits != 2 {
		t.Errorf("entropy %+v", f.Entropy)
	}
	if n, _ := bin.TCR.Total(); n != 1 {
		t.Errorf("TCR %+v", bin.TCR)
	}
	if n, hits := bin.Phi.Total(); n != 2 || hits != 1 {
		t.Errorf("Φ %+v", bin.Phi)
	}
	lone := &spec.Tree{}
	lone.Reset(1)
	before := f.Entropy
	f.observe(&spec.Event{Tree: lone, Path: []int32{0}, Proposal: &spec.Draft{Tree: lone}}, 1)
	f.observe(&spec.Event{}, 1)
	if !reflect.DeepEqual(f.Entropy, before) {
		t.Error("a round without a draft was counted")
	}

	chain := &spec.Tree{}
	chain.Reset(1)
	for i := range int32(3) {
		chain.Add(i, 5+i, 0)
	}
	d := newFigures()
	nan := float32(math.NaN())
	d.observe(&spec.Event{Tree: chain, Path: []int32{0, 1}, VerifiedDepth: 3, Proposal: &spec.Draft{Tree: chain,
		Drawn: []spec.Drawn{{Entropy: 0.1, Accept: 0.99}, {Entropy: 2.2, Accept: nan}, {Entropy: 4, Accept: 0.5}}}}, -1)
	if n, hits := d.Entropy.Total(); n != 2 || hits != 1 || d.Entropy.Hits[0] != 1 || d.Entropy.N[4] != 1 {
		t.Errorf("a chain cut after its second token: %+v", d.Entropy)
	}
	if n, hits := d.Estimates.Total(); n != 1 || hits != 1 {
		t.Errorf("estimates %+v: what the head did not say was counted", d.Estimates)
	}

	// Of a chain of three the second token is relaxed and the third rejected; logits of 0 relax nothing.
	d = newFigures()
	d.observe(&spec.Event{Tree: chain, Path: []int32{0, 1, 2}, VerifiedDepth: 3,
		Origins: []spec.Origin{spec.Accepted, spec.Relaxed, spec.Corrected},
		Outputs: []spec.NodeOutput{{TopLogits: []float32{8, 0}}, {TopLogits: []float32{4, 3}},
			{TopLogits: []float32{4, 1}}, {}},
		Divergences: []spec.Divergence{{Distance: 0.12}, {Distance: 0.3}, {Distance: 0.97}},
		Proposal:    &spec.Draft{Tree: chain, Drawn: make([]spec.Drawn, 3)}}, -1)
	if h := d.Distances; h.N[2] != 1 || h.Hits[2] != 1 || h.N[6] != 1 || h.Hits[6] != 1 || h.N[19] != 1 ||
		h.Hits[19] != 0 {
		t.Errorf("distances %+v", h)
	}
	if h := d.Logits; h.N[8] != 1 || h.Hits[8] != 0 || h.N[4] != 2 || h.Hits[4] != 2 {
		t.Errorf("logits %+v", h)
	}
	if n, hits := d.Ratios.Total(); n != 2 || hits != 1 || d.Ratios.N[37] != 1 || d.Ratios.Hits[37] != 1 ||
		d.Ratios.N[12] != 1 {
		t.Errorf("ratios %+v", d.Ratios)
	}
}
