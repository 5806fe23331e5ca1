package convert

import (
	"testing"

	"foretoken/models/convert/converttest"
	"foretoken/models/graph"
	"foretoken/models/modeltest"
	"foretoken/models/runner"
	"foretoken/models/safetensors"
	"foretoken/spec"
	"foretoken/webgpu/kernels/kerneltest"
)

// TestConvertedModelsGiveTheReferencesTokens decodes greedily with models made of checkpoints, on the
// cpu device, wherever the reference's two best tokens are further apart than rounding is.
func TestConvertedModelsGiveTheReferencesTokens(t *testing.T) {
	if testing.Short() {
		t.Skip("short: the cpu device is tested in full runs")
	}
	const near = 0.02 // nats
	for _, c := range []struct {
		model, quantise string
		dtype           safetensors.Dtype
		prompts         int
	}{
		{"tiny-q8_0", "q8_0", safetensors.F32, 10}, {"tiny-q4_0", "q4_0", safetensors.F32, 3},
		{"tiny-f32", "", safetensors.F32, 3},
		{"qwen3-q8_0", "q8_0", safetensors.F32, 2}, {"qwen2-bf16", "", safetensors.BF16, 2},
	} {
		t.Run(c.model, func(t *testing.T) {
			ref, _ := modeltest.Oracle(t, c.model)
			original := testModel(t, c.model)
			files := checkpointOf(t, original, c.dtype)
			tensors, err := converttest.Tensors(original, c.dtype)
			if err == nil {
				err = files.SetWeights(tensors, 2)
			}
			if err != nil {
				t.Fatal(err)
			}
			dev := kerneltest.CPU(t)
			m, err := runner.LoadTarget(t.Context(), dev,
				parse(t, open(t, sourcesOf(files, "m"), Options{Quantise: c.quantise})), graph.Options{MaxRows: 4})
			if err != nil {
				t.Fatal(err)
			}
			defer m.Close()
			steps := 0
			for _, r := range ref.Results {
				if len(r.IDs) == 0 || c.prompts == 0 {
					continue
				}
				c.prompts--
				m.Reset()
				if err := m.Prefill(t.Context(), r.IDs[:len(r.IDs)-1]); err != nil {
					t.Fatal(err)
				}
				last := r.IDs[len(r.IDs)-1]
				for step, want := range r.Cont {
					pass, err := m.Verify(t.Context(), spec.PassRequest{Tree: &spec.Tree{Tokens: []int32{last},
						Parents: []int32{-1}, Depths: []int32{0}, Scores: []float32{0}}})
					if err != nil {
						t.Fatal(err)
					}
					out := pass.Outputs
					if top := r.Top[step]; out[0].Token != want && top[0][1]-top[1][1] > near {
						t.Fatalf("%q step %d: token %d, the reference says %d by %g nats", r.Prompt, step, out[0].Token,
							want, top[0][1]-top[1][1])
					}
					if err := m.Commit([]int32{0}); err != nil {
						t.Fatal(err)
					}
					last = want
					steps++
				}
			}
			if steps == 0 {
				t.Error("the reference has no steps")
			}
			t.Logf("%d steps", steps)
		})
	}
}
