package llama

import "foretoken/webgpu"

// Rehearsal is a device on which models are loaded and programs made to learn which kernels they need, before they
// are compiled: the code that loads is the code that is rehearsed. Nothing is there, and nothing can be timed on
// it: choices of kernels are Options.Tuning's, or those known for the adapter.
type Rehearsal struct {
	ledger
	info    webgpu.Info
	sources []*webgpu.KernelSource
	listed  map[string]bool
}

var (
	_ webgpu.Device        = (*Rehearsal)(nil)
	_ webgpu.BatchCompiler = (*Rehearsal)(nil)
)

// NewRehearsal is a rehearsal for a device.
func NewRehearsal(dev webgpu.Info) *Rehearsal {
	return &Rehearsal{ledger: ledger{limits: dev.Limits}, info: dev, listed: map[string]bool{}}
}

// Info is the device's.
func (r *Rehearsal) Info() webgpu.Info { return r.info }

// Sources are the kernels asked for so far, each once, in the order in which they were.
func (r *Rehearsal) Sources() []*webgpu.KernelSource { return r.sources }

// NewKernel notes a kernel.
func (r *Rehearsal) NewKernel(s *webgpu.KernelSource) (webgpu.Kernel, error) {
	if !r.listed[s.Key] {
		r.listed[s.Key] = true
		r.sources = append(r.sources, s)
	}
	return 1, nil
}

// NewKernels notes kernels.
func (r *Rehearsal) NewKernels(sources []*webgpu.KernelSource) ([]webgpu.Kernel, error) {
	handles := make([]webgpu.Kernel, len(sources))
	for i, s := range sources {
		handles[i], _ = r.NewKernel(s)
	}
	return handles, nil
}

// NewProgram makes none.
func (r *Rehearsal) NewProgram(string, []webgpu.Dispatch) (webgpu.Program, error) { return 1, nil }

// FreeProgram frees none.
func (r *Rehearsal) FreeProgram(webgpu.Program) {}

// Write writes nowhere.
func (r *Rehearsal) Write(webgpu.Buffer, int, []byte) error { return nil }

// Run runs nothing and reads nothing, so that every proof of a tile succeeds once its kernels are noted.
func (r *Rehearsal) Run([]webgpu.Program, ...webgpu.Region) error { return nil }
