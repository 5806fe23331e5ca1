// Package pair knows the models of a session: which files they are, what was fitted to them, the memory that they take,
// how they are loaded, lost and loaded again, and the programs that a method needs of them.
package pair

import (
	"context"
	"crypto/sha256"
	"fmt"
	"sync/atomic"

	"foretoken/internal/files"
	"foretoken/models/graph"
	"foretoken/models/runner"
	"foretoken/spec"
	"foretoken/spec/goodput"
	"foretoken/spec/method"
	"foretoken/webgpu"
)

// Options of a pair. The fields that package foretoken's Options has too mean the same.
type Options struct {
	Context, Nodes, Candidates int
	KV                         string
	Memory                     int64
	Tuning                     map[string]map[string]string
	EAGLE3, EAGLE3Config       files.Source
	SHA256                     func([]byte) [sha256.Size]byte
	Reopen                     func(context.Context) (webgpu.Device, error)

	Acceptance *runner.Head  // the draft's acceptance head; nil: none
	Default    method.Config // of a default request: its programs are recorded when the models are loaded
	// First, if not 0, loads models lean: with the programs of the default config for trees of so many nodes. Steps and
	// DryRun prepare the rest.
	First int

	Progress func(Progress)
	Lost     func(Loss)
	// Loaded is called each time the models were loaded, the first time before Open returns.
	Loaded func(*Pair)
}

// Progress is a step of loading, as package foretoken's.
type Progress struct {
	Stage       string
	Done, Total int64
	Note        string
}

// Pair is a session's models on their device. One goroutine at a time may call its methods, but for Losses.
type Pair struct {
	// The models keep their addresses when they are loaded again.
	Target *runner.Target
	Draft  *runner.Draft // nil without a draft
	Head   *runner.Draft // nil without a head

	files   *Files
	options Options
	dev     webgpu.Device
	info    Info

	ids, headIDs spec.Fingerprint // of target and draft, and of target and head

	state     state
	owned     bool         // Options.Reopen opened dev
	losses    int          // of the device since the last committed token
	allLosses atomic.Int64 // see Losses
}

// Info describes the loaded models.
type Info struct {
	Device   webgpu.Info
	Target   graph.Info
	Draft    *graph.Info // nil without
	EAGLE3   *graph.Info // nil without
	GPUBytes int64
}

// Open loads the models of files on a device. The device stays the caller's; Close frees the models. Where the device
// is lost meanwhile it is opened again.
func Open(ctx context.Context, dev webgpu.Device, f *Files) (*Pair, error) {
	p := &Pair{files: f, options: f.options, dev: dev}
	p.info.Device = dev.Info()
	if f.head != nil {
		p.options.First = 0
	}
	err := p.load(ctx, p.options.Tuning)
	if p.LostBy(err) {
		err = p.reopen(ctx, err)
	}
	if err != nil {
		p.Close()
		return nil, err
	}
	return p, nil
}

// load loads the models onto the device.
func (p *Pair) load(ctx context.Context, tuning map[string]map[string]string) error {
	if p.compiles() {
		p.compileAhead(tuning)
	}
	if err := p.loadModels(ctx, tuning); err != nil {
		return err
	}
	if err := p.identify(); err != nil {
		return err
	}
	if head := p.options.Acceptance; head != nil && p.Draft != nil {
		if err := head.Matches(p.ids); err != nil {
			return err
		}
		if err := p.Draft.SetHead(head); err != nil {
			return err
		}
	}
	if p.dev.Info().Host() {
		if err := p.dev.Run(nil); err != nil { // its threads have started, or not
			return err
		}
	}
	p.describe()
	if p.Draft != nil || p.options.First > 0 {
		if err := p.recordDefault(p.options.First); err != nil {
			return err
		}
	}
	p.state = ready
	if p.options.Loaded != nil {
		p.options.Loaded(p)
	}
	return nil
}

// loadModels reads the weights. After a loss it overwrites the old models in place.
func (p *Pair) loadModels(ctx context.Context, tuning map[string]map[string]string) error {
	f := p.files
	loading := func(stage string) graph.Options {
		l := f.loading(stage)
		l.Tuning, l.Lean = tuning[stage], p.options.First > 0
		l.Progress = func(done, total int64) { p.progress(Progress{Stage: stage, Done: done, Total: total}) }
		l.Preparing = func(step string) { p.progress(Progress{Stage: "kernels", Note: stage + ": " + step}) }
		return l
	}
	target, err := runner.LoadTarget(ctx, p.dev, f.target, loading("target"))
	if err != nil {
		return err
	}
	replace(&p.Target, target)
	if f.draft != nil {
		draft, err := runner.LoadDraft(ctx, p.dev, f.draft, loading("draft"))
		if err != nil {
			return err
		}
		replace(&p.Draft, draft)
	}
	if f.head != nil {
		head, err := runner.LoadEAGLE3(ctx, p.dev, p.Target, f.head, loading("eagle3"))
		if err != nil {
			return err
		}
		replace(&p.Head, head)
	}
	return nil
}

