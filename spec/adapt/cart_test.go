package adapt

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

func TestCartByHand(t *testing.T) {
	// Means 1 and 9 on the two sides of 2.5; splitting a side again gains nothing.
	steps := []xy{{1, 1}, {4, 9}, {2, 1}, {3, 9}, {0, 1}}
	for _, c := range []struct {
		name        string
		points      []xy
		depth, leaf int
		want        []float64
	}{
		{"one step", steps, 3, 1, []float64{2.5}},
		{"depth 0", steps, 0, 1, nil},
		{"leaves too small", steps, 3, 3, nil},
		{"leaf size moves the split", []xy{{0, 0}, {1, 9}, {2, 9}, {3, 9}}, 1, 2, []float64{1.5}},
		{"constant", []xy{{0, 3}, {1, 3}, {2, 3}}, 3, 1, nil},
		{"equal x stay together", []xy{{1, 0}, {1, 10}, {1, 0}, {1, 10}}, 3, 1, nil},
		{"equal x on one side", []xy{{1, 0}, {1, 10}, {2, 10}, {2, 10}}, 1, 1, []float64{1.5}},
		// Splits after 1 and after 3 have the same error; the lower wins.
		{"ties", []xy{{0, 0}, {1, 1}, {2, 1}, {3, 0}}, 1, 1, []float64{0.5}},
		{"none", nil, 3, 1, nil},
		{"one", []xy{{1, 1}}, 3, 1, nil},
		{"four steps in two splits", []xy{{0, 0}, {1, 1}, {2, 10}, {3, 11}}, 2, 1, []float64{0.5, 1.5, 2.5}},
		{"eight leaves at most", []xy{{0, 0}, {1, 1}, {2, 2}, {3, 3}, {4, 4}, {5, 5}, {6, 6}, {7, 7}, {8, 8}, {9, 9}},
			3, 1,
			[]float64{0.5, 1.5, 2.5, 4.5, 5.5, 6.5, 7.5}},
		{"adjacent numbers", []xy{{1, 0}, {math.Nextafter(1, 2), 5}}, 1, 1, []float64{1}},
	} {
		if got := cart(slices.Clone(c.points), c.depth, c.leaf, false); !slices.Equal(got, c.want) {
			t.Errorf("%s: edges %v, want %v", c.name, got, c.want)
		}
	}
}

// squaredError returns Σ(y-mean)².
func squaredError(points []xy) float64 {
	mean, sum := 0.0, 0.0
	for _, p := range points {
		mean += p.y / float64(len(points))
	}
	for _, p := range points {
		sum += (p.y - mean) * (p.y - mean)
	}
	return sum
}

// leaves splits points at the edges.
func leaves(points []xy, edges []float64) [][]xy {
	out := make([][]xy, len(edges)+1)
	for _, p := range points {
		i := 0
		for i < len(edges) && p.x > edges[i] {
			i++
		}
		out[i] = append(out[i], p)
	}
	return out
}

// TestCartAgainstEverySplit compares each split, down to the depth, with the best of all possible ones.
func TestCartAgainstEverySplit(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	splits := 0
	for trial := range 400 {
		points := make([]xy, 1+r.IntN(40))
		for i := range points {
			// Few values, so that equal x and equal errors are common.
			points[i] = xy{float64(r.IntN(12)), float64(1 + r.IntN(8))}
		}
		leaf, weighted := 1+r.IntN(4), trial%2 == 1
		var check func(points []xy, depth int) []float64
		check = func(points []xy, depth int) []float64 {
			if depth == 0 {
				return nil
			}
			least, at := math.Inf(1), math.NaN()
			for cut := 0.5; cut < 12; cut++ {
				sides := leaves(points, []float64{cut})
				if len(sides[0]) < leaf || len(sides[1]) < leaf {
					continue
				}
				e := 0.0
				for _, side := range sides {
					weight := 1.0
					if weighted {
						weight = float64(len(side)) / float64(len(points))
					}
					e += weight * squaredError(side)
				}
				if e < least-1e-9 {
					least, at = e, cut
				}
			}
			if !(least < squaredError(points)-1e-9) {
				return nil
			}
			splits++
			sides := leaves(points, []float64{at})
			return append(append(check(sides[0], depth-1), at), check(sides[1], depth-1)...)
		}
		want := check(points, 3)
		got := cart(slices.Clone(points), 3, leaf, weighted)
		if len(got) != len(want) {
			t.Fatalf("trial %d: edges %v, want those that part as %v", trial, got, want)
		}
		// cart's edges lie halfway between neighbouring values, those of the search at halves: both must split the
		// points into the same leaves.
		a, b := leaves(points, got), leaves(points, want)
		for i := range a {
			if !slices.Equal(a[i], b[i]) {
				t.Fatalf("trial %d: leaf %d is %v, want %v", trial, i, a[i], b[i])
			}
			if len(got) > 0 && len(a[i]) < leaf {
				t.Fatalf("trial %d: leaf %d has %d points, want %d", trial, i, len(a[i]), leaf)
			}
		}
	}
	if splits < 500 {
		t.Errorf("only %d splits were compared", splits)
	}
}
