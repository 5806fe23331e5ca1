package kernels

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

// loopHead matches a loop to unroll: `for (var m = 0u; m < TM; m = m + 1u) { // unroll`. A loop marked `// unroll one`
// is unrolled only if it runs once.
var loopHead = regexp.MustCompile(`^\s*for \(var (\w+) = 0u; (\w+) < (\w+); (\w+) = (\w+) \+ 1u\) \{ // unroll( one)?$`)

// unroll unrolls the loops marked `// unroll`, whose bounds are constants of the specialisation; the index becomes a
// literal. Chromium's software adapter keeps a register tile in registers only if its indices are literals. The shader
// files are valid WGSL without unrolling.
func unroll(wgsl string, bounds map[string]uint32) string {
	lines := strings.Split(wgsl, "\n")
	var out []string
	for i := 0; i < len(lines); i++ {
		head := loopHead.FindStringSubmatch(lines[i])
		if head == nil {
			out = append(out, lines[i])
			continue
		}
		index, bound := head[1], head[3]
		count, ok := bounds[bound]
		if !ok {
			n, err := strconv.ParseUint(strings.TrimSuffix(bound, "u"), 10, 32)
			if err != nil {
				panic("kernels: unroll: no constant " + bound)
			}
			count = uint32(n)
		}
		if head[6] != "" && count != 1 {
			out = append(out, lines[i])
			continue
		}
		end, depth := i+1, 1
		for ; end < len(lines); end++ {
			depth += strings.Count(lines[end], "{") - strings.Count(lines[end], "}")
			if depth == 0 {
				break
			}
		}
		between := around(unroll(strings.Join(lines[i+1:end], "\n"), bounds), index)
		for n := range count {
			out = append(out, "{", strings.Join(between, fmt.Sprintf("%du", n)), "}")
		}
		i = end
	}
	return strings.Join(out, "\n")
}

// around splits a text at each occurrence of a name, except after a dot. It uses no regular expression: kernels of
// large tiles have hundreds of kilobytes, and a slow scan would delay the first token.
func around(text, name string) []string {
	var parts []string
	from := 0
	for i := 0; i < len(text); {
		if !wordByte(text[i]) {
			i++
			continue
		}
		begin := i
		for i < len(text) && wordByte(text[i]) {
			i++
		}
		if text[begin:i] == name && (begin == 0 || text[begin-1] != '.') {
			parts = append(parts, text[from:begin])
			from = i
		}
	}
	return append(parts, text[from:])
}

func wordByte(b byte) bool {
	return b == '_' || b >= '0' && b <= '9' || b >= 'a' && b <= 'z' || b >= 'A' && b <= 'Z'
}
