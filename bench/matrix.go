package bench

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"foretoken"
	"foretoken/internal/hint"
	"foretoken/spec"
	"foretoken/spec/method"
	"foretoken/webgpu"
)

// Session is the part of foretoken.Session that a benchmark runs on.
type Session interface {
	// Check refuses what Generate would refuse, before anything is measured.
	Check(r foretoken.Request) error
	Generate(ctx context.Context, prompt string, r foretoken.Request,
		emit func(*foretoken.Event) error) (*foretoken.Result, error)
	// Score returns ln p of tokens[i+1] after tokens[:i+1], len(tokens)-1 values in nats.
	Score(ctx context.Context, tokens []int32) ([]float32, error)
	// Losses counts how often the device was lost and reopened.
	Losses() int
	// Device is the one in use, whose submits are counted; nil: they are not.
	Device() webgpu.Device
}

var _ Session = (*foretoken.Session)(nil)

// Fingerprint identifies the device, the models, their calibrations and the cache, for Matrix.Fingerprint.
func Fingerprint(s *foretoken.Session) string {
	info := s.Info()
	d := info.Device
	h := sha256.New()
	if err := json.NewEncoder(h).Encode([]any{d.Backend, d.Adapter, d.Driver, s.Fingerprint(), s.HeadFingerprint(),
		s.Calibrations(), info.Target.Context, info.GPUByte}); err != nil {
		panic("foretoken: a session that JSON cannot name: " + err.Error()) // parsed calibrations hold finite numbers
	}
	return hex.EncodeToString(h.Sum(nil))
}

// Method is a row of a benchmark: a named request, complete with sampling and length.
type Method struct {
	Name    string            `json:"name"`
	Request foretoken.Request `json:"request"`
	Repeat  int               `json:"repeat,omitempty"` // repetitions; 0: the matrix's
	// Missing is the reason why the method cannot run, if it is known beforehand, such as a missing artefact. The
	// method is then reported and skipped.
	Missing string `json:"missing,omitempty"`
	Against string `json:"against,omitempty"` // the name of the method it is compared with, besides plain decoding
}

// Lossy reports whether the method may commit tokens that the target would not have chosen.
func (m *Method) Lossy() bool {
	return m.Request.Config().Exactness() == method.Lossy
}

// plain reports whether the method is plain decoding, which every benchmark measures anyway.
func (m *Method) plain() bool { return m.Request.Policy == method.DrafterNone }

// sampling identifies the settings besides the method that outputs depend on: methods with equal ones share the
// runs of plain decoding.
func (m *Method) sampling() string {
	r := plainRequest(m.Request)
	b, _ := json.Marshal(&r)
	return string(b)
}

// plainRequest returns plain decoding with the sampling and the constraints of a request.
func plainRequest(r foretoken.Request) foretoken.Request {
	plain := foretoken.Request{Policy: method.DrafterNone, Constraints: r.Constraints}
	for _, s := range foretoken.Settings() {
		switch s.Group {
		case spec.GroupSampling, spec.GroupFilters, spec.GroupConstraints:
			s.In(&plain).Set(s.In(&r))
		}
	}
	return plain
}

// Prompt is a text to continue.
type Prompt struct {
	ID       string `json:"id"`
	Category string `json:"category"`
	Prompt   string `json:"prompt"`
}

// CategoryOf returns the default category of a prompt: its id up to the last dash, or the complete id.
func CategoryOf(id string) string {
	if i := strings.LastIndexByte(id, '-'); i > 0 {
		return id[:i]
	}
	return id
}

// maxPart limits the bytes of a method with its first setting, or of a further setting, in a list of methods.
const maxPart = 500

func unprintable(r rune) bool { return r == utf8.RuneError || !unicode.IsPrint(r) && r != '\t' }

