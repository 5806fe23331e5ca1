//go:build !js

package foretoken

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"

	"foretoken/webgpu/kernels"
	"foretoken/webgpu/kernels/matmul"
)

// rowWeights is the length of a weight row of the report.
const rowWeights = 4096

// countedTurns is the number of turns of a loop in the compiler's cycles.
const countedTurns = 8

// gpuReport is docs/reports/gpu-audit.json, and what docs/reports/gpu-tint.json has of it.
type gpuReport struct {
	list []gpuKernel

	Driver   string                          `json:"driver"`
	Chromium string                          `json:"chromium,omitempty"`
	Columns  []string                        `json:"columns"` // of a kernel on a family
	Families map[string]gpuFamilyRow         `json:"families"`
	Roofline map[string]map[string]float64   `json:"roofline"`
	Rows     map[string]map[string][]float64 `json:"kernels"`
}

// gpuFamilyRow sums up a family.
type gpuFamilyRow struct {
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

func newGPUReport(list []gpuKernel) *gpuReport {
	return &gpuReport{list: list, Families: map[string]gpuFamilyRow{},
		Columns: []string{"registers", "spills", "scratch", "lds", "waves", "cycles", "row_bytes", "row_cycles",
			"byte_cycles"},
		Roofline: map[string]map[string]float64{}, Rows: map[string]map[string][]float64{}}
}

// rowBytes returns the bytes of a weight row of a product.
func (k gpuKernel) rowBytes() float64 {
	return 4 * float64(k.format.WordsPerRow(rowWeights)+k.format.ScalesPerRow(rowWeights))
}

// rowCycles returns the cycles that a product takes of a SIMD for a weight row and a tile of x. A workgroup is one wave
// of 64 lanes, and a turn of its loop covers some steps of each lane.
func (k gpuKernel) rowCycles(c gpuStats) float64 {
	turns := rowWeights / float64(64*k.lane*k.format.Step())
	return float64(c.Cycles) / countedTurns * turns / float64(k.rows)
}

// add adds what the compiler says of the kernels for a family.
func (r *gpuReport) add(f gpuFamily, driver string, all []gpuStats) {
	r.Driver = driver
	row := gpuFamilyRow{SIMDs: f.simds, Clock: f.clock, Memory: f.memory, Kernels: len(all), Waves: all[0].Waves}
	for i, c := range all {
		k := r.list[i]
		row.Waves, row.Registers = min(row.Waves, c.Waves), max(row.Registers, c.Registers)
		row.Spills += min(c.Spills, 1)
		row.Scratch += min(c.Scratch, 1)
		if c.Waves < 8 {
			row.Few++
		}
		figures := []float64{float64(c.Registers), float64(c.Spills), float64(c.Scratch), float64(c.LDS),
			float64(c.Waves), float64(c.Cycles)}
		if k.product {
			figures = append(figures, k.rowBytes(), k.rowCycles(c), k.rowCycles(c)/k.rowBytes())
		}
		name := strings.ReplaceAll(k.label, "/", ".") // a slash would make a category of it
		if r.Rows[name] == nil {
			r.Rows[name] = map[string][]float64{}
		}
		r.Rows[name][f.name] = figures
	}
	r.Families[f.name] = row
	r.addRoofline(f, all)
}

// addRoofline adds, for each format and family of products on a GPU, the time of arithmetic over that of reading the
// weights once for one row of x, and the times of 8 and 16 rows relative to one, each the larger of both times. Tiles
// of the same weight rows are neighbours: a cache has the weights for all but the first.
func (r *gpuReport) addRoofline(f gpuFamily, all []gpuStats) {
	for format := range kernels.Formats {
		for _, family := range matmul.Families(gpuInfo(matmul.DotProduct), format) {
			arithmetic := map[int]float64{} // seconds of a weight row, by tile
			var memory float64
			for i, c := range all {
				k := r.list[i]
				if k.product && k.format == format && k.family == family && k.end == "store" {
					arithmetic[k.tile] = k.rowCycles(c) / f.simds / f.clock / 1e9
					memory = k.rowBytes() / f.memory / 1e9
				}
			}
			if len(arithmetic) == 0 {
				continue
			}
			time := func(m int) float64 {
				tile := family.Tile(m)
				return max(float64((m+tile-1)/tile)*arithmetic[tile], memory)
			}
			r.Roofline[fmt.Sprintf("%s %v %v", f.name, format, family)] = map[string]float64{
				"arithmetic": arithmetic[1] / memory, "r8": time(8) / time(1), "r16": time(16) / time(1)}
		}
	}
}

func (r *gpuReport) write(t *testing.T, file string) {
	t.Helper()
	text, err := json.Marshal(r)
	if err == nil {
		err = os.WriteFile(file, text, 0o644)
	}
	if err != nil {
		t.Fatal(err)
	}
}
