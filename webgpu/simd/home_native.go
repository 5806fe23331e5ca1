//go:build !js

package simd

import "runtime"

func cores() int { return runtime.GOMAXPROCS(0) } // less than there are, where a container has a limit

// Forms are the names of what can run the kernels here, the best first: the processor's instructions, where cgo
// compiled src for them, and wazero.
func Forms() []string { return append(nativeForms(), "wazero") }

func instantiate(form string) (module, error) {
	if form == "wazero" {
		return newInstances()
	}
	return newNative(form)
}
