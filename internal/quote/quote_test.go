package quote

import (
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"
)

// FuzzQuote shows any text in its three forms. None is long or has a character that a terminal does not print, and a
// short, printable text keeps its form.
func FuzzQuote(f *testing.F) {
	for _, s := range []string{"", "blk.0.attn_q.weight", "\x1b]0;x\x07", "a\u202eb\u2028", "\xff\xc0", "<|im_start|>",
		`"\`, strings.Repeat("\u202e", 200), strings.Repeat("k", 60006), "é\u009b"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		for form, got := range map[string]string{"Text": Text(s), "Name": Name(s), "Escape": Escape(s, 80)} {
			if len(got) > mostQuoted+len(`"…"`) {
				t.Errorf("%s gives %d bytes: %q", form, len(got), got)
			}
			if !utf8.ValidString(got) {
				t.Errorf("%s gives %q of %q", form, got, s)
			}
			for _, r := range got {
				if !strconv.IsPrint(r) {
					t.Errorf("%s gives %q of %q", form, r, s)
				}
			}
		}
		if quoted := strconv.Quote(s); quoted == `"`+s+`"` && s != "" && len(s) <= mostQuoted {
			if Name(s) != s || Escape(s, 80) != s || Text(s) != quoted {
				t.Errorf("%q is shown as %s, %s and %s", s, Name(s), Escape(s, 80), Text(s))
			}
		}
	})
}
