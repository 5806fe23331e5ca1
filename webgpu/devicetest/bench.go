package devicetest

import (
	"fmt"
	"testing"

	"foretoken/webgpu"
)

// Bench measures a device's overhead: a run of as many small dispatches as a forward pass has, after a few small writes
// and before one small read.
func Bench(b *testing.B, open func(b *testing.B) webgpu.Device) {
	for _, n := range []int{1, 100, 300} {
		b.Run(fmt.Sprintf("Dispatches%d", n), func(b *testing.B) {
			dev := open(b)
			defer dev.Destroy()
			prog, params, y := h{b, dev}.small(n)
			dst := make([]uint32, 64)
			input := webgpu.U32Bytes([]uint32{1, 3, 1, 0})
			b.ResetTimer()
			b.ReportAllocs()
			before := dev.Counters()
			for range b.N {
				for i := range 3 {
					if err := dev.Write(params, 256*i, input); err != nil {
						b.Fatal(err)
					}
				}
				if err := dev.Run([]webgpu.Program{prog},
					webgpu.Region{Buffer: y, Dst: webgpu.U32Bytes(dst)}); err != nil {
					b.Fatal(err)
				}
			}
			after := dev.Counters()
			b.ReportMetric(float64((after.ReadWait-before.ReadWait).Microseconds())/float64(b.N), "µs-waiting/op")
		})
	}
	b.Run("Upload", func(b *testing.B) {
		dev := open(b)
		defer dev.Destroy()
		const size = 64 << 20
		buf := h{b, dev}.buffer("upload", size, webgpu.Storage)
		data := make([]byte, size)
		b.SetBytes(size)
		b.ResetTimer()
		for range b.N {
			if err := dev.Write(buf, 0, data); err != nil {
				b.Fatal(err)
			}
			if err := dev.Run(nil, webgpu.Region{Buffer: buf, Dst: data[:4]}); err != nil {
				b.Fatal(err)
			}
		}
	})
}

// small records n dispatches of one workgroup, each dependent on the one before.
func (h h) small(n int) (prog webgpu.Program, params, y webgpu.Buffer) {
	params, y = h.buffer("params", 1024, webgpu.Uniform), h.buffer("y", 256, webgpu.Storage)
	k := h.kernel(affine())
	dispatches := make([]webgpu.Dispatch, n)
	for i := range dispatches {
		dispatches[i] = webgpu.Dispatch{Kernel: k, Groups: [3]int{1, 1, 1},
			Bindings: []webgpu.Binding{{Buffer: params, Offset: 256 * (i % 3), Size: 16}, {Buffer: y}}}
	}
	return h.program("small", dispatches...), params, y
}
