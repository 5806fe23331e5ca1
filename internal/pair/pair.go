// Package pair holds the models of a session: their files, the calibrations fitted to them, the memory that they take,
// how they are loaded, and reloaded after a loss, and the programs that a method needs of them.
package pair

import (
	"context"
	"crypto/sha256"
	"fmt"
	"slices"
	"strings"
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
	Context, Nodes, Candidates, Beams int
	KV                                string
	Memory                            int64
	Tuning                            map[string]map[string]string
	EAGLE3, EAGLE3Config              files.Source
	EAGLE3Quantise                    string
	SHA256                            func([]byte) [sha256.Size]byte
	Reopen                            func(context.Context) (webgpu.Device, error)

	Default method.Config // of a default request: its programs are recorded when the models are loaded
	// First, if not 0, loads models for a fast start: with the programs of the default config for trees of so many
	// nodes. Steps and DryRun prepare the rest.
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

// Pair is a session's models on their device. One goroutine at a time may use it, but for Losses.
type Pair struct {
	// The models keep their addresses when they are loaded again.
	Target *runner.Target
	Draft  *runner.Draft // nil without a draft
	Head   *runner.Draft // nil without a head

	Files        *Files
	Device       webgpu.Device // after a loss another one
	Info         Info
	IDs, HeadIDs spec.Fingerprint // of target and draft, and of target and head, without a tree; zero without a head

	options   Options
	loaded    bool // the models are on the device
	closed    bool
	owned     bool         // Options.Reopen opened the device
	losses    int          // of the device since the last committed token
	allLosses atomic.Int64 // see Losses
}

// Info describes the models as they were loaded last.
type Info struct {
	Device   webgpu.Info
	Models   map[string]*graph.Info // by stage of Progress
	GPUBytes int64
}

// role is a loaded model with what the pair knows of it.
type role struct {
	stage string // of Progress
	model interface {
		Reset()
		Close()
	}
	graph  *graph.Graph
	source files.Source
	id     *spec.ModelID
}

// roles returns the loaded models.
func (p *Pair) roles() []role {
	var all []role
	if p.Target != nil {
		all = append(all, role{"target", p.Target, p.Target.Graph, p.Files.sources.target, &p.IDs.Target})
	}
	if p.Draft != nil {
		all = append(all, role{"draft", p.Draft, p.Draft.Graph, p.Files.sources.draft, &p.IDs.Draft})
	}
	if p.Head != nil {
		all = append(all, role{"eagle3", p.Head, p.Head.Graph, p.options.EAGLE3, &p.HeadIDs.Draft})
	}
	return all
}

// Open loads the models of files on a device. The device stays the caller's; Close frees the models. Where the device
// is lost meanwhile it is opened again.
func Open(ctx context.Context, dev webgpu.Device, f *Files) (*Pair, error) {
	p := &Pair{Files: f, options: f.options, Device: dev}
	p.Info.Device = dev.Info()
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
	if p.Device.Info().Host() {
		if err := p.Device.Run(nil); err != nil { // its threads have started, or not
			return err
		}
	}
	if err := p.describe(); err != nil {
		return err
	}
	if p.Draft != nil || p.options.First > 0 {
		if err := p.recordDefault(p.options.First); err != nil {
			return err
		}
	}
	p.loaded = true
	if p.options.Loaded != nil {
		p.options.Loaded(p)
	}
	return nil
}

// loadModels reads the weights. After a loss it overwrites the old models in place.
func (p *Pair) loadModels(ctx context.Context, tuning map[string]map[string]string) error {
	f := p.Files
	loading := func(stage string) graph.Options {
		l := f.loading(stage)
		l.Tuning, l.FastStart = tuning[stage], p.options.First > 0
		l.Progress = func(done, total int64) { p.progress(Progress{Stage: stage, Done: done, Total: total}) }
		l.Preparing = func(step string) { p.progress(Progress{Stage: "kernels", Note: stage + ": " + step}) }
		return l
	}
	target, err := runner.LoadTarget(ctx, p.Device, f.Target, loading("target"))
	if err != nil {
		return err
	}
	replace(&p.Target, target)
	if f.draft != nil {
		draft, err := runner.LoadDraft(ctx, p.Device, f.draft, loading("draft"))
		if err != nil {
			return err
		}
		replace(&p.Draft, draft)
	}
	if f.head != nil {
		head, err := runner.LoadEAGLE3(ctx, p.Device, p.Target, f.head, loading("eagle3"))
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

// describe sets Info and the identities of the models, or refuses a file that changed since it was first loaded.
func (p *Pair) describe() error {
	all := Info{Device: p.Device.Info(), Models: map[string]*graph.Info{}}
	for _, r := range p.roles() {
		info := r.graph.Info()
		id, err := Identify(r.source, info.Name, info.Quant, p.options.SHA256)
		if err != nil {
			return err
		}
		switch *r.id {
		case id:
		case spec.ModelID{}:
			*r.id = id
		default:
			return fmt.Errorf("foretoken: %s changed since it was loaded; open the models again", r.source.Name())
		}
		all.Models[r.stage], all.GPUBytes = &info, all.GPUBytes+info.GPUBytes
	}
	if p.Head != nil && p.HeadIDs.Target != p.IDs.Target {
		p.HeadIDs.Target = p.IDs.Target
	}
	p.Info = all
	return nil
}

// Key identifies the models among others on the same adapter.
func (p *Pair) Key() string {
	var names []string
	for _, r := range p.roles() {
		names = append(names, fmt.Sprintf("%s %d %s", r.id.Name, r.id.Bytes, r.id.Hash))
	}
	return strings.Join(names, " + ")
}

// Tuning returns the kernel choices of the models, by role and matrix.
func (p *Pair) Tuning() map[string]map[string]string {
	out := map[string]map[string]string{}
	for _, r := range p.roles() {
		out[r.stage] = r.graph.Kernels.Choices()
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

// Reset empties the KV caches of all models.
func (p *Pair) Reset() {
	for _, r := range p.roles() {
		r.model.Reset()
	}
}

// Close frees the models, and the device where it was opened again.
func (p *Pair) Close() {
	p.closed = true
	for _, r := range slices.Backward(p.roles()) {
		r.model.Close()
	}
	if p.owned {
		p.Device.Destroy()
	}
}
