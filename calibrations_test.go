//go:build !js

package foretoken

import (
	"os"
	"strings"
	"testing"

	"foretoken/internal/pair"
)

// TestParseCalibrations adds bins to bins and replaces a classifier, of files alone and in sets.
func TestParseCalibrations(t *testing.T) {
	var files [][]byte
	for _, name := range []string{"calibration.json", "c2t.json"} {
		data, err := os.ReadFile("models/demo/" + name)
		if err != nil {
			t.Fatal(err)
		}
		parts, err := pair.SplitCalibrations(name, data)
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range parts {
			files = append(files, p.Data)
		}
	}
	var c Calibrations
	for range 2 {
		if err := c.Parse("set.json", pair.JoinCalibrations(files)); err != nil {
			t.Fatal(err)
		}
	}
	if len(c.Hetero) != 2*(len(files)-1) || c.C2T == nil || c.Head != nil {
		t.Errorf("%d files: %d bins, a classifier: %v, a head: %v", len(files), len(c.Hetero), c.C2T != nil,
			c.Head != nil)
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
