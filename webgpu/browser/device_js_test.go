package browser

import (
	"context"
	"errors"
	"os"
	"testing"
	"time"

	"foretoken/webgpu"
	"foretoken/webgpu/devicetest"
)

// open opens a device or skips, saying why. FORETOKEN_REQUIRE_GPU=1 makes
// missing WebGPU a failure, for browsers that are known to have it.
func open(t testing.TB, o Options) *Device {
	t.Helper()
	d, err := Open(context.Background(), o)
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

func TestReadTimeout(t *testing.T) {
	devicetest.Timeout(t, func(t *testing.T, timeout time.Duration) webgpu.Device {
		return open(t, Options{ReadTimeout: timeout})
	})
}

func TestOpenCancelled(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if d, err := Open(ctx, Options{}); !errors.Is(err, context.Canceled) {
		t.Fatalf("Open with a cancelled context: %v, %v", d, err)
	}
	open(t, Options{}) // and another one opens
}
