//go:build cgo && !js

package audit

import (
	"fmt"
	"slices"
	"strings"

	"foretoken/webgpu"
)

// shaderRules are the rules of docs/gpus-d3d12-metal.md, which has a source for each. A check returns what breaks it.
var shaderRules = map[string]func(*shaderText) []string{
	"words":          (*shaderText).checkWords,
	"builtins":       (*shaderText).checkBuiltins,
	"constant-index": (*shaderText).checkIndices,
	"struct-array":   (*shaderText).checkStructs,
	"bounded-loop":   (*shaderText).checkLoops,
	"hot-loop":       (*shaderText).checkHotLoops,
	"array-copies":   (*shaderText).checkCopies,
	"barriers":       (*shaderText).checkBarriers,
	"nan-tests":      (*shaderText).checkNaN,
	"workgroup-size": (*shaderText).checkWorkgroup,
	"length":         (*shaderText).checkLength,
}

// mostStatements bounds a kernel after its loops are unrolled.
const mostStatements = 640

// forbiddenWords are keywords and types that a kernel for GPUs does without.
var forbiddenWords = setOf("switch ptr private f16 override")

// knownBuiltins are the functions of WGSL that kernels call. Look for reports of a new one before you add it.
var knownBuiltins = setOf(`abs arrayLength atomicLoad atomicOr atomicStore bitcast clamp countOneBits dot dot4I8Packed
	exp floor log max min pack2x16float pack4xI8 round select sqrt storageBarrier subgroupAdd subgroupMin
	unpack2x16float workgroupBarrier
	array f32 i32 u32 vec2 vec3 vec4 mat2x4 if for while return group binding builtin workgroup_size`)

func setOf(words string) map[string]bool {
	all := map[string]bool{}
	for _, word := range strings.Fields(words) {
		all[word] = true
	}
	return all
}

func (s *shaderText) checkWords() (bad []string) {
	for i, t := range s.tokens {
		if forbiddenWords[t] || t == "enable" && s.at(i+1) != "subgroups" {
			bad = append(bad, t)
		}
	}
	return bad
}

func (s *shaderText) checkBuiltins() (bad []string) {
	for called := range s.callsIn(0, len(s.tokens)) {
		_, made := s.structs[called]
		if s.funcs[called] == nil && !made && !knownBuiltins[called] {
			bad = append(bad, called)
		}
	}
	return bad
}

// checkIndices expects a constant index of everything that is not in a buffer or in workgroup memory.
func (s *shaderText) checkIndices() (bad []string) {
	for _, f := range s.funcs {
		for i := f.body[0]; i < f.body[1]; i++ {
			base := s.tokens[i-1]
			if s.tokens[i] != "[" || !isName(base) && base != "]" && base != ")" {
				continue
			}
			of := s.indexed(i)
			_, local := f.scope[of]
			if _, global := s.globals[s.tokens[of]]; global && !local && s.at(of-1) != "." {
				continue
			}
			for _, t := range s.tokens[i+1 : s.past(i)-1] {
				if _, constant := s.consts[t]; isName(t) && !constant {
					bad = append(bad, fmt.Sprintf("%s: %s[… %s …]", f.name, base, t))
					break
				}
			}
		}
	}
	return bad
}

// indexed returns the token before the first of a row of indices whose last begins at i.
func (s *shaderText) indexed(i int) int {
	i--
	for ; s.tokens[i] == "]"; i-- {
		for depth := 1; depth > 0; {
			i--
			switch s.tokens[i] {
			case "]":
				depth++
			case "[":
				depth--
			}
		}
	}
	return i
}

func (s *shaderText) checkStructs() (bad []string) {
	for name, members := range s.structs {
		for _, m := range members {
			if m.typ[0] == "array" {
				bad = append(bad, name+"."+m.name)
			}
		}
	}
	for name, v := range s.globals {
		if v.space == "uniform" && v.typ[0] == "array" {
			bad = append(bad, name)
		}
	}
	return bad
}

