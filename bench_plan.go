package foretoken

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"unicode"
	"unicode/utf8"

	"foretoken/spec"
)

// BenchSession is what a benchmark runs on; Session implements it.
type BenchSession interface {
	// Check refuses what Generate would refuse, before anything is measured.
	Check(r Request) error
	Generate(ctx context.Context, prompt string, r Request, emit func(*Event) error) (*Result, error)
	// Score gives ln p of tokens[i+1] after tokens[:i+1], len(tokens)-1 values in nats, or
	// ErrNoScore.
	Score(ctx context.Context, tokens []int32) ([]float32, error)
	// Losses is how often the device was lost so far and had to be opened anew.
	Losses() int
}

var _ BenchSession = (*Session)(nil)

// ErrNoScore is returned by sessions whose target does not score texts.
var ErrNoScore = errors.New("foretoken: this target cannot score a text")

// Check refuses a request that the session cannot run, with the reason, and prepares the
// device for one that it can.
func (s *Session) Check(r Request) error {
	return s.alone(context.Background(), func() error {
		asked := r
		_, err := s.generator(&asked)
		return err
	})
}

// Score gives the target's ln p of tokens[i+1] after tokens[:i+1], of the raw softmax in nats,
// for each i: len(tokens)-1 values. It ends whatever the session was generating.
func (s *Session) Score(ctx context.Context, tokens []int32) ([]float32, error) {
	scoring, ok := any(s.target).(spec.ScoringTarget)
	if !ok {
		return nil, ErrNoScore
	}
	var logs []float32
	err := s.alone(ctx, func() (err error) {
		logs, err = scoring.Score(ctx, tokens)
		return err
	})
	return logs, err
}

// MaxNodes is how many nodes the target verifies in one pass, the root included.
func (s *Session) MaxNodes() int { return s.target.Limits().MaxRows }

// BenchFingerprint names device, models, what was fitted to them, and cache for
// BenchPlan.Fingerprint.
func (s *Session) BenchFingerprint() string {
	d := s.info.Device
	h := sha256.New()
	if err := json.NewEncoder(h).Encode([]any{d.Backend, d.Adapter, d.Driver, s.pair, s.headPair, s.fitted, s.info.Target.Context, s.info.GPUByte}); err != nil {
		panic("foretoken: a session that JSON cannot name: " + err.Error()) // parsed calibrations hold finite numbers
	}
	return hex.EncodeToString(h.Sum(nil))
}

// BenchMethod is a row of a benchmark: a request by name. The request is complete, its
// sampling and length included.
type BenchMethod struct {
	Name    string  `json:"name"`
	Request Request `json:"request"`
	Repeat  int     `json:"repeat,omitempty"` // repetitions; 0: the plan's
	// Missing says why the method cannot be run, where that is known beforehand: an
	// artefact that nobody made. It is reported and not run.
	Missing string `json:"missing,omitempty"`
}

// Lossy tells whether the method may commit tokens that the target would not have chosen.
func (m *BenchMethod) Lossy() bool {
	c := m.Request.config()
	return !spec.Lossless(c.Verifier)
}

// plain tells whether the method is plain decoding, which every benchmark measures anyway.
func (m *BenchMethod) plain() bool { return m.Request.Policy == spec.DrafterNone }

// sampling names what outputs depend on besides the method: only methods that agree in it
// are compared with one plain decoding.
func (m *BenchMethod) sampling() string {
	r := plainRequest(m.Request)
	b, _ := json.Marshal(&r)
	return string(b)
}

// plainRequest is plain decoding under the sampling and the constraints of a request.
func plainRequest(r Request) Request {
	return Request{Policy: spec.DrafterNone, MaxTokens: r.MaxTokens, Temperature: r.Temperature, Seed: r.Seed,
		SampleTopK: r.SampleTopK, TopP: r.TopP, MinP: r.MinP, Stop: r.Stop, Constraints: r.Constraints}
}

// BenchPrompt is a text to continue.
type BenchPrompt struct {
	ID       string `json:"id"`
	Category string `json:"category"`
	Prompt   string `json:"prompt"`
}

// CategoryOf is the category of a prompt that does not name one: its id up to the last
// dash, or the whole id.
func CategoryOf(id string) string {
	if i := strings.LastIndexByte(id, '-'); i > 0 {
		return id[:i]
	}
	return id
}

// maxBenchPart bounds a method with its first setting, or a further setting, in a list of methods, in bytes.
const maxBenchPart = 500

