package method

import (
	"reflect"
	"slices"
	"strings"
	"testing"
)

// TestSettingsAreFields: a program that reads the catalog sends a setting by the name that it has there.
func TestSettingsAreFields(t *testing.T) {
	var fields []string
	for _, f := range reflect.VisibleFields(reflect.TypeFor[Config]()) {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		fields = append(fields, name)
	}
	seen := map[string]bool{}
	check := func(of string, settings []string) {
		for _, name := range settings {
			if seen[name] = true; name == "" || !slices.Contains(fields, name) {
				t.Errorf("%s: %q is no field of a config: %q", of, name, fields)
			}
		}
	}
	for _, m := range All() {
		check(m.Name, m.Settings)
	}
	for _, s := range Table()[1:] { // the policy is a config
		if s.Group == "method" {
			check("the table", []string{s.Name})
		}
		for _, name := range append(s.For, s.Except...) {
			if !slices.Contains(append(AdapterNames(), VerifierNames()...), name) {
				t.Errorf("%s is for %q, neither an adapter nor a verifier", s.Name, name)
			}
		}
	}
	if !seen["top_k"] || !seen["no_extension"] || !seen["shape"] {
		t.Errorf("settings are missing: %v", seen)
	}
}