// checkLoops refuses loops that have no bound.
func (s *shaderText) checkLoops() (bad []string) {
	for _, f := range s.funcs {
		for _, l := range f.loops {
			header := s.tokens[l.header[0]:l.header[1]]
			if !slices.Contains(header, "<") && !slices.Contains(header, "<=") && !slices.Contains(header, ">") {
				bad = append(bad, f.name+": "+l.keyword)
			}
		}
	}
	return bad
}

// checkHotLoops expects loops over weights, keys and values to count by one to a bound that nothing changes, and not to
// divide integers.
func (s *shaderText) checkHotLoops() (bad []string) {
	for _, f := range s.funcs {
		for _, l := range f.loops {
			reached := s.reachIn(l.body)
			weights, keys := s.globals["weights"].name != "", s.globals["keys"].name != ""
			fetches := reached["fetch"] || reached["fetched"]
			if !(weights && fetches) && !(keys && (reached["key"] || reached["value"])) {
				continue
			}
			if !s.counts(f, l) {
				bad = append(bad, fmt.Sprintf("%s: %s (%s)", f.name, l.keyword,
					strings.Join(s.tokens[l.header[0]:l.header[1]], " ")))
			}
			spans := map[string][2]int{f.name: {l.header[0], l.body[1]}}
			for called := range reached {
				if g := s.funcs[called]; g != nil {
					spans[called] = g.body
				}
			}
			for name, span := range spans {
				for i := span[0]; i < span[1]; i++ {
					if t := s.tokens[i]; t == "/" || t == "%" {
						bad = append(bad, fmt.Sprintf("%s: %s %s %s in a loop", name, s.at(i-1), t, s.at(i+1)))
					}
				}
			}
		}
	}
	return bad
}

// counts reports whether Tint's loop_analysis.cc sees that a loop ends.
func (s *shaderText) counts(f *shaderFunc, l shaderLoop) bool {
	h := s.tokens[l.header[0]:l.header[1]]
	i := slices.Index(h, ";")
	if l.keyword != "for" || i < 0 || h[0] != "var" || len(h) != i+10 {
		return false
	}
	index, bound := h[1], h[i+3]
	if strings.Join(h[i:], " ") != fmt.Sprintf("; %s < %s ; %s = %s + 1u", index, bound, index, index) {
		return false
	}
	own := f.scope[l.header[0]+i+1]
	for j := l.body[0]; j < l.body[1]; j++ {
		if s.at(j+1) == "=" && f.scope[j] == own && s.tokens[j] == index {
			return false
		}
	}
	declared, local := f.scope[l.header[0]+i+3]
	return !isName(bound) || !local && s.consts[bound] != "" || local && s.tokens[declared] != "var"
}

// checkCopies refuses to pass arrays by value in loops.
func (s *shaderText) checkCopies() (bad []string) {
	for _, f := range s.funcs {
		for _, l := range f.loops {
			for called := range s.reachIn(l.body) {
				g := s.funcs[called]
				if g != nil && (slices.Contains(g.result, "array") || slices.ContainsFunc(g.params,
					func(p shaderVar) bool { return p.typ[0] == "array" })) {
					bad = append(bad, fmt.Sprintf("%s: %s in a loop", f.name, called))
				}
			}
		}
	}
	return bad
}

// checkBarriers expects barriers where FXC sees that all lanes arrive: no condition around or before them depends on a
// lane, on workgroup memory or on a buffer that the kernel writes.
func (s *shaderText) checkBarriers() (bad []string) {
	for _, f := range s.funcs {
		if !s.synchronises(f.body) {
			continue
		}
		varying, returned := s.varying(f), false
		for i := f.body[0]; i < f.body[1]; i++ {
			t := s.tokens[i]
			if t != "if" && t != "for" && t != "while" {
				if returned && isName(t) && s.at(i+1) == "(" && s.synchronises([2]int{i, i + 2}) {
					bad = append(bad, f.name+": "+t+" after a return of some lanes")
				}
				continue
			}
			close := s.past(i + 1)
			if !varying(i+1, close) {
				continue
			}
			span := [2]int{close, s.past(close)}
			for s.at(span[1]) == "else" {
				span[1] = s.past(s.find(span[1], "{"))
			}
			if s.synchronises(span) {
				bad = append(bad, f.name+": a barrier under "+strings.Join(s.tokens[i:close], " "))
			}
			returned = returned || slices.Contains(s.tokens[span[0]:span[1]], "return")
		}
	}
	return bad
}

