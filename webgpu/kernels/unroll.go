package kernels

import (
	"fmt"
	"strconv"
	"strings"
)

// loopHead reads the line of a loop to unroll: `for (var m = 0u; m < TM; m = m + 1u) { // unroll`. A loop marked
// `// unroll one` is unrolled only if it runs once.
func loopHead(line string) (index, bound string, one, ok bool) {
	const before, after = "for (var ", "{ // unroll"
	line = strings.TrimSpace(line)
	line, one = strings.CutSuffix(line, " one")
	if !strings.HasPrefix(line, before) || !strings.HasSuffix(line, after) {
		return "", "", false, false
	}
	index, _, _ = strings.Cut(line[len(before):], " ")
	_, bound, _ = strings.Cut(line, " < ")
	bound, _, _ = strings.Cut(bound, ";")
	same := before + index + " = 0u; " + index + " < " + bound + "; " + index + " = " + index + " + 1u) " + after
	return index, bound, one, line == same
}

// unroll unrolls the loops marked `// unroll`, whose bounds are constants of the specialisation; the index becomes a
// literal. Chromium's software adapter keeps a register tile in registers only if its indices are literals. The shader
// files are valid WGSL without unrolling.
func unroll(wgsl string, bounds map[string]uint32) string {
	lines := strings.Split(wgsl, "\n")
	var out []string
	for i := 0; i < len(lines); i++ {
		index, bound, one, ok := loopHead(lines[i])
		if !ok {
			out = append(out, lines[i])
			continue
		}
		count, ok := bounds[bound]
		if !ok {
			n, err := strconv.ParseUint(strings.TrimSuffix(bound, "u"), 10, 32)
			if err != nil {
				panic("kernels: unroll: no constant " + bound)
			}
			count = uint32(n)
		}
		if one && count != 1 {
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
