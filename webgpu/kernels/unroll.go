package kernels

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

// loopHead is a loop that asks to be unrolled: `for (var m = 0u; m < TM; m = m + 1u) { // unroll`.
// One marked `// unroll one` stays a loop unless it runs once.
var loopHead = regexp.MustCompile(`^\s*for \(var (\w+) = 0u; (\w+) < (\w+); (\w+) = (\w+) \+ 1u\) \{ // unroll( one)?$`)

// unroll writes out the loops marked `// unroll`, whose bounds are constants of
// the specialisation, with the index as a literal. Chromium's software adapter
// keeps a register tile in registers only when its indices are literals: the
// Q8_0 product of 1024×1024 by 16 rows took 24.8 ms with loops and 7.1 ms unrolled.
// The shader files stay valid WGSL without it, but for quadBroadcast, whose thread has to be a literal.
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

// around cuts a text where a name stands, unless as that of a member. Kernels of large tiles are
// hundreds of kilobytes: an expression for it took most of the time before the first token.
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