func unprintable(r rune) bool { return r == utf8.RuneError || !unicode.IsPrint(r) && r != '\t' }

// ParseBenchMethods reads method lists as the command line takes them: names of Methods
// separated by commas, each with settings of its own after a colon, as in
//
//	none,ngram,eagle2:depth=4,top-k=4,nodes=16,hetero:temperature=1,name=hot
//
// A setting is a field of Request under its JSON name, with - for _; shape takes JSON, and
// name is what the row is called. What is not set is common's. Every method is checked as
// far as that goes without models.
func ParseBenchMethods(list string, common Request) ([]BenchMethod, error) {
	var methods []BenchMethod
	if i := strings.IndexFunc(list, unprintable); i >= 0 { // names are printed, and are parts of messages
		return nil, fmt.Errorf("foretoken: the method list has %q at byte %d; only what can be printed may be in it", list[i:i+1], i)
	}
	for _, part := range splitOutside(list, ',') {
		if len(part) > maxBenchPart {
			return nil, fmt.Errorf("foretoken: the method list has a part of %d bytes, want at most %d", len(part), maxBenchPart)
		}
		part = strings.TrimSpace(part)
		name, settings, colon := strings.Cut(part, ":")
		if eq := strings.IndexByte(part, '='); colon && eq >= 0 && eq < len(name) {
			colon = false // the colon is in a setting's value
		}
		switch {
		case part == "":
			return nil, fmt.Errorf("foretoken: the method list %.200q has an empty part", list)
		case !colon && strings.Contains(part, "="):
			if len(methods) == 0 {
				return nil, fmt.Errorf("foretoken: the setting %q comes before any method", part)
			}
			settings = part
		default:
			m := BenchMethod{Name: name, Request: common}
			m.Request.Policy, m.Request.Verifier = name, ""
			m.Request.Depth, m.Request.TopK, m.Request.Nodes = 0, 0, 0
			if !knownMethod(name) {
				return nil, fmt.Errorf("foretoken: unknown method %q, want one of %s", name, strings.Join(methodNames(), ", "))
			}
			methods = append(methods, m)
			if !colon {
				continue
			}
		}
		m := &methods[len(methods)-1]
		if err := m.set(settings); err != nil {
			return nil, err
		}
	}
	for i := range methods {
		m := &methods[i]
		if err := m.check(); err != nil {
			return nil, err
		}
		for j := range methods[:i] {
			if methods[j].Name == m.Name {
				return nil, fmt.Errorf("foretoken: two methods are called %.200q; give one another name=…", m.Name)
			}
		}
	}
	return methods, nil
}

// splitOutside splits at sep where no bracket is open.
func splitOutside(s string, sep byte) []string {
	var parts []string
	open, from := 0, 0
	for i := range len(s) {
		switch s[i] {
		case '[', '{':
			open++
		case ']', '}':
			open = max(open-1, 0) // one too many opens nothing
		case sep:
			if open == 0 {
				parts = append(parts, s[from:i])
				from = i + 1
			}
		}
	}
	return append(parts, s[from:])
}

func methodNames() []string {
	var names []string
	for _, m := range Methods() {
		names = append(names, m.Name)
	}
	return names
}

func knownMethod(name string) bool {
	for _, m := range Methods() {
		if m.Name == name {
			return true
		}
	}
	return false
}

// set takes one setting, key=value, and makes it part of the method's name unless it is
// the name.
func (m *BenchMethod) set(setting string) error {
	key, value, ok := strings.Cut(setting, "=")
	key, value = strings.TrimSpace(key), strings.TrimSpace(value)
	if !ok || key == "" || value == "" {
		return fmt.Errorf("foretoken: method %.200s: %q is no setting, want key=value", m.Name, setting)
	}
	if key == "name" {
		m.Name = value
		return nil
	}
	known, err := setRequest(&m.Request, key, value)
	if err != nil {
		return fmt.Errorf("foretoken: method %.200s: %w", m.Name, err)
	}
	if !known {
		return fmt.Errorf("foretoken: method %.200s has no setting %q, want one of %s", m.Name, key, strings.Join(settingNames(), ", "))
	}
	sep := ","
	if !strings.Contains(m.Name, ":") {
		sep = ":"
	}
	m.Name += sep + key + "=" + value
	return nil
}

