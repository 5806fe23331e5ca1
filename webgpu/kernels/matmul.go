package kernels

import (
	"fmt"

	"foretoken/webgpu"
)

// Format is how a weight matrix is stored on the device.
type Format int

const (
	F32 Format = iota
	F16
	Q8_0
	Q4_0
)

func (f Format) String() string { return [...]string{"f32", "f16", "q8_0", "q4_0"}[f] }

// Quantised reports whether the format has a scale for each block of 32 weights.
func (f Format) Quantised() bool { return f >= Q8_0 }

// step is how many weights a kernel reads at once.
func (f Format) step() int {
	if f == Q4_0 {
		return 8
	}
	return 4
}

// Block is the count of weights that a row must be a multiple of.
func (f Format) Block() int {
	if f.Quantised() {
		return 32
	}
	return 4
}

// WordsPerRow is how many 32-bit words a row of cols weights takes, without scales.
func (f Format) WordsPerRow(cols int) int { return cols / []int{1, 2, 4, 8}[f] }

// Weight is a matrix (Rows, Cols) on the device, split by rows into as many
// parts as the device's binding limit asks for.
type Weight struct {
	Format     Format
	Rows, Cols int
	Parts      []WeightPart
}

// WeightPart is rows [Row0, Row0+Rows) of a Weight. F32 and F16 have no Scales.
// See unpack_*.wgsl for the layouts.
type WeightPart struct {
	Row0, Rows     int
	Quants, Scales View
}

// Family is a way to share a matrix product among threads. All families give the
// same numbers up to rounding; one is chosen per matrix and used for every M.
type Family struct {
	Group bool // lanes of a workgroup share a row of weights; otherwise a thread has its own
	Rows  int  // R, weight rows of one thread or workgroup
	Width int  // threads of a workgroup
	Fixed bool // use the pipeline for one row at every M: the last resort where M changes the bits
}

func (f Family) String() string {
	kind := "rows"
	if f.Group {
		kind = "group"
	}
	if f.Fixed {
		kind += "-fixed"
	}
	return fmt.Sprintf("%s%dx%d", kind, f.Rows, f.Width)
}

// Families are the candidates that are timed at load, the safest first. Eight
// weight rows a thread were up to a tenth faster on software adapters, and took
// twice as long to compile.
var Families = []Family{
	{Rows: 4, Width: 16}, {Rows: 2, Width: 16}, {Rows: 1, Width: 64},
	{Group: true, Rows: 1, Width: 64}, {Group: true, Rows: 2, Width: 64}, {Group: true, Rows: 4, Width: 64},
}

// Tiles are the row counts that the matrix kernels are specialised for.
var Tiles = []int{1, 2, 4, 8, 16, 32}

// Tile is the smallest specialisation that holds m rows, or the largest one.
func Tile(m int) int {
	for _, t := range Tiles {
		if m <= t {
			return t
		}
	}
	return Tiles[len(Tiles)-1]
}

// Rows places the rows of an activation matrix inside its view, in elements.
type Rows struct {
	View   View
	Offset int // of the first row
	Stride int // between rows
}

// MatMul writes out[m, n] = Σ_k w[n, k]·x[m, k] for m rows of x, all f32, or adds it to
// out. x.Offset and x.Stride must be multiples of 4; w.Cols of the format's block.
func (r *Recorder) MatMul(f Family, w *Weight, x, out Rows, m int, add bool) {
	if x.Offset%4 != 0 || x.Stride%4 != 0 || w.Cols%w.Format.Block() != 0 {
		panic(fmt.Sprintf("kernels: MatMul of %d columns at offset %d stride %d", w.Cols, x.Offset, x.Stride))
	}
	tile := Tile(m)
	if f.Fixed {
		tile = 1
	}
	rows := f.Rows
	access := []webgpu.Access{webgpu.Constants, webgpu.ReadOnly, webgpu.ReadOnly, webgpu.ReadWrite}
	if w.Format.Quantised() {
		access = append(access, webgpu.ReadOnly)
	}
	consts := []constant{{"R", uint32(rows)}, {"TM", uint32(tile)}, {"TILE", uint32(rows * tile)}}
	file := "matmul_rows"
	if f.Group {
		file = "matmul_group"
		consts = append(consts, constant{"LANES_BY_TM", uint32(64 * tile)})
	} else {
		consts = append(consts, constant{"WG", uint32(f.Width)})
	}
	kernel := source("matmul_params unpack_"+w.Format.String()+" "+file, access, matmulRef(w.Format), append(consts, partsOf(w.Format))...)
	for _, p := range w.Parts {
		flag := uint32(0)
		if add {
			flag = 1
		}
		params := []uint32{u32(p.Rows), u32(w.Cols / w.Format.step()), u32(m), u32(x.Stride / 4), u32(x.Offset / 4),
			u32(out.Stride), u32(out.Offset + p.Row0), flag}
		columns := (m + tile - 1) / tile
		groups := [3]int{(p.Rows + rows*f.Width - 1) / (rows * f.Width), columns, 1}
		if f.Group {
			groups = [3]int{(p.Rows + rows - 1) / rows, columns, 1}
			if groups[0] > 65535 {
				groups = [3]int{65535, columns, (groups[0] + 65534) / 65535}
			}
		}
		views := []View{p.Quants, x.View, out.View}
		if w.Format.Quantised() {
			views = append(views, p.Scales)
		}
		r.add(kernel, groups, params, views...)
	}
}

// partsOf tells the unroller a format's count of parts a step; the shader
// declares the same constant beside the unpacking.
func partsOf(f Format) constant {
	if f == Q4_0 {
		return constant{"PARTS", uint32(2)}
	}
	return constant{"PARTS", uint32(1)}
}
