package llama

import "testing"

// TestPrefillIsAwaited prefills more passes than may be under way at once.
func TestPrefillIsAwaited(t *testing.T) {
	target, err := LoadTarget(background, cpuDevice(t), testModel(t, "s260k-q8_0"), Options{Context: 512})
	if err != nil {
		t.Fatal(err)
	}
	defer target.Close()
	tokens := make([]int32, 2*awaited*target.prefillRows()+1)
	for i := range tokens {
		tokens[i] = int32(3 + i%500)
	}
	tokens = tokens[:min(len(tokens), 512)]
	passes := (len(tokens) + target.prefillRows() - 1) / target.prefillRows()
	if passes < awaited {
		t.Fatalf("%d passes", passes)
	}
	before := target.dev.Counters()
	if err := target.Prefill(background, tokens, nil); err != nil {
		t.Fatal(err)
	}
	after := target.dev.Counters()
	if submits, reads := after.Submits-before.Submits, after.Reads-before.Reads; submits != passes || reads != passes/awaited {
		t.Errorf("%d passes: %d submits, %d reads", passes, submits, reads)
	}
	behind := passes%awaited != 0
	for i := range 2 { // the second time there is nothing to wait for
		before = target.dev.Counters()
		if err := target.Settle(); err != nil {
			t.Fatal(err)
		}
		after = target.dev.Counters()
		if reads := after.Reads - before.Reads; reads != 0 != (behind && i == 0) {
			t.Errorf("%d passes: %d reads by the call %d of Settle", passes, reads, i)
		}
	}
}
