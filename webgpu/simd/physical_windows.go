//go:build cgo && (amd64 || arm64)

package simd

import (
	"unsafe"

	"golang.org/x/sys/windows"
)

func physical() int {
	var kilobytes uint64
	get := windows.NewLazySystemDLL("kernel32.dll").NewProc("GetPhysicallyInstalledSystemMemory")
	if ok, _, _ := get.Call(uintptr(unsafe.Pointer(&kilobytes))); ok == 0 {
		return 0
	}
	return int(kilobytes << 10)
}
