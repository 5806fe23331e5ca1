// Package simd runs programs on the CPU. Its kernels are C, in src, written with the vector instructions of
// WebAssembly: cgo compiles them for this processor, and src/build.sh to modules for the browser's engine and, where
// there is no cgo, for wazero. All compute the same bits.
//
// Buffers live in the module's memory. A run is one call for all dispatches of a program; a kernel without an Entry in
// the module runs its Go reference instead, and Counters say how often. In the form Reference all do, which is the
// device called reference.
package simd
