package devicetest

import (
	"math"
	"slices"
	"testing"

	"foretoken/webgpu"
)

func testInfo(t *testing.T, dev webgpu.Device) {
	info := dev.Info()
	t.Logf("%+v", info)
	if !slices.Contains([]string{"browser", "native", "cpu", "reference"}, info.Backend) {
		t.Errorf("backend %q", info.Backend)
	}
	if info.Adapter == "" {
		t.Error("the adapter has no name")
	}
	if !slices.IsSorted(info.Features) {
		t.Errorf("features are not sorted: %v", info.Features)
	}
	for _, f := range info.Features {
		if !info.Has(f) {
			t.Errorf("Has(%q) is false", f)
		}
	}
	if info.Has("no-such-feature") {
		t.Error("Has reports a feature that is not there")
	}
	floor, l := webgpu.DefaultLimits(), info.Limits
	for _, c := range []struct {
		name         string
		got, atLeast int
	}{
		{"MaxBindingSize", l.MaxBindingSize, floor.MaxBindingSize},
		{"MaxBufferSize", l.MaxBufferSize, floor.MaxBufferSize},
		{"MaxStorageBuffers", l.MaxStorageBuffers, floor.MaxStorageBuffers},
		{"MaxWorkgroupStorage", l.MaxWorkgroupStorage, floor.MaxWorkgroupStorage},
		{"MaxWorkgroupInvocations", l.MaxWorkgroupInvocations, floor.MaxWorkgroupInvocations},
		{"MaxWorkgroupsPerDim", l.MaxWorkgroupsPerDim, floor.MaxWorkgroupsPerDim},
	} {
		if c.got < c.atLeast || c.got > math.MaxInt32 {
			t.Errorf("%s is %d, want %d to 2³¹-1", c.name, c.got, c.atLeast)
		}
	}
	if err := dev.Lost(); err != nil {
		t.Errorf("a new device is lost: %v", err)
	}
	if c := dev.Counters(); c != (webgpu.Counters{}) {
		t.Errorf("a new device has counted %+v", c)
	}
}

func testZeroed(t *testing.T, dev webgpu.Device) {
	h := h{t, dev}
	const n = 5000
	for range 3 { // freed memory must not return with its contents
		b := h.buffer("zeroed", 4*n, webgpu.Storage)
		equal(t, "new buffer", h.read(b, 0, n), make([]uint32, n))
		dirty := make([]uint32, n)
		for i := range dirty {
			dirty[i] = ^uint32(i)
		}
		h.write(b, 0, dirty...)
		equal(t, "written buffer", h.read(b, 0, n), dirty)
		dev.FreeBuffer(b)
	}
	odd := h.buffer("odd size", 6, webgpu.Storage)
	equal(t, "size rounded up", h.read(odd, 0, 2), []uint32{0, 0})
}

func testPartialWrites(t *testing.T, dev webgpu.Device) {
	h := h{t, dev}
	b := h.words("partial", 1, 2, 3, 4, 5, 6, 7, 8)
	h.write(b, 8, 30, 40)
	h.write(b, 12, 41, 50) // overlaps the write before
	h.write(b, 28, 80)
	h.write(b, 0)
	equal(t, "after partial writes", h.read(b, 0, 8), []uint32{1, 2, 30, 41, 50, 6, 7, 80})

	// Write copies, so the caller may change the slice afterwards.
	data := []uint32{100}
	if err := dev.Write(b, 0, webgpu.U32Bytes(data)); err != nil {
		t.Fatal(err)
	}
	data[0] = 999
	equal(t, "data changed after Write", h.read(b, 0, 1), []uint32{100})
}

func testLargeWrites(t *testing.T, dev webgpu.Device) {
	h := h{t, dev}
	const n = 3<<20 + 17 // words: 12 MiB and a bit
	x := make([]uint32, n)
	for i := range x {
		x[i] = uint32(i) * 2654435761
	}
	b := h.buffer("large", 4*n, webgpu.Storage)
	h.write(b, 0, x...)
	h.write(b, 4<<20, 1, 2, 3) // after the large one
	copy(x[1<<20:], []uint32{1, 2, 3})
	equal(t, "large write", h.read(b, 0, n), x)
	if c := dev.Counters(); c.BytesWritten != 4*n+12 || c.BytesRead != 4*n {
		t.Errorf("counted %d bytes written and %d read", c.BytesWritten, c.BytesRead)
	}
}

