package quote

import (
	"cmp"
	"slices"
)

// maxName bounds the names that are compared: the time grows with the square of the length.
const maxName = 64

// Nearest returns the n names that need the fewest changes of a byte to become a name, in alphabetical order among
// equals.
func Nearest(name string, names []string, n int) []string {
	name = name[:min(len(name), maxName)]
	names = slices.Clone(names)
	slices.SortFunc(names, func(a, b string) int {
		return cmp.Or(cmp.Compare(changes(name, a), changes(name, b)), cmp.Compare(a, b))
	})
	return names[:min(n, len(names))]
}

// changes is Levenshtein's distance.
func changes(a, b string) int {
	row := make([]int, len(b)+1) // of a's bytes so far to b's first ones
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		before := row[0]
		row[0] = i + 1
		for j := range len(b) {
			same := before
			if a[i] != b[j] {
				same++
			}
			before = row[j+1]
			row[j+1] = min(same, before+1, row[j]+1)
		}
	}
	return row[len(b)]
}
