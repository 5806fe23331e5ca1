//go:build !js

package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"foretoken/fit"
	"foretoken/internal/quote"
	"foretoken/internal/strictjson"
	"foretoken/spec"
	"foretoken/spec/method"
)

func calibrateCommand(c *console) *cobra.Command {
	cmd := &cobra.Command{Use: "calibrate", Short: "Fit a method's calibration to a pair of models"}
	cmd.AddCommand(calibrateHeteroCommand(c))
	return cmd
}

func trainCommand(c *console) *cobra.Command {
	cmd := &cobra.Command{Use: "train", Short: "Train the small classifiers that some methods use"}
	cmd.AddCommand(trainC2TCommand(c), trainHeadCommand(c))
	return cmd
}

// check refuses unknown values of the model flags.
func (o *modelOptions) check() error {
	return cmp.Or(oneOfFlag("device", o.device, devices), oneOfFlag("kv", o.kv, kvFormats))
}

// gatherOptions are the flags of the commands that run the draft along texts of the target.
type gatherOptions struct {
	models        modelOptions
	prompts       string
	tokens        int
	temperature   float64
	seed          uint64
	noCoupling    bool
	every         bool
	exclude       []string
	continuations string
	out           string
	json          bool
	source        string // of drafted tokens, where a command has the choice; "" is the draft model
}

// sourceFlag adds the choice between the draft model and an EAGLE-3 head.
func (o *gatherOptions) sourceFlag(f *pflag.FlagSet) {
	f.StringVar(&o.source, "source", method.SourceModel,
		"what drafts: model, the draft model, or eagle3, the EAGLE-3 head")
}

// fingerprint names the models that a calibration is fitted to.
func (o *gatherOptions) fingerprint(s *session) spec.Fingerprint {
	if o.models.useHead {
		return s.HeadFingerprint()
	}
	return s.Fingerprint()
}

func (o *gatherOptions) flags(f *pflag.FlagSet, out string) {
	o.models.flags(f)
	f.StringVar(&o.prompts, "prompts", "", "file with one JSON object per line: {\"id\": …, \"category\": "+
		"…, \"prompt\": …}; foretoken sample-prompts writes one")
	f.IntVar(&o.tokens, "tokens", 96, "tokens of the target's continuation of each prompt")
	f.Float64Var(&o.temperature, "temperature", 0, "temperature of the continuations")
	f.Uint64Var(&o.seed, "seed", 1, "seed of all draws and shuffles")
	f.BoolVar(&o.noCoupling, "no-coupling", false, "above temperature 0, draft without the target's sampling noise")
	f.BoolVar(&o.every, "every", false, "draft at every position, not only at those where decoding would")
	f.StringSliceVar(&o.exclude, "exclude-category", nil, "leave out the prompts of these categories")
	f.StringVar(&o.continuations, "continuations", "",
		"file that keeps the target's continuations for the next command (default next to the prompts)")
	f.StringVar(&o.out, "out", out, "file to write")
	f.BoolVar(&o.json, "json", false, "print one JSON object at the end: file, bytes, calibrations, each with kind, "+
		"fingerprint and made; the report goes to standard error")
}

// report returns the writer for the printed figures: standard error if standard output carries JSON.
func (o *gatherOptions) report(c *console) io.Writer {
	if o.json {
		return c.err
	}
	return c.out
}

func (o *gatherOptions) check() error {
	source := oneOfFlag("source", cmp.Or(o.source, method.SourceModel), method.Sources())
	if err := cmp.Or(o.models.check(), source); err != nil {
		return err
	}
	o.models.useHead = o.source == method.SourceEAGLE3
	switch {
	case o.prompts == "":
		return usagef("--prompts is missing; foretoken sample-prompts has the target write some")
	case o.tokens < 2:
		return usagef("--tokens is %d, want 2 or more", o.tokens)
	case o.out == "":
		return usagef("--out is empty, want a file name")
	case !o.models.useHead && !o.models.hasDraft():
		return usagef("a calibration belongs to a pair of models: give the draft with --draft")
	}
	if o.continuations == "" {
		o.continuations = fmt.Sprintf("%s.t%g-s%d-n%d.continuations.jsonl",
			strings.TrimSuffix(o.prompts, filepath.Ext(o.prompts)), o.temperature, o.seed, o.tokens)
	}
	return asUsage((&spec.Sampling{Temperature: o.temperature}).Validate())
}

func (o *gatherOptions) collect() fit.Options {
	return fit.Options{Temperature: o.temperature, Seed: o.seed, Uncoupled: o.noCoupling, Every: o.every,
		Head: o.models.useHead}
}

// made returns the record of the settings that a file is made with.
func (o *gatherOptions) made(texts []fit.Text) spec.Made {
	m := spec.Made{Prompts: filepath.Base(o.prompts), Requests: len(texts), Temperature: o.temperature, Seed: o.seed,
		Settings: map[string]string{
			"positions": map[bool]string{false: "where decoding stops", true: "every"}[o.every],
		}}
	if len(o.exclude) > 0 {
		m.Settings["without"] = strings.Join(o.exclude, ", ")
	}
	for _, t := range texts {
		m.Tokens += len(t.Tokens)
	}
	return m
}

