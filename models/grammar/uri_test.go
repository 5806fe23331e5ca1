package grammar

import "testing"

// TestResolve holds references to the examples of RFC 3986, section 5.4.
func TestResolve(t *testing.T) {
	const base = "http://a/b/c/d;p?q"
	for ref, want := range map[string]string{
		"g:h": "g:h", "g": "http://a/b/c/g", "./g": "http://a/b/c/g", "g/": "http://a/b/c/g/", "/g": "http://a/g",
		"//g": "http://g", "?y": "http://a/b/c/d;p?y", "g?y": "http://a/b/c/g?y", "#s": base + "#s",
		"g#s": "http://a/b/c/g#s", "g?y#s": "http://a/b/c/g?y#s", ";x": "http://a/b/c/;x",
		"g;x?y#s": "http://a/b/c/g;x?y#s", "": base, ".": "http://a/b/c/", "./": "http://a/b/c/", "..": "http://a/b/",
		"../": "http://a/b/", "../g": "http://a/b/g", "../..": "http://a/", "../../g": "http://a/g",
		"../../../g": "http://a/g", "../../../../g": "http://a/g", "/./g": "http://a/g", "/../g": "http://a/g",
		"g.": "http://a/b/c/g.", "..g": "http://a/b/c/..g", "./../g": "http://a/b/g", "./g/.": "http://a/b/c/g/",
		"g/./h": "http://a/b/c/g/h", "g/../h": "http://a/b/c/h", "g;x=1/../y": "http://a/b/c/y",
		"g?y/../x": "http://a/b/c/g?y/../x", "g#s/../x": "http://a/b/c/g#s/../x",
	} {
		if got := resolve(base, ref); got != want {
			t.Errorf("%q: %q, want %q", ref, got, want)
		}
	}
	for _, c := range [][3]string{{"", "a.json", "a.json"}, {"a.json", "b.json#x", "b.json#x"},
		{"a.json", "#x", "a.json#x"}, {"urn:example:a", "#/x", "urn:example:a#/x"}, {"http://a", "b", "http://a/b"},
		{"dir/a", "b", "dir/b"}} {
		if got := resolve(c[0], c[1]); got != c[2] {
			t.Errorf("%q at %q: %q, want %q", c[1], c[0], got, c[2])
		}
	}
	for text, want := range map[string]string{"a%20b": "a b", "%C3%A9": "é", "100%": "100%", "%zz%4": "%zz%4"} {
		if got := decoded(text); got != want {
			t.Errorf("%q: %q", text, got)
		}
	}
}
