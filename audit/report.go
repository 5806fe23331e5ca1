//go:build cgo && !js

package audit

import (
	"fmt"
	"strings"

	"foretoken/webgpu/kernels"
	"foretoken/webgpu/kernels/matmul"
)

// rowWeights is the length of a weight row of the report.
const rowWeights = 4096

// countedTurns is the number of turns of a loop in the compiler's cycles.
const countedTurns = 8

// Report has the statistics of kernels, as docs/reports/gpu-audit.json and gpu-tint.json hold them.
type Report struct {
	list []kernel

	Driver   string                          `json:"driver"`
	Chromium string                          `json:"chromium,omitempty"`
	Columns  []string                        `json:"columns"` // of a kernel on a GPU
	GPUs     map[string]gpuRow               `json:"gpus"`
	Roofline map[string]map[string]float64   `json:"roofline"`
	Rows     map[string]map[string][]float64 `json:"kernels"`
}

// gpuRow sums up a GPU.
type gpuRow struct {
	SIMDs     float64 `json:"simds"`
	Clock     float64 `json:"ghz"`
	Memory    float64 `json:"gb_s"`
	Kernels   int     `json:"kernels"`
	Spills    int     `json:"spilling"` // kernels
	Scratch   int     `json:"with_scratch"`
	Waves     int     `json:"least_waves"`
	Registers int     `json:"most_registers"`
	Few       int     `json:"below_8_waves"` // kernels
}

func newReport(list []kernel) *Report {
	return &Report{list: list, GPUs: map[string]gpuRow{},
		Columns: []string{"registers", "spills", "scratch", "lds", "waves", "cycles", "row_bytes", "row_cycles",
			"byte_cycles"},
		Roofline: map[string]map[string]float64{}, Rows: map[string]map[string][]float64{}}
}

// rowBytes returns the bytes of a weight row of a product.
func (k kernel) rowBytes() float64 {
	return 4 * float64(k.format.WordsPerRow(rowWeights)+k.format.ScalesPerRow(rowWeights))
}

// rowCycles returns the cycles that a product takes of a SIMD for a weight row and a tile of x. A workgroup is one wave
// of 64 lanes, and a turn of its loop covers some steps of each lane.
func (k kernel) rowCycles(s stats) float64 {
	turns := rowWeights / float64(64*k.lane*k.format.Step())
	return float64(s.cycles) / countedTurns * turns / float64(k.rows)
}

// add adds what the compiler says of the kernels for a GPU.
func (r *Report) add(g gpu, driver string, all []stats) {
	r.Driver = driver
	row := gpuRow{SIMDs: g.simds, Clock: g.clock, Memory: g.memory, Kernels: len(all), Waves: all[0].waves}
	for i, s := range all {
		k := r.list[i]
		row.Waves, row.Registers = min(row.Waves, s.waves), max(row.Registers, s.registers)
		row.Spills += min(s.spills, 1)
		row.Scratch += min(s.scratch, 1)
		if s.waves < 8 {
			row.Few++
		}
		figures := []float64{float64(s.registers), float64(s.spills), float64(s.scratch), float64(s.lds),
			float64(s.waves), float64(s.cycles)}
		if k.product {
			figures = append(figures, k.rowBytes(), k.rowCycles(s), k.rowCycles(s)/k.rowBytes())
		}
		name := strings.ReplaceAll(k.label, "/", ".") // a slash would make a category of it
		if r.Rows[name] == nil {
			r.Rows[name] = map[string][]float64{}
		}
		r.Rows[name][g.name] = figures
	}
	r.GPUs[g.name] = row
	r.addRoofline(g, all)
}

// addRoofline adds, for each format and family of products on a GPU, the ratio of two times, arithmetic to reading the
// weights once, for one row of x, and the times of 8 and 16 rows relative to one, each the larger of both times. Tiles
// of the same weight rows are neighbours: a cache has the weights for all but the first.
func (r *Report) addRoofline(g gpu, all []stats) {
	for format := range kernels.Formats {
		for _, family := range matmul.Families(gpuInfo(matmul.DotProduct), format) {
			arithmetic := map[int]float64{} // seconds of a weight row, by tile
			var memory float64
			for i, s := range all {
				k := r.list[i]
				if k.product && k.format == format && k.family == family && k.end == "store" {
					arithmetic[k.tile] = k.rowCycles(s) / g.simds / g.clock / 1e9
					memory = k.rowBytes() / g.memory / 1e9
				}
			}
			if len(arithmetic) == 0 {
				continue
			}
			time := func(m int) float64 {
				tile := family.Tile(m)
				return max(float64((m+tile-1)/tile)*arithmetic[tile], memory)
			}
			r.Roofline[fmt.Sprintf("%s %v %v", g.name, format, family)] = map[string]float64{
				"arithmetic": arithmetic[1] / memory, "r8": time(8) / time(1), "r16": time(16) / time(1)}
		}
	}
}
