//go:build cgo && (amd64 || arm64) && (linux || darwin || windows)

// Package src is the kernels of package simd in C, compiled for this processor.
package src

/*
#cgo CFLAGS: -O3 -g0 -std=c11 -fvisibility=hidden -fno-strict-aliasing
#cgo amd64 CFLAGS: -msse4.1
#cgo windows LDFLAGS: -lsynchronization
#include "pool.h"

static u32 kernel_name(u64 i, u64 to) { return foretoken_kernel_name((u32)i, (char *)to); }
static u32 scratch_size(u64 at) { return foretoken_scratch_size((const dispatch *)at); }
static void zero(u64 at, u64 size) { foretoken_zero((u32 *)at, (u32)size); }
static u32 run_alone(u64 at) { return foretoken_run_alone((pool *)at); }
static u32 run(u64 at) { return foretoken_run((pool *)at); }
static void work(u64 at, u64 part) { foretoken_work((pool *)at, (u32)part); }
*/
import "C"

import "unsafe"

// AddressOf returns the address of memory that Go does not move.
func AddressOf(b []byte) int { return int(uintptr(unsafe.Pointer(unsafe.SliceData(b)))) }

// Call calls one of the functions that the host calls, main.c has them, and returns its result, 0 for none.
func Call(name string, args ...uint64) uint32 {
	a := func(i int) C.u64 { return C.u64(args[i]) }
	switch name {
	case "run":
		return uint32(C.run(a(0)))
	case "run_alone":
		return uint32(C.run_alone(a(0)))
	case "scratch_size":
		return uint32(C.scratch_size(a(0)))
	case "zero":
		C.zero(a(0), a(1))
		return 0
	case "kernel_name":
		return uint32(C.kernel_name(a(0), a(1)))
	}
	panic("src: no function " + name)
}

// Work computes parts of each job of a pool as one of its threads, until the pool ends.
func Work(pool uint64, part int) { C.work(C.u64(pool), C.u64(part)) }
