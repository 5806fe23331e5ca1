package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"foretoken"
	"foretoken/models/gguf"
	"foretoken/models/llama"
	"foretoken/webgpu"
	"foretoken/webgpu/open"

	"github.com/hack-pad/safejs"
)

// engine is what the worker holds: at most one device and one session.
type engine struct {
	mu      sync.Mutex // held by the method at work
	dev     webgpu.Device
	session *foretoken.Session
	note    string

	stopMu sync.Mutex
	stop   context.CancelFunc // of the request under way
}

func install() error {
	e := &engine{}
	object, err := safejs.Global().Get("Object")
	if err != nil {
		return err
	}
	api, err := object.New()
	if err != nil {
		return err
	}
	for name, work := range map[string]func([]safejs.Value) (string, error){
		"open": e.open, "generate": e.generate, "inspect": e.inspect, "close": e.close,
	} {
		f, err := method(work)
		if err != nil {
			return err
		}
		if err := api.Set(name, f); err != nil {
			return err
		}
	}
	stop, err := safejs.FuncOf(func(safejs.Value, []safejs.Value) any {
		e.cancel()
		return nil
	})
	if err != nil {
		return err
	}
	if err := api.Set("stop", stop); err != nil {
		return err
	}
	return safejs.Global().Set("foretokenEngine", api)
}

// only takes the engine for one method; a second caller is told so.
func (e *engine) only() error {
	if !e.mu.TryLock() {
		return errors.New("foretoken: the engine is at work; stop it first")
	}
	return nil
}

func (e *engine) cancel() {
	e.stopMu.Lock()
	defer e.stopMu.Unlock()
	if e.stop != nil {
		e.stop()
	}
}

func (e *engine) cancellable() (context.Context, func()) {
	ctx, cancel := context.WithCancel(context.Background())
	e.stopMu.Lock()
	e.stop = cancel
	e.stopMu.Unlock()
	return ctx, func() {
		e.stopMu.Lock()
		e.stop = nil
		e.stopMu.Unlock()
		cancel()
	}
}

type openOptions struct {
	Device  string `json:"device"`
	Context int    `json:"context"`
	KV      string `json:"kv"`
}

type deviceInfo struct {
	Backend      string   `json:"backend"`
	Adapter      string   `json:"adapter"`
	Vendor       string   `json:"vendor"`
	Architecture string   `json:"architecture"`
	Driver       string   `json:"driver"`
	Software     bool     `json:"software"`
	Features     []string `json:"features"`
	Note         string   `json:"note"`
}

type engineInfo struct {
	Device   deviceInfo        `json:"device"`
	Target   llama.Info        `json:"target"`
	Draft    *llama.Info       `json:"draft"`
	Kernels  map[string]string `json:"kernels"`
	LoadMS   float64           `json:"load_ms"`
	GPUBytes int64             `json:"gpu_bytes"`
}

// open loads a pair: (options JSON, {target, draft}, onProgress) → EngineInfo JSON.
func (e *engine) open(args []safejs.Value) (string, error) {
	if err := e.only(); err != nil {
		return "", err
	}
	defer e.mu.Unlock()
	options, err := text(args, 0)
	if err != nil {
		return "", err
	}
	var o openOptions
	if err := json.Unmarshal([]byte(options), &o); err != nil {
		return "", fmt.Errorf("foretoken: open options: %w", err)
	}
	if len(args) < 2 {
		return "", errors.New("foretoken: open needs its sources")
	}
	target, draft, err := sources(args[1])
	if err != nil {
		return "", err
	}
	ctx, done := e.cancellable()
	defer done()
	e.release()
	if e.dev, e.note, err = open.Device(ctx, o.Device); err != nil {
		return "", err
	}
	key := tuningKey(e.dev.Info())
	e.session, err = foretoken.Open(ctx, e.dev, target, draft, foretoken.Options{Context: o.Context, KV: o.KV,
		Tuning: loadTuning(key), Progress: progressTo(args)})
	if err != nil {
		e.release()
		return "", err
	}
	saveTuning(key, e.session.Tuning())
	return e.info()
}

// sources reads {target, draft} of open's second argument.
func sources(v safejs.Value) (target, draft gguf.Source, err error) {
	t, err := v.Get("target")
	if err != nil {
		return nil, nil, fmt.Errorf("foretoken: open's sources: %w", err)
	}
	if target, err = newSource(t); err != nil {
		return nil, nil, err
	}
	d, err := v.Get("draft")
	if err != nil || d.IsNull() || d.IsUndefined() {
		return target, nil, err
	}
	draft, err = newSource(d)
	return target, draft, err
}

