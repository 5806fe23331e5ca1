package open

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"testing"

	"foretoken/webgpu"
)

func TestDevice(t *testing.T) {
	ctx := context.Background()
	cpu, note, err := Device(ctx, "cpu")
	if err != nil || note != "" || cpu.Info().Backend != "cpu" {
		t.Fatalf("cpu: %v, note %q, %v", cpu, note, err)
	}
	cpu.Destroy()

	_, _, err = Device(ctx, "abacus")
	if err == nil || !strings.Contains(err.Error(), `"abacus": want one of `+strings.Join(Kinds, ", ")) {
		t.Errorf("an unknown kind: %v", err)
	}

	for _, threads := range []int{-1, MaxThreads + 1} {
		_, _, err = Options{Threads: threads}.Device(ctx, "cpu")
		if err == nil || !strings.Contains(err.Error(), "threads: "+strconv.Itoa(threads)) {
			t.Errorf("%d threads: %v", threads, err)
		}
	}

	_, _, err = Options{Timeout: -1}.Device(ctx, "cpu")
	if err == nil || !strings.Contains(err.Error(), "timeout: -1ns, want") {
		t.Errorf("a timeout below 0: %v", err)
	}

	want, _, missing := Device(ctx, Accelerator)
	if missing != nil {
		if want != nil || !errors.Is(missing, webgpu.ErrUnavailable) {
			t.Fatalf("%s: %v, %v", Accelerator, want, missing)
		}
	} else {
		defer want.Destroy()
		if b := want.Info().Backend; b != Accelerator {
			t.Errorf("%s opened a device of backend %s", Accelerator, b)
		}
	}
	auto, note, err := Device(ctx, "auto")
	if err != nil {
		t.Fatal(err)
	}
	defer auto.Destroy()
	fellBack, noGPU := auto.Info().Backend == "cpu", missing != nil || want.Info().Software
	if fellBack != noGPU || fellBack != strings.Contains(note, "GPU found: ") {
		t.Errorf("auto opened %s with note %q, while %s gives: %v", auto.Info().Backend, note, Accelerator, missing)
	}
	t.Logf("auto: %s (%s), note %q", auto.Info().Backend, auto.Info().Adapter, note)
}
