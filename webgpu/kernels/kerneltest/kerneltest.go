// Package kerneltest is the test harness of the kernel packages: devices, buffers, random weights and logits, and
// checks that a row has the same bits in every batch.
package kerneltest

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"foretoken/webgpu"
	"foretoken/webgpu/kernels"
	"foretoken/webgpu/open"
	"foretoken/webgpu/simd"
)

// Full reports whether FORETOKEN_FULL=1 requests every combination. These tests spend nearly all of their time
// compiling, so by default they skip combinations whose parts are tested in other combinations of the same test.
func Full() bool { return os.Getenv("FORETOKEN_FULL") != "" }

// CountsDraws skips a test that counts draws in short runs, those of a browser, where a count takes seconds. The
// kernels' draws are compared with float64 there too, by other tests; FORETOKEN_FULL=1 counts them.
func CountsDraws(t *testing.T) {
	if testing.Short() && !Full() {
		t.Skip("counts draws")
	}
}

// OnDevices runs a test on the reference device, on the cpu device, where dispatches must write the same bytes in as
// many parts as a page has threads at most as in one, and on the build's own device, whose absence is a failure under
// FORETOKEN_REQUIRE_GPU=1.
// References are the same Go on every platform, so short runs, which include those in a browser, skip them. A browser
// also skips the cpu device without FORETOKEN_FULL=1: TestBits of package simd compares its bits there with those that
// this test gets natively.
func OnDevices(t *testing.T, test func(t *testing.T, dev webgpu.Device)) {
	onDevices(t, simd.Options{Parts: 8}, !testing.Short(), test)
}

// ModelOnDevices is OnDevices for tests of models, whose many dispatches run once, on two threads. They run on the
// reference device under FORETOKEN_FULL=1: tests of kernels compare each of its references.
func ModelOnDevices(t *testing.T, test func(t *testing.T, dev webgpu.Device)) {
	onDevices(t, simd.Options{Threads: 2}, Full(), test)
}

func onDevices(t *testing.T, cpu simd.Options, references bool, test func(t *testing.T, dev webgpu.Device)) {
	if references {
		t.Run("reference", func(t *testing.T) {
			test(t, Reference(t))
		})
	}
	if open.Accelerator != "browser" || Full() {
		t.Run("cpu", func(t *testing.T) {
			dev := cpuDevice(t, cpu)
			test(t, dev)
			complete(t, dev)
		})
	}
	t.Run(open.Accelerator, func(t *testing.T) { test(t, Accelerator(t)) })
}

// CPU returns a cpu device of one thread, which the test's end destroys.
func CPU(t testing.TB) webgpu.Device { return cpuDevice(t, simd.Options{}) }

// Reference returns a reference device, which the test's end destroys.
func Reference(t testing.TB) *simd.Device { return cpuDevice(t, simd.Options{Form: simd.Reference}) }

