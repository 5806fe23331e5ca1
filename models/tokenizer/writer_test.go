package tokenizer

import (
	"slices"
	"strings"
	"testing"
)

// TestWriter writes texts of single bytes in rounds of one to all of their tokens. What is written does not depend on
// the rounds.
func TestWriter(t *testing.T) {
	tok := smallBPE().tokenizer(t)
	for name, c := range map[string]struct {
		text    string
		stops   []string
		until   string // the piece that ends the text
		want    string // pieces; "*" after the last where the text ended
		include bool
	}{
		"no end":             {"abc", nil, "", "a|b|c", false},
		"a stop string":      {"abc", []string{"b"}, "", "a||*", false},
		"of several tokens":  {"xabcd", []string{"abc"}, "", "x||||*", false},
		"that does not come": {"xabd", []string{"abc"}, "", "x|||abd", false},
		"held at the end":    {"xab", []string{"abc"}, "", "x||ab", false},
		"the first of two":   {"abcd", []string{"cd", "bc"}, "", "a|||*", false},
		"begun twice":        {"aab", []string{"ab"}, "", "|a||*", false},
		"inside characters":  {"é!", []string{"!"}, "", "|é||*", false},
		"half a character":   {"a\xf0\x9f", nil, "", "a||\uFFFD\uFFFD", false},
		"until":              {"abc", []string{"never"}, "b", "a|b|*", false},
		"not until":          {"nab", []string{"na!"}, "n", "||nab", false},
		"included":           {"xabcd", []string{"abc"}, "", "x|||abc|*", true},
		"the shorter of two": {"abcd", []string{"bcd", "bc"}, "", "a||bc|*", true},
	} {
		for round := 1; round <= len(c.text); round++ {
			var ids []int32
			for i := range len(c.text) {
				ids = append(ids, idOf(tok, string(alphabet[c.text[i]])))
			}
			until := func(text string) bool { return text == c.until && c.until != "" }
			w := tok.NewWriter(nil, Ends{Stops: c.stops, Include: c.include, Until: until})
			var got []string
			for ended := false; len(ids) > 0 && !ended; {
				n := 0
				part := ids[:min(round, len(ids))]
				if n, ended = w.Write(part); n < len(part) && !ended {
					t.Fatalf("%s: took %d of %d tokens", name, n, len(part))
				}
				ids = ids[n:]
				pieces := slices.Clone(w.Take(ended || len(ids) == 0))
				if len(pieces) != n {
					t.Fatalf("%s: %d pieces of %d tokens", name, len(pieces), n)
				}
				if got = append(got, pieces...); ended {
					got = append(got, "*")
				}
			}
			if text := strings.Join(got, "|"); text != c.want {
				t.Errorf("%s, rounds of %d: %q, want %q", name, round, text, c.want)
			}
		}
	}
	w := tok.NewWriter(nil, Ends{Stops: []string{"abc"}})
	w.Write([]int32{idOf(tok, "a")})
	w.Take(false)
	if got := w.Take(true); !slices.Equal(got, []string{"a"}) {
		t.Errorf("an end without tokens gives %q", got)
	}
}
