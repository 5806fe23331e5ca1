package matmul

import (
	"fmt"
	"slices"

	"foretoken/webgpu"
	"foretoken/webgpu/kernels"
)

// Kind is a way to distribute a matrix product over threads.
type Kind int

const (
	ByRow            Kind = iota // a thread computes its own weight rows over all of k
	ByGroup                      // the lanes of a workgroup split k
	BySubgroup                   // ByGroup, and subgroups sum over their lanes
	ByPacked                     // ByGroup, of whole numbers in 8 bits, with activations in 16
	BySubgroupPacked             // BySubgroup, as ByPacked
)

// DotProduct is the extension of WGSL that packed products need.
const DotProduct = "packed_4x8_integer_dot_product"

var kinds = [...]struct {
	name     string
	files    string
	features []string // that the device must have
}{
	ByRow:            {"rows", "rows", nil},
	ByGroup:          {"group", "join group", nil},
	BySubgroup:       {"subgroup", "join_subgroup group", []string{"subgroups"}},
	ByPacked:         {"packed", "join packed", []string{DotProduct}},
	BySubgroupPacked: {"subgroup-packed", "join_subgroup packed", []string{DotProduct, "subgroups"}},
}

// Family is a kind with its tile sizes. All families give the same numbers up to rounding; tuning chooses one per
// matrix, for every M.
type Family struct {
	Kind  Kind
	Rows  int  // R, weight rows of one thread or workgroup
	Width int  // threads of a workgroup
	Most  int  // maximum rows of x in a tile: spilled registers cost more than a second tile
	Fixed bool // use the pipeline for one row at every M: the last resort if M changes the bits
}

func (f Family) String() string {
	fixed := ""
	if f.Fixed {
		fixed = "-fixed"
	}
	return fmt.Sprintf("%s%s%dx%d", kinds[f.Kind].name, fixed, f.Rows, f.Width)
}

// every lists the families; if timings are close, tuning takes the first. Software adapters use the first untimed.
var every = []Family{
	{Kind: ByRow, Rows: 8, Width: 8, Most: 16},
	{Kind: ByGroup, Rows: 1, Width: 64, Most: 16},
	{Kind: ByGroup, Rows: 2, Width: 64, Most: 16},
	{Kind: ByGroup, Rows: 4, Width: 64, Most: 16},
	{Kind: BySubgroup, Rows: 4, Width: 64, Most: 16},
	{Kind: BySubgroup, Rows: 1, Width: 64, Most: 16},
	{Kind: ByPacked, Rows: 4, Width: 64, Most: 8},
	{Kind: BySubgroupPacked, Rows: 4, Width: 64, Most: 8},
}

// grouped reports whether Rows are the weight rows of a workgroup, not of a thread.
func (f Family) grouped() bool { return f.Kind != ByRow }

// Packed reports whether a dispatch rounds the input before the product.
func (f Family) Packed() bool { return f.Kind == ByPacked || f.Kind == BySubgroupPacked }

// Families returns the families that a device can use for a format, the candidates of tuning. On a GPU the lanes of
// ByRow would read words that lie a row apart, from memory that gives neighbouring lanes neighbouring words. Of packed
// families it gets one, because each takes time to compile.
func Families(info webgpu.Info, format kernels.Format) []Family {
	return slices.DeleteFunc(slices.Clone(every), func(f Family) bool {
		lacks := func(feature string) bool { return !info.Has(feature) }
		return slices.ContainsFunc(kinds[f.Kind].features, lacks) || f.Packed() && !format.Packed() ||
			f.Kind == ByRow && !info.Software && !info.Host() || f.Kind == ByPacked && info.Has("subgroups")
	})
}

// ParseFamily returns the family of the device with the given String for a format.
func ParseFamily(info webgpu.Info, format kernels.Format, s string) (Family, bool) {
	for _, f := range Families(info, format) {
		for _, f.Fixed = range []bool{false, true} {
			if f.String() == s {
				return f, true
			}
		}
	}
	return Family{}, false
}

// LaneSteps returns how many consecutive steps with the same scales a lane of a workgroup takes in a turn: more would
// unpack fewer scales, but leave lanes idle on short rows, and spread the lanes' loads of activations.
func (f Family) LaneSteps(format kernels.Format) int {
	if f.Packed() {
		return packedSteps
	}
	return min(format.Shared(), 2)
}

// tiles are the row counts that the matrix kernels are specialised for: powers of two, because every pipeline delays
// the first token.
var tiles = []int{1, 2, 4, 8, 16}

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
