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
// both sides' squared errors is least (the lowest such place), halfway between the two neighbouring values. If
// weighted, each side's error counts by the side's share of the node's samples. A node does not split if that would not
// lower the error, would leave fewer than leaf samples on a side, or would exceed depth. cart sorts points in place.
func cart(points []xy, depth, leaf int, weighted bool) []float64 {
	slices.SortStableFunc(points, func(a, b xy) int { return cmp.Compare(a.x, b.x) })
	return cartSplit(nil, points, depth, leaf, weighted)
}

// cartSplit appends the edges within sorted points.
func cartSplit(edges []float64, points []xy, depth, leaf int, weighted bool) []float64 {
	if depth == 0 {
		return edges
	}
	n := bestSplit(points, leaf, weighted)
	if n == 0 {
		return edges
	}
	edges = cartSplit(edges, points[:n], depth-1, leaf, weighted)
	edges = append(edges, between(points[n-1].x, points[n].x))
	return cartSplit(edges, points[n:], depth-1, leaf, weighted)
}

// side sums samples of one side of a split.
type side struct {
	n            int
	sum, squares float64 // of y less the node's mean
}

func (s *side) add(y float64) { s.n, s.sum, s.squares = s.n+1, s.sum+y, s.squares+y*y }

// squaredError returns Σ(y - the side's mean)².
func (s *side) squaredError() float64 { return s.squares - s.sum*s.sum/float64(s.n) }

// bestSplit returns how many of the points go to the lower side, or 0 if no split lowers the error. Points of equal
// x stay together.
func bestSplit(points []xy, leaf int, weighted bool) int {
	n := len(points)
	leaf = max(leaf, 1)
	mean := 0.0
	for _, p := range points {
		mean += p.y / float64(n)
	}
	var all, low side
	for _, p := range points {
		all.add(p.y - mean)
	}
	best, at := all.squaredError(), 0
	least := 1e-12 * all.squares // a smaller gain is rounding
	for i := 1; i <= n-leaf; i++ {
		low.add(points[i-1].y - mean)
		if i < leaf || points[i-1].x == points[i].x {
			continue
		}
		high := side{n: n - i, sum: all.sum - low.sum, squares: all.squares - low.squares}
		lower, upper := low.squaredError(), high.squaredError()
		if weighted {
			lower, upper = lower*float64(i)/float64(n), upper*float64(n-i)/float64(n)
		}
		if e := lower + upper; e < best-least {
			best, at = e, i
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
