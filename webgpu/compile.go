package webgpu

// BackgroundCompiler is implemented by devices that compile kernels while they run programs.
type BackgroundCompiler interface {
	// Compile starts compiling new sources and returns at once. The channel is closed when every source is compiled
	// or refused, or the device is lost. NewKernels waits for a source that is still compiling and reports its
	// error; other calls do not wait. Kernels that no call asks for are freed with the device.
	Compile([]*KernelSource) <-chan struct{}
}

// Compile is BackgroundCompiler's. A device that compiles when it is asked for a kernel, and not
// before, has nothing to wait for.
func Compile(dev Device, sources []*KernelSource) <-chan struct{} {
	if b, ok := dev.(BackgroundCompiler); ok {
		return b.Compile(sources)
	}
	done := make(chan struct{})
	close(done)
	return done
}
