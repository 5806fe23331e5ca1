//go:build !linux && !darwin && !windows && cgo && (amd64 || arm64)

package simd

func physical() int { return 0 }
