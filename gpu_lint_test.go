//go:build !js

package foretoken

import (
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

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
var knownBuiltins = setOf(`abs arrayLength atomicLoad atomicOr atomicStore bitcast clamp countOneBits dot exp floor log
	max min pack2x16float select sqrt storageBarrier subgroupAdd subgroupMin unpack2x16float workgroupBarrier
	array f32 i32 u32 vec2 vec3 vec4 mat2x4 if for while return group binding builtin workgroup_size`)

func setOf(words string) map[string]bool {
	all := map[string]bool{}
	for _, word := range strings.Fields(words) {
		all[word] = true
	}
	return all
}

// shaderText is the text of a kernel, in the subset of WGSL that kernels are written in.
type shaderText struct {
	tokens  []string
	consts  map[string]string // name → token of its value
	structs map[string][]shaderVar
	globals map[string]shaderVar
	funcs   map[string]*shaderFunc
	calls   map[string]map[string]bool // of a function, of what it calls too
}

// shaderVar is a variable, a parameter or a member.
type shaderVar struct {
	name, space string
	typ         []string
	writable    bool // a storage buffer that the kernel writes
}

type shaderFunc struct {
	name   string
	params []shaderVar
	result []string
	body   [2]int // tokens
	loops  []shaderLoop
	scope  map[int]int // token of a local name → token of its declaration
}

// shaderLoop is a loop: its header in parentheses, and its body in braces.
type shaderLoop struct {
	keyword      string
	header, body [2]int
}

// shaderTokens splits a text into words, numbers and operators.
func shaderTokens(text string) []string {
	tokens := make([]string, 0, len(text)/3)
	for i := 0; i < len(text); {
		end := i + 1
		switch c := text[i]; {
		case c == ' ' || c == '\n' || c == '\t':
			i++
			continue
		case c == '/' && strings.HasPrefix(text[i:], "//"):
			i += strings.IndexByte(text[i:]+"\n", '\n')
			continue
		case wordChar(c):
			for end < len(text) && (wordChar(text[end]) || c <= '9' && (text[end] == '.' ||
				text[end] == '-' && text[end-1] == 'e')) {
				end++
			}
		case end < len(text) && strings.Contains("-> << >> <= >= == != && ||", text[i:i+2]) && text[end] != ' ':
			end++
		}
		tokens, i = append(tokens, text[i:end]), end
	}
	return tokens
}

func wordChar(c byte) bool {
	return c == '_' || c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z'
}

// parseShader reads a kernel.
func parseShader(text string) *shaderText {
	s := &shaderText{tokens: shaderTokens(text), consts: map[string]string{}, structs: map[string][]shaderVar{},
		globals: map[string]shaderVar{}, funcs: map[string]*shaderFunc{}, calls: map[string]map[string]bool{}}
	for i := 0; i < len(s.tokens); {
		switch t := s.tokens[i]; t {
		case "@":
			if i += 2; s.at(i) == "(" {
				i = s.past(i)
			}
			continue
		case "const":
			s.consts[s.tokens[i+1]] = s.tokens[s.find(i, ";")-1]
			i = s.find(i, ";")
		case "struct":
			end := s.past(i + 2)
			s.structs[s.tokens[i+1]] = s.variables(i+3, end-1)
			i = end - 1
		case "var":
			end := s.find(i, ";")
			v := s.variables(slices.Index(s.tokens[i:], ">")+i+1, end)[0]
			v.space, v.writable = s.tokens[i+2], slices.Contains(s.tokens[i:end], "read_write")
			s.globals[v.name] = v
			i = end
		case "fn":
			i = s.function(i) - 1
		case "enable", "alias":
			i = s.find(i, ";")
		}
		i++
	}
	for name := range s.funcs {
		s.reach(name)
	}
	return s
}

func (s *shaderText) at(i int) string {
	if i < 0 || i >= len(s.tokens) {
		return ""
	}
	return s.tokens[i]
}

func (s *shaderText) find(i int, token string) int {
	for s.at(i) != token && i < len(s.tokens) {
		i++
	}
	return i
}

// past returns the token after the bracket that closes the one at i.
func (s *shaderText) past(i int) int {
	for depth := 0; i < len(s.tokens); i++ {
		switch s.tokens[i] {
		case "(", "[", "{":
			depth++
		case ")", "]", "}":
			if depth--; depth == 0 {
				return i + 1
			}
		}
	}
	return i
}

// variables reads members or parameters.
func (s *shaderText) variables(from, to int) (all []shaderVar) {
	for i := from; i < to; {
		if s.tokens[i] == "@" {
			i = s.past(i + 2)
			continue
		}
		end, depth := i, 0
		for ; end < to && (s.tokens[end] != "," || depth > 0); end++ {
			depth += strings.Count(s.tokens[end], "<") - strings.Count(s.tokens[end], ">")
		}
		all = append(all, shaderVar{name: s.tokens[i], typ: s.tokens[min(i+2, end):end]})
		i = end + 1
	}
	return all
}

// function reads a function and returns the token after it.
func (s *shaderText) function(i int) int {
	end := s.past(i + 2)
	open := s.find(end, "{")
	f := &shaderFunc{name: s.tokens[i+1], params: s.variables(i+3, end-1), result: s.tokens[end:open],
		body: [2]int{open, s.past(open)}, scope: map[int]int{}}
	type block struct {
		end   int
		names map[string]int
	}
	scopes := []block{{f.body[1], map[string]int{}}}
	for _, p := range f.params {
		scopes[0].names[p.name] = i
	}
	for j := f.body[0]; j < f.body[1]; j++ {
		for scopes[len(scopes)-1].end <= j {
			scopes = scopes[:len(scopes)-1]
		}
		switch t := s.tokens[j]; t {
		case "{":
			scopes = append(scopes, block{s.past(j), map[string]int{}})
		case "let", "var":
			scopes[len(scopes)-1].names[s.tokens[j+1]] = j
		case "for", "while":
			from := s.past(j + 1)
			f.loops = append(f.loops, shaderLoop{t, [2]int{j + 2, from - 1}, [2]int{from, s.past(from)}})
			scopes = append(scopes, block{s.past(from), map[string]int{}})
		case "loop":
			f.loops = append(f.loops, shaderLoop{t, [2]int{j, j}, [2]int{j + 1, s.past(j + 1)}})
		default:
			if !isName(t) || s.tokens[j-1] == "." {
				continue
			}
			for k := len(scopes) - 1; k >= 0; k-- {
				if declared, ok := scopes[k].names[t]; ok {
					f.scope[j] = declared
					break
				}
			}
		}
	}
	s.funcs[f.name] = f
	return f.body[1]
}

// callsIn returns what tokens call, and whether a token is a call.
func (s *shaderText) callsIn(from, to int) map[string]bool {
	all := map[string]bool{}
	for i := from; i < to; i++ {
		next := s.at(i + 1)
		if isName(s.tokens[i]) && (next == "(" || next == "<" && knownBuiltins[s.tokens[i]]) {
			all[s.tokens[i]] = true
		}
	}
	return all
}

// reach returns the functions that a function calls, itself or through others.
func (s *shaderText) reach(name string) map[string]bool {
	if made, ok := s.calls[name]; ok || s.funcs[name] == nil {
		return made
	}
	f := s.funcs[name]
	s.calls[name] = s.reachIn(f.body)
	return s.calls[name]
}

func (s *shaderText) reachIn(span [2]int) map[string]bool {
	all := s.callsIn(span[0], span[1])
	for called := range maps.Clone(all) {
		maps.Copy(all, s.reach(called))
	}
	return all
}

func isName(token string) bool {
	return token != "" && (token[0] == '_' || token[0] >= 'a' && token[0] <= 'z' || token[0] >= 'A' && token[0] <= 'Z')
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
			_, local := f.scope[i-1]
			if _, global := s.globals[base]; global && !local && s.at(i-2) != "." {
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
			if !(weights && reached["fetch"]) && !(keys && (reached["key"] || reached["value"])) {
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

// TestShaderText checks the text of every kernel that a GPU can be given, with subgroups and without.
func TestShaderText(t *testing.T) {
	list, broken := gpuKernels(t, gpuInfo("subgroups"), true), 0
	for _, k := range list {
		s := parseShader(k.Shader())
		if len(s.funcs) == 0 || len(s.globals) < 2 {
			t.Fatalf("%s: read %d functions and %d variables", k.label, len(s.funcs), len(s.globals))
		}
		for name, check := range shaderRules {
			if bad := check(s); len(bad) > 0 {
				if broken++; broken <= 40 {
					t.Errorf("%s breaks %s: %s", k.label, name, strings.Join(bad, "; "))
				}
			}
		}
	}
	if len(list) < 2000 {
		t.Errorf("%d kernels", len(list))
	}
}

// TestShaderRules breaks each rule, and expects each in the table of the documentation.
func TestShaderRules(t *testing.T) {
	const head = `struct Params { n: u32, }
		@group(0) @binding(0) var<uniform> P: Params;
		@group(0) @binding(1) var<storage, read> weights: array<f32>;
		@group(0) @binding(2) var<storage, read_write> y: array<f32>;
		var<workgroup> w: array<f32, 64>;
		const N: u32 = 4u;
		fn fetch(i: u32) -> f32 { return weights[i]; }
		@compute @workgroup_size(64)
		fn main(@builtin(workgroup_id) wid: vec3<u32>, @builtin(local_invocation_index) lane: u32) {
		`
	good := `let n = P.n;
		var a: array<f32, N>;
		a[0u] = 0.0; // a[lane]
		for (var i = 0u; i < n; i = i + 1u) { a[N - 1u] = a[0] + fetch(i); }
		w[lane] = a[3u];
		workgroupBarrier();
		if (lane < N) { y[lane] = w[lane] / f32(P.n % 3u); }
	}`
	if len(shaderRules) == 0 {
		t.Fatal("no rules")
	}
	for name, check := range shaderRules {
		if bad := check(parseShader(head + good)); len(bad) > 0 {
			t.Errorf("%s: the good kernel breaks it: %q", name, bad)
		}
	}
	for _, c := range []struct{ rule, body string }{
		{"words", "switch (lane) { default: {} } }"},
		{"words", "} fn f(p: ptr<function, f32>) { }"},
		{"words", "} var<private> p: f32;"},
		{"words", "let h = vec2<f16>(); }"},
		{"builtins", "y[0] = unpack2x16unorm(1u).x; }"},
		{"builtins", "y[0] = tanh(1.0); }"},
		{"constant-index", "var a: array<f32, 4>; a[lane] = 1.0; }"},
		{"constant-index", "let v = vec4<f32>(); y[0] = v[wid.x]; }"},
		{"constant-index", "y[0] = vec4<f32>()[lane]; }"},
		{"constant-index", "} fn f(weights: array<f32, 4>, i: u32) -> f32 { return weights[i]; }"},
		{"struct-array", "} struct S { a: f32, b: array<f32, 4>, }"},
		{"bounded-loop", "loop { y[0] = 1.0; } }"},
		{"bounded-loop", "while (true) { y[0] = 1.0; } }"},
		{"bounded-loop", "for (;;) { y[0] = 1.0; } }"},
		{"hot-loop", "for (var i = lane; i < N; i = i + 64u) { y[i] = fetch(i); } }"},
		{"hot-loop", "for (var i = 0u; i < P.n; i = i + 1u) { y[i] = fetch(i); } }"},
		{"hot-loop", "var n = P.n; for (var i = 0u; i < n; i = i + 1u) { y[i] = fetch(i); } }"},
		{"hot-loop", "for (var i = 0u; i < N; i = i + 1u) { let k = N; i = k; y[i] = fetch(i); } }"},
		{"hot-loop", "for (var i = 0u; i < N; i = i + 1u) { y[i] = fetch(i / 4u); } }"},
		{"hot-loop", "for (var i = 0u; i < N; i = i + 1u) { g(i); } } fn g(i: u32) -> f32 { return fetch(i % 3u); }"},
		{"array-copies", "for (var i = 0u; i < N; i = i + 1u) { f(a); } } fn f(a: array<f32, 4>) {}"},
		{"barriers", "if (lane < N) { workgroupBarrier(); } }"},
		{"barriers", "let l = lane; for (var i = 0u; i < l; i = i + 1u) { g(); } } fn g() { workgroupBarrier(); }"},
		{"barriers", "if (y[0] > 0.0) { return; } workgroupBarrier(); }"},
		{"barriers", "if (P.n > 0u) { y[0] = 1.0; } else if (w[0] > 0.0) { } else { storageBarrier(); } }"},
		{"nan-tests", "let v = y[0]; if (v != v) { y[0] = 1.0; } }"},
		{"workgroup-size", "} struct Q { a: f32, b: vec2<f32>, } var<workgroup> big: array<Q, 1400>;"},
		{"length", strings.Repeat("y[0] = 1.0;\n", mostStatements) + "}"},
	} {
		if bad := shaderRules[c.rule](parseShader(head + c.body)); len(bad) == 0 {
			t.Errorf("%s: nothing is wrong with %.200s", c.rule, c.body)
		}
	}
	page, err := os.ReadFile("docs/gpus-d3d12-metal.md")
	if err != nil {
		t.Fatal(err)
	}
	for name := range shaderRules {
		if !strings.Contains(string(page), "`"+name+"`") {
			t.Errorf("the documentation has no rule %s", name)
		}
	}
}
