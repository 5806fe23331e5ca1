// Package foretoken decodes language models speculatively: a small draft model proposes a tree of tokens, the target
// verifies it in one pass, and the text equals plain decoding's exactly. The same code runs on WebGPU in the browser,
// on wgpu-native and on the CPU.
//
//	dev, _, err := open.Device(ctx, "auto")
//	session, err := foretoken.Open(ctx, dev, target, draft, foretoken.Options{})
//	result, err := session.Generate(ctx, prompt, foretoken.DefaultRequest(), emit)
package foretoken

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"foretoken/internal/costmodel"
	"foretoken/internal/kind"
	"foretoken/internal/pair"
	"foretoken/internal/warmup"
	"foretoken/models/chat"
	"foretoken/models/constrain"
	"foretoken/models/gguf"
	"foretoken/models/graph"
	"foretoken/models/tokenizer"
	"foretoken/spec"
	"foretoken/spec/adapt"
	"foretoken/spec/goodput"
	"foretoken/spec/method"
	"foretoken/webgpu"
)

// Source is a file that can be read by ranges: on disk, in memory, behind HTTP range requests or in the browser's
// private file system. ReadAt has the semantics of [io.ReaderAt] and may be called from several goroutines.
type Source interface {
	Name() string // for messages: a base name or a URL
	Size() int64  // bytes
	ReadAt(p []byte, off int64) (int, error)
}

