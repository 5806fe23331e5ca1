package spec

import (
	"math"
	"slices"
)

// xy is a sample of a function of one variable.
type xy struct{ x, y float64 }

// cart grows a regression tree on one variable (Breiman et al., "Classification and
// Regression Trees", §8.4) and gives the edges between its leaves, ascending: values
// up to and including an edge are below it. A node is split where the summed
// squared error of both sides is least, the lowest place among equals, and halfway
// between the two values there; not at all where no split lowers the error, leaf
// samples do not remain on each side, or depth splits lie above. points is sorted in
// place.
func cart(points []xy, depth, leaf int) []float64 {
	slices.SortStableFunc(points, func(a, b xy) int {
		switch {
		case a.x < b.x:
			return -1
		case a.x > b.x:
			return 1
		}
		return 0
	})
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

// bestSplit is how many of the points go to the lower side; 0: no split is worth it.
// Points of equal x stay together.
func bestSplit(points []xy, leaf int) int {
	n := len(points)
	leaf = max(leaf, 1)
	mean := 0.0
	for _, p := range points {
		mean += p.y / float64(n)
	}
	// With y centred, the squared error of a side is Σy² - (Σy)²/n, and Σy² of both
	// sides together is the same for every split: what counts is the second term.
	all, squares := 0.0, 0.0
	for _, p := range points {
		all += p.y - mean
		squares += (p.y - mean) * (p.y - mean)
	}
	best, at, low := all*all/float64(n), 0, 0.0
	least := 1e-12 * squares // a gain below rounding is none
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

// between is a value from a up to but not including b.
func between(a, b float64) float64 {
	if m := a + (b-a)/2; m < b && !math.IsNaN(m) {
		return m
	}
	return a
}
