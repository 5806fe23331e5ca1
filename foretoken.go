// Package foretoken decodes language models speculatively: a small draft model proposes a tree of tokens, the
// target verifies it in one pass, and the text is exactly that of plain decoding. The same code runs on WebGPU in
// the browser, on wgpu-native and on the CPU.
//
//	dev, _, err := open.Device(ctx, "auto")
//	session, err := foretoken.Open(ctx, dev, target, draft, foretoken.Options{})
//	result, err := session.Generate(ctx, "func main() {", foretoken.DefaultRequest(), emit)
package foretoken

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"foretoken/internal/costmodel"
	"foretoken/internal/files"
	"foretoken/internal/quote"
	"foretoken/internal/warmup"
	"foretoken/models/arch"
	"foretoken/models/chat"
	"foretoken/models/constrain"
	"foretoken/models/convert"
	"foretoken/models/gguf"
	"foretoken/models/graph"
	"foretoken/models/llama"
	"foretoken/models/quant"
	"foretoken/models/tokenizer"
	"foretoken/spec"
	"foretoken/spec/adapt"
	"foretoken/webgpu"
)

// Options of Open. The zero value takes each model as its file describes it.
type Options struct {
	Context int    // positions of both KV caches; 0: the smaller of the models' own, at most 4096
	KV      string // "f32" (also ""), "f16" or "q8"
	Memory  int64  // bytes that the models may take on the device, see Plan; 0: as many as it gives
	// Candidates is the number of likeliest tokens that the target reports per position; 0: as many as decoding
	// needs.
	Candidates int
	// Tuning holds kernel choices measured before on the same adapter, as
	// Session.Tuning gave them, by model role and matrix.
	Tuning map[string]map[string]string
	// Nodes is the largest tree that can be verified, the root included; 0: 64.
	Nodes int
	// Calibrations is the data fitted to the pair; nil: none.
	Calibrations *Calibrations
	// EAGLE3 is an EAGLE-3 head's safetensors file and EAGLE3Config its config.json, to
	// draft from the target's features; nil: none.
	EAGLE3, EAGLE3Config files.Source
	// Lean has Open return when plain decoding and drafts of small trees can begin. What larger trees need is compiled
	// and recorded while no request runs; until then auto drafts small ones and other methods with a draft wait. Passes
	// are timed while no request runs, and auto goes by predicted costs before. With an EAGLE-3 head all is recorded
	// before Open returns.
	Lean bool
	// Progress receives the steps of loading, and of reloading after a loss.
	Progress func(Progress)
	// SHA256 computes the hashes that tell model files apart; nil: crypto/sha256.
	SHA256 func([]byte) [sha256.Size]byte
	// Reopen opens the device again after it was lost, or did not answer in time; nil: the request fails. With it the
	// session reloads the models, so the sources must stay readable until Close, and a running request goes on with
	// the same text. Close destroys what Reopen opened.
	Reopen func(ctx context.Context) (webgpu.Device, error)
	// Lost is called when the device was lost and when the session goes on.
	Lost func(Loss)
}

// Progress is a step of loading. Stage is "memory" (Total is the number of bytes to allocate on the device, Note
// lists them), then "target", "draft" or "eagle3" (Done and Total are bytes of weights), or "kernels" (Note names the
// kernel being compiled or timed), or "ready".
type Progress struct {
	Stage string `json:"stage"`
	Done  int64  `json:"done"`
	Total int64  `json:"total"`
	Note  string `json:"note,omitempty"`
}