func testReads(t *testing.T, dev webgpu.Device) {
	h := h{t, dev}
	a := h.words("a", 1, 2, 3, 4)
	b := h.words("b", 10, 20, 30)
	x, y, z, none := make([]uint32, 2), make([]uint32, 1), make([]uint32, 3), []uint32{}
	before := dev.Counters()
	err := dev.Run(nil,
		webgpu.Region{Buffer: a, Offset: 4, Dst: webgpu.U32Bytes(x)},
		webgpu.Region{Buffer: b, Offset: 8, Dst: webgpu.U32Bytes(y)},
		webgpu.Region{Buffer: b, Offset: 0, Dst: webgpu.U32Bytes(none)},
		webgpu.Region{Buffer: a, Offset: 4, Dst: webgpu.U32Bytes(z)})
	if err != nil {
		t.Fatal(err)
	}
	equal(t, "a from word 1", x, []uint32{2, 3})
	equal(t, "b from word 2", y, []uint32{30})
	equal(t, "a from word 1 again", z, []uint32{2, 3, 4})
	after := dev.Counters()
	if after.Submits != before.Submits+1 || after.Reads != before.Reads+1 {
		t.Errorf("one run counted %d submits and %d reads", after.Submits-before.Submits, after.Reads-before.Reads)
	}
}

// testReadsGrow alternates large and small reads.
func testReadsGrow(t *testing.T, dev webgpu.Device) {
	h := h{t, dev}
	const n = 1 << 19
	x := make([]uint32, n)
	for i := range x {
		x[i] = uint32(i)
	}
	b := h.words("numbers", x...)
	for _, m := range []int{1, 100_000, 3, n, 7} {
		equal(t, "read", h.read(b, 4*(n-m), m), x[n-m:])
	}
}

func testWritesBetweenRuns(t *testing.T, dev webgpu.Device) {
	h := h{t, dev}
	p := h.buffer("params", 16, webgpu.Uniform)
	y := h.words("y", 1)
	prog := h.program("affine", dispatch(h.kernel(affine()), 1, p, y))
	want := uint32(1)
	for i := range uint32(50) {
		h.write(p, 0, 1, 3, i)
		h.run(prog) // without reads: the next write must not overtake it
		want = want*3 + i
	}
	h.write(y, 0, 0) // overtakes nothing either
	h.write(y, 0, want)
	h.write(p, 0, 1, 7, 5)
	equal(t, "after 51 runs", h.read(y, 0, 1, prog), []uint32{want*7 + 5})
}

func testFreedWithWritesPending(t *testing.T, dev webgpu.Device) {
	h := h{t, dev}
	keep := h.buffer("kept", 8, webgpu.Storage)
	gone := h.buffer("freed", 8, webgpu.Storage)
	h.write(keep, 0, 1)
	h.write(gone, 0, 2, 3)
	h.write(keep, 4, 4)
	dev.FreeBuffer(gone)
	equal(t, "kept", h.read(keep, 0, 2), []uint32{1, 4})
}

func testReplay(t *testing.T, dev webgpu.Device) {
	h := h{t, dev}
	const n = 1000
	x := h.buffer("x", 4*n, webgpu.Storage)
	y := h.buffer("y", 4*n, webgpu.Storage)
	k := h.kernel(accumulate())
	prog := h.program("accumulate", webgpu.Dispatch{Kernel: k,
		Bindings: []webgpu.Binding{{Buffer: x}, {Buffer: y}}, Groups: [3]int{(n + 63) / 64, 1, 1}})
	want := make([]uint32, n)
	for round := range 20 {
		in := make([]uint32, n)
		for i := range in {
			in[i] = uint32(i*7 + round)
			want[i] = want[i]*3 + in[i]
		}
		h.write(x, 0, in...)
		equal(t, "replayed", h.read(y, 0, n, prog), want)
	}
	// The same program twice in one run.
	for range 2 {
		for i := range want {
			want[i] = want[i]*3 + uint32(i*7+19)
		}
	}
	equal(t, "replayed twice in one run", h.read(y, 0, n, prog, prog), want)
}

func testProgramsSeeEachOther(t *testing.T, dev webgpu.Device) {
	h := h{t, dev}
	a, b, c := h.words("a", 1, 2, 3), h.words("b", 10, 20, 30), h.words("c", 0, 0, 0)
	k := h.kernel(accumulate())
	into := func(label string, from, to webgpu.Buffer) webgpu.Program {
		return h.program(label, dispatch(k, 1, from, to))
	}
	ab, bc, ca := into("a to b", a, b), into("b to c", b, c), into("c to a", c, a)
	// b = 3b+a = 31 62 93; c = 3c+b = 31 62 93; a = 3a+c = 34 68 102
	equal(t, "through three programs", h.read(a, 0, 3, ab, bc, ca), []uint32{34, 68, 102})
	// Other orders of the same programs give other results.
	equal(t, "in reverse", h.read(c, 0, 3, ca, bc), []uint32{124, 248, 372})
}

