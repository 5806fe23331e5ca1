package runner

import (
	"maps"
	"strings"
	"testing"

	"foretoken/models/graph"
	"foretoken/webgpu/kernels"
	"foretoken/webgpu/kernels/matmul"
)

// TestChoicesInOrder loads a model whose choices are known, the first ones, and timed, in this order of precedence.
func TestChoicesInOrder(t *testing.T) {
	if testing.Short() {
		t.Skip("short: compiles every kernel of a class; the same code chooses on every device")
	}
	dev := accelerator(t)
	f := testModel(t, "tiny-q8_0")
	load := func(o graph.Options) (tuning map[string]string, timings int) {
		o.MaxRows = 4
		o.Preparing = func(step string) {
			if strings.HasPrefix(step, "timing") {
				timings++
			}
		}
		m, err := LoadTarget(background, dev, f, o)
		if err != nil {
			t.Fatal(err)
		}
		defer m.Close()
		return m.Graph.Kernels.Choices(), timings
	}
	timed, timings := load(graph.Options{Timed: true})
	classes := len(timed)
	if len(kernels.Ways(dev.Info())) == 1 {
		classes-- // reductions have one choice
	}
	if timings != classes {
		t.Errorf("%d timings chose %v", timings, timed)
	}
	families := matmul.Families(dev.Info(), kernels.Q8_0)
	known := maps.Clone(timed)
	for class := range known {
		known[class] = families[1].String()
	}
	known["rows"] = "64"
	if got, timings := load(graph.Options{Tuning: known, Timed: true}); timings != 0 || !maps.Equal(got, known) {
		t.Errorf("%d timings chose %v although %v is known", timings, got, known)
	}
	if !dev.Info().Software {
		return
	}
	first := maps.Clone(timed)
	for class := range first {
		first[class] = families[0].String()
	}
	first["rows"] = "1"
	if got, timings := load(graph.Options{}); timings != 0 || !maps.Equal(got, first) {
		t.Errorf("%d timings chose %v on a software adapter", timings, got)
	}
}
