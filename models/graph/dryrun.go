package graph

import "foretoken/webgpu"

// DryRun is a device that collects kernels without compiling them: loading a model and preparing its programs on it
// lists the kernels that they need, by the same code. It has no memory and cannot time anything; kernel choices
// come from Options.Tuning or from those shipped for the adapter.
type DryRun struct {
	ledger
	info    webgpu.Info
	sources []*webgpu.KernelSource
	listed  map[string]bool
}

var _ webgpu.Device = (*DryRun)(nil)

// NewDryRun returns a dry run that imitates a device.
func NewDryRun(dev webgpu.Info) *DryRun {
	return &DryRun{ledger: ledger{limits: dev.Limits}, info: dev, listed: map[string]bool{}}
}

// Info describes the imitated device.
func (r *DryRun) Info() webgpu.Info { return r.info }

// Sources returns the kernels requested so far, each once, in the order of the first request.
func (r *DryRun) Sources() []*webgpu.KernelSource { return r.sources }

// NewKernels records kernels.
func (r *DryRun) NewKernels(sources []*webgpu.KernelSource) ([]webgpu.Kernel, error) {
	handles := make([]webgpu.Kernel, len(sources))
	for i, s := range sources {
		handles[i] = 1
		if !r.listed[s.Key] {
			r.listed[s.Key] = true
			r.sources = append(r.sources, s)
		}
	}
	return handles, nil
}

// NewProgram does nothing.
func (r *DryRun) NewProgram(string, []webgpu.Dispatch) (webgpu.Program, error) { return 1, nil }

// FreeProgram does nothing.
func (r *DryRun) FreeProgram(webgpu.Program) {}

// Write does nothing.
func (r *DryRun) Write(webgpu.Buffer, int, []byte) error { return nil }

// Run does nothing: every proof of a tile succeeds once its kernels are recorded.
func (r *DryRun) Run([]webgpu.Program, ...webgpu.Region) error { return nil }