// settable calls f for every field of a request that a method list may set.
func settable(v reflect.Value, f func(name string, field reflect.Value) bool) bool {
	for i := range v.NumField() {
		t := v.Type().Field(i)
		if t.Anonymous {
			if settable(v.Field(i), f) {
				return true
			}
			continue
		}
		name, _, _ := strings.Cut(t.Tag.Get("json"), ",")
		switch name {
		case "", "-", "policy", "stop":
			continue
		}
		if f(strings.ReplaceAll(name, "_", "-"), v.Field(i)) {
			return true
		}
	}
	return false
}

func settingNames() []string {
	names := []string{"name"}
	settable(reflect.ValueOf(Request{}), func(name string, _ reflect.Value) bool {
		names = append(names, name)
		return false
	})
	return names
}

func setRequest(r *Request, key, value string) (known bool, err error) {
	key = strings.ReplaceAll(key, "_", "-")
	known = settable(reflect.ValueOf(r).Elem(), func(name string, field reflect.Value) bool {
		if name != key {
			return false
		}
		if field.Kind() == reflect.String {
			field.SetString(value)
			return true
		}
		// Into a value of its own: what lists and pointers of the common request point to is the other methods' too.
		// JSON takes null for anything and then sets nothing.
		own := reflect.New(field.Type())
		if value == "null" || json.Unmarshal([]byte(value), own.Interface()) != nil {
			err = fmt.Errorf("%s is %q, want %s", key, value, kindName(field.Type()))
			return true
		}
		field.Set(own.Elem())
		return true
	})
	return known, err
}

func kindName(t reflect.Type) string {
	switch t.Kind() {
	case reflect.Pointer:
		return kindName(t.Elem())
	case reflect.Bool:
		return "true or false"
	case reflect.Int, reflect.Int64:
		return "a whole number"
	case reflect.Uint64:
		return "a whole number of 0 or more"
	case reflect.Float64:
		return "a number"
	case reflect.Map:
		return `JSON such as {"17":-100}`
	}
	if t == reflect.TypeFor[json.RawMessage]() {
		return `JSON such as {"type":"object"}`
	}
	return "JSON such as [[4],[2,1]]"
}

func (m *BenchMethod) check() error {
	r := &m.Request
	if err := r.Validate(); err != nil {
		return fmt.Errorf("foretoken: method %.200s: %w", m.Name, err)
	}
	s := spec.Sampling{Temperature: r.Temperature, TopK: r.SampleTopK, TopP: r.TopP, MinP: r.MinP, Seed: r.Seed}
	if err := s.Validate(); err != nil {
		return fmt.Errorf("foretoken: method %.200s: %w", m.Name, err)
	}
	if r.MaxTokens < 0 {
		return fmt.Errorf("foretoken: method %.200s: max-tokens is %d, want 0 or more", m.Name, r.MaxTokens)
	}
	return nil
}

// BenchPlan is a matrix of methods × prompts × repetitions.
type BenchPlan struct {
	Methods []BenchMethod
	Prompts []BenchPrompt
	Repeat  int // repetitions of methods that do not say; 0: 3
	// Block is how many methods share the runs of plain decoding before and after them, which
	// their speedup is taken over; 0: 8.
	Block   int
	NoScore bool // leave out the target's loss on the outputs
	// Parse, when not nil, tells whether a program's parser accepts a prompt with its output;
	// judged is false where the prompt alone cannot be made sense of.
	Parse func(prompt, output string) (ok, judged bool)
	// Fingerprint names the device and the models, so that the cells of another pair are
	// not taken for this one's.
	Fingerprint string
	// Finished, when not nil, gives a cell measured earlier, by its key.
	Finished func(key string) (BenchCell, bool)
	// Problem, when not nil, is told of a method that cannot be run, or of a prompt that
	// failed; with nil as its answer the method is left out and the rest goes on.
	Problem func(method, prompt string, err error) error
	// Progress, when not nil, is told how many cells are done.
	Progress func(done, total int)
}

// key names a cell: everything that its result depends on.
func (p *BenchPlan) key(m *BenchMethod, prompt *BenchPrompt, rep int) string {
	h := sha256.New()
	enc := json.NewEncoder(h)
	_ = enc.Encode([]any{p.Fingerprint, &m.Request, prompt, rep, !p.NoScore, p.Parse != nil,
		m.Request.Aids.Hetero, m.Request.Aids.C2T, m.Request.Aids.Head})
	return hex.EncodeToString(h.Sum(nil)[:12])
}
