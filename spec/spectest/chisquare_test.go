package spectest

import (
	"math"
	"testing"
)

func TestGammaQ(t *testing.T) {
	// The 5 % points of 1, 10 and 100 degrees of freedom, from chi-square tables.
	for _, c := range []struct{ dof, x float64 }{{1, 3.841459}, {10, 18.307038}, {100, 124.342113}} {
		if p := gammaQ(c.dof/2, c.x/2); math.Abs(p-0.05) > 1e-6 {
			t.Errorf("%v degrees of freedom: %v, want 0.05", c.dof, p)
		}
	}
}

func TestChiSquareCanFail(t *testing.T) {
	if p := gammaQ(3.0/2, 40.0/2); p > 1e-4 {
		t.Errorf("a chi-square of 40 with 3 degrees of freedom has p = %v", p)
	}
}
