//go:build !js

package main

import (
	"strings"
	"testing"
)

func TestMaxMemory(t *testing.T) {
	for s, want := range map[string]int64{"": 0, "1024": 1024, "1k": 1 << 10, "800MiB": 800 << 20, "1.5 GB": 3 << 29,
		"2g": 2 << 30} {
		if got, err := parseMemory(s); err != nil || got != want {
			t.Errorf("%q is %d bytes, %v; want %d", s, got, err, want)
		}
	}
	for _, s := range []string{"0", "-1", "much", "1X", "GiB", "NaN", "1e30G"} {
		if o := generate(t, "", "--prompt", testPrompt, "--max-memory", s); o.code != exitUsage ||
			!strings.Contains(o.err, "--max-memory") || strings.Count(o.err, "\n") != 1 {
			t.Errorf("%q: exit code %d: %s", s, o.code, o.err)
		}
	}
	o := generate(t, "", "--prompt", testPrompt, "--max-tokens", "4", "--max-memory", "1MiB")
	if o.code != exitError || !strings.Contains(o.err, "more than the 1.0 MiB allowed") ||
		strings.Count(o.err, "\n") != 1 {
		t.Errorf("exit code %d: %s", o.code, o.err)
	}
	o = generate(t, "", "--prompt", testPrompt, "--max-tokens", "4", "--max-memory", "1GiB", "--kv", "q8", "--json")
	if r := results(t, o); len(r) != 1 || len(r[0].TokenIDs) != 4 {
		t.Errorf("%+v", r)
	}
	if o := generate(t, "", "--prompt", testPrompt, "--kv", "q4"); o.code != exitUsage ||
		!strings.Contains(o.err, "q8") {
		t.Errorf("exit code %d: %s", o.code, o.err)
	}
}