// Options of Open. The zero value takes each model as its file describes it.
type Options struct {
	Context int    // positions of both KV caches; 0: the smaller of the models' own, at most 4096
	KV      string // "f32" (also ""), "f16" or "q8"
	Memory  int64  // bytes that the models may take on the device, see Plan; 0: as many as it gives
	// Candidates is the number of likeliest tokens that the target reports per position; 0: as many as decoding
	// needs.
	Candidates int
	// Beams is the widest level of a drafted tree, and the most candidates of a node; 0: 16, at most 64.
	Beams int
	// Tuning holds kernel choices measured before on the same adapter, as
	// Session.Tuning gave them, by model role and matrix.
	Tuning map[string]map[string]string
	// Nodes is the largest tree that can be verified, the root included; 0: 64.
	Nodes int
	// Calibrations is the data fitted to the pair; nil: none.
	Calibrations *Calibrations
	// EAGLE3 is an EAGLE-3 head, to draft from the target's features: a GGUF file, or a safetensors file with its
	// config.json in EAGLE3Config; nil: none. EAGLE3Quantise stores its matrices as "q8_0" or "q4_k"; "": as in the
	// file.
	EAGLE3, EAGLE3Config Source
	EAGLE3Quantise       string
	// FastStart has Open return when plain decoding and drafts of small trees can begin. What larger trees need is
	// compiled and recorded while no request runs; until then auto drafts small ones and other methods with a draft
	// wait. Passes are timed while no request runs, and auto goes by predicted costs before. With an EAGLE-3 head all
	// is recorded before Open returns.
	FastStart bool
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

// Progress is a step of loading. Stage says which, in this order: "memory" (Total is the number of bytes to allocate on
// the device, Note lists them); "notice" (Note says what the target's file leaves unsaid, if something); "target",
// "draft" and "eagle3" (Done and Total count bytes of weights) with "kernels" among them (Note names the kernel being
// compiled or timed); "ready".
type Progress struct {
	Stage string `json:"stage"`
	Done  int64  `json:"done"`
	Total int64  `json:"total"`
	Note  string `json:"note,omitempty"`
}

// Loss reports the loss of the device, or the recovery from it.
type Loss struct {
	Reason    string        // why the device was lost, in one line
	Times     int           // losses in a row, this one included
	Recovered bool          // the session goes on
	Took      time.Duration // since the loss was noticed, if the session recovered
}

func (l Loss) String() string {
	if l.Recovered {
		return fmt.Sprintf("the models are loaded again after %.1f s, going on", l.Took.Seconds())
	}
	return fmt.Sprintf("the device was lost (%s); loading the models again", l.Reason)
}

// Session is a pair of models on a device. It serves one request at a time.
type Session struct {
	turn   warmup.Turn // held by a request, by Exclusive, and by each step of warmup
	pair   *pair.Pair
	limits spec.Limits // of the target, also after it was loaded again
	costs  *costmodel.Model
	warmup *warmup.Warmup // of the models as they were loaded last

	fastStart bool // Options.FastStart
	fitted    Calibrations
	loadMS    float64

	tok         *tokenizer.Tokenizer
	vocab       *constrain.Vocab
	template    *chat.Template // the target's; nil where templateErr says why
	templateErr error
	given       atomic.Pointer[givenTemplate]

	owner string             // of the last request: of what the KV caches, adasd and times hold
	adasd adapt.AdaSDRecords // of the requests that carry AdaSD's thresholds on
	// times are of the rounds that an acceptance head stops, by what drafts.
	times [goodput.MostModels]adapt.PassTimes
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
func Open(ctx context.Context, dev webgpu.Device, target, draft Source, o Options) (*Session, error) {
	begin := time.Now()
	s := &Session{fastStart: o.FastStart}
	if o.Calibrations != nil {
		s.fitted = *o.Calibrations
	}
	ofPair := o.pair()
	ofPair.Loaded = func(p *pair.Pair) { s.loaded(p, o.Tuning[tuningCosts]) }
	f, err := pair.Read(target, draft, ofPair)
	if err != nil {
		return nil, kind.Of(ErrModel, err)
	}
	memory, err := f.Memory(dev.Info().Limits)
	if err != nil {
		return nil, kind.Of(ErrMemory, err)
	}
	progress := o.Progress
	if progress == nil {
		progress = func(Progress) {}
	}
	progress(Progress{Stage: "memory", Total: memory.Total, Note: memory.String()})
	s.tok = f.Tokenizer
	if note := s.tok.Note(); note != "" {
		progress(Progress{Stage: "notice", Note: note})
	}
	s.template, s.templateErr = chat.ForFile(f.Target, templateOptions(s.tok))
	s.turn.Lock() // warmup begins once the session is open
	defer s.turn.Unlock()
	if s.pair, err = pair.Open(ctx, dev, f); err != nil {
		return nil, loadingError(err)
	}
	s.limits = s.pair.Target.Limits()
	s.vocab = constrain.NewVocab(s.tok, s.limits.Vocab)
	s.loadMS = float64(time.Since(begin)) / float64(time.Millisecond)
	progress(Progress{Stage: "ready", Done: 1, Total: 1})
	return s, nil
}

// pair returns the options of the pair.
func (o *Options) pair() pair.Options {
	p := pair.Options{Context: o.Context, Nodes: o.Nodes, Candidates: o.Candidates, Beams: o.Beams, KV: o.KV,
		Memory: o.Memory, Tuning: o.Tuning, EAGLE3: o.EAGLE3, EAGLE3Config: o.EAGLE3Config,
		EAGLE3Quantise: o.EAGLE3Quantise, SHA256: o.SHA256, Reopen: o.Reopen,
		Default: method.ByName(DefaultRequest().Policy)}
	if o.FastStart {
		p.First = firstNodes
	}
	if o.Progress != nil {
		p.Progress = func(step pair.Progress) { o.Progress(Progress(step)) }
	}
	if o.Lost != nil {
		p.Lost = func(l pair.Loss) { o.Lost(Loss(l)) }
	}
	return p
}

// loadingError gives an error of loading its kind.
func loadingError(err error) error {
	switch {
	case errors.Is(err, webgpu.ErrNoMemory):
		return kind.Of(ErrMemory, err)
	case errors.Is(err, webgpu.ErrDeviceLost), errors.Is(err, webgpu.ErrTimeout):
		return err
	}
	return kind.Of(ErrModel, err)
}

// Memory is the number of bytes that Open allocates on a device for a pair. The first request of some policies
// allocates a little more.
type Memory struct {
	Target graph.Memory  `json:"target"` // includes the features kept for an EAGLE-3 head
	Draft  *graph.Memory `json:"draft,omitempty"`
	EAGLE3 *graph.Memory `json:"eagle3,omitempty"`
	Total  int64         `json:"total"`
}

func (m *Memory) String() string { return (*pair.Memory)(m).String() }

// Plan says what Open would allocate for a pair with these options on a device of these limits, to the byte, without
// reading any weights. It fails as Open would: where the models cannot be run or do not go together, a buffer would be
// larger than the device has, or all of them are more than Options.Memory.
func Plan(target, draft Source, o Options, limits webgpu.Limits) (*Memory, error) {
	f, err := pair.Read(target, draft, o.pair())
	if err != nil {
		return nil, err
	}
	m, err := f.Memory(limits)
	return (*Memory)(m), err
}

// Inspect is Plan for an opened file alone, with its tokenizer, which is nil where the file cannot be run by what is
// read before it.
func Inspect(f *gguf.File, o Options, limits webgpu.Limits) (*tokenizer.Tokenizer, *Memory, error) {
	tok, m, err := pair.Inspect(f, o.pair(), limits)
	return tok, (*Memory)(m), err
}

// Info describes the session.
func (s *Session) Info() Info {
	i := s.pair.Info
	return Info{i.Device, *i.Models["target"], i.Models["draft"], i.Models["eagle3"], s.loadMS, i.GPUBytes}
}

// Files maps the name of each source, which errors contain, to the role of its model. Messages for clients, which must
// not see paths, replace the name by the role.
func (s *Session) Files() map[string]string { return s.pair.Files.Names() }

// Tuning is the kernel choices made and, once they were timed, what passes cost, for Options.Tuning of a later session
// on the same adapter. Add the latter to what is stored of other sessions.
func (s *Session) Tuning() map[string]map[string]string {
	s.turn.Lock()
	defer s.turn.Unlock()
	out := s.pair.Tuning()
	if stored := s.costs.Stored(); stored != nil {
		out[tuningCosts] = stored
	}
	return out
}

// Tokenizer is the pair's.
func (s *Session) Tokenizer() *tokenizer.Tokenizer { return s.tok }

// Device returns the device that the session runs on. After a loss it is another one. Call it from the function that
// receives events, or while no request runs.
func (s *Session) Device() webgpu.Device { return s.pair.Device }

// MaxNodes returns the number of nodes that the target verifies in one pass, the root included.
func (s *Session) MaxNodes() int { return s.limits.MaxRows }

// Losses counts the losses of the session's device. Discard times measured while the number changed.
func (s *Session) Losses() int { return s.pair.Losses() }

// Close frees the session's objects on the device.
func (s *Session) Close() {
	s.turn.Lock()
	defer s.turn.Unlock()
	s.pair.Close()
}

// Kinds of errors that callers handle; test with errors.Is. Messages name the file, the field and the remedy.
// ErrNoChatTemplate and the errors of package webgpu are further kinds.
var (
	// ErrRequest reports a wrong setting, or one that needs more than the session was opened with.
	ErrRequest = kind.ErrRequest
	// ErrModel reports a file without a usable model, or one that does not match the others.
	ErrModel = kind.ErrModel
	// ErrMemory reports models larger than the device's memory or Options.Memory.
	ErrMemory = kind.ErrMemory
	// ErrContextFull reports a prompt that leaves no room in the context.
	ErrContextFull = kind.ErrContextFull
)