// Session is a pair of models on a device. It serves one request at a time.
type Session struct {
	turn   warmup.Turn
	state  state
	dev    webgpu.Device
	tok    *tokenizer.Tokenizer
	target *llama.Target
	draft  *llama.Draft  // nil without a draft
	head   *llama.EAGLE3 // nil without a head
	info   Info
	pair   spec.Fingerprint // of target and draft; headPair is of target and head

	headPair spec.Fingerprint
	fitted   Calibrations

	lean   bool
	warmup *warmup.Warmup
	costs  *costmodel.Model

	owner string             // of the last request: of what the KV caches and adasd hold
	adasd adapt.AdaSDRecords // of the requests that carry AdaSD's thresholds on

	vocab *constrain.Vocab

	template    *chat.Template // the target's; nil where templateErr says why
	templateErr error
	given       atomic.Pointer[givenTemplate]

	files     *modelFiles
	options   Options
	owned     bool         // Options.Reopen opened dev
	losses    int          // of the device since the last committed token
	allLosses atomic.Int64 // see Losses
}

// Info describes a session.
type Info struct {
	Device  webgpu.Info `json:"device"`
	Target  graph.Info  `json:"target"`
	Draft   *graph.Info `json:"draft"`
	EAGLE3  *graph.Info `json:"eagle3,omitempty"`
	LoadMS  float64     `json:"load_ms"`
	GPUByte int64       `json:"gpu_bytes"`
}

// Open loads a target and, unless draft is nil, its draft. The two must agree on every token. The device stays the
// caller's; Close frees the session's objects on it.
func Open(ctx context.Context, dev webgpu.Device, target, draft files.Source, o Options) (*Session, error) {
	begin := time.Now()
	p, err := readHeaders(target, draft, o)
	if err != nil {
		return nil, ofKind(ErrModel, err)
	}
	memory, err := p.memory(o, dev.Info().Limits)
	if err != nil {
		return nil, ofKind(ErrMemory, err)
	}
	s := &Session{dev: dev, tok: p.tok, files: p, options: o, lean: o.Lean && p.head == nil}
	s.progress(Progress{Stage: "memory", Total: memory.Total, Note: memory.String()})
	s.template, s.templateErr = chat.ForFile(p.target, s.templateOptions())
	if o.Calibrations != nil {
		s.fitted = *o.Calibrations
	}
	s.info.Device = dev.Info()
	if err = s.load(ctx, o.Tuning); s.lostBy(err) {
		err = s.reopen(ctx, err)
	}
	if err != nil {
		s.Close()
		return nil, loadingError(err)
	}
	s.costs = costmodel.New(s.costsKey(), o.Tuning[tuningCosts], s.predictedCosts)
	s.vocab = constrain.NewVocab(s.tok, s.target.Limits().Vocab)
	s.info.LoadMS = float64(time.Since(begin)) / float64(time.Millisecond)
	s.progress(Progress{Stage: "ready", Done: 1, Total: 1})
	s.warmUpIdle()
	return s, nil
}

// openModel reads a file's header and its tokenizer.
func openModel(src files.Source) (*gguf.File, *tokenizer.Tokenizer, error) {
	f, err := gguf.Open(src)
	if err != nil {
		return nil, nil, err
	}
	tok, err := check(f)
	return f, tok, err
}

// check refuses a file that cannot be run, and returns its tokenizer. Numbers are compared before any list is read.
func check(f *gguf.File) (*tokenizer.Tokenizer, error) {
	c, err := arch.Read(f, 0)
	if err := cmp.Or(convert.CheckWhole(f), err); err != nil {
		return nil, err
	}
	for i := range f.Tensors {
		if t := &f.Tensors[i]; !quant.Supported(t.Type) {
			return nil, fmt.Errorf("foretoken: %s: tensor %s is %s; %s can be run", f.Name(),
				quote.Name(t.Name), t.Type, quant.Names)
		}
	}
	if err := c.CheckVocab(f.Name(), tokenizer.Count(f)); err != nil {
		return nil, err
	}
	return tokenizer.New(f)
}

