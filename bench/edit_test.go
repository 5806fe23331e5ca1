//go:build !js

package bench

import (
	"math/rand/v2"
	"testing"
)

func TestEditDistance(t *testing.T) {
	tokens := func(s string) (ids []int32) {
		for _, r := range s {
			ids = append(ids, r)
		}
		return ids
	}
	for _, c := range []struct {
		a, b string
		want int
	}{{"", "", 0}, {"abc", "", 3}, {"", "ab", 2}, {"abc", "abc", 0}, {"kitten", "sitting", 3}, {"flaw", "lawn", 2},
		{"xabc", "abcx", 2}, {"abcd", "wxyz", 4}} {
		if got := editDistance(tokens(c.a), tokens(c.b)); got != c.want {
			t.Errorf("%q to %q: %d edits, want %d", c.a, c.b, got, c.want)
		}
	}
	r := rand.New(rand.NewPCG(1, 2))
	draw := func() (ids []int32) {
		for range r.IntN(30) {
			ids = append(ids, r.Int32N(4))
		}
		return ids
	}
	for range 2000 {
		a, b := draw(), draw()
		if got, want := editDistance(a, b), byTable(a, b); got != want {
			t.Fatalf("%v to %v: %d edits, want %d", a, b, got, want)
		}
	}
}

// byTable fills the table of all pairs of prefixes.
func byTable(a, b []int32) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range a {
		diagonal := row[0]
		row[0] = i + 1
		for j := range b {
			replaced := diagonal
			if a[i] != b[j] {
				replaced++
			}
			diagonal = row[j+1]
			row[j+1] = min(replaced, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}
