package layer

import (
	"fmt"
	"math"
	"testing"

	"foretoken/webgpu"
	"foretoken/webgpu/kernels"
	"foretoken/webgpu/kernels/kerneltest"
)

func TestEmbed(t *testing.T) {
	kerneltest.OnDevices(t, func(t *testing.T, dev webgpu.Device) {
		b := kerneltest.New(t, dev)
		for f := range kernels.Formats {
			cols := kerneltest.Cols(f, 96) * 2
			w := kerneltest.NewWeight(f, 131, cols)
			up := w.Upload(b, 50)
			for m, times := range map[int]float64{1: 1, 2: 12, 3: 54.5, 64: 1} {
				tokens := make([]uint32, m)
				var want []float32
				largest := 0.0
				for i := range tokens {
					tokens[i] = uint32(i*37+130) % 131
					for _, v := range w.Floats[int(tokens[i])*cols:][:cols] {
						want = append(want, float32(v*times))
						largest = max(largest, math.Abs(v*times))
					}
				}
				ids, out := b.U32(tokens), b.Poisoned(m*cols)
				got := b.Run(func(r *kernels.Recorder) { RecordEmbed(r, up, ids, out, m, times) }, out)[0]
				tolerance := 0.0
				if times != 1 {
					tolerance = 1e-7
				}
				switch f {
				case kernels.Q4_1, kernels.Q5_1, kernels.Q2_K, kernels.Q4_K, kernels.Q5_K: // a minimum makes sums round
					tolerance = 5e-7
				}
				kerneltest.CloseTo(t, fmt.Sprint(f), got.F32(), want, tolerance, largest)
				b.Free(ids, out)
			}
			w.Free(b, up)
		}
	})
}
