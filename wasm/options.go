package main

import (
	"cmp"
	"fmt"
	"math"

	"foretoken/internal/strictjson"
	"foretoken/models/convert"
	"foretoken/spec"
	"foretoken/webgpu/open"
)

type openOptions struct {
	Device  string `json:"device"`
	Context int    `json:"context"`
	KV      string `json:"kv"`
	Memory  int64  `json:"max_memory"`
	Nodes   int    `json:"max_nodes"`
	// Candidates is the number of likeliest tokens available per position.
	Candidates int `json:"candidates"`
	// Timeout is the number of seconds that a call waits for the device before it counts as hung; 0: 30, or 300 for a
	// software adapter.
	Timeout float64 `json:"device_timeout"`
	// Threads is the number of threads of the cpu device; 0: one for each core, up to eight.
	Threads int `json:"threads"`
	// Builtin selects the built-in pair's calibrations, which are part of the program.
	Builtin bool `json:"builtin_calibrations"`
	// Quantise is the type that matrices are stored in; see convert.Options.
	Quantise string `json:"quantise"`
	// EAGLE3Quantise is the type that the matrices of an EAGLE-3 head are stored in.
	EAGLE3Quantise string `json:"eagle3_quantise"`
}

// readOptions reads and checks options. What depends on the models is left to foretoken.Open.
func readOptions(text []byte) (o openOptions, err error) {
	if err := strictjson.Decode(text, &o); err != nil {
		return o, withCode("bad_option", fmt.Errorf("foretoken: open options: %w", err))
	}
	name := func(field, name string, known []string) error {
		if name == "" || name == open.Accelerator {
			return nil
		}
		return spec.CheckName(field, name, known)
	}
	number := func(field string, least, most float64, zero string, v float64) error {
		return (&spec.Setting{Name: field, Least: least, Most: most, Zero: zero}).Check(v)
	}
	return o, withCode("bad_option", cmp.Or(
		name("device", o.Device, open.Kinds),
		name("kv", o.KV, []string{"f32", "f16", "q8"}),
		name("quantise", o.Quantise, convert.Types()),
		name("eagle3_quantise", o.EAGLE3Quantise, convert.HeadTypes()),
		number("threads", 1, open.MaxThreads, "one for each core", float64(o.Threads)),
		number("device_timeout", 0.001, 1e6, "30 seconds, in software 5 minutes", o.Timeout),
		number("context", 1, math.MaxInt32, "the model's limit, at most 4096", float64(o.Context)),
		number("max_nodes", 1, 1024, "64", float64(o.Nodes)),
		number("candidates", 1, 64, "as many as decoding needs", float64(o.Candidates)),
		number("max_memory", 1, 1<<53, "no limit", float64(o.Memory)),
	))
}
