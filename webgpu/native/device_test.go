//go:build cgo && !js

package native

import (
	"errors"
	"os"
	"runtime"
	"slices"
	"testing"
	"time"

	"foretoken/webgpu"
	"foretoken/webgpu/devicetest"
)

// open opens a device or skips, saying why. FORETOKEN_REQUIRE_GPU=1 makes a
// missing adapter a failure, for machines that are known to have one.
func open(t testing.TB, o Options) *Device {
	t.Helper()
	d, err := Open(o)
	if err != nil {
		if os.Getenv("FORETOKEN_REQUIRE_GPU") != "1" && errors.Is(err, webgpu.ErrUnavailable) {
			t.Skip(err)
		}
		t.Fatal(err)
	}
	t.Cleanup(d.Destroy)
	return d
}

func TestConformance(t *testing.T) {
	devicetest.Run(t, func(t *testing.T) webgpu.Device { return open(t, Options{}) })
}

func TestAdapters(t *testing.T) {
	d := open(t, Options{})
	infos, err := Adapters()
	if err != nil {
		t.Fatal(err)
	}
	for _, i := range infos {
		t.Logf("%+v", i)
	}
	if len(infos) == 0 || infos[0].Adapter != d.Info().Adapter {
		t.Errorf("Open takes %q, the first of the list is %v", d.Info().Adapter, infos)
	}
}

// TestReadTimeout gives a run less time than it takes: it must fail in time,
// and the device must work again when it has caught up.
func TestReadTimeout(t *testing.T) {
	devicetest.Timeout(t, func(t *testing.T, timeout time.Duration) webgpu.Device {
		return open(t, Options{ReadTimeout: timeout})
	})
}

// TestLongRun has one submit take longer than the five seconds after which the library's own
// wait takes it for done.
func TestLongRun(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes ten seconds")
	}
	d := open(t, Options{ReadTimeout: 30 * time.Minute}) // however slow the machine becomes meanwhile
	y, err := d.NewBuffer("y", 4, webgpu.Storage)
	if err != nil {
		t.Fatal(err)
	}
	kernel, err := devicetest.NewKernel(d, &webgpu.KernelSource{Name: "count slowly", Key: "count slowly",
		Bindings: []webgpu.Access{webgpu.ReadWrite}, WGSL: devicetest.Text(`
@group(0) @binding(0) var<storage, read_write> y: array<u32>;

@compute @workgroup_size(1)
fn main() {
    var x = y[0];
    for (var i = 0u; i < 60000u; i = i + 1u) { x = x * 1664525u + 1013904223u; }
    y[0] = y[0] + select(1u, 2u, x == 77u && y[0] > 4000000000u);
}
`), Reference: func([3]int, []webgpu.Memory) {}})
	if err != nil {
		t.Fatal(err)
	}
	var dispatches []webgpu.Dispatch
	for range 100 {
		dispatches = append(dispatches, webgpu.Dispatch{Kernel: kernel,
			Bindings: []webgpu.Binding{{Buffer: y, Size: 4}}, Groups: [3]int{1, 1, 1}})
	}
	program, err := d.NewProgram("count slowly", dispatches)
	if err != nil {
		t.Fatal(err)
	}
	want, got := uint32(0), []uint32{0}
	run := func(times int) time.Duration {
		t.Helper()
		start := time.Now()
		if err := d.Run(slices.Repeat([]webgpu.Program{program}, times),
			webgpu.Region{Buffer: y, Dst: webgpu.U32Bytes(got)}); err != nil {
			t.Fatal(err)
		}
		if want += uint32(100 * times); got[0] != want {
			t.Fatalf("%d runs left %d, want %d", times, got[0], want)
		}
		return time.Since(start)
	}
	run(1)
	times := int(10*time.Second/max(run(4)/4, time.Microsecond)) + 1
	t.Logf("%d runs took %v", times, run(times))
}

// TestCollectionsWhileMapping has the garbage collector run all the time, for
// the library holds pointers that the collector knows nothing of.
func TestCollectionsWhileMapping(t *testing.T) {
	d := open(t, Options{})
	b, err := d.NewBuffer("b", 4096, webgpu.Storage)
	if err != nil {
		t.Fatal(err)
	}
	stop := make(chan struct{})
	defer close(stop)
	go func() {
		for {
			select {
			case <-stop:
				return
			default:
				runtime.GC()
			}
		}
	}()
	for i := range 200 {
		want, got := []uint32{uint32(i)}, []uint32{0}
		if err := d.Write(b, 4*i, webgpu.U32Bytes(want)); err != nil {
			t.Fatal(err)
		}
		if err := d.Run(nil, webgpu.Region{Buffer: b, Offset: 4 * i, Dst: webgpu.U32Bytes(got)}); err != nil {
			t.Fatal(err)
		}
		if got[0] != want[0] {
			t.Fatalf("read %d, want %d", got[0], want[0])
		}
	}
}
