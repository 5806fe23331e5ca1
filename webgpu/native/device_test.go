//go:build !js

package native

import (
	"errors"
	"os"
	"runtime"
	"testing"
	"time"

	"foretoken/webgpu"
	"foretoken/webgpu/devicetest"
)

// open opens a device or skips, saying why. FORETOKEN_REQUIRE_NATIVE=1 makes a
// missing adapter a failure, for machines that are known to have one.
func open(t testing.TB, o Options) *Device {
	t.Helper()
	d, err := Open(o)
	if err != nil {
		if os.Getenv("FORETOKEN_REQUIRE_NATIVE") != "1" && errors.Is(err, webgpu.ErrUnavailable) {
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
	if _, err := Open(Options{Adapter: "no adapter has this name"}); !errors.Is(err, webgpu.ErrUnavailable) {
		t.Errorf("an adapter that is not there: %v", err)
	}
}

// TestReadTimeout gives a run less time than it takes: it must fail in time,
// and the device must work again when it has caught up.
func TestReadTimeout(t *testing.T) {
	devicetest.Timeout(t, func(t *testing.T, patience time.Duration) webgpu.Device {
		return open(t, Options{ReadTimeout: patience})
	})
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

func BenchmarkDevice(b *testing.B) {
	devicetest.Bench(b, func(b *testing.B) webgpu.Device { return open(b, Options{}) })
}
