package main

import (
	"context"
	"errors"
	"sync"
	"time"

	"foretoken"
	"foretoken/models/convert"
	"foretoken/models/gguf"
	"foretoken/models/graph"
	"foretoken/openai"
	"foretoken/trace"
	"foretoken/webgpu"
	"foretoken/webgpu/open"

	"github.com/hack-pad/safejs"
)

// engine holds the worker's state: at most one device and one session.
type engine struct {
	mu       sync.Mutex // held by the method at work
	dev      webgpu.Device
	session  *foretoken.Session
	chat     *foretoken.Chat         // the session's conversation; nil before one is begun
	model    *openai.Model           // the session, for requests of OpenAI's API
	fit      *foretoken.Calibrations // of the session
	note     string
	kept     string // the key of what is kept for its device; see tuningKey
	requests uint   // of which costs could have been kept

	recorder *trace.Recorder // of the session's last request

	stopMu sync.Mutex
	stop   context.CancelFunc // of the request under way

	// slack is memory without use, which browsers provide when it is first touched: never. Go collects garbage when the
	// heap has doubled, and a small one does so several times while a model loads.
	slack []byte
}

func install() error {
	e := &engine{slack: make([]byte, 16<<20)}
	api, err := safejs.ValueOf(map[string]any{})
	if err != nil {
		return err
	}
	for name, work := range map[string]apiMethod{
		"open": e.open, "methods": e.methods, "inspect": e.inspect, "close": e.close,
		"generate": e.inSession(e.generate), "chat": e.inSession(e.converse), "trace": e.trace,
		"openai": e.inSession(e.answer), "embed": e.inSession(e.embed), "bench": e.inSession(e.bench),
		"measure": e.inSession(e.measure),
	} {
		f, err := promised(work)
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

// acquire reserves the engine for one method; a second caller gets an error.
func (e *engine) acquire() error {
	if !e.mu.TryLock() {
		return withCode("busy", errors.New("foretoken: the engine is at work; stop it first"))
	}
	return nil
}

// inSession makes a method of work on the open session. body is the first argument, which is JSON; stop ends ctx; the
// result becomes JSON.
func (e *engine) inSession(work func(ctx context.Context, body []byte, args []safejs.Value) (any, error)) apiMethod {
	return func(args []safejs.Value) (string, error) {
		if err := e.acquire(); err != nil {
			return "", err
		}
		defer e.mu.Unlock()
		if e.session == nil {
			return "", withCode("disposed", errors.New("foretoken: no model is open"))
		}
		body, err := text(args, 0)
		if err != nil {
			return "", err
		}
		ctx, done := e.cancellable()
		defer done()
		result, err := work(ctx, []byte(body), args)
		if err != nil {
			return "", err
		}
		return toJSON(result)
	}
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

type deviceInfo struct {
	Backend      string   `json:"backend"`
	Adapter      string   `json:"adapter"`
	Vendor       string   `json:"vendor"`
	Architecture string   `json:"architecture"`
	Driver       string   `json:"driver"`
	Software     bool     `json:"software"`
	Threads      int      `json:"threads"` // of the cpu device
	Features     []string `json:"features"`
	Note         string   `json:"note"`
}

func newDeviceInfo(i webgpu.Info, note string) deviceInfo {
	return deviceInfo{Backend: i.Backend, Adapter: i.Adapter, Vendor: i.Vendor, Architecture: i.Architecture,
		Driver: i.Driver, Software: i.Software, Threads: i.Threads, Features: append([]string{}, i.Features...),
		Note: note}
}

type engineInfo struct {
	Device   deviceInfo        `json:"device"`
	Target   graph.Info        `json:"target"`
	Draft    *graph.Info       `json:"draft"`
	EAGLE3   *graph.Info       `json:"eagle3"`
	Fitted   fitted            `json:"fitted"`
	Kernels  map[string]string `json:"kernels"`
	Chat     chatInfo          `json:"chat"`
	Code     bool              `json:"code"` // the vocabulary has tokens for filling in the middle
	LoadMS   float64           `json:"load_ms"`
	GPUBytes int64             `json:"gpu_bytes"`
}

// fitted lists the calibrations that a pair was opened with.
type fitted struct {
	Hetero     []heteroTree `json:"hetero"`
	C2T        bool         `json:"c2t"`
	Acceptance bool         `json:"acceptance"`
}

// heteroTree is a tree that there are entropy bins for.
type heteroTree struct {
	Depth int `json:"depth"`
	TopK  int `json:"top_k"`
	Nodes int `json:"nodes"`
}

// open loads a pair: (options JSON, {target, draft, eagle3, eagle3_config, calibrations, again}, onProgress) →
// EngineInfo JSON.
func (e *engine) open(args []safejs.Value) (string, error) {
	if err := e.acquire(); err != nil {
		return "", err
	}
	defer e.mu.Unlock()
	options, err := text(args, 0)
	if err != nil {
		return "", err
	}
	o, err := readOptions([]byte(options))
	if err != nil {
		return "", err
	}
	if len(args) < 2 {
		return "", errors.New("foretoken: open needs its sources")
	}
	progress := progressTo(args)
	from, err := readSources(args[1], convert.Options{Quantise: o.Quantise, Note: func(note string) {
		if progress != nil {
			progress(foretoken.Progress{Stage: "notice", Note: note})
		}
	}})
	if err != nil {
		return "", withCode("bad_model", err)
	}
	fit, err := from.fitted(o.Builtin)
	if err != nil {
		return "", withCode("bad_model", err)
	}
	ctx, done := e.cancellable()
	defer done()
	e.release()
	if e.dev, e.note, err = o.device().Device(ctx, o.Device); err != nil {
		return "", withCode("bad_option", err)
	}
	key := tuningKey(e.dev.Info())
	e.session, err = foretoken.Open(ctx, e.dev, from.target, from.draft, foretoken.Options{Context: o.Context,
		KV: o.KV, Memory: o.Memory, Nodes: o.Nodes, Candidates: o.Candidates, FastStart: true,
		Calibrations: fit, EAGLE3: from.eagle3, EAGLE3Config: from.eagle3Config,
		EAGLE3Quantise: o.EAGLE3Quantise, Tuning: loadTuning(key),
		SHA256: sha256Of, Progress: progress, Reopen: e.reopening(from, o.device()),
		Lost: func(l foretoken.Loss) {
			if l.Recovered {
				from.close()
			} else if progress != nil {
				progress(foretoken.Progress{Stage: "lost", Note: l.Reason})
			}
		}})
	e.fit, e.kept, e.requests = fit, key, 0
	if err != nil {
		e.release()
		return "", err
	}
	e.recorder = trace.NewRecorder(e.session.Tokenizer().Piece)
	e.model = newModel(e.session, o.Candidates)
	go saveTuning(key, e.session.Tuning())
	return e.info()
}

// reopening opens a device like the engine's, and the models' files, after it was lost.
func (e *engine) reopening(from *modelSources, o open.Options) func(context.Context) (webgpu.Device, error) {
	backend := e.dev.Info().Backend
	return func(ctx context.Context) (webgpu.Device, error) {
		dev, _, err := o.Device(ctx, backend)
		if err != nil {
			return nil, err
		}
		if err := from.reopen(); err != nil {
			dev.Destroy()
			return nil, err
		}
		return dev, nil
	}
}

// progressTo passes steps of loading on, at most every 50 ms of one stage.
func progressTo(args []safejs.Value) func(foretoken.Progress) {
	if len(args) < 3 || args[2].Type() != safejs.TypeFunction {
		return nil
	}
	send := callback(args, 2)
	var stage string
	var last time.Time
	return func(p foretoken.Progress) {
		key := p.Stage + p.Note
		if key == stage && p.Done < p.Total && time.Since(last) < 50*time.Millisecond {
			return
		}
		stage, last = key, time.Now()
		send(p)
	}
}

func (e *engine) info() (string, error) {
	i := e.session.Info()
	out := engineInfo{Target: i.Target, Draft: i.Draft, EAGLE3: i.EAGLE3,
		Fitted: fitted{Hetero: []heteroTree{}, C2T: e.fit.C2T != nil, Acceptance: len(e.fit.Heads) > 0},
		LoadMS: i.LoadMS, GPUBytes: i.GPUByte, Kernels: map[string]string{}, Device: newDeviceInfo(i.Device, e.note)}
	out.Chat.OK, out.Code = true, e.session.Tokenizer().FillsMiddle()
	if err := e.session.CanChat(); err != nil {
		out.Chat = chatInfo{Problem: err.Error()}
	}
	for _, h := range e.fit.Hetero {
		out.Fitted.Hetero = append(out.Fitted.Hetero,
			heteroTree{h.Fingerprint.Depth, h.Fingerprint.TopK, h.Fingerprint.Nodes})
	}
	for role, choices := range e.session.Tuning() {
		if role == "costs" { // no kernels
			continue
		}
		for k, v := range choices {
			out.Kernels[role+" "+k] = v
		}
	}
	return toJSON(out)
}

func (e *engine) release() {
	if e.session != nil {
		e.session.Close()
		e.session, e.chat, e.model, e.recorder = nil, nil, nil, nil
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
	select { // the worker may end then
	case saving <- struct{}{}:
		<-saving
	case <-time.After(patience):
	}
	return "", nil
}

// methods is the catalog of methods: () → JSON.
func (e *engine) methods([]safejs.Value) (string, error) {
	return toJSON(newCatalog())
}

// generate runs a request: (request JSON, onEvent) → Result JSON.
func (e *engine) generate(ctx context.Context, body []byte, args []safejs.Value) (any, error) {
	r, err := readRequest(body)
	if err != nil {
		return nil, err
	}
	r.process(args)
	got, err := e.session.Generate(ctx, r.Prompt, r.Request, e.eventsTo(args, r.Prompt, r.Trace))
	if err != nil {
		return nil, err
	}
	e.keepCosts()
	return got, nil
}

// eventsTo records the rounds of a request and sends them to a method's second argument, if there is one, with their
// trees if the request asks for them.
func (e *engine) eventsTo(args []safejs.Value, prompt string, trees bool) func(*foretoken.Event) error {
	e.recorder.Begin(prompt)
	if len(args) < 2 || args[1].Type() != safejs.TypeFunction {
		return nil
	}
	begin := time.Now()
	var out event
	var b []byte
	return func(ev *foretoken.Event) error {
		elapsed := time.Since(begin)
		out.fill(ev, e.recorder.Add(ev, elapsed), elapsed)
		if trees {
			out.Tree = e.recorder.LastTree()
		}
		b = out.append(b[:0])
		_, err := args[1].Invoke(string(b))
		return err
	}
}

// trace returns what was recorded of the last request: () → bytes of package trace as JSON.
func (e *engine) trace([]safejs.Value) (string, error) {
	if err := e.acquire(); err != nil {
		return "", err
	}
	defer e.mu.Unlock()
	if e.recorder == nil {
		return "", withCode("disposed", errors.New("foretoken: no model is open"))
	}
	return toJSON(e.recorder.Bytes())
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
		return "", withCode("bad_model", err)
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
	if _, _, err := foretoken.Inspect(f, foretoken.Options{}, webgpu.DefaultLimits()); err != nil {
		out.Problem = messageOf(err)
	}
	return toJSON(out)
}

func (o *openOptions) device() open.Options {
	return open.Options{Timeout: time.Duration(o.Timeout * float64(time.Second)), Threads: o.Threads}
}
