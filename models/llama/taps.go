package llama

import "foretoken/models/graph"

// Tap makes every later pass store the residual stream after the given layers, in ascending order and numbered from
// 0. It empties the sequence, whose features were not stored, and records the programs again. Tapping the same
// layers again has no effect.
func (t *Target) Tap(layers []int) error {
	if tapped, err := t.Graph.Tap(t.seq, layers); err != nil || !tapped {
		return err
	}
	t.Reset()
	t.Preparing("recording feature taps")
	b := &graph.Batch{}
	t.recordPrefill(b)
	for key, programs := range t.parts {
		t.recordVerify(b, key, programs)
	}
	return t.Build(b)
}