func (s *shaderText) synchronises(span [2]int) bool {
	reached := s.reachIn(span)
	return reached["workgroupBarrier"] || reached["storageBarrier"]
}

// varying returns whether an expression in a function differs between lanes, as far as FXC knows.
func (s *shaderText) varying(f *shaderFunc) func(from, to int) bool {
	local := map[int]bool{} // by declaration
	param, begin := setOf("lane lid gid"), setOf("; { } ( let var")
	depends := func(from, to int) bool {
		for i := from; i < to; i++ {
			declared, ok := f.scope[i]
			v := s.globals[s.tokens[i]]
			if ok && (local[declared] || declared < f.body[0] && param[s.tokens[i]]) ||
				!ok && (v.space == "workgroup" || v.writable) && s.at(i-1) != "." {
				return true
			}
		}
		return false
	}
	for changed := true; changed; {
		changed = false
		for i := f.body[0]; i < f.body[1]; i++ {
			name := i - 1
			if s.tokens[i] != "=" {
				continue
			}
			for !begin[s.tokens[name]] {
				name--
			}
			declared, ok := f.scope[name+1]
			if t := s.tokens[name]; t == "let" || t == "var" {
				declared, ok = name, true
			}
			end := i
			for ; s.tokens[end] != ";" && s.tokens[end] != "{"; end++ {
			}
			if ok && declared >= f.body[0] && !local[declared] && depends(i, end) {
				local[declared], changed = true, true
			}
		}
	}
	return depends
}

// checkNaN refuses comparisons of a value with itself.
func (s *shaderText) checkNaN() (bad []string) {
	for i, t := range s.tokens {
		if (t == "!=" || t == "==") && isName(s.at(i-1)) && s.at(i-1) == s.at(i+1) && s.at(i-2) != "." &&
			!strings.Contains(".[(", s.at(i+2)) {
			bad = append(bad, s.at(i-1)+" "+t+" "+s.at(i+1))
		}
	}
	return bad
}

// checkWorkgroup bounds workgroup memory by the limit that every device has.
func (s *shaderText) checkWorkgroup() (bad []string) {
	total := 0
	for _, v := range s.globals {
		if v.space == "workgroup" {
			total += (s.size(v.typ) + 15) &^ 15
		}
	}
	if total > webgpu.DefaultLimits().MaxWorkgroupStorage {
		bad = append(bad, fmt.Sprintf("%d bytes", total))
	}
	return bad
}

// size returns the bytes of a type in workgroup memory.
func (s *shaderText) size(typ []string) int {
	switch name := typ[0]; name {
	case "f32", "u32", "i32", "atomic":
		return 4
	case "vec2":
		return 8
	case "vec3", "vec4":
		return 16
	case "array":
		last := len(typ) - 2 // array < T , N >
		text := typ[last]
		if value, ok := s.consts[text]; ok {
			text = value
		}
		var n int
		if _, err := fmt.Sscanf(text, "%d", &n); err != nil {
			panic("length " + text)
		}
		return n * s.size(typ[2:last-1])
	default:
		total := 0
		for _, m := range s.structs[name] {
			total += s.size(m.typ)
		}
		return total
	}
}

func (s *shaderText) checkLength() (bad []string) {
	n := 0
	for _, t := range s.tokens {
		if t == ";" {
			n++
		}
	}
	if n > mostStatements {
		bad = append(bad, fmt.Sprintf("%d statements", n))
	}
	return bad
}
