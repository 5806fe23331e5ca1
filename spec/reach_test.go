package spec

import "testing"

// TestReach: what is drafted ahead follows what was needed, outliers are left to a run of their own, and what is short is drafted whole.
func TestReach(t *testing.T) {
	for _, c := range []struct {
		name   string
		needed []int
		most   int
		want   int
	}{
		{"nothing is known", nil, 9, wholeChain},
		{"short", []int{1, 1}, wholeChain, wholeChain},
		{"one tree", []int{2}, 9, 2},
		{"an outlier", []int{2, 3, 2, 9, 3, 2, 3, 2, 3}, 9, 3},
		{"two in three", []int{1, 5, 7, 1, 5, 1, 7, 1, 5}, 9, 5},
		{"no deeper than allowed", []int{8, 8, 8}, 6, 6},
		{"the last sixteen", append([]int{9, 9, 9, 9, 9, 9}, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2), 9, 2},
	} {
		var r reach
		for _, n := range c.needed {
			r.add(n)
		}
		if got := r.next(c.most); got != c.want {
			t.Errorf("%s: %d passes ahead, want %d", c.name, got, c.want)
		}
	}
}
