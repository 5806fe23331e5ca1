//go:build !js

package main

import (
	"bytes"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"foretoken/models/demo"
	"foretoken/webgpu"
)

func TestTuningCacheKeepsChoicesByAdapter(t *testing.T) {
	var errs bytes.Buffer
	c := &console{err: &errs, tuning: filepath.Join(t.TempDir(), "new", "tuning.json")}
	dev := webgpu.Info{Backend: "native", Adapter: "GPU", Driver: "1.0"}
	chosen := map[string]map[string]string{"target": {"rows": "1"}, "draft": {"rows": "32", "q8_0 8x8": "rows4x16"},
		"costs": {"of the pair": `{"verify": {}}`}}

	first := openTuning(c, dev, demo.Target(), demo.Draft(), false)
	if got := first.choices(); len(got) != 0 {
		t.Errorf("a new cache holds %v", got)
	}
	if err := first.save(chosen); err != nil {
		t.Fatal(err)
	}
	if got := openTuning(c, dev, demo.Target(), demo.Draft(), false).choices(); !reflect.DeepEqual(got, chosen) {
		t.Errorf("%v, want %v", got, chosen)
	}
	// A model keeps its own choices in either role.
	if got := openTuning(c, dev, demo.Draft(), nil, false).choices(); !reflect.DeepEqual(got,
		map[string]map[string]string{"target": chosen["draft"]}) {
		t.Errorf("the draft as a target: %v", got)
	}
	newer := dev
	newer.Driver = "1.1"
	other := openTuning(c, newer, demo.Target(), nil, false)
	if got := other.choices(); len(got) != 0 {
		t.Errorf("another driver is served %v", got)
	}
	if err := other.save(map[string]map[string]string{"target": {"rows": "32"}}); err != nil {
		t.Fatal(err)
	}
	if got := openTuning(c, dev, demo.Target(), demo.Draft(), false).choices(); !reflect.DeepEqual(got, chosen) {
		t.Errorf("after another driver's: %v, want %v", got, chosen)
	}
	before, _ := os.Stat(c.tuning)
	if err := openTuning(c, dev, demo.Target(), demo.Draft(), false).save(chosen); err != nil {
		t.Fatal(err)
	}
	if after, _ := os.Stat(c.tuning); !os.SameFile(before, after) {
		t.Error("the file is written again without news")
	}
	if left, _ := filepath.Glob(filepath.Join(filepath.Dir(c.tuning), "*.tmp")); len(left) > 0 || errs.Len() > 0 {
		t.Errorf("left over: %v, notes %q", left, errs.String())
	}
}

func TestTuningCacheThatCannotBeUsedIsIgnored(t *testing.T) {
	dev := webgpu.Info{Backend: "native", Adapter: "GPU"}
	for name, content := range map[string]string{"half a file": `{"adapters": {"nat`,
		"another shape": `{"adapters": [1]}`, "empty": ""} {
		var errs bytes.Buffer
		c := &console{err: &errs, tuning: write(t, "tuning.json", []byte(content))}
		cache := openTuning(c, dev, demo.Target(), nil, false)
		if got := cache.choices(); len(got) != 0 {
			t.Errorf("%s: %v", name, got)
		}
		if !strings.HasPrefix(errs.String(), "foretoken: note: ") || !strings.Contains(errs.String(), c.tuning) ||
			strings.Count(errs.String(), "\n") != 1 {
			t.Errorf("%s: %q", name, errs.String())
		}
		if err := cache.save(map[string]map[string]string{"target": {"rows": "1"}}); err != nil {
			t.Fatal(err)
		}
		errs.Reset()
		if got := openTuning(c, dev, demo.Target(), nil, false).choices(); got["target"]["rows"] != "1" ||
			errs.Len() > 0 {
			t.Errorf("%s: not replaced: %v %q", name, got, errs.String())
		}
	}
}

func TestTuningCacheStaysAway(t *testing.T) {
	path := filepath.Join(t.TempDir(), "tuning.json")
	native, cpu := webgpu.Info{Backend: "native"}, webgpu.Info{Backend: "cpu"}
	for name, cache := range map[string]*tuning{
		"switched off": openTuning(&console{tuning: path}, native, demo.Target(), nil, true),
		"no folder":    openTuning(&console{}, native, demo.Target(), nil, false),
		"cpu device":   openTuning(&console{tuning: path}, cpu, demo.Target(), nil, false),
	} {
		if err := cache.save(map[string]map[string]string{"target": {"rows": "1"}}); err != nil ||
			cache.choices() != nil {
			t.Errorf("%s: %v, %v", name, cache.choices(), err)
		}
	}
	if _, err := os.Stat(path); err == nil {
		t.Error("a file was written")
	}
	cache := openTuning(&console{tuning: filepath.Join(write(t, "file", nil), "tuning.json")}, native,
		demo.Target(), nil, true)
	if cache != nil {
		t.Error("switched off, and still there")
	}
}
