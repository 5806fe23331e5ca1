package chat

import (
	"bytes"
	"encoding/json"
	"math/rand/v2"
	"slices"
	"strings"
)

// The element around a call in the templates of Hermes and Qwen.
var openTag, closeTag = []byte("<tool_call>"), []byte("</tool_call>")

// CallReader finds function calls in an answer while it is generated. It reads two forms: <tool_call> elements anywhere
// in the text (Hermes, Qwen), and a text that is nothing but a JSON value (Llama 3, Mistral). The JSON is a call or a
// list of calls: an object with a given function's name and its arguments or parameters. All else stays text, and is
// held back only while it may still become a call.
type CallReader struct {
	names  []string
	single bool   // one call ends the answer
	held   []byte // may be a call's beginning, or white space before one
	blank  bool   // no content but white space was returned
	calls  int    // that were returned

	scan  *callScan // of the value that began, nil outside
	bare  bool      // it is the whole text
	start int       // in held: of the tag, or of the bare value
	at    int       // in held: the next byte for scan
}

// NewCallReader makes a reader of one answer. names are the functions that may be called. With single, the answer ends
// after its first call.
func NewCallReader(names []string, single bool) *CallReader {
	return &CallReader{names: names, single: single, blank: true}
}

// Push adds a piece of text. It returns the content that no call can begin in, and the calls that are complete.
func (r *CallReader) Push(text string) (content string, calls []ToolCall) {
	r.held = append(r.held, text...)
	return r.read(false)
}

// End returns the rest once the text has ended. A complete call whose closing tag was cut off counts.
func (r *CallReader) End() (content string, calls []ToolCall) { return r.read(true) }

func (r *CallReader) read(end bool) (content string, calls []ToolCall) {
	var out []byte
	emit := func(n int) {
		if n > 0 {
			out, r.blank = append(out, r.held[:n]...), false
			r.held = r.held[n:]
		}
	}
	for !(r.single && r.calls > 0) {
		if r.scan == nil && !r.begin(end, emit) {
			return string(out), calls
		}
		switch n, ok := r.advance(end); {
		case n == 0 && ok:
			return string(out), calls // more text decides
		case ok:
			found := r.scan.calls
			if r.single {
				found = found[:1]
			}
			calls, r.calls = append(calls, found...), r.calls+len(found)
			r.held, r.scan = r.held[n:], nil
		case r.bare:
			r.blank, r.scan = false, nil
		default:
			emit(r.start + len(openTag))
			r.scan = nil
		}
	}
	r.held = nil
	return string(out), calls
}

// begin returns text that begins no call, and reports whether a value begins in the rest.
func (r *CallReader) begin(end bool, emit func(int)) bool {
	lead := 0
	if r.blank {
		lead = len(r.held) - len(bytes.TrimLeft(r.held, " \t\r\n"))
	}
	open := bytes.Index(r.held, openTag)
	switch {
	case r.blank && lead < len(r.held) && (r.held[lead] == '{' || r.held[lead] == '['):
		r.bare, r.start, r.at = true, lead, lead
	case open >= 0:
		if !r.blank || open > lead { // white space before the first call is no content
			emit(open)
			open = 0
		}
		r.bare, r.start, r.at = false, open, open+len(openTag)
	default:
		keep := 0
		for n := min(len(openTag)-1, len(r.held)); n > 0 && !end; n-- {
			if bytes.HasSuffix(r.held, openTag[:n]) {
				keep = n
				break
			}
		}
		switch last := lead+keep == len(r.held); {
		case !last || end && r.calls == 0:
			emit(len(r.held) - keep)
		case end:
			r.held = nil
		}
		return false
	}
	r.scan = &callScan{names: r.names}
	return true
}

// advance reads on in the value. It returns where the text of the calls ends, 0 if more text decides, and false where
// no call can come of it.
func (r *CallReader) advance(end bool) (int, bool) {
	for ; r.at < len(r.held); r.at++ {
		c := r.held[r.at]
		if !r.scan.done {
			if !r.scan.next(c) {
				return 0, false
			}
			continue
		}
		if strings.IndexByte(" \t\r\n", c) >= 0 {
			continue
		}
		switch rest := r.held[r.at:]; {
		case !r.bare && bytes.HasPrefix(rest, closeTag):
			return r.at + len(closeTag), true
		case r.bare || !bytes.HasPrefix(closeTag, rest):
			return 0, false
		case end:
			return len(r.held), true
		}
		return 0, true
	}
	switch {
	case !end:
		return 0, true
	case r.scan.done:
		return len(r.held), true
	}
	return 0, false
}

// callScan reads the JSON of one call or of a list of calls byte by byte and stops at the first byte with which it can
// be neither.
type callScan struct {
	names []string
	calls []ToolCall // that are complete
	done  bool       // the value has ended

	state scanState
	open  []byte // '{' and '[' of the values that are open
	base  int    // how many are open directly in a call
	out   []byte // the JSON without white space between its tokens
	from  int    // in out: the begin of the last string, number or word
	hex   int    // digits that \u still wants
	isKey bool   // of the string

	key     string // of the call's member
	value   int    // in out: where its value begins
	members int    // of the call so far
	name    string
	args    map[string][]byte // by arguments and parameters
}

type scanState int

const (
	wantValue  scanState = iota
	wantItem             // or the end of a list
	wantMember           // or the end of an object
	wantKey
	wantColon
	wantMore // a comma, or the end
	inString
	inEscape
	inWord // or a number
)

