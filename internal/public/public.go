// Package public says errors to people who do not know the code: clients of the server, users of the page and of the
// command line.
package public

import (
	"slices"
	"strings"
)

// packages are the names that errors begin with, so that a maintainer finds their place.
var packages = strings.Fields("arch audit browser chat constrain convert faults foretoken gguf grammar graph jinja " +
	"kernels kv native open pair quant runner safetensors simd spec tokenizer trace webgpu")

// Message is the text of an error on one line, without the names of packages.
func Message(err error) string { return Plain(err.Error()) }

// Plain is Message for a text.
func Plain(text string) string {
	parts := strings.Split(strings.Join(strings.Fields(text), " "), ": ")
	var told []string
	for i, part := range parts {
		if i == len(parts)-1 || !slices.Contains(packages, part) { // bound: written out
			told = append(told, part)
		}
	}
	return strings.Join(told, ": ")
}
