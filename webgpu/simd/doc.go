// Package simd runs programs on the CPU, by a module of WebAssembly SIMD: the browser's engine runs it where Go is
// WebAssembly itself, wazero runs it elsewhere, and both compute the same bits. src has the kernels in C, and
// src/build.sh compiles them to kernels.wasm and threads.wasm.
//
// Buffers live in the module's memory. A run is one call for all dispatches of a program; a kernel without an Entry in
// the module runs its Go reference instead, and Counters say how often.
package simd
