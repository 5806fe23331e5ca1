package llama

import (
	"strings"
	"testing"

	"foretoken/webgpu"
)

// A context beyond the trained length is refused unless Options.Beyond is set.
func TestContextBeyondTraining(t *testing.T) {
	f := testModel(t, "tiny-q8_0")
	o := Options{Context: 4096}
	if _, err := Plan(f, o, webgpu.DefaultLimits()); err == nil ||
		!strings.Contains(err.Error(), "trained for 2 to 512") {
		t.Fatalf("a context of 4096: %v", err)
	}
	o.Beyond = true
	m, err := Plan(f, o, webgpu.DefaultLimits())
	if err != nil || m.Context != 4096 {
		t.Fatalf("beyond: %+v, %v", m, err)
	}
}
