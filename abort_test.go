//go:build !js

package foretoken

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"foretoken/models/demo"
	"foretoken/spec"
	"foretoken/spec/method"
	"foretoken/webgpu"
	"foretoken/webgpu/kernels/kerneltest"
)

// cutting is a device that calls cut when the nth run since arm begins.
type cutting struct {
	webgpu.Device
	left int
	cut  func()
}

func (d *cutting) arm(n int, cut func()) { d.left, d.cut = n, cut }

func (d *cutting) Run(programs []webgpu.Program, reads ...webgpu.Region) error {
	if d.left > 0 {
		if d.left--; d.left == 0 {
			d.cut()
		}
	}
	return d.Device.Run(programs, reads...)
}

// cutSession opens the built-in pair on a cutting device.
func cutSession(t *testing.T, o Options) (*Session, *cutting) {
	t.Helper()
	d := &cutting{Device: kerneltest.OwnAccelerator(t)}
	s, err := Open(context.Background(), d, demo.Target(), demo.Draft(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s, d
}

// abortCase is a request to abort, with its text when it is not aborted.
type abortCase struct {
	prompt   []int32
	r        Request
	complete []int32
}

// abortCases returns requests after a short and a long prompt, greedy and sampled, with their texts by plain
// decoding.
func abortCases(t *testing.T, s *Session, tokens int) []abortCase {
	t.Helper()
	var all []abortCase
	for _, prompt := range []string{"func main() {\n", "package main\n\n" +
		strings.Repeat("// a line of text that has to be read before anything is said\n", 8)} {
		for _, temperature := range []float64{0, 0.8} {
			a := abortCase{s.tok.Encode(prompt, true),
				Request{Policy: method.DrafterNone, Temperature: temperature, Seed: 5, MaxTokens: tokens}, nil}
			got, err := s.GenerateIDs(context.Background(), a.prompt, a.r, nil)
			if err != nil || len(got.TokenIDs) < 8 {
				t.Fatalf("%q, %v", got.Text, err)
			}
			a.complete = got.TokenIDs
			all = append(all, a)
		}
	}
	return all
}

// aborted generates and aborts: when the nth run on the device begins or, with n 0, after a time; with n -1 before
// generation begins. It returns an error if a round begins after the abort or if the text is not a prefix of the
// complete text.
func (a abortCase) aborted(s *Session, d *cutting, n int, after time.Duration) (*Result, error) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	var gone atomic.Bool
	stop := func() { cancel(); gone.Store(true) } // the abort precedes every event that sees gone
	switch {
	case n < 0:
		stop()
	case n == 0:
		timer := time.AfterFunc(after, stop)
		defer timer.Stop()
	default:
		d.arm(n, stop)
		defer d.arm(0, nil)
	}
	late := 0 // rounds that ended after the abort; one may be in progress
	got, err := s.GenerateIDs(ctx, a.prompt, a.r, func(e *Event) error {
		if gone.Load() && len(e.Tokens) > 0 {
			late++
		}
		return nil
	})
	switch {
	case err != nil:
		return nil, err
	case late > 1:
		return nil, fmt.Errorf("%d rounds ended after the abort", late)
	case len(got.TokenIDs) > len(a.complete) || !slices.Equal(got.TokenIDs, a.complete[:len(got.TokenIDs)]):
		return nil, fmt.Errorf("got %v, want the beginning of %v", got.TokenIDs, a.complete)
	case got.Finish != spec.FinishAborted && !slices.Equal(got.TokenIDs, a.complete):
		return nil, fmt.Errorf("ended by %s after %d of %d tokens", got.Finish, len(got.TokenIDs), len(a.complete))
	case n < 0 && len(got.TokenIDs) > 0:
		return nil, fmt.Errorf("%d tokens were decoded after the abort", len(got.TokenIDs))
	}
	return got, nil
}

// TestAbortsAtRandom aborts requests at random moments: before generation, during prefill, drafting and
// verification, and between rounds. With FORETOKEN_SOAK=1 it aborts a thousand times. No round begins after an
// abort, and the session generates the right text afterwards.
func TestAbortsAtRandom(t *testing.T) {
	times, soak := soaking(t, 16, 1000)
	s, d := cutSession(t, Options{})
	const tokens = 40
	all := abortCases(t, s, tokens)
	random := rand.New(rand.NewPCG(1, 2))
	ends := map[string]int{}
	for i := range times {
		a := all[random.IntN(len(all))]
		a.r.Policy = []string{method.DrafterAuto, method.DrafterNone, method.DrafterChain, method.DrafterEAGLE2,
			method.DrafterNgram}[random.IntN(5)]
		a.r.NoReuse = random.IntN(3) > 0
		n, after := 1+random.IntN(30), time.Duration(0)
		switch random.IntN(10) {
		case 0:
			n = -1
		case 1, 2, 3, 4:
			n, after = 0, time.Duration(random.Int64N(int64(200*time.Millisecond)))
		}
		got, err := a.aborted(s, d, n, after)
		if err != nil {
			t.Fatalf("abort %d of %s, at run %d or %v: %v", i, a.r.Policy, n, after, err)
		}
		ends[string(got.Finish)]++
		if got.Finish == spec.FinishAborted && len(got.TokenIDs) == 0 {
			ends["before the first token"]++
		}
		b := all[random.IntN(len(all))]
		b.r.Policy, b.r.MaxTokens = a.r.Policy, 4
		next, err := s.GenerateIDs(context.Background(), b.prompt, b.r, nil)
		if err != nil || !slices.Equal(next.TokenIDs, b.complete[:4]) {
			t.Fatalf("after abort %d of %s: %v, want %v, %v", i, a.r.Policy, next, b.complete[:4], err)
		}
		if soak && i%100 == 99 {
			t.Logf("%d requests: %v", i+1, ends)
		}
	}
	t.Logf("%d requests: %v", times, ends)
	if ends[string(spec.FinishAborted)] < times/3 || ends["before the first token"] == 0 {
		t.Errorf("%d requests: %v; too few were aborted", times, ends)
	}
}

// TestAbortsDuringWarmup aborts the first requests of sessions with a fast start while the kernels for drafting are
// compiled.
func TestAbortsDuringWarmup(t *testing.T) {
	times, _ := soaking(t, 1, 20)
	random := rand.New(rand.NewPCG(3, 4))
	var all []abortCase
	for i := range times {
		s, d := cutSession(t, Options{FastStart: true})
		if all == nil {
			all = abortCases(t, s, 24)
			s, d = cutSession(t, Options{FastStart: true})
		}
		for k := range 3 {
			a := all[random.IntN(len(all))]
			a.r.Policy = []string{method.DrafterAuto, method.DrafterChain, method.DrafterEAGLE2}[random.IntN(3)]
			n, after := 1+random.IntN(8), time.Duration(0)
			if k < 2 { // nothing runs while kernels are compiled
				n, after = 0, time.Duration(random.Int64N(int64(400*time.Millisecond)))
			}
			if _, err := a.aborted(s, d, n, after); err != nil {
				t.Fatalf("session %d, abort %d of %s, at run %d or %v: %v", i, k, a.r.Policy, n, after, err)
			}
		}
		a := all[i%len(all)]
		a.r.Policy = method.DrafterEAGLE2
		if got, err := s.GenerateIDs(context.Background(), a.prompt, a.r, nil); err != nil ||
			!slices.Equal(got.TokenIDs, a.complete) || got.Stats.Drafted == 0 {
			t.Fatalf("session %d after its aborts: %v, %v", i, got, err)
		}
		s.Close()
	}
}
