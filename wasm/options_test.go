package main

import (
	"errors"
	"testing"

	"foretoken/spec"
	"foretoken/webgpu/open"
)

// TestOptions: every option that a load refuses is named, with the values that it takes.
func TestOptions(t *testing.T) {
	gpu := open.Kinds[1] // webgpu in a browser
	for text, want := range map[string]string{
		`{"device": "gpu"}`:    `device is "gpu", want auto, ` + gpu + `, cpu or reference; did you mean cpu?`,
		`{"kv": "q4"}`:         `kv is "q4", want f32, f16 or q8; did you mean q8?`,
		`{"quantise": "q3_0"}`: `quantise is "q3_0", want f32, f16, bf16, q8_0 or q4_0; did you mean q8_0?`,
		`{"threads": 65}`:      "threads is 65, want 0 (one for each core) or 1 to 64",
		`{"threads": "2"}`:     "threads is a string, want a whole number",
		`{"device_timeout": -1}`: "device_timeout is -1, want 0 (30 seconds, in software 5 minutes) or " +
			"0.001 to 1000000",
		`{"context": -1}`:               "context is -1, want 0 (the model's limit, at most 4096) or 1 to 2147483647",
		`{"context": 1.5}`:              "context is 1.5, want a whole number",
		`{"max_nodes": 4096}`:           "max_nodes is 4096, want 0 (64) or 1 to 1024",
		`{"candidates": 65}`:            "candidates is 65, want 0 (as many as decoding needs) or 1 to 64",
		`{"max_memory": -1}`:            "max_memory is -1, want 0 (no limit) or 1 to 9007199254740992",
		`{"Device": "cpu"}`:             "Device is unknown; did you mean device?",
		`{"device": "` + gpu + `"}`:     "",
		`{"device": "cpu", "kv": "q8"}`: "",
		`{}`:                            "",
	} {
		_, err := readOptions([]byte(text))
		field, ok := errors.AsType[*spec.FieldError](err)
		switch {
		case want == "" && err == nil:
		case !ok || field.Error() != want || codeOf(err) != "bad_option":
			t.Errorf("%s: %v, want %s", text, err, want)
		}
	}
}
