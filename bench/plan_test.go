package bench

import (
	"slices"
	"strings"
	"testing"

	"foretoken"
)

func TestMethodListsTakeTheSettingsOfTheTable(t *testing.T) {
	own := []string{"policy", "stop", "include_stop_str_in_output", "stop_token_ids", "echo"}
	for _, s := range foretoken.Settings() {
		for _, name := range []string{s.Name, strings.ReplaceAll(s.Name, "_", "-")} {
			err := (&Method{Name: "auto"}).set(name + "={}") // a value of one setting, whose bounds are not checked yet
			unknown := err != nil && strings.Contains(err.Error(), "has no setting")
			if unknown != slices.Contains(own, s.Name) {
				t.Errorf("%s: %v", name, err)
			}
		}
	}
}
