package llama

import (
	"fmt"
	"time"

	"foretoken/webgpu"
)

// LogitNodes implements spec.LogitReader: trees that go through the blocks in one part.
func (t *Target) LogitNodes() int { return min(t.passRows(), t.opts.MaxRows) }

// Logits implements spec.LogitReader, in a readback of four bytes a token.
func (t *Target) Logits(nodes, tokens []int32, dst []float32) error {
	if len(tokens) != len(nodes) || len(dst) != len(nodes) {
		return fmt.Errorf("llama: %d nodes, %d tokens and room for %d logits", len(nodes), len(tokens), len(dst))
	}
	if len(t.singles) < len(nodes) {
		t.singles = webgpu.NewMemory(4 * max(len(nodes), t.ancestorStride()))
	}
	t.regions = t.regions[:0]
	for i, n := range nodes {
		if n < 0 || int(n) >= min(len(t.nodes), t.LogitNodes()) || tokens[i] < 0 || int(tokens[i]) >= t.opts.Vocab {
			return fmt.Errorf("llama: the logit of token %d after node %d of a tree of %d", tokens[i], n, len(t.nodes))
		}
		at := t.work.logits.Offset + 4*(int(n)*t.work.stride+int(tokens[i]))
		t.regions = append(t.regions, webgpu.Region{Buffer: t.work.logits.Buffer, Offset: at, Dst: t.singles[i : i+1].Bytes()})
	}
	begin := time.Now()
	err := t.dev.Run(nil, t.regions...)
	if t.waited += time.Since(begin); err != nil {
		return err
	}
	copy(dst, t.singles.F32())
	return nil
}
