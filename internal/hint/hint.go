// Package hint finds the name that somebody meant who wrote another: of a flag, a setting, a member.
package hint

import (
	"strings"

	"foretoken/internal/quote"
)

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
		d := quote.Changes(asked, plain(k))
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
