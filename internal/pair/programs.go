package pair

import (
	"cmp"
	"context"
	"errors"

	"foretoken/models/graph"
	"foretoken/spec"
	"foretoken/spec/goodput"
	"foretoken/spec/method"
	"foretoken/webgpu"
)

// Refusals of policies that the models cannot run.
var (
	errNoHead = errors.New("foretoken: this policy drafts with an EAGLE-3 head, and the session was opened without " +
		"one; give a head (--eagle3) or use source model")
	errNoDraft = errors.New("foretoken: this policy needs a draft model, and the session was opened without one; " +
		"use policy none or ngram")
)

// Drafts are the models that a config drafts with: the draft model and the EAGLE-3 head, in this order, with nil for
// one that is not there or not used. Auto uses both unless its source names one.
type Drafts [goodput.MostModels]spec.DraftModel

// one returns the draft that is used, where one is.
func (d *Drafts) one() spec.DraftModel { return cmp.Or(d[goodput.SmallDraft], d[goodput.EAGLE3]) }

// Drafts returns the models that a config drafts with: none if the pair has none and the config needs none.
func (p *Pair) Drafts(c method.Config) (d Drafts, err error) {
	both := c.WeighsCosts() && c.Source == ""
	if p.Draft != nil && c.Source != method.SourceEAGLE3 {
		d[goodput.SmallDraft] = p.Draft
	}
	if p.Head != nil && (both || c.Source == method.SourceEAGLE3) {
		d[goodput.EAGLE3] = p.Head
	}
	switch {
	case c.Source == method.SourceEAGLE3 && p.Head == nil:
		err = errNoHead
	case c.UsesDraftModel() && d.one() == nil:
		err = errNoDraft
	}
	return d, err
}

// Compile records the programs of a config at a temperature, for logits that are adjusted so, and returns its round
// loop.
func (p *Pair) Compile(c method.Config, temperature float64, adjust spec.AdjustmentKinds) (*spec.Generator, error) {
	drafts, err := p.Drafts(c)
	if err != nil {
		return nil, err
	}
	g, err := method.New(p.Target, c, drafts[:]...)
	if err != nil {
		return nil, err
	}
	if err := c.CheckAt(temperature); err != nil {
		return nil, err
	}
	return g, p.Record(c, temperature, adjust)
}

// Record is Compile for a config that it compiled before: after a loss the programs have to be recorded again.
func (p *Pair) Record(c method.Config, temperature float64, adjust spec.AdjustmentKinds) error {
	drafts, err := p.Drafts(c)
	if err != nil {
		return err
	}
	if drafts.one() == nil {
		programs := c.Programs(temperature, spec.Limits{})
		programs.Adjust = adjust
		return p.Target.Prepare(programs)
	}
	for _, d := range drafts {
		if d == nil {
			continue
		}
		programs := c.Programs(temperature, d.Limits())
		programs.Model, programs.Adjust = d, adjust
		programs.Joint = programs.Joint && !p.Target.Graph.Options.FastStart // a fast start waits for few kernels
		if err := p.Target.Prepare(programs); err != nil {
			return err
		}
		if err := d.Prepare(programs); err != nil {
			return err
		}
	}
	return nil
}

// recordDefault records the programs of the default config with trees of up to so many nodes; 0: as the config says.
func (p *Pair) recordDefault(nodes int) error {
	c := p.options.Default.Limit(cmp.Or(nodes, p.options.Default.Nodes)).Limit(p.Target.Limits().MaxRows)
	return p.Record(c, 0, spec.AdjustmentKinds{})
}

// Steps prepares what a fast start left out and a default request needs. Each step is short once its kernels are
// compiled. There are none without a fast start.
func (p *Pair) Steps() []func() error {
	if p.options.First == 0 {
		return nil
	}
	var steps []func() error
	nodes := p.options.Default.Nodes
	for rows := 1; rows < 2*nodes; rows *= 2 {
		steps = append(steps, func() error { return p.Target.Warm(min(rows, nodes, p.Target.Limits().MaxRows)) })
	}
	if p.Files.draft != nil {
		steps = append(steps, func() error { return p.Draft.Warm() })
	}
	return append(steps, func() error { return p.recordDefault(0) })
}

// DryRun returns Steps, after one that loads the models, on a device that only lists the kernels, and the function that
// returns the list. It returns no steps without a fast start, or where the device has nothing to compile.
func (p *Pair) DryRun() ([]func() error, func() []*webgpu.KernelSource) {
	if !p.compiles() {
		return nil, nil
	}
	dry, sources := p.dry()
	tuning := p.Tuning()
	load := func() error { return dry.loadModels(context.Background(), tuning) } // a dry run reads no weights
	return append([]func() error{load}, dry.Steps()...), sources
}

// compiles reports whether the models are loaded for a fast start onto a device that has kernels to compile.
func (p *Pair) compiles() bool { return p.options.First > 0 && !p.Device.Info().Host() }

// compileAhead starts compiling the kernels of the first request before weights are loaded.
func (p *Pair) compileAhead(tuning map[string]map[string]string) {
	dry, sources := p.dry()
	if dry.loadModels(context.Background(), tuning) == nil && dry.recordDefault(p.options.First) == nil {
		webgpu.Compile(p.Device, sources()) // loading reports errors
	}
}

// dry returns the pair on a dry run, and the kernels that it needed so far.
func (p *Pair) dry() (*Pair, func() []*webgpu.KernelSource) {
	dev := graph.NewDryRun(p.Device.Info())
	return &Pair{Files: p.Files, Device: dev, options: Options{Default: p.options.Default, First: p.options.First}},
		dev.Sources
}
