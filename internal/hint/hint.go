// Package hint finds the name that somebody meant who wrote another: of a flag, a setting, a member.
package hint

import "strings"

// Nearest returns the known name that was probably meant by one that is not known, or "". Letter case, - and _ do not
// count; every third letter may be wrong, missing, too many or exchanged with the next; four letters are enough to
// begin a name.
func Nearest(name string, known []string) string {
	plain := func(s string) string {
		return strings.ToLower(strings.Map(func(r rune) rune {
			if r == '-' || r == '_' {
				return -1
			}
			return r
		}, s))
	}
	asked := plain(name)
	if len(asked) < 2 || len(asked) > 64 {
		return ""
	}
	best, least := "", max(1, len(asked)/3)+1
	for _, k := range known {
		d := editDistance(asked, plain(k))
		if len(asked) >= 4 && strings.HasPrefix(plain(k), asked) {
			d = min(d, max(1, len(asked)/3))
		}
		if d < least {
			best, least = k, d
		}
	}
	return best
}

// DidYouMean is Nearest as the end of a message.
func DidYouMean(name string, known []string) string {
	if near := Nearest(name, known); near != "" {
		return "; did you mean " + near + "?"
	}
	return ""
}

// editDistance counts the insertions, deletions, replacements and exchanges of neighbours that make b of a (optimal
// string alignment).
func editDistance(a, b string) int {
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
