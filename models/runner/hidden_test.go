package runner

import (
	"math"
	"slices"
	"testing"

	"foretoken/models/graph"
	"foretoken/webgpu"
)

// TestHiddenStates multiplies the hidden states of every position by the output matrix, which gives the logits of the
// toys' forward pass. States do not depend on where chunks of the prefill end.
func TestHiddenStates(t *testing.T) {
	onDevices(t, func(t *testing.T, dev webgpu.Device) {
		for name, model := range toys() {
			if testing.Short() && name != "qwen2 with yarn" {
				continue
			}
			f := model.file(t)
			m, err := LoadTarget(background, dev, f, graph.Options{MaxRows: 8, KV: model.cache, Tuning: untimed(t, f)})
			if err != nil {
				t.Fatal(err)
			}
			defer m.Close()
			var tokens []int32
			for i := range 41 {
				tokens = append(tokens, int32(i*i*7%model.vocab))
			}
			hidden := func(tokens []int32) (states [][]float32) {
				t.Helper()
				err := m.Hidden(background, tokens, func(x []float32) { states = append(states, slices.Clone(x)) })
				if err != nil || len(states) != len(tokens) || m.Len() != len(tokens) {
					t.Fatalf("%s: %d states of %d tokens, %d in the sequence: %v", name, len(states), len(tokens),
						m.Len(), err)
				}
				return states
			}
			states, matrix := hidden(tokens), model.weights["output.weight"]
			if !model.untied {
				matrix = model.weights["token_embd.weight"]
			}
			tolerance, worst := 5e-4, 0.0
			if model.cache != 0 {
				tolerance = 5e-3
			}
			for at, want := range model.forward(tokens) {
				for id := range want {
					got := 0.0
					for i, w := range matrix[id*model.dim : (id+1)*model.dim] {
						got += float64(w) * float64(states[at][i])
					}
					worst = max(worst, math.Abs(got-want[id]))
				}
			}
			if !(worst < tolerance) {
				t.Errorf("%s: a logit of the hidden states is off by %.3g", name, worst)
			}
			for i, part := range hidden(tokens[:19]) {
				if !slices.Equal(part, states[i]) {
					t.Errorf("%s: the state of position %d depends on what follows", name, i)
				}
			}
			if err := m.Hidden(background, make([]int32, model.most+1), func([]float32) {}); err == nil {
				t.Errorf("%s: a text longer than the context was embedded", name)
			}
		}
	})
}
