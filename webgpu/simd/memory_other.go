//go:build !linux && !darwin && !windows && !js

package simd

import "github.com/tetratelabs/wazero/experimental"

// mapped is a slice of Go's heap. A shared memory must not move, so it has its largest size from the start.
type mapped []byte

func reserve(_, most uint64) experimental.LinearMemory { return mapped(make([]byte, most)) }

func (m mapped) Reallocate(size uint64) []byte { return m[:size] }
func (m mapped) Free()                         {}
