//go:build !js

package foretoken

import (
	"context"
	"testing"

	"foretoken/models/constrain"
	"foretoken/spec/method"
	"foretoken/webgpu"
)

// TestConstrainedRoundsMakeNothing starts constraints in sessions that never had any. The device resources exist
// before the first round, for trees of every size and for biases that begin with the first token.
func TestConstrainedRoundsMakeNothing(t *testing.T) {
	constraints := map[string]constrain.Constraints{"penalties": {FrequencyPenalty: 0.4, PresencePenalty: 0.2},
		"a bias": {LogitBias: map[int32]float32{65: 2}}, "a grammar": {Grammar: `root ::= [ -~\n\t]*`}}
	const prompt = "Once upon a time, there was a"
	for name, r := range map[string]Request{
		"plain":          {Policy: method.DrafterNone},
		"chain":          {Policy: method.DrafterChain, Depth: 5},
		"n-grams":        {Policy: method.DrafterNgram},
		"eagle2":         {Policy: method.DrafterEAGLE2, Depth: 3, TopK: 3, Nodes: 20},
		"static":         {Policy: method.DrafterStatic, Shape: [][]int{{4}, {2, 1}}},
		"rejection":      {Policy: method.DrafterChain, Depth: 4, Verifier: method.VerifierRejection, Temperature: 1},
		"no replacement": {Policy: method.DrafterSampled, Verifier: method.VerifierWithoutReplacement, Temperature: 1},
	} {
		k := newFaultyPair(t, nil) // without faults
		s, err := k.open()
		if err != nil {
			t.Fatal(err)
		}
		for what, c := range constraints {
			r.Constraints, r.MaxTokens, r.Seed = c, 12, 3
			var last webgpu.Counters
			n := 0
			_, err := s.Generate(context.Background(), prompt, r, func(e *Event) error {
				one := countedSince(s.pair.Device, last)
				last = s.pair.Device.Counters()
				if n++; n > 1 && one.Buffers+one.Kernels+one.Programs > 0 {
					t.Errorf("%s, %s, round %d made %+v", name, what, n, one)
				}
				return nil
			})
			if err != nil || n < 2 {
				t.Errorf("%s, %s: %d rounds, %v", name, what, n, err)
			}
		}
		k.close(t, s)
	}
}
