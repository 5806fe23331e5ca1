package runner

import (
	"strings"
	"testing"

	"foretoken/models/convert"
	"foretoken/models/graph"
	"foretoken/models/safetensors"
	"foretoken/spec"
	"foretoken/webgpu/kernels/kerneltest"
)

// TestEAGLE3Refusals loads heads that do not match the target and makes invalid calls.
func TestEAGLE3Refusals(t *testing.T) {
	target, head, _ := headed(t, kerneltest.Reference(t), safetensors.F32, false, graph.Options{})
	for name, c := range map[string]struct {
		change func(map[string]any)
		want   string
	}{
		"vocabulary": {func(j map[string]any) { j["vocab_size"] = 600 }, "600 tokens"},
		"width":      {func(j map[string]any) { j["target_hidden_size"] = 128; j["hidden_size"] = 128 }, "width 128"},
		"layers": {func(j map[string]any) {
			j["eagle_config"] = `{"eagle_aux_hidden_state_layer_ids":[0,2,9]}`
		}, "5 layers has 0 to 4"},
		"no layers": {func(j map[string]any) { delete(j, "eagle_config") }, "5 layers is too small"},
		"two heads": {func(j map[string]any) {
			j["eagle_config"] = `{"eagle_aux_hidden_state_layer_ids":[0,1,2]}`
		}, "a target takes one head"},
	} {
		w, err := convert.Head(randomHead(t, target.Graph.Arch, safetensors.F32, false, c.change))
		if err == nil {
			_, err = LoadEAGLE3(background, target.Graph.Dev, target, w, graph.Options{})
		}
		if err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: %v; want %q", name, err, c.want)
		}
	}
	if _, err := head.Draft(background, spec.DraftRequest{Pending: text[:3], Depth: 1, K: 2}); err == nil ||
		!strings.Contains(err.Error(), "features of 2") {
		t.Errorf("a target that has consumed nothing: %v", err)
	}
	if head.Len() != 0 {
		t.Errorf("a refused draft left %d tokens", head.Len())
	}
}
