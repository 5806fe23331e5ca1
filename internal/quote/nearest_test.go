package quote

import "testing"

func TestChanges(t *testing.T) {
	for pair, want := range map[[2]string]int{{"", ""}: 0, {"ab", "ba"}: 1, {"abc", ""}: 3, {"kitten", "sitting"}: 3,
		{"targt", "target"}: 1, {"ca", "abc"}: 3} {
		if got := Changes(pair[0], pair[1]); got != want {
			t.Errorf("from %q to %q: %d, want %d", pair[0], pair[1], got, want)
		}
	}
}
