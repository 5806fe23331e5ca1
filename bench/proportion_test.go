//go:build !js

package bench

import (
	"math"
	"testing"
)

// TestWilsonIntervals compares with bounds in which the share's score test against them gives the deviation of 95 %.
func TestWilsonIntervals(t *testing.T) {
	for n := 1; n <= 40; n++ {
		for k := 0; k <= n; k++ {
			p := proportionOf(k, n)
			if p.K != k || p.N != n {
				t.Fatalf("%d of %d: %+v", k, n, p)
			}
			share := float64(k) / float64(n)
			for _, bound := range []float64{p.Low, p.High} {
				if math.Abs(bound-share) < 1e-12 { // 0 of n and n of n end where the shares do
					continue
				}
				z := math.Abs(share-bound) / math.Sqrt(bound*(1-bound)/float64(n))
				if math.Abs(z-1.959964) > 1e-6 {
					t.Errorf("%d of %d: the bound %v is %v deviations off", k, n, bound, z)
				}
			}
			if p.Low > share+1e-12 || p.High < share-1e-12 || p.High-p.Low < 0.05 || p.Low < 0 || p.High > 1 {
				t.Errorf("%d of %d: %+v", k, n, p)
			}
		}
	}
	if p := proportionOf(0, 0); p != (Proportion{}) {
		t.Errorf("nothing measured: %+v", p)
	}
}
