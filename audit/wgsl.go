//go:build cgo && !js

package audit

import (
	"maps"
	"slices"
	"strings"
)

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
