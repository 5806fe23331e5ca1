package runner

import (
	"context"
	"encoding/binary"
	"fmt"
	"hash/fnv"
	"math"
	"os"
	"testing"

	"foretoken/internal/files"
	"foretoken/models/gguf"
	"foretoken/models/graph"
	"foretoken/spec"
	"foretoken/webgpu/kernels"
	"foretoken/webgpu/open"
)

// bits are hashes of the log-probabilities that the cpu device computes. They are the same in every engine and on every
// processor. A change of a kernel may change them: then the new hash stands in the test's message.
var bits = map[kernels.KVFormat]string{
	kernels.KVF32: "b54b6a7066c61677",
	kernels.KVF16: "5f177b4dd7665403",
	kernels.KVQ8:  "b8aa78550a88ded6",
}

// TestSameBitsEverywhere runs the built-in pair's target on the cpu device, in whatever engine this is, with one thread
// and with several, and compares the bits of its ten best log-probabilities with those of every other engine.
func TestSameBitsEverywhere(t *testing.T) {
	ctx := context.Background()
	data, err := os.ReadFile("../demo/target-q8_0.gguf")
	if err != nil {
		t.Fatal(err)
	}
	f, err := gguf.Open(files.FromBytes("target", data))
	if err != nil {
		t.Fatal(err)
	}
	for kv, want := range bits {
		for _, threads := range []int{1, 2, 3, 8} {
			t.Run(fmt.Sprintf("%s/%d", kv, threads), func(t *testing.T) {
				dev, _, err := open.Options{Threads: threads}.Device(ctx, "cpu")
				if err != nil {
					t.Fatal(err)
				}
				defer dev.Destroy()
				m, err := LoadTarget(ctx, dev, f, graph.Options{KV: kv, TopK: 10})
				if err != nil {
					t.Fatal(err)
				}
				defer m.Close()
				text := make([]int32, 70)
				for i := range text {
					text[i] = int32(i*i*31+7*i) % int32(m.Limits().Vocab)
				}
				if err := m.Prefill(ctx, text[:len(text)-1]); err != nil {
					t.Fatal(err)
				}
				h := fnv.New64a()
				next := text[len(text)-1]
				for range 24 {
					out, err := verify(m, node(next), spec.Sampling{})
					if err != nil {
						t.Fatal(err)
					}
					for k, id := range out[0].TopIDs {
						_ = binary.Write(h, binary.LittleEndian, id)
						logprob := float32(out[0].TopLogits[k] - out[0].LogSumExp)
						_ = binary.Write(h, binary.LittleEndian, math.Float32bits(logprob))
					}
					if err := m.Commit([]int32{0}); err != nil {
						t.Fatal(err)
					}
					next = out[0].Token
				}
				if got := fmt.Sprintf("%016x", h.Sum64()); got != want {
					t.Errorf("the hash of the log-probabilities is %s, elsewhere it is %s", got, want)
				}
				if n := dev.Counters().Fallbacks; n > 0 {
					t.Errorf("%d dispatches ran their references", n)
				}
			})
		}
	}
}