// open opens the models, reads the prompts and has the target continue those that it has not continued yet.
func (o *gatherOptions) open(ctx context.Context, c *console) (_ *session, texts []fit.Text, err error) {
	s, err := openSession(ctx, c, &o.models)
	if err != nil {
		return nil, nil, err
	}
	defer func() {
		if err != nil {
			s.close()
		}
	}()
	all, err := readPrompts(o.prompts)
	if err != nil {
		return nil, nil, err
	}
	var prompts []fit.Prompt
	for _, p := range all {
		if !slices.Contains(o.exclude, p.Category) { // bound: names in a flag
			prompts = append(prompts, fit.Prompt(p))
		}
	}
	bar := newBar(c, "continuations", len(prompts))
	defer bar.clear()
	j, err := fit.OpenJournal(o.continuations, map[string]any{"target": s.Fingerprint().Target.Hash,
		"temperature": o.temperature, "seed": o.seed, "tokens": o.tokens})
	if err != nil {
		return nil, nil, err
	}
	defer j.Close()
	texts, err = fit.ContinueAll(ctx, s.Session, j, prompts, o.tokens, o.collect(), bar.set)
	if err != nil {
		return nil, nil, interruptedOr(ctx, fmt.Errorf("prompt %s: %w", quote.Name(prompts[len(texts)].ID), err))
	}
	if len(texts) == 0 {
		return nil, nil, fmt.Errorf("%s: no prompt is left without the categories %s", o.prompts,
			strings.Join(o.exclude, ", "))
	}
	return s, texts, nil
}

// gather runs work on every text and keeps finished results in a journal next to the output. done removes the journal.
func gather[T any](ctx context.Context, c *console, o *gatherOptions, s *session, what string, settings map[string]any,
	texts []fit.Text, work func(t *fit.Text) (T, error)) (all []T, done func() error, err error) {
	path := o.out + "." + strings.ReplaceAll(what, " ", "-") + ".partial"
	all, j, err := gatherIn(ctx, c, o, s, path, what, settings, texts, work)
	if err != nil {
		return nil, nil, err
	}
	return all, j.Remove, nil
}

// gatherIn keeps finished results in the journal of a path.
func gatherIn[T any](ctx context.Context, c *console, o *gatherOptions, s *session, path, what string,
	settings map[string]any, texts []fit.Text, work func(t *fit.Text) (T, error)) (all []T, j *fit.Journal, err error) {
	pair := o.fingerprint(s)
	settings["pair"] = []string{pair.Target.Hash, pair.Draft.Hash}
	settings["temperature"], settings["seed"], settings["tokens"] = o.temperature, o.seed, o.tokens
	settings["coupled"], settings["every"] = !o.noCoupling, o.every
	if j, err = fit.OpenJournal(path, settings); err != nil {
		return nil, nil, err
	}
	bar := newBar(c, what, len(texts))
	defer bar.clear()
	all, err = fit.Gather(ctx, j, texts, bar.set, work)
	if err != nil {
		j.Close()
		if ctx.Err() != nil {
			return nil, nil, fmt.Errorf("%w after %d of %d prompts; the same command continues from there",
				errInterrupted, len(all), len(texts))
		}
		return nil, nil, fmt.Errorf("prompt %s: %w", quote.Name(texts[len(all)].Key), err)
	}
	return all, j, j.Sync()
}

// writtenFile is the JSON output of a command that writes a file.
type writtenFile struct {
	File         string            `json:"file"`
	Bytes        int               `json:"bytes"`
	Calibrations []calibrationHead `json:"calibrations"`
}

// calibrationHead is the header of one calibration in a file.
type calibrationHead struct {
	Kind        string           `json:"kind"`
	Fingerprint spec.Fingerprint `json:"fingerprint"`
	Made        spec.Made        `json:"made"`
}

// write replaces the output in one step and then removes the journals.
func (o *gatherOptions) write(c *console, b []byte, done ...func() error) error {
	if err := os.MkdirAll(filepath.Dir(o.out), 0o777); err != nil {
		return err
	}
	if err := replaceFile(o.out, b); err != nil {
		return err
	}
	for _, d := range done {
		if err := d(); err != nil {
			return err
		}
	}
	if !o.json {
		return nil
	}
	var file struct {
		calibrationHead
		Calibrations []calibrationHead `json:"calibrations"`
	}
	if err := strictjson.DecodeForeign(b, &file); err != nil {
		return err
	}
	if len(file.Calibrations) == 0 {
		file.Calibrations = []calibrationHead{file.calibrationHead}
	}
	return printObject(c, writtenFile{o.out, len(b), file.Calibrations})
}

var errNoTexts = errors.New("the continuations are too short for a single tree; give more --tokens")
