package kernels

import (
	"strings"

	"foretoken/webgpu"
)

// Format is the storage format of a weight matrix on the device.
type Format int

const (
	F32 Format = iota
	F16
	BF16
	Q8_0
	Q4_0
	Q4_1
	Q5_0
	Q5_1
	IQ4_NL
	MXFP4
	Q1_0
	Q2_0
	Q2_K
	Q3_K
	Q4_K
	Q5_K
	Q6_K
	Formats // the number of formats
)

// layout describes a format to Go; unpack_*.wgsl describes it to the shaders. Counts of weights and words are per
// block, the unit that divides a row.
type layout struct {
	name   string
	block  int    // weights
	words  int    // 32-bit words of the weights
	scales int    // words of scales and offsets, in a second buffer; 0: none
	step   int    // weights that a kernel unpacks at once
	shared int    // consecutive steps, aligned to their number, with the same scales
	files  string // shaders that unpack the format
}

// The device stores some scales wider than the file does, because kernels unpack scales for each block and row. Where a
// block of 32 weights has one f16, it becomes an f32; so do the two of Q4_K and Q5_K, whose six-bit scales become
// bytes. Other pairs of f16 and other scales stay packed.
var layouts = [Formats]layout{
	F32:    {"f32", 4, 4, 0, 4, 1, "unpack_f32"},
	F16:    {"f16", 4, 2, 0, 4, 1, "unpack_f16"},
	BF16:   {"bf16", 4, 2, 0, 4, 1, "unpack_bf16"},
	Q8_0:   {"q8_0", 32, 8, 1, 4, 8, "words fields unpack_q8_0 codes"},
	Q4_0:   {"q4_0", 32, 4, 1, 8, 4, "words fields unpack_q4_0 codes"},
	Q4_1:   {"q4_1", 32, 4, 1, 8, 4, "words unpack_halves fields unpack_q4_1 codes"},
	Q5_0:   {"q5_0", 32, 5, 1, 8, 4, "fields unpack_q5_0 codes"},
	Q5_1:   {"q5_1", 32, 5, 1, 8, 4, "unpack_halves fields unpack_q5_1 codes"},
	IQ4_NL: {"iq4_nl", 32, 4, 1, 8, 4, "words unpack_levels"},
	MXFP4:  {"mxfp4", 32, 4, 1, 8, 4, "words unpack_levels"},
	Q1_0:   {"q1_0", 128, 4, 1, 8, 16, "shared_words fields unpack_q1_0 codes"},
	Q2_0:   {"q2_0", 64, 4, 1, 8, 8, "shared_words fields unpack_q2_0 codes"},
	Q2_K:   {"q2_k", 256, 16, 5, 8, 4, "unpack_halves fields unpack_q2_k codes"},
	Q3_K:   {"q3_k", 256, 24, 4, 8, 4, "fields unpack_q3_k codes"},
	Q4_K:   {"q4_k", 256, 32, 6, 8, 8, "words fields unpack_pairs unpack_q4_k codes"},
	Q5_K:   {"q5_k", 256, 40, 6, 8, 8, "fields unpack_pairs unpack_q5_k codes"},
	Q6_K:   {"q6_k", 256, 48, 5, 8, 4, "fields words_q6_k unpack_q6_k"},
}

func (f Format) String() string { return layouts[f].name }

// InBlocks reports whether threads sum the integers of a block and scale the sum, see matmul/k_loop_blocks.wgsl.
func (f Format) InBlocks() bool { return f == Q8_0 || f == Q4_0 }

// Quantised reports whether the format has scales, which lie in a second buffer.
func (f Format) Quantised() bool { return layouts[f].scales > 0 }

// Block returns the number of weights that must divide a row.
func (f Format) Block() int { return layouts[f].block }

// WordsPerRow returns the number of 32-bit words of a row of cols weights, without scales.
func (f Format) WordsPerRow(cols int) int { return cols / layouts[f].block * layouts[f].words }