// ParseMethods reads method lists as the command line takes them: names of Methods separated by commas, each with its
// settings after a colon, as in
//
//	none,ngram,eagle2:depth=4,top-k=4,nodes=16,name=tree,hetero:temperature=1,name=hot,against=tree
//
// A setting is a field of Request under its JSON name, with - for _; shape takes JSON, name names the row, and against
// names the method it is compared with. Missing settings come from common. Every method is validated as far as
// possible without models.
func ParseMethods(list string, common foretoken.Request) ([]Method, error) {
	var methods []Method
	if i := strings.IndexFunc(list, unprintable); i >= 0 { // names are printed, also in messages
		return nil, fmt.Errorf("foretoken: the method list has %q at byte %d; only what can be printed may be in it",
			list[i:i+1], i)
	}
	for _, part := range splitOutside(list, ',') {
		if len(part) > maxPart {
			return nil, fmt.Errorf("foretoken: the method list has a part of %d bytes, want at most %d",
				len(part), maxPart)
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
			m := Method{Name: name, Request: common}
			m.Request.SetPolicy(name)
			if known := method.Names(); !slices.Contains(known, name) {
				return nil, fmt.Errorf("foretoken: unknown method %q, want one of %s%s", name,
					strings.Join(known, ", "), hint.DidYouMean(name, known))
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
		same := func(o Method) bool { return o.Name == m.Against }
		if m.Against != "" && !slices.ContainsFunc(methods, same) { // bound: a command line's methods
			return nil, fmt.Errorf("foretoken: method %.200s is compared with %.200s, which is no method of the list",
				m.Name, m.Against)
		}
		for j := range methods[:i] {
			if methods[j].Name == m.Name {
				return nil, fmt.Errorf("foretoken: two methods are called %.200q; give one another name=…", m.Name)
			}
		}
	}
	return methods, nil
}

// splitOutside splits at sep outside of brackets.
func splitOutside(s string, sep byte) []string {
	var parts []string
	open, from := 0, 0
	for i := range len(s) {
		switch s[i] {
		case '[', '{':
			open++
		case ']', '}':
			open = max(open-1, 0) // an unmatched bracket closes nothing
		case sep:
			if open == 0 {
				parts = append(parts, s[from:i])
				from = i + 1
			}
		}
	}
	return append(parts, s[from:])
}

// set applies one setting, key=value, and appends it to the method's name unless it sets the name.
func (m *Method) set(setting string) error {
	key, value, ok := strings.Cut(setting, "=")
	key, value = strings.TrimSpace(key), strings.TrimSpace(value)
	if !ok || key == "" || value == "" {
		return fmt.Errorf("foretoken: method %.200s: %q is not a setting, want key=value", m.Name, setting)
	}
	switch key {
	case "name":
		m.Name = value
		return nil
	case "against":
		m.Against = value
		return nil
	}
	rows, names := foretoken.Settings(), []string{"name", "against"}
	i := slices.IndexFunc(rows, func(s spec.Setting) bool { return s.Name == strings.ReplaceAll(key, "-", "_") })
	if i < 0 || ofPlan(&rows[i]) {
		for i := range rows {
			if !ofPlan(&rows[i]) {
				names = append(names, strings.ReplaceAll(rows[i].Name, "_", "-"))
			}
		}
		return fmt.Errorf("foretoken: method %.200s has no setting %q, want one of %s%s", m.Name, key,
			strings.Join(names, ", "), hint.DidYouMean(key, names))
	}
	if field := rows[i].In(&m.Request); field.Kind() == reflect.String {
		field.SetString(value)
	} else if value == "null" || rows[i].Decode([]byte(value), &m.Request) != nil { // null would set nothing
		return fmt.Errorf("foretoken: method %.200s: %s is %q, want %s", m.Name,
			strings.ReplaceAll(rows[i].Name, "_", "-"), value, kindName(field.Type()))
	}
	sep := ","
	if !strings.Contains(m.Name, ":") {
		sep = ":"
	}
	m.Name += sep + key + "=" + value
	return nil
}

// ofPlan reports whether a setting cannot differ from method to method, or has another place in a method list.
func ofPlan(s *spec.Setting) bool {
	return slices.Contains([]string{"policy", "stop", "include_stop_str_in_output", "stop_token_ids", "echo"}, s.Name)
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

func (m *Method) check() error {
	if err := m.Request.Validate(); err != nil {
		return fmt.Errorf("foretoken: method %.200s: %w", m.Name, err)
	}
	return nil
}

// Matrix says what Run measures: methods × prompts × repetitions.
type Matrix struct {
	Methods []Method
	Prompts []Prompt
	Repeat  int // repetitions of methods without their own; 0: 3
	// Block is the number of methods that share runs of plain decoding, before and after them, as the base of their
	// speedup; 0: 8.
	Block   int
	NoScore bool // leave out the target's loss on the outputs
	// Counts measures no times: nothing is warmed up, plain decoding runs once for each prompt and repetition, and
	// cells have no speed.
	Counts bool
	// Judge, when not nil, checks an output as a text of a programming language.
	Judge func(prompt, output string) Judgement
	// Fingerprint identifies the device and the models, so that cells of another pair are not reused.
	Fingerprint string
	// Finished, when not nil, returns a cell measured earlier by its key.
	Finished func(key string) (Cell, bool)
	// Problem, when not nil, receives a method that cannot run, a prompt that failed with a method, or, with an empty
	// method, a prompt that does not fit the context; if it returns nil, what it received is skipped and the run
	// continues.
	Problem func(method, prompt string, err error) error
	// Progress, when not nil, receives the number of finished cells.
	Progress func(done, total int)
}

// Judgement is the opinion of a language's parser and type checker about an output after its prompt.
type Judgement struct {
	Judged bool `json:"judged"` // the parser accepts the prompt; otherwise the other fields are false
	Parses bool `json:"parses"` // it accepts the output, too
	// Completed reports that an output that parses completes a function and that its types could be checked;
	// TypeChecks, that every function that it completes type-checks.
	Completed  bool `json:"completed"`
	TypeChecks bool `json:"type_checks"`
}

// cellFormat counts the forms of a cell in JSON: cells of another form are measured again.
const cellFormat = 4

// key identifies a cell by everything that its result depends on.
func (p *Matrix) key(m *Method, prompt *Prompt, rep int) string {
	h := sha256.New()
	enc := json.NewEncoder(h)
	_ = enc.Encode(append([]any{cellFormat, p.Fingerprint, &m.Request, prompt, rep, !p.NoScore, p.Judge != nil,
		p.Counts}, m.Request.Fitted.Files()...))
	return hex.EncodeToString(h.Sum(nil)[:12])
}
