package llama

import (
	"fmt"

	"foretoken/webgpu"
)

// Logits implements spec.Target. It reads four bytes a token back.
func (t *Target) Logits(nodes, tokens []int32, dst []float32) error {
	if len(tokens) != len(nodes) || len(dst) != len(nodes) {
		return fmt.Errorf("llama: %d nodes, %d tokens and room for %d logits", len(nodes), len(tokens), len(dst))
	}
	if len(t.logitBack) < len(nodes) {
		t.logitBack = webgpu.NewMemory(4 * max(len(nodes), t.ancestorStride()))
	}
	t.regions = t.regions[:0]
	for i, n := range nodes {
		if n < 0 || int(n) >= min(len(t.nodes), t.PassRows()) || tokens[i] < 0 || int(tokens[i]) >= t.Options.Vocab {
			return fmt.Errorf("llama: the logit of token %d after node %d of a tree of %d", tokens[i], n, len(t.nodes))
		}
		at := t.Space.Logits.Offset + 4*(int(n)*t.Space.Stride+int(tokens[i]))
		t.regions = append(t.regions, webgpu.Region{Buffer: t.Space.Logits.Buffer, Offset: at,
			Dst: t.logitBack[i : i+1].Bytes()})
	}
	if err := t.Graph.Run(nil, t.regions...); err != nil {
		return err
	}
	copy(dst, t.logitBack.F32())
	return nil
}
