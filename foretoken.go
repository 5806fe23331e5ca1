// Package foretoken decodes language models speculatively: a small draft model
// proposes a tree of tokens, the target verifies it in one pass, and the text is exactly
// that of plain decoding. The same code runs on WebGPU in the browser, on
// wgpu-native and on the CPU.
//
//	dev, _, err := open.Device(ctx, "auto")
//	session, err := foretoken.Open(ctx, dev, target, draft, foretoken.Options{})
//	result, err := session.Generate(ctx, "func main() {", foretoken.DefaultRequest(), emit)
package foretoken

import (
	"context"
	"errors"
	"fmt"
	"time"

	"foretoken/models/gguf"
	"foretoken/models/llama"
	"foretoken/models/tokenizer"
	"foretoken/spec"
	"foretoken/webgpu"
	"foretoken/webgpu/kernels"
)

// Options of Open. The zero value takes each model as its file describes it.
type Options struct {
	Context int    // positions of both KV caches; 0: the smaller of the models' own, at most 4096
	KV      string // "f32" (also "") or "f16"
	// Tuning holds kernel choices measured before on the same adapter, as
	// Session.Tuning gave them, by model role and matrix.
	Tuning map[string]map[string]string
	// Progress is told how loading goes.
	Progress func(Progress)
}

// Progress is a step of loading. Stage is "target" or "draft" (Done and Total are bytes of
// weights), or "kernels" (Note says what is compiled or timed), or "ready".
type Progress struct {
	Stage string `json:"stage"`
	Done  int64  `json:"done"`
	Total int64  `json:"total"`
	Note  string `json:"note,omitempty"`
}

// Session is a pair of models on a device. It serves one request at a time.
type Session struct {
	dev    webgpu.Device
	tok    *tokenizer.Tokenizer
	target *llama.Target
	draft  *llama.Draft // nil without a draft
	info   Info
}

// Info describes a session.
type Info struct {
	Device  webgpu.Info `json:"device"`
	Target  llama.Info  `json:"target"`
	Draft   *llama.Info `json:"draft"`
	LoadMS  float64     `json:"load_ms"`
	GPUByte int64       `json:"gpu_bytes"`
}

// Open loads a target and, where draft is not nil, its draft. The pair must agree on
// every token. The device stays the caller's; Close frees what the session made on it.
func Open(ctx context.Context, dev webgpu.Device, target, draft gguf.Source, o Options) (*Session, error) {
	begin := time.Now()
	kv, ok := map[string]kernels.KVFormat{"": kernels.KVF32, "f32": kernels.KVF32, "f16": kernels.KVF16}[o.KV]
	if !ok {
		return nil, fmt.Errorf("foretoken: KV format %q; want f32 or f16", o.KV)
	}
	tf, tok, err := openModel(target)
	if err != nil {
		return nil, err
	}
	var df *gguf.File
	if draft != nil {
		var other *tokenizer.Tokenizer
		if df, other, err = openModel(draft); err != nil {
			return nil, err
		}
		if err := tokenizer.Compatible(other, tok); err != nil {
			return nil, err // names both files and the first token they disagree on
		}
	}
	positions, err := contextOf(o.Context, tf, df)
	if err != nil {
		return nil, err
	}
	progress := o.Progress
	if progress == nil {
		progress = func(Progress) {}
	}
	options := func(stage string) llama.Options {
		return llama.Options{Context: positions, KV: kv, Vocab: tok.VocabSize(), Tuning: o.Tuning[stage],
			Progress:  func(done, total int64) { progress(Progress{Stage: stage, Done: done, Total: total}) },
			Preparing: func(step string) { progress(Progress{Stage: "kernels", Note: stage + ": " + step}) }}
	}
	s := &Session{dev: dev, tok: tok}
	if s.target, err = llama.LoadTarget(ctx, dev, tf, options("target")); err != nil {
		return nil, err
	}
	s.info = Info{Device: dev.Info(), Target: s.target.Info()}
	s.info.GPUByte = s.info.Target.GPUBytes
	if df != nil {
		if s.draft, err = llama.LoadDraft(ctx, dev, df, options("draft")); err != nil {
			s.Close()
			return nil, err
		}
		info := s.draft.Info()
		s.info.Draft = &info
		s.info.GPUByte += info.GPUBytes
	}
	if s.draft != nil { // what a request without settings of its own will need
		d := DefaultRequest()
		if err := s.draft.Prepare(d.Depth, d.TopK); err != nil {
			s.Close()
			return nil, err
		}
	}
	s.info.LoadMS = float64(time.Since(begin)) / float64(time.Millisecond)
	progress(Progress{Stage: "ready", Done: 1, Total: 1})
	return s, nil
}

// openModel reads a file's header and its tokenizer.
func openModel(src gguf.Source) (*gguf.File, *tokenizer.Tokenizer, error) {
	f, err := gguf.Open(src)
	if err != nil {
		return nil, nil, err
	}
	if _, err := llama.ReadConfig(f); err != nil {
		return nil, nil, err
	}
	tok, err := tokenizer.New(f)
	return f, tok, err
}

// contextOf is the length both models are loaded with.
func contextOf(asked int, files ...*gguf.File) (int, error) {
	most := 4096
	for _, f := range files {
		if f == nil {
			continue
		}
		c, err := llama.ReadConfig(f)
		if err != nil {
			return 0, err
		}
		if asked > c.Context {
			return 0, fmt.Errorf("foretoken: a context of %d was asked for, but %s was trained for %d positions", asked, f.Name(), c.Context)
		}
		most = min(most, c.Context)
	}
	if asked < 0 {
		return 0, fmt.Errorf("foretoken: a context of %d was asked for", asked)
	}
	if asked > 0 {
		return asked, nil
	}
	return most, nil
}

// Info describes the session.
func (s *Session) Info() Info { return s.info }

// Tuning is the kernel choices made, for Options.Tuning of a later session on the same adapter.
func (s *Session) Tuning() map[string]map[string]string {
	out := map[string]map[string]string{"target": s.target.Tuning()}
	if s.draft != nil {
		out["draft"] = s.draft.Tuning()
	}
	return out
}

// Tokenizer is the pair's.
func (s *Session) Tokenizer() *tokenizer.Tokenizer { return s.tok }

// Close frees what the session holds on the device.
func (s *Session) Close() {
	if s.draft != nil {
		s.draft.Close()
	}
	if s.target != nil {
		s.target.Close()
	}
}

// errNoDraft refuses a policy that the session cannot run.
var errNoDraft = errors.New("foretoken: this policy needs a draft model, and the session was opened without one; use policy none or ngram")

var _ spec.ReadbackTimer = (*llama.Target)(nil)
