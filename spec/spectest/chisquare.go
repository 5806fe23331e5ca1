package spectest

import (
	"math"
	"testing"
)

// gammaQ returns the regularised upper incomplete gamma function Q(a, x), by series below a+1 and by continued
// fraction above (Numerical Recipes, §6.2).
func gammaQ(a, x float64) float64 {
	lg, _ := math.Lgamma(a)
	front := math.Exp(-x + a*math.Log(x) - lg)
	if x < a+1 {
		sum, term := 1/a, 1/a
		for n := a + 1; term > sum*1e-15; n++ {
			term *= x / n
			sum += term
		}
		return 1 - front*sum
	}
	b := x + 1 - a
	c, d := 1e300, 1/b
	h := d
	for i := 1.0; i < 1000; i++ {
		an := -i * (i - a)
		b += 2
		d = 1 / (an*d + b)
		c = b + an/c
		h *= d * c
	}
	return front * h
}

// ChiSquare tests counts against the distribution p by chi-square. The tests are seeded, so one that passes once always
// passes.
func ChiSquare(t testing.TB, name string, counts []int, p []float64) {
	t.Helper()
	if value := PValue(counts, p); value < 1e-4 {
		t.Errorf("%s: chi-square has p = %.2g\ngot  %v\nwant %v", name, value, counts, p)
	}
}

// PValue returns the chi-square p-value of counts under the distribution p. It pools cells with an expected count
// below five, and returns 0 if an outcome of probability 0 was counted.
func PValue(counts []int, p []float64) float64 {
	total := 0
	for _, n := range counts {
		total += n
	}
	chi, cells, rest, restWant := 0.0, 0, 0.0, 0.0
	for i, n := range counts {
		want := p[i] * float64(total)
		if p[i] == 0 && n > 0 {
			return 0
		}
		if want < 5 {
			rest += float64(n)
			restWant += want
			continue
		}
		chi += (float64(n) - want) * (float64(n) - want) / want
		cells++
	}
	if restWant > 0 {
		chi += (rest - restWant) * (rest - restWant) / restWant
		cells++
	}
	if cells < 2 {
		return 1
	}
	return gammaQ(float64(cells-1)/2, chi/2)
}
