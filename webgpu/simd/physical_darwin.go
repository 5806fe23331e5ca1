//go:build cgo && (amd64 || arm64)

package simd

import "golang.org/x/sys/unix"

func physical() int {
	n, err := unix.SysctlUint64("hw.memsize")
	if err != nil {
		return 0
	}
	return int(n)
}
