package webgpu

// BatchCompiler is implemented by devices that compile several kernels at once
// faster than one after the other.
type BatchCompiler interface {
	// NewKernels is NewKernel for each source, in order; the first error ends it.
	NewKernels([]*KernelSource) ([]Kernel, error)
}

// CompileAll compiles every source, together where the device can.
func CompileAll(dev Device, sources []*KernelSource) ([]Kernel, error) {
	if b, ok := dev.(BatchCompiler); ok {
		return b.NewKernels(sources)
	}
	kernels := make([]Kernel, len(sources))
	for i, s := range sources {
		k, err := dev.NewKernel(s)
		if err != nil {
			return nil, err
		}
		kernels[i] = k
	}
	return kernels, nil
}
