package goodput

import (
	"errors"
	"math"
	"testing"
)

// timer is a device whose passes take given seconds.
type timer struct {
	now  float64
	runs int
}

func (d *timer) pass(seconds float64) error {
	d.now += seconds
	d.runs++
	return nil
}

func (d *timer) probe(widths ...int) Probe {
	return Probe{
		Verify: func(rows int) error { return d.pass(0.010 + 0.001*float64(rows)) },
		Drafts: []DraftProbe{{
			Widths: widths,
			Draft: func(levels, beams int) error {
				return d.pass(0.003 + 0.002*float64(levels-1) + 0.0001*float64((levels-1)*(beams-1)))
			},
			Grow:    func() error { return d.pass(0.0005 + 0.002) },
			Prefill: func(tokens int) error { return d.pass(0.002 + 0.0001*float64(tokens)) },
		}},
		Clock: func() float64 { return d.now },
	}
}

func TestMeasuringFindsWhatPassesTake(t *testing.T) {
	d, c := &timer{}, NewCosts()
	if c.Measured(16, 0) {
		t.Error("guesses pass for measurements")
	}
	if err := c.Measure(d.probe(1, 2, 4), 16, 10); err != nil {
		t.Fatal(err)
	}
	draft := &c.Drafts[SmallDraft]
	for _, x := range []struct {
		what      string
		got, want float64
	}{
		{"1 row", c.Verify.At(1), 0.011}, {"3 rows", c.Verify.At(3), 0.013},
		{"5 rows, on the stair of 6", c.Verify.At(5), 0.016}, {"16 rows", c.Verify.At(16), 0.026},
		{"a draft of one level", draft.Time(1, 4), 0.003}, {"of four by 4", draft.Time(4, 4), 0.003 + 3*0.0023},
		{"growing", draft.GrowTime(1), 0.0025}, {"catching up", draft.LagTime(66), 0.0084},
		{"no lag", draft.LagTime(2), 0},
	} {
		if math.Abs(x.got-x.want) > 1e-6 {
			t.Errorf("%s takes %v s, want %v", x.what, x.got, x.want)
		}
	}
	if !c.Measured(16, 0) || c.Measured(64, 0) {
		t.Error("costs measured up to 16 rows deny it, or claim 64")
	}
}

func TestMeasuringEndsWithItsBudget(t *testing.T) {
	long, short := &timer{}, &timer{}
	full, brief := NewCosts(), NewCosts()
	if err := full.Measure(long.probe(1, 4), 16, 10); err != nil {
		t.Fatal(err)
	}
	if err := brief.Measure(short.probe(1, 4), 16, 0.02); err != nil {
		t.Fatal(err)
	}
	if short.runs >= long.runs {
		t.Errorf("%d passes within a small budget, %d without one", short.runs, long.runs)
	}
	if got := brief.Verify.At(8); math.Abs(got-0.018) > 0.002 {
		t.Errorf("8 rows take %v s in proportion, want about 0.018", got)
	}
}

// TestBusyMachinesAreSeenThrough interrupts every fifth pass: the shortest run counts.
func TestBusyMachinesAreSeenThrough(t *testing.T) {
	d, c := &timer{}, NewCosts()
	p := d.probe(1)
	quiet := p.Verify
	p.Verify = func(rows int) error {
		if d.runs%5 == 1 {
			d.now += 0.5
		}
		return quiet(rows)
	}
	if err := c.Measure(p, 16, 10); err != nil {
		t.Fatal(err)
	}
	for rows, want := range map[int]float64{1: 0.011, 2: 0.012, 4: 0.014, 16: 0.026} {
		if got := c.Verify.At(rows); math.Abs(got-want) > 1e-6 {
			t.Errorf("%d rows take %v s, want %v", rows, got, want)
		}
	}
}