// progressTo passes steps of loading on, at most every 50 ms of one stage.
func progressTo(args []safejs.Value) func(foretoken.Progress) {
	if len(args) < 3 || args[2].Type() != safejs.TypeFunction {
		return nil
	}
	var stage string
	var last time.Time
	return func(p foretoken.Progress) {
		key := p.Stage + p.Note
		if key == stage && p.Done < p.Total && time.Since(last) < 50*time.Millisecond {
			return
		}
		stage, last = key, time.Now()
		b, _ := json.Marshal(p)          // of plain fields: cannot fail
		_, _ = args[2].Invoke(string(b)) // a page that throws at progress is the page's affair
	}
}

func (e *engine) info() (string, error) {
	i := e.session.Info()
	out := engineInfo{Target: i.Target, Draft: i.Draft, LoadMS: i.LoadMS, GPUBytes: i.GPUByte, Kernels: map[string]string{},
		Device: deviceInfo{Backend: i.Device.Backend, Adapter: i.Device.Adapter, Vendor: i.Device.Vendor, Architecture: i.Device.Architecture,
			Driver: i.Device.Driver, Software: i.Device.Software, Features: append([]string{}, i.Device.Features...), Note: e.note}}
	for role, choices := range e.session.Tuning() {
		for k, v := range choices {
			out.Kernels[role+" "+k] = v
		}
	}
	b, err := json.Marshal(out)
	return string(b), err
}

// release closes what is open.
func (e *engine) release() {
	if e.session != nil {
		e.session.Close()
		e.session = nil
	}
	if e.dev != nil {
		e.dev.Destroy()
		e.dev = nil
	}
}

func (e *engine) close([]safejs.Value) (string, error) {
	e.cancel()
	e.mu.Lock()
	defer e.mu.Unlock()
	e.release()
	return "", nil
}

type request struct {
	Prompt string `json:"prompt"`
	foretoken.Request
}

// generate runs a request: (request JSON, onEvent) → Result JSON.
func (e *engine) generate(args []safejs.Value) (string, error) {
	if err := e.only(); err != nil {
		return "", err
	}
	defer e.mu.Unlock()
	if e.session == nil {
		return "", errors.New("foretoken: no model is open")
	}
	body, err := text(args, 0)
	if err != nil {
		return "", err
	}
	r := request{Request: foretoken.DefaultRequest()}
	if err := json.Unmarshal([]byte(body), &r); err != nil {
		return "", fmt.Errorf("foretoken: request: %w", err)
	}
	var send func(*foretoken.Event) error
	if len(args) > 1 && args[1].Type() == safejs.TypeFunction {
		begin := time.Now()
		var out event
		send = func(ev *foretoken.Event) error {
			e.fill(&out, ev, time.Since(begin))
			b, err := json.Marshal(&out)
			if err != nil {
				return err
			}
			if _, err = args[1].Invoke(string(b)); err != nil {
				return err
			}
			return nil
		}
	}
	ctx, done := e.cancellable()
	defer done()
	got, err := e.session.Generate(ctx, r.Prompt, r.Request, send)
	if err != nil {
		return "", err
	}
	b, err := json.Marshal(result{Text: got.Text, PromptIDs: got.PromptIDs, TokenIDs: got.TokenIDs, Finish: got.Finish, Stats: statsOf(&got.Stats)})
	return string(b), err
}

// inspect reads a file's header: (source) → JSON.
func (e *engine) inspect(args []safejs.Value) (string, error) {
	if len(args) < 1 {
		return "", errors.New("foretoken: inspect needs a source")
	}
	src, err := newSource(args[0])
	if err != nil {
		return "", err
	}
	f, err := gguf.Open(src)
	if err != nil {
		return "", err
	}
	type tensor struct {
		Name string   `json:"name"`
		Type string   `json:"type"`
		Dims []uint64 `json:"dims"`
		Size int64    `json:"size"`
	}
	out := struct {
		Name     string            `json:"name"`
		Size     int64             `json:"size"`
		Version  uint32            `json:"version"`
		Metadata map[string]string `json:"metadata"`
		Tensors  []tensor          `json:"tensors"`
		Problem  string            `json:"problem"` // why it cannot be run, or empty
	}{Name: f.Name(), Size: f.Size(), Version: f.Version, Metadata: map[string]string{}, Tensors: []tensor{}}
	for _, k := range f.Keys() {
		out.Metadata[k] = f.Describe(k)
	}
	for _, t := range f.Tensors {
		out.Tensors = append(out.Tensors, tensor{t.Name, t.Type.String(), t.Dims, t.Size})
	}
	if _, err := llama.ReadConfig(f); err != nil {
		out.Problem = err.Error()
	}
	b, err := json.Marshal(out)
	return string(b), err
}
