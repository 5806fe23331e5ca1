//go:build !js

package foretoken

import (
	"os"
	"strings"
	"testing"
)

// TestParseCalibrations adds bins to bins and replaces a classifier, of files alone and in sets.
func TestParseCalibrations(t *testing.T) {
	var first, c Calibrations
	for _, name := range []string{"calibration.json", "c2t.json", "acceptance-heads.json"} {
		data, err := os.ReadFile("models/demo/" + name)
		if err == nil {
			err = first.Parse(name, data)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	set, err := first.Encode()
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := c.Parse("set.json", set); err != nil {
			t.Fatal(err)
		}
	}
	if len(first.Hetero) == 0 || len(c.Hetero) != 2*len(first.Hetero) || c.C2T == nil ||
		len(first.Heads) == 0 || len(c.Heads) != 2*len(first.Heads) {
		t.Errorf("%d bins of %d, a classifier: %v, %d heads of %d", len(c.Hetero), len(first.Hetero), c.C2T != nil,
			len(c.Heads), len(first.Heads))
	}
	for name, text := range map[string]string{
		"unknown kind":  `{"kind": "horoscope", "version": 1}`,
		"broken member": `{"kind": "set", "version": 1, "calibrations": [{"kind": "hetero", "version": 1}]}`,
		"set in a set":  `{"kind": "set", "version": 1, "calibrations": [{"kind": "set", "version": 1}]}`,
	} {
		if err := new(Calibrations).Parse("file.json", []byte(text)); err == nil ||
			!strings.Contains(err.Error(), "file.json") || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: %v", name, err)
		}
	}
}