// ScalesPerRow returns the number of 32-bit words of a row's scales.
func (f Format) ScalesPerRow(cols int) int { return cols / layouts[f].block * layouts[f].scales }

// Files returns the shaders that unpack the format.
func (f Format) Files() string { return layouts[f].files }

// Fetched returns how many steps a lane of a workgroup fetches at once, and the shaders that fetch and unpack them.
func (f Format) Fetched() (steps int, files string) {
	files = onGPUs.Replace(layouts[f].files)
	if words, _, _ := strings.Cut(files, " "); strings.HasSuffix(words, "words") {
		return 2, strings.Replace(files, "words", "two_words", 1)
	}
	return 1, files + " each"
}

// onGPUs replaces what only software adapters run faster.
var onGPUs = strings.NewReplacer("fields ", "fields_f16 ")

// Packed reports whether the format has packed products, see package matmul: the formats of most files have.
func (f Format) Packed() bool {
	return f == Q8_0 || f == Q4_0 || f == IQ4_NL || f == MXFP4 || f == Q1_0 || f == Q2_0 || f == Q4_K || f == Q6_K
}

// PackedFiles returns the shaders that fetch and unpack the format for packed products.
func (f Format) PackedFiles() string {
	files, end := strings.TrimSuffix(onGPUs.Replace(layouts[f].files), " codes"), " packed_codes"
	if levels[f] != nil {
		end = " packed_levels"
	}
	return strings.Replace(files, "words", "four_words", 1) + end
}

// Shared returns how many consecutive steps, aligned to their number, have the same scales.
func (f Format) Shared() int { return layouts[f].shared }

// Step returns how many weights a kernel unpacks at once.
func (f Format) Step() int { return layouts[f].step }

// levels are the values of the sixteen numbers of a format, for formats whose numbers are no values.
var levels = [Formats]*[16]int8{
	IQ4_NL: {-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113},
	MXFP4:  {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12},
}

// Constants returns PARTS, the number of groups of four weights in a step, and the levels of a format that has any.
func (f Format) Constants() []Constant {
	all := []Constant{Const("PARTS", f.Step()/4)}
	if levels[f] != nil {
		for i, name := range []string{"LEVELS0", "LEVELS1", "LEVELS2", "LEVELS3"} {
			word := uint32(0)
			for j, v := range levels[f][4*i:][:4] {
				word |= uint32(uint8(v)) << (8 * j)
			}
			all = append(all, Const(name, word))
		}
	}
	return all
}

// Weight is a matrix (Rows, Cols) on the device, split by rows into parts that fit the device's binding limit.
type Weight struct {
	Format     Format
	Rows, Cols int
	Parts      []WeightPart
}

// WeightPart holds rows [Row0, Row0+Rows) of a Weight. F32, F16 and BF16 have no Scales.
// See unpack_*.wgsl for the layouts.
type WeightPart struct {
	Row0, Rows     int
	Quants, Scales View
}

// Access returns the access of a kernel that binds parameters, weights, input, output and, if the format has any,
// scales.
func (f Format) Access() []webgpu.Access {
	access := Inputs(2)
	if f.Quantised() {
		access = append(access, webgpu.ReadOnly)
	}
	return access
}

// Scales returns the scales of a part. If the format has none, it returns idle, which the kernel binds and never reads.
func (w *Weight) Scales(p WeightPart, idle View) View {
	if w.Format.Quantised() {
		return p.Scales
	}
	return idle
}

// Views returns the bindings of a kernel with Format.Access, after its parameters.
func (w *Weight) Views(p WeightPart, in, out View) []View {
	views := []View{p.Quants, in, out}
	if w.Format.Quantised() {
		views = append(views, p.Scales)
	}
	return views
}

// ProductAccess returns the access of a product: parameters, weights, x, out, scales, and then more.
func ProductAccess(more ...webgpu.Access) []webgpu.Access {
	return append(append(Inputs(2), webgpu.ReadOnly), more...)
}