// TestTreesAreTimedBeforePrefills lets trees after a prefill take longer: the first of them would prefill again.
func TestTreesAreTimedBeforePrefills(t *testing.T) {
	d, c, plain := &timer{}, NewCosts(), NewCosts()
	p := d.probe(1)
	if err := plain.Measure(p, 16, 10); err != nil {
		t.Fatal(err)
	}
	tree, prefill, late := p.Drafts[0].Draft, p.Drafts[0].Prefill, 0.0
	p.Drafts[0].Draft = func(levels, beams int) error {
		d.now += late
		return tree(levels, beams)
	}
	p.Drafts[0].Prefill = func(tokens int) error {
		late = 0.5
		return prefill(tokens)
	}
	if err := c.Measure(p, 16, 10); err != nil {
		t.Fatal(err)
	}
	if got, want := c.Drafts[0].Root.Seconds, plain.Drafts[0].Root.Seconds; math.Abs(got-want) > 1e-6 {
		t.Errorf("a tree takes %v s, want %v", got, want)
	}
}

func TestKeptCostsAreCheckedBeforeUse(t *testing.T) {
	d, c := &timer{}, NewCosts()
	if err := c.Measure(d.probe(1), 16, 10); err != nil {
		t.Fatal(err)
	}
	c.Learnt = map[string]*acceptance{"x": nil}
	if ok, err := c.Holds(d.probe(), 16); !ok || err != nil {
		t.Errorf("costs do not hold on the device they were measured on: %v", err)
	}
	for _, n := range []int{1, 4, 16} {
		for _, wrong := range []float64{0.4, 3} {
			if n > 1 && wrong < 1 {
				continue // smoothing raises it to the time of fewer rows
			}
			bad := *c
			bad.Verify.Cells = append([]Cell{}, c.Verify.Cells...)
			bad.Verify.Cells[stair(n)].Seconds *= wrong
			bad.Verify.fit = nil
			if ok, _ := bad.Holds(d.probe(), 16); ok {
				t.Errorf("%v times the time of %d rows is believed", wrong, n)
			}
		}
	}
	lost := errors.New("lost")
	p := d.probe()
	p.Verify = func(int) error { return lost }
	if _, err := c.Holds(p, 16); !errors.Is(err, lost) {
		t.Errorf("a failing pass gave %v", err)
	}
}

func TestMeasuringFailsWithThePass(t *testing.T) {
	lost := errors.New("lost")
	for i, change := range []func(*Probe){
		func(p *Probe) { p.Verify = func(int) error { return lost } },
		func(p *Probe) { p.Drafts[0].Draft = func(int, int) error { return lost } },
		func(p *Probe) { p.Drafts[0].Grow = func() error { return lost } },
		func(p *Probe) { p.Drafts[0].Prefill = func(int) error { return lost } },
	} {
		p := (&timer{}).probe(1)
		change(&p)
		if err := NewCosts().Measure(p, 8, 1); !errors.Is(err, lost) {
			t.Errorf("failing pass %d gave %v", i, err)
		}
	}
}

func TestGuessesTakeTheirScaleFromTheFirstPass(t *testing.T) {
	c := NewCosts()
	c.observeVerify(1, 0.004)
	if got := c.Verify.At(1); math.Abs(got-0.004) > 1e-9 {
		t.Errorf("one row takes %v s, 4 ms were seen", got)
	}
	if got := c.Drafts[0].Time(1, 1); got > 0.004 || got < 0.0002 {
		t.Errorf("the draft is guessed at %v s beside a target of 4 ms", got)
	}
}

func TestStairsAreClimbedAtTheirEnds(t *testing.T) {
	c := NewCosts()
	if got := ladder(nil, 10); len(got) != 7 || got[5] != 8 || got[6] != 10 {
		t.Errorf("passes of up to 10 rows may end at %v", got)
	}
	if c.Verify.At(9) != c.Verify.At(12) || c.Verify.At(9) <= c.Verify.At(8) {
		t.Error("9 rows are on the stair of 12")
	}
	if whole := c.Verify.At(64); c.Verify.At(130) != 2*whole+c.Verify.At(2) {
		t.Error("130 rows are run as 64, 64 and 2")
	}
}

