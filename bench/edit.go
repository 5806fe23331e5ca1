package bench

import "math"

// editDistance returns the fewest insertions, deletions and replacements of tokens that turn a into b. It follows the
// diagonals of the table of prefixes, so it takes O(length·distance) time and O(length) memory (Ukkonen 1985).
func editDistance(a, b []int32) int {
	most := max(len(a), len(b))
	// reach holds, by diagonal, the longest prefix a[:i] that d edits turn into b[:i+diagonal].
	zero := most + 1
	reach, next := make([]int, 2*zero+1), make([]int, 2*zero+1)
	for i := range reach {
		reach[i], next[i] = math.MinInt/2, math.MinInt/2
	}
	slide := func(i, diagonal int) int {
		for i < len(a) && i+diagonal < len(b) && a[i] == b[i+diagonal] {
			i++
		}
		return i
	}
	reach[zero] = slide(0, 0)
	d := 0
	for reach[zero+len(b)-len(a)] < len(a) {
		d++
		for k := -d; k <= d; k++ {
			i := max(reach[zero+k]+1, reach[zero+k-1], reach[zero+k+1]+1) // replace, insert, delete
			if i = min(i, len(a), len(b)-k); i >= max(0, -k) {
				next[zero+k] = slide(i, k)
			}
		}
		reach, next = next, reach
	}
	return d
}
