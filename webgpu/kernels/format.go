package kernels

import "foretoken/webgpu"

// Format is how a weight matrix is stored on the device.
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
	Q2_K
	Q3_K
	Q4_K
	Q5_K
	Q6_K
	formats // how many there are
)

// layout is what Go has to know of a format; unpack_*.wgsl is what the shaders know.
// Numbers of weights and words are those of a block, the unit that a row is a multiple of.
type layout struct {
	name   string
	block  int    // weights
	words  int    // 32-bit words of the weights
	scales int    // words of what multiplies or is added to them, kept apart; 0: nothing
	step   int    // weights that a kernel unpacks at once
	shared int    // consecutive steps, from a multiple of it, with the same scales
	files  string // shaders that unpack it
}

// A format of 32-weight blocks with a half for each keeps it as a float, which spares an
// unpacking for each block and row; where two halves fill a word, or superblocks
// have scales of their own, they stay as they are.
var layouts = [formats]layout{
	F32:    {"f32", 4, 4, 0, 4, 1, "unpack_f32"},
	F16:    {"f16", 4, 2, 0, 4, 1, "unpack_f16"},
	BF16:   {"bf16", 4, 2, 0, 4, 1, "unpack_bf16"},
	Q8_0:   {"q8_0", 32, 8, 1, 4, 8, "unpack_q8_0"},
	Q4_0:   {"q4_0", 32, 4, 1, 8, 4, "unpack_q4_0"},
	Q4_1:   {"q4_1", 32, 4, 1, 8, 4, "unpack_bits unpack_q4_1"},
	Q5_0:   {"q5_0", 32, 5, 1, 8, 4, "unpack_bits unpack_q5_0"},
	Q5_1:   {"q5_1", 32, 5, 1, 8, 4, "unpack_bits unpack_q5_1"},
	IQ4_NL: {"iq4_nl", 32, 4, 1, 8, 4, "unpack_bits unpack_iq4_nl"},
	Q2_K:   {"q2_k", 256, 16, 5, 8, 4, "unpack_bits unpack_q2_k"},
	Q3_K:   {"q3_k", 256, 24, 4, 8, 4, "unpack_bits unpack_q3_k"},
	Q4_K:   {"q4_k", 256, 32, 4, 8, 8, "unpack_bits unpack_six_bits unpack_q4_k"},
	Q5_K:   {"q5_k", 256, 40, 4, 8, 8, "unpack_bits unpack_six_bits unpack_q5_k"},
	Q6_K:   {"q6_k", 256, 48, 5, 8, 4, "unpack_bits unpack_q6_k"},
}

func (f Format) String() string { return layouts[f].name }

// inBlocks reports whether threads sum whole numbers of a block and scale the sum, see matmul_walk_blocks.wgsl.
func (f Format) inBlocks() bool { return f == Q8_0 || f == Q4_0 }

// Quantised reports whether the format has scales, in a buffer of their own.
func (f Format) Quantised() bool { return layouts[f].scales > 0 }

// Block is the count of weights that a row must be a multiple of.
func (f Format) Block() int { return layouts[f].block }

// WordsPerRow is how many 32-bit words a row of cols weights takes, without scales.
func (f Format) WordsPerRow(cols int) int { return cols / layouts[f].block * layouts[f].words }

// ScalesPerRow is how many 32-bit words the scales of a row of cols weights take.
func (f Format) ScalesPerRow(cols int) int { return cols / layouts[f].block * layouts[f].scales }

// step is how many weights a kernel unpacks at once.
func (f Format) step() int { return layouts[f].step }

// constants tell the unroller a format's count of parts a step: groups of four weights.
func (f Format) constants() []constant { return []constant{{"PARTS", u32(f.step() / 4)}} }

// Weight is a matrix (Rows, Cols) on the device, split by rows into as many
// parts as the device's binding limit asks for.
type Weight struct {
	Format     Format
	Rows, Cols int
	Parts      []WeightPart
}

// WeightPart is rows [Row0, Row0+Rows) of a Weight. F32, F16 and BF16 have no Scales.
// See unpack_*.wgsl for the layouts.
type WeightPart struct {
	Row0, Rows     int
	Quants, Scales View
}

// access is how a kernel that reads weights of the format, an input and an output binds
// them: parameters, weights, input, output and, if there are any, scales.
func (f Format) access() []webgpu.Access {
	access := []webgpu.Access{webgpu.Constants, webgpu.ReadOnly, webgpu.ReadOnly, webgpu.ReadWrite}
	if f.Quantised() {
		access = append(access, webgpu.ReadOnly)
	}
	return access
}

// scales are a part's, or, where the format has none, idle: a view that the kernel binds and does not read.
func (w *Weight) scales(p WeightPart, idle View) View {
	if w.Format.Quantised() {
		return p.Scales
	}
	return idle
}

// views are the bindings of such a kernel after its parameters.
func (w *Weight) views(p WeightPart, in, out View) []View {
	views := []View{p.Quants, in, out}
	if w.Format.Quantised() {
		views = append(views, p.Scales)
	}
	return views
}
