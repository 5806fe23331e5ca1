package adapt

import (
	"cmp"
	"math"
	"slices"
)

// xy is a sample of a function of one variable.
type xy struct{ x, y float64 }

// cart grows a regression tree on one variable (Breiman et al., "Classification and Regression Trees", §8.4) and
// returns the edges between its leaves, ascending. A leaf includes its upper edge. A node splits where the sum of
// both sides' squared errors is least (the lowest such place), halfway between the two neighbouring values. It does
// not split if that would not lower the error, would leave fewer than leaf samples on a side, or would exceed
// depth. cart sorts points in place.
func cart(points []xy, depth, leaf int) []float64 {
	slices.SortStableFunc(points, func(a, b xy) int { return cmp.Compare(a.x, b.x) })
	return cartSplit(nil, points, depth, leaf)
}

// cartSplit appends the edges within sorted points.
func cartSplit(edges []float64, points []xy, depth, leaf int) []float64 {
	if depth == 0 {
		return edges
	}
	n := bestSplit(points, leaf)
	if n == 0 {
		return edges
	}
	edges = cartSplit(edges, points[:n], depth-1, leaf)
	edges = append(edges, between(points[n-1].x, points[n].x))
	return cartSplit(edges, points[n:], depth-1, leaf)
}

// bestSplit returns how many of the points go to the lower side, or 0 if no split lowers the error. Points of equal
// x stay together.
func bestSplit(points []xy, leaf int) int {
	n := len(points)
	leaf = max(leaf, 1)
	mean := 0.0
	for _, p := range points {
		mean += p.y / float64(n)
	}
	// With y centred, the squared error of a side is Σy² - (Σy)²/n. Σy² of both sides together is the same for
	// every split, so only the second term matters.
	all, squares := 0.0, 0.0
	for _, p := range points {
		all += p.y - mean
		squares += (p.y - mean) * (p.y - mean)
	}
	best, at, low := all*all/float64(n), 0, 0.0
	least := 1e-12 * squares // a smaller gain is rounding
	for i := 1; i <= n-leaf; i++ {
		low += points[i-1].y - mean
		if i < leaf || points[i-1].x == points[i].x {
			continue
		}
		high := all - low
		if gain := low*low/float64(i) + high*high/float64(n-i); gain > best+least {
			best, at = gain, i
		}
	}
	return at
}

// between returns a value in [a, b).
func between(a, b float64) float64 {
	if m := a + (b-a)/2; m < b && !math.IsNaN(m) {
		return m
	}
	return a
}
