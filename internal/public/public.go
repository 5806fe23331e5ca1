// Package public says errors to people who do not know the code: clients of the server, users of the page and of the
// command line.
package public

import (
	"regexp"
	"strings"
)

// packages are the names that errors begin with, so that a maintainer finds their place.
var packages = regexp.MustCompile(`(^|: )(?:browser|chat|convert|eagle3|faults|foretoken|gguf|grammar|host|jinja|` +
	`kernels|llama|native|open|quant|safetensors|simd|spec|tokenizer|webgpu): `)

// Message is the text of an error on one line, without the names of packages.
func Message(err error) string { return Plain(err.Error()) }

// Plain is Message for a text.
func Plain(text string) string {
	text = strings.Join(strings.Fields(text), " ")
	for {
		rest := packages.ReplaceAllString(text, "$1")
		if rest == text {
			return text
		}
		text = rest
	}
}
