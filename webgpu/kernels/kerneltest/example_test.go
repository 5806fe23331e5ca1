package kerneltest_test

import (
	"embed"
	"testing"

	"foretoken/webgpu"
	"foretoken/webgpu/kernels"
	"foretoken/webgpu/kernels/kerneltest"
)

// The worked example of docs/extending.md, which quotes it: a kernel that scales rows. In a package of kernels,
// shaders is there already, and RecordScale, scaleRef and the test are in scale.go, scale_ref.go and scale_test.go.

//go:embed scale.wgsl
var embedded embed.FS

var shaders = kernels.NewShaders("example", embedded)

// RecordScale writes y = a·x. x and y are (m, dim), f32.
func RecordScale(r *kernels.Recorder, x, y kernels.View, a float64, m, dim int) {
	r.Add(shaders.Source("scale", kernels.Inputs(1), kernels.Host{Ref: scaleRef}), [3]int{(dim + 63) / 64, m, 1},
		[]uint32{uint32(dim), kernels.Word(a)}, x, y)
}

// scaleRef is scale.wgsl on the host.
func scaleRef(groups [3]int, b []webgpu.Memory) {
	dim, a, x, y := int(b[0][0]), kernels.Float(b[0][1]), b[1].F32(), b[2].F32()
	for i := range groups[1] * dim {
		y[i] = float32(a * float64(x[i]))
	}
}

func TestScale(t *testing.T) {
	kerneltest.OnDevices(t, func(t *testing.T, dev webgpu.Device) {
		const a, m, dim = -2.5, 64, 172
		b, x := kerneltest.New(t, dev), kerneltest.Normals(6, m*dim)
		rows := func(order []int) []uint32 {
			in, out := b.F32(kerneltest.Gather(x, dim, order)), b.Poisoned(len(order)*dim)
			defer b.Free(in, out)
			return b.Thrice(func(r *kernels.Recorder) { RecordScale(r, in, out, a, len(order), dim) }, out)[0]
		}
		all, want := make([]int, m), make([]float32, m*dim)
		for i := range all {
			all[i] = i
		}
		for i := range want {
			want[i] = float32(a * float64(x[i]))
		}
		kerneltest.CloseTo(t, "scale", webgpu.Memory(rows(all)).F32(), want, 1e-6, 1e-30)
		kerneltest.Invariant(t, dim, rows)
	})
}