func testManyDispatches(t *testing.T, dev webgpu.Device) {
	h := h{t, dev}
	const n = 600
	params := h.buffer("params", n*webgpu.BindingAlign, webgpu.Uniform)
	y := h.words("y", 5)
	k := h.kernel(affine())
	want := uint32(5)
	var dispatches []webgpu.Dispatch
	for i := range n {
		h.write(params, i*webgpu.BindingAlign, 1, 3, uint32(i))
		want = want*3 + uint32(i)
		dispatches = append(dispatches, webgpu.Dispatch{Kernel: k, Groups: [3]int{1, 1, 1},
			Bindings: []webgpu.Binding{{Buffer: params, Offset: i * webgpu.BindingAlign, Size: 16}, {Buffer: y}}})
	}
	equal(t, "a chain of dispatches", h.read(y, 0, 1, h.program("chain", dispatches...)), []uint32{want})
}

func testWorkgroupCounts(t *testing.T, dev webgpu.Device) {
	h := h{t, dev}
	k := h.kernel(places())
	for _, groups := range [][3]int{{7, 1, 1}, {1, 5, 1}, {2, 3, 4}, {200, 2, 1}} {
		n := groups[0] * groups[1] * groups[2]
		b := h.buffer("places", 4*n, webgpu.Storage)
		want := []webgpu.Memory{webgpu.NewMemory(4 * n)}
		places().Reference(groups, want)
		prog := h.program("places", webgpu.Dispatch{Kernel: k, Bindings: []webgpu.Binding{{Buffer: b}}, Groups: groups})
		equal(t, "places", h.read(b, 0, n, prog), want[0])
	}
	b := h.words("untouched", 42)
	prog := h.program("none", dispatch(k, 0, b))
	equal(t, "no workgroups", h.read(b, 0, 1, prog), []uint32{42})
	equal(t, "an empty program", h.read(b, 0, 1, h.program("empty")), []uint32{42})
}

// testSaxpy compares with the reference bit for bit. All values are small multiples of 1/8, so that a fused
// multiply-add gives the same bits.
func testSaxpy(t *testing.T, dev webgpu.Device) {
	h := h{t, dev}
	const n, parts = 1000, 3
	params := h.buffer("params", parts*webgpu.BindingAlign, webgpu.Uniform)
	x := h.buffer("x", parts*4096, webgpu.Storage)
	y := h.buffer("y", parts*4096, webgpu.Storage)
	src := saxpy()
	k := h.kernel(src)
	var dispatches []webgpu.Dispatch
	var want []webgpu.Memory
	for part := range parts {
		xs, ys := make([]float32, 1024), make([]float32, 1024)
		for i := range xs {
			xs[i] = float32(i%97-40) / 8
			ys[i] = float32(i%31-10) / 4
		}
		p := []uint32{n, math.Float32bits(float32(part) - 0.5), 0, 0}
		h.write(params, part*webgpu.BindingAlign, p...)
		if err := dev.Write(x, part*4096, webgpu.F32Bytes(xs)); err != nil {
			t.Fatal(err)
		}
		if err := dev.Write(y, part*4096, webgpu.F32Bytes(ys)); err != nil {
			t.Fatal(err)
		}
		groups := [3]int{(n + 63) / 64, 1, 1}
		dispatches = append(dispatches, webgpu.Dispatch{Kernel: k, Groups: groups, Bindings: []webgpu.Binding{
			{Buffer: params, Offset: part * webgpu.BindingAlign, Size: 16},
			{Buffer: x, Offset: part * 4096, Size: 4096},
			{Buffer: y, Offset: part * 4096}}})
		mems := []webgpu.Memory{p, webgpu.NewMemory(4096), webgpu.NewMemory(4096)}
		copy(mems[1].F32(), xs)
		copy(mems[2].F32(), ys)
		src.Reference(groups, mems)
		want = append(want, mems[2])
	}
	prog := h.program("saxpy", dispatches...)
	for part := range parts {
		dst := make([]uint32, 1024)
		programs := []webgpu.Program{prog}
		if part > 0 {
			programs = nil // it has run
		}
		if err := dev.Run(programs, webgpu.Region{Buffer: y, Offset: part * 4096,
			Dst: webgpu.U32Bytes(dst)}); err != nil {
			t.Fatal(err)
		}
		equal(t, "saxpy", dst, want[part])
	}
}
