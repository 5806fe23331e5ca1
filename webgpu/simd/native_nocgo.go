//go:build !js && !(cgo && (amd64 || arm64) && (linux || darwin || windows))

package simd

func nativeForms() []string            { return nil }
func newNative(string) (module, error) { panic("simd: no native forms") }
