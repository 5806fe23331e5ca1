package kernels_test

import (
	"math/rand/v2"
	"testing"

	"foretoken/spec"
	"foretoken/spec/spectest"
	"foretoken/webgpu/kernels"
)

// The noise of the scripted models is an implementation of its own.
func TestNoiseIsThatOfTheScriptedModels(t *testing.T) {
	if kernels.StreamAccept != spec.StreamAccept || kernels.StreamResidual != spec.StreamResidual {
		t.Fatal("the streams of the rejection rule differ")
	}
	rng := rand.New(rand.NewPCG(5, 6))
	for range 10000 {
		seed, stream, position, id := rng.Uint64(), rng.Uint32N(4), rng.Uint32N(1<<28), rng.Uint32N(1<<18)
		words := kernels.DrawParams{Seed: seed}.Words()
		key := kernels.RowKey(words[:], stream, position)
		if got, want := key.Hash(id), spectest.Hash(seed, stream, position, id); got != want {
			t.Fatalf("hash of %d %d %d %d is %#x, the scripted models say %#x", seed, stream, position, id, got, want)
		}
		if got, want := key.Gumbel(id), spectest.Gumbel(seed, stream, position, id); got != want {
			t.Fatalf("noise of %d %d %d %d is %g, the scripted models say %g", seed, stream, position, id, got, want)
		}
		if got, want := key.Uniform(0), spectest.Uniform(seed, stream, position, 0); got != want {
			t.Fatalf("uniform of %d %d %d is %g, the scripted models say %g", seed, stream, position, got, want)
		}
	}
}
