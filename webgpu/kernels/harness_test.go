package kernels

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"testing"

	"foretoken/webgpu"
	"foretoken/webgpu/cpu"
	"foretoken/webgpu/open"
)

// full is whether FORETOKEN_FULL=1 asks for every combination. Nearly all the time of these tests goes into
// compiling, so by default combinations are left out whose parts are all tested elsewhere in the same test.
func full() bool { return os.Getenv("FORETOKEN_FULL") != "" }

// onDevices runs a test on the cpu device and on the build's own device.
// FORETOKEN_REQUIRE_GPU=1 makes a missing device a failure. The cpu device is Go whatever it
// is built for, so short runs, those in a browser, leave it to the others.
func onDevices(t *testing.T, test func(t *testing.T, dev webgpu.Device)) {
	t.Run("cpu", func(t *testing.T) {
		if testing.Short() {
			t.Skip("short: the cpu device is tested in full runs")
		}
		dev := cpu.Open()
		defer dev.Destroy()
		test(t, dev)
	})
	t.Run(open.Accelerator, func(t *testing.T) {
		dev, _, err := open.Device(context.Background(), open.Accelerator)
		if err != nil {
			if os.Getenv("FORETOKEN_REQUIRE_GPU") != "" {
				t.Fatal(err)
			}
			t.Skip(err)
		}
		defer dev.Destroy()
		test(t, dev)
	})
}

// bench holds the buffers of one kernel under test.
type bench struct {
	t   *testing.T
	dev webgpu.Device
}

func (b bench) view(label string, data []byte) View {
	b.t.Helper()
	buf, err := b.dev.NewBuffer(label, len(data), webgpu.Storage)
	if err != nil {
		b.t.Fatal(err)
	}
	if err := b.dev.Write(buf, 0, data); err != nil {
		b.t.Fatal(err)
	}
	return View{Buffer: buf, Size: len(data)}
}

func (b bench) f32(x []float32) View { b.t.Helper(); return b.view("floats", webgpu.F32Bytes(x)) }
func (b bench) u32(x []uint32) View  { b.t.Helper(); return b.view("words", webgpu.U32Bytes(x)) }

// poisoned is an output of n words that no kernel would leave by chance.
func (b bench) poisoned(n int) View {
	b.t.Helper()
	x := make([]uint32, n)
	for i := range x {
		x[i] = 0x7fc0dead
	}
	return b.u32(x)
}

// run records, builds and runs once, and brings back the views named.
func (b bench) run(record func(*Recorder), outs ...View) []webgpu.Memory {
	b.t.Helper()
	r := NewRecorder("test", b.dev.Info())
	record(r)
	built, err := Build(b.dev, r)
	if err != nil {
		b.t.Fatal(err)
	}
	defer built.Free()
	var mems []webgpu.Memory
	var regions []webgpu.Region
	for _, o := range outs {
		m := webgpu.NewMemory(o.Size)
		mems = append(mems, m)
		regions = append(regions, webgpu.Region{Buffer: o.Buffer, Offset: o.Offset, Dst: m.Bytes()})
	}
	if err := b.dev.Run(built.Programs, regions...); err != nil {
		b.t.Fatal(err)
	}
	return mems
}

// thrice is run, and twice the same again: nothing may hang on what was there before.
func (b bench) thrice(record func(*Recorder), outs ...View) []webgpu.Memory {
	b.t.Helper()
	first := b.run(record, outs...)
	for range 2 {
		for i, again := range b.run(record, outs...) {
			sameBits(b.t, "run again", again, first[i])
		}
	}
	return first
}

// ways are how a device shares the work of kernels whose reference is one for both ways.
func ways(dev webgpu.Device) []Lanes {
	if dev.Info().Backend == "cpu" {
		return []Lanes{Serial}
	}
	return []Lanes{Serial, Grouped}
}

func (b bench) free(views ...View) {
	for _, v := range views {
		b.dev.FreeBuffer(v.Buffer)
	}
}

// normals draws n floats with a few outliers a hundred times larger, as
// activations have.
func normals(seed uint64, n int) []float32 {
	rng := rand.New(rand.NewPCG(seed, 1))
	x := make([]float32, n)
	for i := range x {
		x[i] = float32(rng.NormFloat64())
		if rng.IntN(97) == 0 {
			x[i] *= 100
		}
	}
	return x
}

// close fails the test where got is further than tol (relative to scale) from want.
func closeTo(t *testing.T, what string, got, want []float32, tol, scale float64) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("%s: %d values for %d", what, len(got), len(want))
	}
	for i := range got {
		g, w := float64(got[i]), float64(want[i])
		if math.IsNaN(g) != math.IsNaN(w) || math.Abs(g-w) > tol*math.Max(math.Abs(w), scale) {
			t.Fatalf("%s: [%d] = %g, reference says %g", what, i, g, w)
		}
	}
}

// sameBits fails the test where two outputs differ in any bit.
func sameBits(t *testing.T, what string, got, want []uint32) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("%s: %d words for %d", what, len(got), len(want))
	}
	for i := range got {
		if got[i] != want[i] {
			t.Fatalf("%s: word %d is %#x (%g), alone it was %#x (%g)", what, i, got[i], math.Float32frombits(got[i]), want[i], math.Float32frombits(want[i]))
		}
	}
}

// batchSizes are the row counts at which bits are compared with one row alone.
var batchSizes = []int{1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 31, 32, 33, 48, 63, 64}

// invariant checks that a kernel gives each of 64 rows the same bits alone
// and in batches of every size, wherever the row stands in the batch. rows(from, n) must
// run the kernel on rows [from, from+n) (mod 64) and return width words a row.
func invariant(t *testing.T, width int, rows func(order []int) []uint32) {
	t.Helper()
	alone := make([][]uint32, 64)
	for i := range alone {
		alone[i] = append([]uint32(nil), rows([]int{i})...)
	}
	sizes := batchSizes
	if !testing.Short() {
		sizes = nil
		for m := 1; m <= 64; m++ {
			sizes = append(sizes, m)
		}
	}
	rng := rand.New(rand.NewPCG(64, 64))
	for _, m := range sizes {
		order := rng.Perm(64)[:m]
		got := rows(order)
		for at, row := range order {
			sameBits(t, fmt.Sprintf("row %d at place %d of %d", row, at, m), got[at*width:(at+1)*width], alone[row])
		}
	}
}

// gather picks rows of width elements in the given order.
func gather[T any](x []T, width int, order []int) []T {
	var out []T
	for _, row := range order {
		out = append(out, x[row*width:(row+1)*width]...)
	}
	return out
}

// bits views floats as words.
func bits(x []float32) []uint32 {
	out := make([]uint32, len(x))
	for i, v := range x {
		out[i] = math.Float32bits(v)
	}
	return out
}