// TestPredict predicts passes of models that dispatches bound, and that their bytes bound.
func TestPredict(t *testing.T) {
	r := Rates{Bytes: 1 << 20, Row: 0.25}
	small := Predict(r, Work{50, 1 << 10}, [MostModels]Work{{20, 1 << 10}})
	large := Predict(r, Work{50, 1 << 40}, [MostModels]Work{{20, 1 << 38}})
	for _, c := range []struct {
		name      string
		got, want float64
	}{
		{"rows of a small model", small.Verify.At(8) / small.Verify.At(1), 1},
		{"its draft", small.Drafts[0].Time(1, 1) / small.Verify.At(1), 20.0 / 50},
		{"rows of a large model", large.Verify.At(8) / large.Verify.At(1), 1 + 7*0.25},
		{"its draft", large.Drafts[0].Time(1, 1) / large.Verify.At(1), 0.25},
		{"rows of its draft", large.Drafts[0].Level.At(4) / large.Drafts[0].Level.At(1), 1 + 3*0.25},
		{"an unknown draft", large.Drafts[1].Time(1, 1) / large.Verify.At(1), guessedDraft},
	} {
		if math.Abs(c.got-c.want) > 0.001*c.want {
			t.Errorf("%s: %.4f, want %.4f", c.name, c.got, c.want)
		}
	}
}

// TestTimesOfADraftStayWithIt has a draft become slower: what passes of the target take, those that run and those that
// do not, keeps its ratio.
func TestTimesOfADraftStayWithIt(t *testing.T) {
	d, c := &timer{}, NewCosts()
	if err := c.Measure(d.probe(1, 4), 16, 10); err != nil {
		t.Fatal(err)
	}
	slower := 1.0
	took := func(levels, beams int) float64 {
		return slower * (0.003 + 0.002*float64(levels-1) + 0.0001*float64((levels-1)*(beams-1)))
	}
	before := c.Verify.At(4) / c.Verify.At(1)
	for range 100 {
		for _, beams := range []int{1, 1, 1, 1, 4} {
			slower *= 1.001
			c.observeDraft(SmallDraft, 0, 3, beams, took(3, beams))
			c.observeVerify(4, 0.014)
		}
	}
	if got := c.Verify.At(4) / c.Verify.At(1); math.Abs(got/before-1) > 0.1 {
		t.Errorf("four rows take %.3f of one, %.3f before", got, before)
	}
	for _, beams := range []int{1, 4} {
		if got, want := c.Drafts[SmallDraft].Time(3, beams), took(3, beams); math.Abs(got/want-1) > 0.05 {
			t.Errorf("a draft of %d beams takes %.4f s, want %.4f", beams, got, want)
		}
	}
}

// TestPassesTogetherTeachWhatTheyTeachInTurn updates costs by passes of one size together and one by one. Some follow
// passes of other sizes, and one met a pause of the machine.
func TestPassesTogetherTeachWhatTheyTeachInTurn(t *testing.T) {
	together, inTurn := NewCosts(), NewCosts()
	for _, c := range []*Costs{together, inTurn} {
		c.Host = Cell{}
		if err := c.Measure((&timer{}).probe(1, 4), 16, 10); err != nil {
			t.Fatal(err)
		}
	}
	for i, seconds := range [][]float64{
		{0.012, 0.0131, 0.9, 0.0128, 0.0119, 0.0125, 0.0122, 0.013},
		{0.011},
		{0.0118, 0.0121, 0.0117},
	} {
		for _, s := range seconds {
			inTurn.observeVerify(1, s)
		}
		together.observeVerify(1, seconds...)
		for _, c := range []*Costs{together, inTurn} {
			c.observeVerify(4+i, 0.015)
			c.observeDraft(SmallDraft, 20, 3, 4, 0.004)
		}
	}
	want := inTurn.cells()
	for i, got := range together.cells() {
		if w := want[i]; math.Abs(got.Seconds/w.Seconds-1) > 1e-9 || math.Abs(got.Count-w.Count) > 1e-9 {
			t.Errorf("cell %d: %v s of %v passes together, %v of %v in turn", i, got.Seconds, got.Count, w.Seconds,
				w.Count)
		}
	}
}
