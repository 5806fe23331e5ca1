package browser

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/hack-pad/safejs"

	"foretoken/webgpu"
)

// must returns a JavaScript value that a test cannot do without.
func must(t *testing.T) func(safejs.Value, error) safejs.Value {
	return func(v safejs.Value, err error) safejs.Value {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

// standIn replaces navigator.gpu for the rest of a test.
func standIn(t *testing.T, gpu any) {
	t.Helper()
	object := must(t)(safejs.Global().Get("Object"))
	navigator := must(t)(safejs.Global().Get("navigator"))
	must(t)(object.Call("defineProperty", navigator, "gpu", map[string]any{"value": gpu, "configurable": true}))
	t.Cleanup(func() { _ = navigator.Delete("gpu") }) // the real one is the prototype's
}

func unavailable(t *testing.T, words ...string) {
	t.Helper()
	d, err := Open(context.Background(), Options{})
	if d != nil || !errors.Is(err, webgpu.ErrUnavailable) {
		t.Fatalf("Open: %v, %v", d, err)
	}
	for _, w := range words {
		if !strings.Contains(err.Error(), w) {
			t.Errorf("the error does not say %q: %v", w, err)
		}
	}
	t.Log(err)
}

func TestNoWebGPU(t *testing.T) {
	standIn(t, safejs.Undefined())
	unavailable(t, "browser has no WebGPU")
}

func TestNoAdapter(t *testing.T) {
	none, err := safejs.FuncOf(func(safejs.Value, []safejs.Value) any { return safejs.Null() })
	if err != nil {
		t.Fatal(err)
	}
	defer none.Release()
	standIn(t, map[string]any{"requestAdapter": none})
	unavailable(t, "no graphics adapter")
}

func TestNoScript(t *testing.T) {
	script := must(t)(safejs.Global().Get("foretokenReplay"))
	if err := safejs.Global().Delete("foretokenReplay"); err != nil {
		t.Fatal(err)
	}
	defer safejs.Global().Set("foretokenReplay", script)
	unavailable(t, "replay.js")
}

// words makes a device with a buffer of one word.
func words(t *testing.T) (*Device, webgpu.Buffer) {
	d := open(t, Options{})
	b, err := d.NewBuffer("words", 4, webgpu.Storage)
	if err != nil {
		t.Fatal(err)
	}
	return d, b
}

// TestHurry counts how often the browser is asked for an answer: on a GPU while a run is awaited, on a software adapter
// never.
func TestHurry(t *testing.T) {
	d, b := words(t)
	device := must(t)(d.bridge.replay.Get("device"))
	pop := must(t)(must(t)(device.Get("popErrorScope")).Call("bind", device))
	asked := 0
	count, err := safejs.FuncOf(func(safejs.Value, []safejs.Value) any {
		asked++
		v, _ := pop.Invoke()
		return safejs.Unsafe(v)
	})
	if err != nil {
		t.Fatal(err)
	}
	defer count.Release()
	if err := device.Set("popErrorScope", count); err != nil {
		t.Fatal(err)
	}
	for _, hurries := range []bool{true, false} {
		if err := d.bridge.replay.Set("hurries", hurries); err != nil {
			t.Fatal(err)
		}
		asked = 0
		for range 10 {
			if err := d.Run(nil, webgpu.Region{Buffer: b, Dst: make([]byte, 4)}); err != nil {
				t.Fatal(err)
			}
		}
		if (asked >= 10) != hurries {
			t.Errorf("hurrying %v: ten runs asked %d times", hurries, asked)
		}
	}
}

// TestLostByTheBrowser loses the device as a driver's crash would.
func TestLostByTheBrowser(t *testing.T) {
	d, b := words(t)
	device := must(t)(d.bridge.replay.Get("device"))
	must(t)(device.Call("destroy"))
	start := time.Now()
	err := d.Run(nil, webgpu.Region{Buffer: b, Dst: make([]byte, 4)})
	if !errors.Is(err, webgpu.ErrDeviceLost) || time.Since(start) > 5*time.Minute {
		t.Fatalf("Run after %v: %v", time.Since(start), err)
	}
	if !errors.Is(d.Lost(), webgpu.ErrDeviceLost) {
		t.Errorf("Lost: %v", d.Lost())
	}
	if _, err := d.NewBuffer("late", 4, webgpu.Storage); !errors.Is(err, webgpu.ErrDeviceLost) {
		t.Errorf("NewBuffer: %v", err)
	}
}

// TestLateErrors shows that an error which belongs to no call is returned by the next one, once.
func TestLateErrors(t *testing.T) {
	d, b := words(t)
	global := safejs.Global()
	cause := must(t)(must(t)(global.Get("GPUValidationError")).New("made up by a test"))
	event := must(t)(must(t)(global.Get("GPUUncapturedErrorEvent")).New("uncapturederror",
		map[string]any{"error": cause, "cancelable": true}))
	device := must(t)(d.bridge.replay.Get("device"))
	must(t)(device.Call("dispatchEvent", event))
	if err := d.Write(b, 0, make([]byte, 4)); err == nil || !strings.Contains(err.Error(), "made up by a test") {
		t.Fatalf("the call after the error: %v", err)
	}
	if err := d.Write(b, 0, make([]byte, 4)); err != nil {
		t.Fatalf("the call after that: %v", err)
	}
}

// TestExceptionInSubmit shows that what JavaScript throws in the middle of a run is an error of that run.
func TestExceptionInSubmit(t *testing.T) {
	d, b := words(t)
	buffers := must(t)(d.bridge.replay.Get("buffers"))
	n := int(d.lastID)
	kept := must(t)(buffers.Index(n))
	if err := buffers.SetIndex(n, safejs.Undefined()); err != nil {
		t.Fatal(err)
	}
	err := d.Run(nil, webgpu.Region{Buffer: b, Dst: make([]byte, 4)})
	if err == nil || errors.Is(err, webgpu.ErrTimeout) {
		t.Fatalf("Run: %v", err)
	}
	t.Log(err)
	if err := buffers.SetIndex(n, kept); err != nil {
		t.Fatal(err)
	}
	if err := d.Run(nil, webgpu.Region{Buffer: b, Dst: make([]byte, 4)}); err != nil {
		t.Fatalf("the run after it: %v", err)
	}
}
