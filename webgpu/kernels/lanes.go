package kernels

import "foretoken/webgpu"

// Lanes is the number of threads that share one row in kernels that reduce rows.
// Serial wins on software adapters, where a barrier costs more than the loop.
type Lanes int

const (
	Serial  Lanes = 1  // a thread a row
	Grouped Lanes = 64 // a workgroup a row
)

// MaxSteps bounds the loop iterations of one thread: Mesa's software rasteriser leaves every loop of a thread,
// without an error, after 65,535 iterations in total.
const MaxSteps = 64000

// RowKernel reduces rows in one of two ways with the same parameters and bindings.
type RowKernel struct {
	Shaders         *Shaders
	Serial, Grouped string // files of the kernel with a thread a row, and of that with a workgroup a row
	Access          []webgpu.Access
	Host            Host
	Constants       []Constant
}

// Record adds a dispatch over rows. steps is the number of loop iterations that a serial thread makes: rows that take
// more than MaxSteps get a workgroup each, whatever lanes says.
func (k *RowKernel) Record(r *Recorder, lanes Lanes, steps, rows int, params []uint32, views ...View) {
	files, groups := k.Grouped, [3]int{rows, 1, 1}
	if lanes == Serial && steps <= MaxSteps {
		files, groups = k.Serial, r.GroupsFor(rows, 8)
	}
	r.Add(k.Shaders.Source(files, k.Access, k.Host, k.Constants...), groups, params, views...)
}

// Ways returns the lanes that reductions on a device may have, the candidates of tuning. With a thread a row a GPU
// would leave most lanes of a workgroup idle.
func Ways(info webgpu.Info) []Lanes {
	if info.Software || info.Host() {
		return []Lanes{Serial, Grouped}
	}
	return []Lanes{Grouped}
}
