//go:build cgo && (amd64 || arm64)

package simd

import "golang.org/x/sys/unix"

// physical is the size of the machine's memory in bytes, 0 if unknown.
func physical() int {
	var info unix.Sysinfo_t
	if unix.Sysinfo(&info) != nil {
		return 0
	}
	return int(uint64(info.Totalram) * uint64(info.Unit))
}
