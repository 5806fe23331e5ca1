package quote

import (
	"cmp"
	"slices"
)

// maxName bounds the names that are compared: the time grows with the square of the length.
const maxName = 64

// Nearest returns the n names that the fewest changes make of a name, in alphabetical order among
// equals.
func Nearest(name string, names []string, n int) []string {
	name = name[:min(len(name), maxName)]
	names = slices.Clone(names)
	slices.SortFunc(names, func(a, b string) int {
		return cmp.Or(cmp.Compare(Changes(name, a), Changes(name, b)), cmp.Compare(a, b))
	})
	return names[:min(n, len(names))]
}

// Changes counts the insertions, deletions, replacements and exchanges of neighbours that make b of a (optimal
// string alignment).
func Changes(a, b string) int {
	var rows [3][]int // of the last byte but one of a, of the last one, and of this one
	for i := range rows {
		rows[i] = make([]int, len(b)+1)
	}
	for j := range rows[1] {
		rows[1][j] = j
	}
	for i := 1; i <= len(a); i++ {
		before, above, row := rows[0], rows[1], rows[2]
		row[0] = i
		for j := 1; j <= len(b); j++ {
			cost := 1
			if a[i-1] == b[j-1] {
				cost = 0
			}
			row[j] = min(above[j]+1, row[j-1]+1, above[j-1]+cost)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				row[j] = min(row[j], before[j-2]+1)
			}
		}
		rows = [3][]int{above, row, before}
	}
	return rows[1][len(b)]
}
