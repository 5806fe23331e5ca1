//go:build cgo && !js

package audit

import (
	"math"
	"slices"
	"testing"

	"foretoken/webgpu/kernels"
	"foretoken/webgpu/kernels/matmul"
)

// TestReport adds the statistics of a product for one row and for four, and of another kernel.
func TestReport(t *testing.T) {
	g := gpu{name: "card", simds: 100, clock: 1, memory: 100}
	f := matmul.Families(gpuInfo(), kernels.Q8_0)[0]
	product := func(label string, tile int) kernel {
		return kernel{label: label, product: true, format: kernels.Q8_0, family: f, end: "store", rows: 4, tile: tile,
			lane: 1}
	}
	r := newReport([]kernel{product("one", f.Tile(1)), product("eight", f.Tile(8)), {label: "layer/norm"}})
	one := stats{registers: 40, waves: 10, cycles: 800}
	r.add(g, "a driver", []stats{one, {registers: 90, spills: 3, waves: 5, cycles: 1600}, {scratch: 64, waves: 9}})
	want := gpuRow{SIMDs: 100, Clock: 1, Memory: 100, Kernels: 3, Spills: 1, Scratch: 1, Waves: 5, Registers: 90,
		Few: 1}
	if r.Driver != "a driver" || r.GPUs["card"] != want {
		t.Errorf("%s: %+v, want %+v", r.Driver, r.GPUs["card"], want)
	}
	if got := r.Rows["layer.norm"]["card"]; !slices.Equal(got, []float64{0, 0, 64, 0, 9, 0}) {
		t.Errorf("a kernel without weights has %v", got)
	}
	// A turn of the loop takes a wave an eighth of the cycles; reading takes the bytes over the memory's rate.
	turns := rowWeights / float64(64*kernels.Q8_0.Step())
	cycles := 800.0 / countedTurns * turns / 4
	bytes := 4 * float64(kernels.Q8_0.WordsPerRow(rowWeights)+kernels.Q8_0.ScalesPerRow(rowWeights))
	if got := r.Rows["one"]["card"][6:]; !slices.Equal(got, []float64{bytes, cycles, cycles / bytes}) {
		t.Errorf("a row has bytes, cycles and cycles a byte %v, want %v and %v", got, bytes, cycles)
	}
	roof := r.Roofline["card q8_0 "+f.String()]
	if arithmetic := cycles / 100 / (bytes / 100); math.Abs(roof["arithmetic"]-arithmetic) > 1e-9 {
		t.Errorf("arithmetic takes %v of reading, want %v", roof, arithmetic)
	}
	if roof["r8"] < 1 || roof["r16"] < roof["r8"] {
		t.Errorf("rows in a pass cost %v", roof)
	}
}
