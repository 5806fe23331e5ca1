package main

import (
	"encoding/json"
	"math"
	"reflect"
	"testing"

	"foretoken"
	"foretoken/spec"
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
