//go:build !js

package main

import (
	"encoding/json"
	"strings"
	"testing"
)

// TestDraftDeviceFlag decodes with the draft on a second device, as the statistics show, and refuses what names no
// device or has no draft.
func TestDraftDeviceFlag(t *testing.T) {
	texts := map[string]string{}
	for _, policy := range []string{"none", "chain"} {
		o := call(t, "", "generate", "--device", "cpu", "--draft-device", "cpu", "--threads", "1", "--context", "96",
			"--policy", policy, "--max-tokens", "12", "--json", "--prompt", "package main")
		var got struct {
			Text  string
			Stats struct {
				Hits   int `json:"ahead_hits"`
				Misses int `json:"ahead_misses"`
			}
		}
		if err := json.Unmarshal([]byte(o.out), &got); o.code != 0 || err != nil {
			t.Fatalf("%s: code %d, %v\n%s", policy, o.code, err, o.err)
		}
		if ahead := got.Stats.Hits+got.Stats.Misses > 0; ahead != (policy == "chain") {
			t.Errorf("%s: %+v", policy, got.Stats)
		}
		texts[policy] = got.Text
	}
	if texts["chain"] != texts["none"] {
		t.Errorf("%q", texts)
	}
	for says, args := range map[string][]string{
		"abacus":              {"generate", "--draft-device", "abacus", "--prompt", "x"},
		"without a draft":     {"generate", "--draft-device", "cpu", "--draft", "none", "--prompt", "x"},
		"leave --draft-devic": {"bench", "--profile", "--draft-device", "cpu"},
	} {
		if o := call(t, "", args...); o.code != exitUsage || !strings.Contains(o.err, says) {
			t.Errorf("%v: code %d, %s", args, o.code, o.err)
		}
	}
}
