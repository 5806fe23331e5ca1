package main

import (
	"encoding/json"
	"math"
	"reflect"
	"testing"
	"time"

	"foretoken"
	"foretoken/spec"
	"foretoken/trace"
)

// TestEventJSON compares the writer with encoding/json, for events with all fields set and with all fields empty.
func TestEventJSON(t *testing.T) {
	logProb := float32(-0.25)
	full := event{Round: 3, Text: "a\"\\\n\x00\x1f\u2028é\xff🙂<", Bin: 2, Phi: 1e-9,
		Counts: counts{1, 2, 3, 4, 5, 6, 7, 8, 9, []int{10, 11}, []int{12}},
		MS:     phases{1.5, 2e-7, 1e21, 3}, Elapsed: 12.125, Finish: spec.FinishStop,
		Tokens: []foretoken.Token{{ID: 7, Text: "x", Kind: spec.Accepted, Depth: 2, Piece: "\xc3", LogProb: &logProb,
			Top: []foretoken.TokenProb{{ID: 1, Text: "y", LogProb: -3e-8}, {}}}, {Kind: spec.Bonus}},
		Tree: []byte{0, 255, 7}, Pruned: 12, Entropy: new(0.5), DraftEntropy: new(0.0)}
	for i, v := 0, reflect.ValueOf(full); i < v.NumField(); i++ {
		if v.Field(i).IsZero() {
			t.Fatalf("field %s is not set", v.Type().Field(i).Name)
		}
	}
	empty := event{Counts: counts{DepthDrafted: []int{}, DepthAccepted: []int{}}, Tokens: []foretoken.Token{}}
	for _, e := range []event{full, empty} {
		var got, want any
		b := e.append(nil)
		if err := json.Unmarshal(b, &got); err != nil {
			t.Fatalf("%v: %s", err, b)
		}
		text, err := json.Marshal(&e)
		if err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal(text, &want); err != nil {
			t.Fatal(err)
		}
		if !reflect.DeepEqual(got, want) {
			t.Errorf("%s\nwant\n%s", b, text)
		}
	}
	odd := event{Entropy: new(math.NaN()), Elapsed: math.Inf(1)}
	if b := odd.append(nil); !json.Valid(b) {
		t.Errorf("not JSON: %s", b)
	}
	b := full.append(nil)
	if n := testing.AllocsPerRun(10, func() { b = full.append(b[:0]) }); n != 0 {
		t.Errorf("%v allocations an event", n)
	}
}

// TestEventIsFilledAnew fills an event with a round that knows less than the one before.
func TestEventIsFilledAnew(t *testing.T) {
	var e event
	stats := &spec.Stats{Calls: 2, DepthDrafted: []int{1}}
	e.fill(&foretoken.Event{Text: "x", Tokens: []foretoken.Token{{ID: 7}}, Round: &spec.Event{Round: 1, Stats: stats,
		Verify: 3 * time.Millisecond}}, trace.Figures{Pruned: 5, DraftEntropy: 0.5, Bin: 2, Phi: 1}, time.Second)
	if e.Pruned != 5 || e.Entropy == nil || *e.DraftEntropy != 0.5 || e.Bin != 2 || e.MS.Verify != 3 ||
		e.Counts.Calls != 2 || e.Elapsed != 1000 || len(e.Tokens) != 1 {
		t.Errorf("a round became %+v", e)
	}
	e.Tree = []byte{1}
	e.fill(&foretoken.Event{Round: &spec.Event{Round: 1, Stats: stats, Finish: spec.FinishStop}},
		trace.Figures{Entropy: -1, DraftEntropy: -1}, time.Second)
	if e.Entropy != nil || e.DraftEntropy != nil || e.Tree != nil || e.Pruned+e.Bin != 0 || len(e.Tokens) != 0 ||
		e.Text != "" || e.Finish != spec.FinishStop {
		t.Errorf("the end became %+v", e)
	}
}
