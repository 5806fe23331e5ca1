package matmul

import (
	"fmt"

	"foretoken/webgpu"
	"foretoken/webgpu/kernels"
)

// Kind is a way to distribute a matrix product over threads.
type Kind int

const (
	ByRow       Kind = iota // a thread computes its own weight rows over all of k
	BySubgroup4             // ByRow, and four neighbours of a subgroup share the loads of activations
	ByGroup                 // the lanes of a workgroup split k
	BySubgroup              // ByGroup, and subgroups sum over their lanes
)

var kinds = [...]struct {
	name    string
	files   string
	feature string // required WebGPU feature
}{
	ByRow: {"rows", "take", ""},
	// Users' tuning caches contain "quad", so the name stays.
	BySubgroup4: {"quad", "take_subgroup4", "subgroups"},
	ByGroup:     {"group", "join group", ""},
	BySubgroup:  {"subgroup", "join_subgroup group", "subgroups"},
}

// Family is a kind with its tile sizes. All families give the same numbers up to rounding; tuning chooses one per
// matrix, for every M.
type Family struct {
	Kind  Kind
	Rows  int  // R, weight rows of one thread or workgroup
	Width int  // threads of a workgroup
	Most  int  // maximum rows of x in a tile: spilled registers cost more than a second tile
	Wide  int  // weight rows of a thread in tiles with Most rows of x; 0: Rows
	Fixed bool // use the pipeline for one row at every M: the last resort if M changes the bits
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

// every lists the families; if timings are close, tuning takes the first.
var every = []Family{
	{Kind: BySubgroup4, Rows: 8, Width: 8, Most: 8, Wide: 16},
	{Kind: ByRow, Rows: 8, Width: 8, Most: 16},
	{Kind: ByRow, Rows: 16, Width: 8, Most: 8},
	{Kind: ByRow, Rows: 1, Width: 64, Most: 32},
	{Kind: ByGroup, Rows: 1, Width: 64, Most: 32},
	{Kind: ByGroup, Rows: 2, Width: 64, Most: 32},
	{Kind: ByGroup, Rows: 4, Width: 64, Most: 32},
	{Kind: BySubgroup, Rows: 4, Width: 64, Most: 32},
	{Kind: BySubgroup, Rows: 1, Width: 64, Most: 32},
}

// Takes reports whether the family supports a format. Tiles of sixteen rows compile slowly, and a file with matrices in
// many formats waits for all of them, so only the formats summed in blocks have them.
func (f Family) Takes(format kernels.Format) bool {
	return f.Kind != ByRow || f.Rows <= 8 || format.InBlocks()
}

// Narrow returns the family without wide tiles.
func (f Family) Narrow() Family {
	f.Wide = 0
	return f
}

// For returns the family that a weight uses. Wide tiles load each activation for more weight rows, in a longer loop.
// They are for formats that are summed in blocks, which compile fast, and for matrices of at least four workgroups:
// fewer would leave threads idle. Whether they are faster for Q4_0 depends on the processor, so tuning times it.
func (f Family) For(w *kernels.Weight) Family {
	if !w.Format.InBlocks() || w.Rows < 4*f.Wide*f.Width {
		return f.Narrow()
	}
	return f
}

// wide returns the family with Rows set for the tiles of a product with m rows of x.
func (f Family) wide(w *kernels.Weight, m int) Family {
	if f = f.For(w); f.Wide > 0 && f.Tile(m) == f.Most {
		f.Rows = f.Wide
	}
	return f
}

// grouped reports whether Rows are the weight rows of a workgroup, not of a thread.
func (f Family) grouped() bool { return f.Kind == ByGroup || f.Kind == BySubgroup }

// Families returns the families that the features of a device allow, the candidates of tuning.
func Families(info webgpu.Info) []Family {
	var can []Family
	for _, f := range every {
		if feature := kinds[f.Kind].feature; feature == "" || info.Has(feature) {
			can = append(can, f)
		}
	}
	return can
}

// ParseFamily returns the family of the device with the given String.
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

// laneSteps is the maximum number of consecutive steps with the same scales for a lane of a workgroup: more would
// unpack fewer scales, but leave lanes idle on short rows.
const laneSteps = 2

// tiles are the row counts that the matrix kernels are specialised for: powers of two, because every pipeline delays
// the first token.
var tiles = []int{1, 2, 4, 8, 16, 32}

// Tile returns the rows of x in a tile of a product of m rows: the smallest size that covers m rows with the minimum
// number of tiles.
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
	panic(fmt.Sprintf("matmul: %s has no tile for %d rows", f, m)) // Most is one of the tiles
}
