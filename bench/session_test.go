//go:build !js

package bench

import (
	"context"
	"math/rand/v2"
	"os"
	"testing"
	"time"

	"foretoken"
	"foretoken/internal/files"
	"foretoken/models/modeltest"
	"foretoken/webgpu"
	"foretoken/webgpu/faults"
	"foretoken/webgpu/simd"
)

// faulty opens a small pair on cpu devices that fail as a script says.
type faulty struct {
	target, draft files.Source
	script        *faults.Script
	seen          []foretoken.Loss
}

func newFaulty(t testing.TB, at func(n int, c faults.Call, label string) faults.Fault) *faulty {
	t.Helper()
	return &faulty{target: testModel(t, "tiny-q8_0"), draft: testModel(t, "tiny-q4_0"),
		script: &faults.Script{At: at, Timeout: time.Millisecond}}
}

// testModel is a model of random weights.
func testModel(t testing.TB, name string) files.Source {
	t.Helper()
	src, ok := modeltest.Source(name)
	if !ok {
		t.Fatalf("there is no model %s", name)
	}
	return src
}

func (k *faulty) device(context.Context) (webgpu.Device, error) {
	dev, err := simd.Open(simd.Options{})
	if err != nil {
		return nil, err
	}
	return faults.New(dev, k.script), nil
}

func (k *faulty) open() (*foretoken.Session, error) {
	dev, err := k.device(context.Background())
	if err != nil {
		return nil, err
	}
	s, err := foretoken.Open(context.Background(), dev, k.target, k.draft,
		foretoken.Options{Context: 96, Reopen: k.device, Lost: func(l foretoken.Loss) { k.seen = append(k.seen, l) }})
	if err != nil {
		dev.Destroy()
	}
	return s, err
}

// close closes a session and checks for leaks.
func (k *faulty) close(t *testing.T, s *foretoken.Session) {
	t.Helper()
	s.Close()
	if n := k.script.Live(); n != 0 {
		t.Fatalf("%d buffers and programs are left", n)
	}
}

// someOf returns a few of n calls, spread evenly, or all of them in make soak.
func someOf(n, few int) []int {
	var all []int
	if os.Getenv("FORETOKEN_SOAK") != "" || few >= n {
		few = n
	}
	random := rand.New(rand.NewPCG(1, uint64(n)))
	for i := range few {
		low, high := i*n/few, (i+1)*n/few
		all = append(all, low+random.IntN(high-low))
	}
	return all
}
