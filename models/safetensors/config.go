package safetensors

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"

	"foretoken/internal/strictjson"
)

var (
	// computing are in the names that published config.json files give to what changes a model's numbers.
	computing = strings.Fields("attn attention rope rotary position norm scal multiplier softcap capping logit bias " +
		"window sliding layer residual activation expert head hidden intermediate clip alibi")
	// training are in names that hold one of computing too and that are about training or the code that computes
	// attention.
	training = strings.Fields("dropout implementation flash _loss")
)

// computes reports whether the name of a field speaks of the computation, and not of training or of the output of
// Python's classes.
func computes(name string) bool {
	in := func(part string) bool { return strings.Contains(name, part) }
	return slices.ContainsFunc(computing, in) && !slices.ContainsFunc(training, in) &&
		!strings.HasSuffix(name, "_pdrop") && !strings.HasSuffix(name, "_coef") && !strings.HasPrefix(name, "output_")
}

// maxValues bounds the values of a configuration, a hundred times as many as published ones have.
const maxValues = 1 << 16

// DecodeConfig reads a configuration published with weights: config.json or generation_config.json.
func DecodeConfig(data []byte, into any) error {
	return strictjson.Rules{Foreign: true, Values: maxValues}.Decode(data, into)
}

// UnknownField returns the first field of a config.json, by name, that is none of known, speaks of the computation and
// has a value that may change it: anything but null, false, 0, and empty texts, lists and objects. "" is none.
func UnknownField(fields map[string]json.RawMessage, known func(name string) bool) string {
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		if !known(name) && computes(name) && !Neutral(fields[name]) {
			return name
		}
	}
	return ""
}

// Neutral reports whether a field's value says that nothing is to be done.
func Neutral(value json.RawMessage) bool {
	switch string(value) {
	case "", "null", "false", "0", "0.0", `""`, "[]", "{}":
		return true
	}
	return false
}
