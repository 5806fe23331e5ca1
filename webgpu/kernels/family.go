package kernels

import (
	"fmt"

	"foretoken/webgpu"
)

// Kind is how the threads of a matrix product share its work.
type Kind int

const (
	ByRow      Kind = iota // a thread has weight rows of its own and walks all of k
	ByQuad                 // likewise, and four neighbours read activations for each other
	ByGroup                // the lanes of a workgroup walk k together
	BySubgroup             // likewise, and subgroups add up what their lanes have
)

var kinds = [...]struct {
	name    string
	files   string
	feature string // of WebGPU, that it needs
}{
	ByRow:      {"rows", "matmul_take", ""},
	ByQuad:     {"quad", "matmul_take_quad", "subgroups"},
	ByGroup:    {"group", "matmul_join matmul_group", ""},
	BySubgroup: {"subgroup", "matmul_join_subgroup matmul_group", "subgroups"},
}

// Family is a way to share a matrix product among threads. All families give the
// same numbers up to rounding; one is chosen per matrix and used for every M.
type Family struct {
	Kind  Kind
	Rows  int  // R, weight rows of one thread or workgroup
	Width int  // threads of a workgroup
	Most  int  // rows of x that a tile has at most: more registers than a device has cost more than a second tile
	Wide  int  // weight rows of a thread where tiles have Most rows of x; 0: Rows
	Fixed bool // use the pipeline for one row at every M: the last resort where M changes the bits
}

func (f Family) String() string {
	fixed, wide := "", ""
	if f.Fixed {
		fixed = "-fixed"
	}
	if f.Wide > 0 {
		wide = fmt.Sprint("-", f.Wide)
	}
	return fmt.Sprintf("%s%s%d%sx%d", kinds[f.Kind].name, fixed, f.Rows, wide, f.Width)
}

// every family: where timings are close, the first is taken.
var every = []Family{
	{Kind: ByQuad, Rows: 8, Width: 8, Most: 8, Wide: 16},
	{Kind: ByRow, Rows: 8, Width: 8, Most: 16},
	{Kind: ByRow, Rows: 16, Width: 8, Most: 8},
	{Kind: ByRow, Rows: 1, Width: 64, Most: 32},
	{Kind: ByGroup, Rows: 1, Width: 64, Most: 32},
	{Kind: ByGroup, Rows: 2, Width: 64, Most: 32},
	{Kind: ByGroup, Rows: 4, Width: 64, Most: 32},
	{Kind: BySubgroup, Rows: 4, Width: 64, Most: 32},
	{Kind: BySubgroup, Rows: 1, Width: 64, Most: 32},
}

// Takes reports whether the family is for products of a format. Tiles of sixteen rows take three times as long to compile as
// those of eight, and that is what a file with matrices in many formats waits for.
func (f Family) Takes(format Format) bool {
	return f.Kind != ByRow || f.Rows <= 8 || format.inBlocks()
}

// Narrow is the family with as many weight rows in every tile.
func (f Family) Narrow() Family {
	f.Wide = 0
	return f
}

// For is the family as a weight takes it. Wide tiles are for formats that are summed in blocks, which compile fast, and
// for matrices of at least four workgroups of them: fewer would leave threads without work. They share what reading an
// activation takes, which is half of it there, and have longer loops. What that costs Q4_0 depends on the
// processor and has to be timed: on SwiftShader a Xeon took 1.3 times as long with them, and an EPYC a quarter less
// than before they came, among other changes.
func (f Family) For(w *Weight) Family {
	if !w.Format.inBlocks() || w.Rows < 4*f.Wide*f.Width {
		return f.Narrow()
	}
	return f
}

// wide is the family whose Rows are those of tiles of a product of m rows of x.
func (f Family) wide(w *Weight, m int) Family {
	if f = f.For(w); f.Wide > 0 && f.Tile(m) == f.Most {
		f.Rows = f.Wide
	}
	return f
}

// grouped reports whether a workgroup has the family's weight rows, and not a thread.
func (f Family) grouped() bool { return f.Kind == ByGroup || f.Kind == BySubgroup }

// Families are the candidates that are timed at load on a device: those that its features allow.
func Families(info webgpu.Info) []Family {
	var can []Family
	for _, f := range every {
		if feature := kinds[f.Kind].feature; feature == "" || info.Has(feature) {
			can = append(can, f)
		}
	}
	return can
}

// ParseFamily finds a family of the device by its String.
func ParseFamily(info webgpu.Info, s string) (Family, bool) {
	for _, f := range Families(info) {
		for _, f.Wide = range []int{f.Wide, 0} {
			for _, f.Fixed = range []bool{false, true} {
				if f.String() == s {
					return f, true
				}
			}
		}
	}
	return Family{}, false
}

// laneSteps is the most steps with the same scales that a lane of a group takes together: more
// would spare unpacking scales and leave lanes idle on short rows.
const laneSteps = 2

// tiles are the row counts that the matrix kernels are specialised for. Those between powers of two would
// spare trees of three, five and six rows some work, and took a second before the first token
// on Chromium's software adapter, where every pipeline takes about a tenth to compile.
var tiles = []int{1, 2, 4, 8, 16, 32}

// Tile is how many rows of x the tiles of a product of m rows have: as many tiles as the
// largest one asks for, all as small as holds m rows.
func (f Family) Tile(m int) int {
	if f.Fixed {
		return 1
	}
	count := (m + f.Most - 1) / f.Most
	for _, t := range tiles {
		if t*count >= m {
			return t
		}
	}
	panic(fmt.Sprintf("kernels: %s has no tile for %d rows", f, m)) // Most is one of the tiles
}