// replace puts a model in the place of one whose device was lost, if there is one.
func replace[M interface {
	comparable
	Replace(by M)
}](old *M, by M) {
	var none M
	if *old == none {
		*old = by
		return
	}
	(*old).Replace(by)
}

func (p *Pair) progress(step Progress) {
	if p.options.Progress != nil {
		p.options.Progress(step)
	}
}

// identify records the identities of the models' files, or refuses a file that changed since it was first loaded.
func (p *Pair) identify() error {
	f := p.files
	if err := p.identifyOne(&p.ids.Target, f.sources.target, p.Target.Graph.Info()); err != nil {
		return err
	}
	if p.Draft != nil {
		if err := p.identifyOne(&p.ids.Draft, f.sources.draft, p.Draft.Graph.Info()); err != nil {
			return err
		}
	}
	if p.Head == nil {
		return nil
	}
	p.headIDs.Target = p.ids.Target
	return p.identifyOne(&p.headIDs.Draft, p.options.EAGLE3, p.Head.Graph.Info())
}

func (p *Pair) identifyOne(known *spec.ModelID, src files.Source, info graph.Info) error {
	id, err := Identify(src, info.Name, info.Quant, p.options.SHA256)
	if err != nil {
		return err
	}
	if *known != (spec.ModelID{}) && *known != id {
		return fmt.Errorf("foretoken: %s changed since it was loaded; open the models again", src.Name())
	}
	*known = id
	return nil
}

// describe sets Info, before requests allocate more.
func (p *Pair) describe() {
	p.info = Info{Device: p.dev.Info(), Target: p.Target.Graph.Info()}
	p.info.GPUBytes = p.info.Target.GPUBytes
	if p.Draft != nil {
		info := p.Draft.Graph.Info()
		p.info.Draft, p.info.GPUBytes = &info, p.info.GPUBytes+info.GPUBytes
	}
	if p.Head != nil {
		info := p.Head.Graph.Info()
		p.info.EAGLE3, p.info.GPUBytes = &info, p.info.GPUBytes+info.GPUBytes
	}
}

// Info describes the models as they were loaded last.
func (p *Pair) Info() Info { return p.info }

// Device returns the device. After a loss it is another one.
func (p *Pair) Device() webgpu.Device { return p.dev }

// Files returns the files of the models.
func (p *Pair) Files() *Files { return p.files }

// Fingerprint names target and draft, HeadFingerprint target and EAGLE-3 head; its tree is empty.
func (p *Pair) Fingerprint() spec.Fingerprint { return p.ids }

// HeadFingerprint is Fingerprint of the target and its EAGLE-3 head; zero without a head.
func (p *Pair) HeadFingerprint() spec.Fingerprint { return p.headIDs }

// Key identifies the models among others on the same adapter.
func (p *Pair) Key() string {
	name := func(id spec.ModelID) string { return fmt.Sprintf("%s %d %s", id.Name, id.Bytes, id.Hash) }
	key := name(p.ids.Target)
	if p.Draft != nil {
		key += " + " + name(p.ids.Draft)
	}
	if p.Head != nil {
		key += " + " + name(p.headIDs.Draft)
	}
	return key
}

// Tuning returns the kernel choices of the models, by role and matrix.
func (p *Pair) Tuning() map[string]map[string]string {
	out := map[string]map[string]string{"target": p.Target.Graph.Kernels.Choices()}
	if p.Draft != nil {
		out["draft"] = p.Draft.Graph.Kernels.Choices()
	}
	if p.Head != nil {
		out["eagle3"] = p.Head.Graph.Kernels.Choices()
	}
	return out
}

// Work returns the work of a pass of each model, for predictions of its cost.
func (p *Pair) Work() (target goodput.Work, drafts [goodput.MostModels]goodput.Work) {
	work := func(dispatches int, bytes int64) goodput.Work {
		return goodput.Work{Dispatches: dispatches, Bytes: bytes}
	}
	if p.Draft != nil {
		drafts[goodput.SmallDraft] = work(p.Draft.Graph.Work())
	}
	if p.Head != nil {
		drafts[goodput.EAGLE3] = work(p.Head.Graph.Work())
	}
	return work(p.Target.Graph.Work()), drafts
}

// Close frees the models, and the device where it was opened again.
func (p *Pair) Close() {
	p.state = closed
	if p.Head != nil {
		p.Head.Close()
	}
	if p.Draft != nil {
		p.Draft.Close()
	}
	if p.Target != nil {
		p.Target.Close()
	}
	if p.owned {
		p.dev.Destroy()
	}
}