// contextOf is the length both models are loaded with.
func contextOf(asked int, files ...*gguf.File) (int, error) {
	most := arch.DefaultContext
	for _, f := range files {
		if f == nil {
			continue
		}
		c, err := arch.Read(f, asked)
		if err != nil {
			return 0, err
		}
		if asked > c.Context {
			return 0, refused("foretoken: a context of %d was asked for, but %s was trained for %d positions", asked,
				f.Name(), c.Context)
		}
		most = min(most, c.Usable())
	}
	if asked < 0 {
		return 0, refused("foretoken: a context of %d was asked for", asked)
	}
	if asked > 0 {
		return asked, nil
	}
	return most, nil
}

// Info describes the session.
func (s *Session) Info() Info { return s.info }

// Files returns what the session's models are to those who must not know where they lie, by the names of their sources:
// errors name these.
func (s *Session) Files() map[string]string {
	files := map[string]string{s.files.target.Name(): "the target"}
	if s.files.draft != nil {
		files[s.files.draft.Name()] = "the draft model"
	}
	if head := s.options.EAGLE3; head != nil {
		files[head.Name()] = "the EAGLE-3 head"
	}
	return files
}

// Tuning is the kernel choices made and, once they were timed, what passes cost, for Options.Tuning of a later session
// on the same adapter. Add the latter to what is stored of other sessions.
func (s *Session) Tuning() map[string]map[string]string {
	s.turn.Lock()
	defer s.turn.Unlock()
	out := s.choices()
	if stored := s.costs.Stored(); stored != nil {
		out[tuningCosts] = stored
	}
	return out
}

// choices returns the kernel choices of the loaded models.
func (s *Session) choices() map[string]map[string]string {
	out := map[string]map[string]string{"target": s.target.Kernels.Choices()}
	if s.draft != nil {
		out["draft"] = s.draft.Kernels.Choices()
	}
	if s.head != nil {
		out["eagle3"] = s.head.Kernels.Choices()
	}
	return out
}

// Tokenizer is the pair's.
func (s *Session) Tokenizer() *tokenizer.Tokenizer { return s.tok }

// Close frees the session's objects on the device.
func (s *Session) Close() {
	s.turn.Lock()
	defer s.turn.Unlock()
	s.state = closed
	if s.head != nil {
		s.head.Close()
	}
	if s.draft != nil {
		s.draft.Close()
	}
	if s.target != nil {
		s.target.Close()
	}
	if s.owned {
		s.dev.Destroy()
	}
}

// Refusals of policies that the session cannot run.
var (
	errNoHead = errors.New("foretoken: this policy drafts with an EAGLE-3 head, and the session was opened without " +
		"one; give a head (--eagle3) or use source model")
	errNoDraft = errors.New("foretoken: this policy needs a draft model, and the session was opened without one; " +
		"use policy none or ngram")
)

// Kinds of errors that callers handle; test with errors.Is. Messages name the file, the field and the remedy.
// ErrNoChatTemplate and the errors of package webgpu are further kinds.
var (
	// ErrRequest reports a wrong setting, or one that needs more than the session was opened with.
	ErrRequest = errors.New("foretoken: a setting cannot be used")
	// ErrModel reports a file without a usable model, or one that does not match the others.
	ErrModel = errors.New("foretoken: a model cannot be used")
	// ErrMemory reports models larger than the device's memory or Options.Memory.
	ErrMemory = errors.New("foretoken: the models do not fit")
	// ErrContextFull reports a prompt that leaves no room in the context.
	ErrContextFull = errors.New("foretoken: the context is full")
)

// kinded adds a kind to an error and keeps its message.
type kinded struct{ err, kind error }

func (k *kinded) Error() string   { return k.err.Error() }
func (k *kinded) Unwrap() []error { return []error{k.err, k.kind} }

// ofKind gives an error a kind; nil stays nil.
func ofKind(kind, err error) error {
	if err == nil {
		return nil
	}
	return &kinded{err, kind}
}

func refused(format string, args ...any) error {
	return ofKind(ErrRequest, fmt.Errorf(format, args...))
}
