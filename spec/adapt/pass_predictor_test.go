package adapt

import (
	"testing"

	"foretoken/spec/draft"
)

// TestPassPredictor checks that the prediction follows the latest counts, ignores outliers and drafts short chains
// in one run.
func TestPassPredictor(t *testing.T) {
	for _, c := range []struct {
		name   string
		needed []int
		most   int
		want   int
	}{
		{"no count yet", nil, 9, draft.MinRun},
		{"short", []int{1, 1}, draft.MinRun, draft.MinRun},
		{"one tree", []int{2}, 9, 2},
		{"an outlier", []int{2, 3, 2, 9, 3, 2, 3, 2, 3}, 9, 3},
		{"two thirds", []int{1, 5, 7, 1, 5, 1, 7, 1, 5}, 9, 5},
		{"no deeper than allowed", []int{8, 8, 8}, 6, 6},
		{"the last sixteen", append([]int{9, 9, 9, 9, 9, 9}, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2), 9, 2},
	} {
		var r passPredictor
		for _, n := range c.needed {
			r.add(n)
		}
		if got := r.next(c.most); got != c.want {
			t.Errorf("%s: %d passes ahead, want %d", c.name, got, c.want)
		}
	}
}
