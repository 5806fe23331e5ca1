package pair

import (
	"strings"
	"testing"
)

func TestCalibrationSets(t *testing.T) {
	one := []byte("{\n  \"kind\": \"a\",\n  \"version\": 1\n}\n")
	two := []byte(`{"kind": "b", "version": 1}`)
	for _, files := range [][][]byte{{one}, {two, one}} {
		joined := JoinCalibrations(files)
		all, err := SplitCalibrations("f.json", joined)
		if err != nil || len(all) != len(files) {
			t.Fatalf("%v, %d of %d\n%s", err, len(all), len(files), joined)
		}
		for i, text := range files {
			got := all[i]
			if !strings.Contains(string(text), `"`+got.Kind+`"`) || !strings.HasPrefix(got.File, "f.json") ||
				strings.Join(strings.Fields(string(got.Data)), "") != strings.Join(strings.Fields(string(text)), "") {
				t.Errorf("%+v of %s", got, text)
			}
		}
	}
	for name, text := range map[string]string{
		"no list":        `{"kind": "set", "version": 1, "calibrations": 3}`,
		"set in a set":   `{"kind": "set", "version": 1, "calibrations": [{"kind": "set", "version": 1}]}`,
		"without a kind": `{"kind": "set", "version": 1, "calibrations": [{"version": 1}]}`,
		"other version":  `{"kind": "set", "version": 2}`,
		"no object":      `[]`,
	} {
		if all, err := SplitCalibrations("file.json", []byte(text)); err == nil ||
			!strings.Contains(err.Error(), "file.json") || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: %+v, %v", name, all, err)
		}
	}
}
