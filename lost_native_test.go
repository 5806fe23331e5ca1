//go:build !js

package foretoken

import (
	"context"
	"testing"
	"time"

	"foretoken/models/demo"
	"foretoken/webgpu"
	"foretoken/webgpu/kernels/kerneltest"
	"foretoken/webgpu/open"
)

// TestLostNatively loses the accelerator's own device under the built-in pair: before a request, between rounds and
// during a run. A session with a fast start, whose warmup begins again, loses it at the first two. Recovery takes less
// than a minute and reports its time.
func TestLostNatively(t *testing.T) {
	ctx := context.Background()
	reopen := func(ctx context.Context) (webgpu.Device, error) {
		dev, _, err := open.Device(ctx, open.Accelerator)
		return dev, err
	}
	for _, fastStart := range []bool{false, true} {
		var losses []Loss
		s := openPair(t, kerneltest.OwnAccelerator(t), demo.Target(), demo.Draft(), Options{FastStart: fastStart,
			Reopen: reopen, Lost: func(l Loss) { losses = append(losses, l) }})
		r := DefaultRequest()
		r.Temperature, r.Seed, r.MaxTokens = 0.8, 5, 32
		const prompt = "package main\n\nimport \"fmt\"\n\nfunc main() {\n\tfor i := 0; i < 10; i++ {\n"
		want, err := s.Generate(ctx, prompt, r, nil)
		if err != nil {
			t.Fatal(err)
		}
		places := []string{"idle", "round", "run"}
		if fastStart {
			places = places[:2]
		}
		for _, where := range places {
			if where == "idle" {
				s.pair.Device.Destroy()
			}
			dev, rounds := s.pair.Device, 0
			got, err := s.Generate(ctx, prompt, r, func(*Event) error {
				rounds++
				switch {
				case where == "round" && rounds == 4:
					dev.Destroy()
				case where == "run" && rounds == 4:
					go dev.Destroy()
				}
				return nil
			})
			if err != nil {
				t.Fatalf("fast start %v, %s: %v", fastStart, where, err)
			}
			if got.Text != want.Text || where != "run" && got.Stats.Recoveries != map[string]int{"round": 1}[where] {
				t.Fatalf("fast start %v, %s, %d recoveries:\n%q\nwithout a loss\n%q", fastStart, where,
					got.Stats.Recoveries, got.Text, want.Text)
			}
		}
		for _, l := range losses {
			t.Logf("fast start %v: %s", fastStart, l)
			if l.Took > time.Minute {
				t.Errorf("recovery took %v", l.Took)
			}
		}
		if n := len(losses); n < 4 { // the last loss may come after the last round
			t.Errorf("reported %v", losses)
		}
	}
}
