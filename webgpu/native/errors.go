//go:build cgo && !js

package native

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"foretoken/webgpu"
)

var (
	// naga points at the source like this: ┌─ label:12:5
	place = regexp.MustCompile(`┌─ .*:(\d+):\d+`)
	// A line of the source that it quotes: 12 │ let x = 1;
	quoted = regexp.MustCompile(`^\d*\s*│`)
	// Prefixes of the library's reports that do not describe the mistake.
	preamble = regexp.MustCompile(`^(wgpu\.\(\*\w+\)\.\w+\(\): .*|Caused by:|In wgpu\w+|note: .*|` +
		`Validation Error|┌─ .*)$`)
	heading = regexp.MustCompile(`^Shader (?:'.*' parsing|validation) error: ?`)
)

// shaderError finds the line and the reason in the library's report.
func shaderError(src *webgpu.KernelSource, err error) error {
	if errors.Is(err, webgpu.ErrDeviceLost) {
		return err
	}
	line := 0
	if m := place.FindStringSubmatch(err.Error()); m != nil {
		line, _ = strconv.Atoi(m[1])
	}
	return webgpu.NewShaderError(src.Name, src.Shader(), line, reason(err.Error()))
}

// plain makes the library's report of several lines an error of one, of the kind that it speaks of.
func plain(err error) error {
	if err == nil || errors.Is(err, webgpu.ErrDeviceLost) || errors.Is(err, webgpu.ErrNoMemory) {
		return err
	}
	text := reason(err.Error())
	switch {
	case strings.Contains(text, "Not enough memory left"):
		return fmt.Errorf("%w: %s", webgpu.ErrNoMemory, text)
	case strings.Contains(text, "Parent device is lost"):
		return fmt.Errorf("%w: %s", webgpu.ErrDeviceLost, text)
	}
	return errors.New(text)
}

// reason keeps the sentences of a report that describe the mistake, without repetition.
func reason(report string) string {
	var parts []string
	for _, l := range strings.Split(report, "\n") {
		l = strings.TrimSpace(l)
		switch {
		case preamble.MatchString(l):
			continue
		case heading.MatchString(l):
			l = heading.ReplaceAllString(l, "")
		case quoted.MatchString(l):
			// Of a quotation only the remark under the marked text matters.
			at := strings.LastIndex(l, "^")
			if at < 0 {
				continue
			}
			l = l[at+1:]
		}
		if l = strings.TrimSpace(l); l != "" && !slices.Contains(parts, l) {
			parts = append(parts, l)
		}
	}
	if len(parts) == 0 {
		return strings.TrimSpace(report)
	}
	return strings.Join(parts, "; ")
}