// next reads one byte, and reports whether the value may still be a call.
func (s *callScan) next(c byte) bool {
	switch s.state {
	case inString:
		s.out = append(s.out, c)
		switch {
		case c == '"':
			return s.stringEnded()
		case c == '\\':
			s.state = inEscape
		case c < ' ':
			return false
		}
		return s.named(s.out[s.value:])
	case inEscape:
		s.out = append(s.out, c)
		switch {
		case s.hex > 0:
			if !isHex(c) {
				return false
			}
			s.hex--
		case c == 'u':
			s.hex = 4
		case strings.IndexByte(`"\/bfnrt`, c) < 0:
			return false
		}
		if s.hex == 0 {
			s.state = inString
		}
		return true
	case inWord:
		if strings.IndexByte("+-.", c) >= 0 || c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c == 'E' {
			s.out = append(s.out, c)
			return len(s.out)-s.from <= len("false") || s.out[s.from] < 'a'
		}
		if !json.Valid(s.out[s.from:]) || !s.valueEnded() {
			return false
		}
	}
	if strings.IndexByte(" \t\r\n", c) >= 0 {
		return true
	}
	s.out = append(s.out, c)
	s.from = len(s.out) - 1
	switch {
	case c == '"' && (s.state == wantMember || s.state == wantKey):
		s.state, s.isKey = inString, true
		return true
	case s.state == wantColon && c == ':':
		s.state = wantValue
		return true
	case s.state == wantMore && c == ',':
		if s.state = wantValue; s.open[len(s.open)-1] == '{' {
			s.state = wantKey
		}
		return true
	case c == '}' && (s.state == wantMember || s.state == wantMore),
		c == ']' && (s.state == wantItem || s.state == wantMore):
		return s.close(c)
	case s.state == wantValue || s.state == wantItem:
		return s.begun(c)
	}
	return false
}

// begun begins a value with the byte c.
func (s *callScan) begun(c byte) bool {
	if s.base == 0 { // the call, or the list of calls
		if s.base = 1; c == '[' {
			s.base = 2
		}
	}
	depth := len(s.open)
	if depth == s.base {
		s.value = s.from
		switch {
		case s.key == "name" && c != '"', (s.key == "arguments" || s.key == "parameters") && c != '{' && c != 'n':
			return false
		}
	}
	switch {
	case c == '{' || c == '[':
		if depth < s.base && c == '[' && depth > 0 { // a list within the list
			return false
		}
		s.open = append(s.open, c)
		if s.state = wantMember; c == '[' {
			s.state = wantItem
		}
		if len(s.open) == s.base && c == '{' {
			s.key, s.members, s.name, s.args = "", 0, "", map[string][]byte{}
		}
		return true
	case depth < s.base:
		return false
	case c == '"':
		s.state, s.isKey = inString, false
	case c == '-' || c >= '0' && c <= '9' || c == 't' || c == 'f' || c == 'n':
		s.state = inWord
	default:
		return false
	}
	return true
}

// stringEnded takes a key or a value.
func (s *callScan) stringEnded() bool {
	if !s.isKey {
		return s.valueEnded()
	}
	s.state = wantColon
	if len(s.open) != s.base {
		return true
	}
	if json.Unmarshal(s.out[s.from:], &s.key) != nil {
		return false
	}
	s.members++
	return s.members > 1 || slices.Contains([]string{"name", "arguments", "parameters", "type", "id"}, s.key)
}

// valueEnded takes a value that is complete.
func (s *callScan) valueEnded() bool {
	if s.state = wantMore; len(s.open) != s.base {
		return true
	}
	switch raw := s.out[s.value:]; s.key {
	case "name":
		return json.Unmarshal(raw, &s.name) == nil && slices.Contains(s.names, s.name) // bound: 128 tools
	case "arguments", "parameters":
		if s.args[s.key] = bytes.Clone(raw); string(raw) == "null" {
			delete(s.args, s.key)
		}
	}
	return true
}

// close ends an object or a list.
func (s *callScan) close(c byte) bool {
	last := len(s.open) - 1
	if s.open[last] != c-2 { // '{' and '}', '[' and ']' are two apart
		return false
	}
	depth := len(s.open)
	s.open = s.open[:last]
	if depth == s.base && c == '}' {
		if s.name == "" {
			return false
		}
		call := ToolCall{ID: newCallID(), Name: s.name, Arguments: json.RawMessage("{}")}
		for _, key := range []string{"parameters", "arguments"} {
			if raw, ok := s.args[key]; ok {
				call.Arguments = raw
			}
		}
		s.calls = append(s.calls, call)
	}
	if last == 0 {
		s.done = true
		return len(s.calls) > 0
	}
	return s.valueEnded()
}

// named reports whether what is read of a call's name begins the name of a function. A name with escapes is decided at
// its end.
func (s *callScan) named(raw []byte) bool {
	if s.isKey || s.key != "name" || len(s.open) != s.base || bytes.IndexByte(raw, '\\') >= 0 {
		return true
	}
	return slices.ContainsFunc(s.names, // bound: 128 tools
		func(name string) bool { return strings.HasPrefix(name, string(raw[1:])) })
}

func isHex(c byte) bool { return c >= '0' && c <= '9' || c|0x20 >= 'a' && c|0x20 <= 'f' }

// newCallID makes an id in the one form that every published template takes: Mistral's want nine letters and digits.
func newCallID() string {
	const letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"
	id := []byte("call")
	for len(id) < 9 {
		id = append(id, letters[rand.IntN(len(letters))])
	}
	return string(id)
}