func cpuDevice(t testing.TB, o simd.Options) *simd.Device {
	t.Helper()
	dev, err := simd.Open(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(dev.Destroy)
	return dev
}

// complete fails the test if dispatches ran their references. The example of this package is not in the module.
func complete(t *testing.T, dev webgpu.Device) {
	if folder, err := os.Getwd(); err != nil || filepath.Base(folder) == "kerneltest" {
		return
	}
	if n := dev.Counters().Fallbacks; n > 0 {
		t.Errorf("%d dispatches ran their references: the module of package simd lacks their kernels", n)
	}
}

var (
	sharing sync.Mutex
	shared  webgpu.Device
)

// Accelerator returns the build's own device, or skips the test. The tests of a program share it, one after the other,
// so that each kernel compiles once; no test may destroy it. A lost device fails one test: the next one opens another.
func Accelerator(t testing.TB) webgpu.Device {
	t.Helper()
	sharing.Lock()
	defer sharing.Unlock()
	if shared == nil || shared.Lost() != nil {
		shared = opened(t)
	}
	return shared
}

// OwnAccelerator is Accelerator for tests that lose the device, or count what it holds or compiles.
func OwnAccelerator(t testing.TB) webgpu.Device {
	t.Helper()
	dev := opened(t)
	t.Cleanup(dev.Destroy)
	return dev
}

func opened(t testing.TB) webgpu.Device {
	t.Helper()
	dev, _, err := open.Device(context.Background(), open.Accelerator)
	if err != nil {
		if os.Getenv("FORETOKEN_REQUIRE_GPU") != "" {
			t.Fatal(err)
		}
		t.Skip(err)
	}
	return dev
}

// New makes buffers on a device for a test or a benchmark.
func New(t testing.TB, dev webgpu.Device) Bench { return Bench{t, dev} }

// Bench runs one kernel under test and holds its buffers.
type Bench struct {
	T   testing.TB
	Dev webgpu.Device
}

func (b Bench) view(label string, data []byte) kernels.View {
	b.T.Helper()
	buf, err := b.Dev.NewBuffer(label, len(data), webgpu.Storage)
	if err != nil {
		b.T.Fatal(err)
	}
	if err := b.Dev.Write(buf, 0, data); err != nil {
		b.T.Fatal(err)
	}
	return kernels.View{Buffer: buf, Size: len(data)}
}

func (b Bench) F32(x []float32) kernels.View {
	b.T.Helper()
	return b.view("floats", webgpu.F32Bytes(x))
}
func (b Bench) U32(x []uint32) kernels.View { b.T.Helper(); return b.view("words", webgpu.U32Bytes(x)) }

// Poisoned makes an output of n words with a pattern that no kernel writes by chance.
func (b Bench) Poisoned(n int) kernels.View {
	b.T.Helper()
	x := make([]uint32, n)
	for i := range x {
		x[i] = 0x7fc0dead
	}
	return b.U32(x)
}

// roundedWords is enough for the packed rows of 64 rows of 2,304 activations.
const roundedWords = 64 * 2304 / 32 * 20

// Run records, builds and runs once, and returns the contents of the given views.
func (b Bench) Run(record func(*kernels.Recorder), outs ...kernels.View) []webgpu.Memory {
	b.T.Helper()
	r := kernels.NewRecorder("test", b.Dev.Info())
	if !b.Dev.Info().Host() {
		r.Rounded = b.Poisoned(roundedWords)
		defer b.Free(r.Rounded)
	}
	record(r)
	built, err := kernels.Build(b.Dev, r)
	if err != nil {
		b.T.Fatal(err)
	}
	defer built.Free()
	var mems []webgpu.Memory
	var regions []webgpu.Region
	for _, o := range outs {
		m := webgpu.NewMemory(o.Size)
		mems = append(mems, m)
		regions = append(regions, webgpu.Region{Buffer: o.Buffer, Offset: o.Offset, Dst: m.Bytes()})
	}
	if err := b.Dev.Run(built.Programs, regions...); err != nil {
		b.T.Fatal(err)
	}
	return mems
}

// Thrice is Run three times: the result must not depend on earlier contents.
func (b Bench) Thrice(record func(*kernels.Recorder), outs ...kernels.View) []webgpu.Memory {
	b.T.Helper()
	first := b.Run(record, outs...)
	for range 2 {
		for i, again := range b.Run(record, outs...) {
			SameBits(b.T, "run again", again, first[i])
		}
	}
	return first
}

// Ways returns the lanes to test on a device; the cpu device runs the same reference for both.
func Ways(dev webgpu.Device) []kernels.Lanes {
	if dev.Info().Host() {
		return []kernels.Lanes{kernels.Serial}
	}
	return []kernels.Lanes{kernels.Serial, kernels.Grouped}
}

func (b Bench) Free(views ...kernels.View) {
	for _, v := range views {
		b.Dev.FreeBuffer(v.Buffer)
	}
}

// Normals draws n normal floats, with a few outliers a hundred times larger, like activations.
func Normals(seed uint64, n int) []float32 {
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

// CloseTo fails the test if got differs from want by more than tol (relative to scale).
func CloseTo(t testing.TB, what string, got, want []float32, tol, scale float64) {
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

// SameBits fails the test if two outputs differ in any bit.
func SameBits(t testing.TB, what string, got, want []uint32) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("%s: %d words for %d", what, len(got), len(want))
	}
	for i := range got {
		if got[i] != want[i] {
			t.Fatalf("%s: word %d is %#x (%g), alone it was %#x (%g)", what, i, got[i], math.Float32frombits(got[i]),
				want[i], math.Float32frombits(want[i]))
		}
	}
}

// BatchSizes lists numbers of rows: tests compare the bits of so many rows with the bits of single rows.
var BatchSizes = []int{1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 31, 32, 33, 48, 63, 64}

// Invariant checks that a kernel computes the same bits for each of 64 rows alone and in batches of every size, at
// every place in the batch; in short runs for every fourth row and in batches of BatchSizes. rows must run the kernel
// on the rows in the given order and return width words a row.
func Invariant(t testing.TB, width int, rows func(order []int) []uint32) {
	t.Helper()
	alone := make([][]uint32, 64)
	sizes, every := BatchSizes, 4
	if !testing.Short() {
		sizes, every = nil, 1
		for m := 1; m <= 64; m++ {
			sizes = append(sizes, m)
		}
	}
	for i := 0; i < len(alone); i += every {
		alone[i] = append([]uint32(nil), rows([]int{i})...)
	}
	rng := rand.New(rand.NewPCG(64, 64))
	for _, m := range sizes {
		order := rng.Perm(64)[:m]
		got := rows(order)
		for at, row := range order {
			if alone[row] == nil {
				continue
			}
			SameBits(t, fmt.Sprintf("row %d at place %d of %d", row, at, m), got[at*width:(at+1)*width], alone[row])
		}
	}
}

// Gather picks rows of width elements in the given order.
func Gather[T any](x []T, width int, order []int) []T {
	var out []T
	for _, row := range order {
		out = append(out, x[row*width:(row+1)*width]...)
	}
	return out
}

// Bits views floats as words.
func Bits(x []float32) []uint32 {
	out := make([]uint32, len(x))
	for i, v := range x {
		out[i] = math.Float32bits(v)
	}
	return out
}
