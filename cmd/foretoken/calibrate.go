//go:build !js

package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/schollz/progressbar/v3"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"foretoken"
	"foretoken/spec"
	"foretoken/webgpu/open"
)

func calibrateCommand(c *console) *cobra.Command {
	cmd := &cobra.Command{Use: "calibrate", Short: "Fit what a method needs to know about a pair of models"}
	cmd.AddCommand(calibrateHeteroCommand(c))
	return cmd
}

func trainCommand(c *console) *cobra.Command {
	cmd := &cobra.Command{Use: "train", Short: "Train the small classifiers that some methods decide by"}
	cmd.AddCommand(trainC2TCommand(c), trainHeadCommand(c))
	return cmd
}

// check refuses models flags that name nothing there is.
func (o *modelOptions) check() error {
	if err := oneOfFlag("device", o.device, []string{"auto", open.Accelerator, "cpu"}); err != nil {
		return err
	}
	return oneOfFlag("kv", o.kv, kvFormats)
}

// gatherOptions are the flags of all that goes through texts of the target with the draft.
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
}

func (o *gatherOptions) flags(f *pflag.FlagSet, out string) {
	f.SortFlags = false
	o.models.flags(f)
	f.StringVar(&o.prompts, "prompts", "", "file with one JSON object a line: {\"id\": …, \"category\": …, \"prompt\": …}; foretoken sample-prompts writes one")
	f.IntVar(&o.tokens, "tokens", 96, "tokens that the target continues each prompt by")
	f.Float64Var(&o.temperature, "temperature", 0, "of the continuations")
	f.Uint64Var(&o.seed, "seed", 1, "of all draws and shuffles")
	f.BoolVar(&o.noCoupling, "no-coupling", false, "above temperature 0, draft without the noise that the target drew with")
	f.BoolVar(&o.every, "every", false, "draft at every position, not only at those where decoding would")
	f.StringSliceVar(&o.exclude, "exclude-category", nil, "leave the prompts of these categories out")
	f.StringVar(&o.continuations, "continuations", "", "file that keeps the target's continuations for the next command (default beside the prompts)")
	f.StringVar(&o.out, "out", out, "file to write")
	f.BoolVar(&o.json, "json", false, "print one JSON object at the end: file, bytes, calibrations, each with kind, fingerprint and made; the report goes to standard error")
}

// report is where the figures for people go.
func (o *gatherOptions) report(c *console) io.Writer {
	if o.json {
		return c.err
	}
	return c.out
}

func (o *gatherOptions) check() error {
	if err := o.models.check(); err != nil {
		return err
	}
	switch {
	case o.prompts == "":
		return usagef("--prompts is missing; foretoken sample-prompts has the target write some")
	case o.tokens < 2:
		return usagef("--tokens is %d, want 2 or more", o.tokens)
	case o.out == "":
		return usagef("--out is empty, want a file name")
	case !o.models.drafts():
		return usagef("a calibration is about a pair of models: give the draft with --draft")
	}
	if o.continuations == "" {
		o.continuations = fmt.Sprintf("%s.t%g-s%d-n%d.continuations.jsonl", strings.TrimSuffix(o.prompts, filepath.Ext(o.prompts)), o.temperature, o.seed, o.tokens)
	}
	return asUsage((&spec.Sampling{Temperature: o.temperature}).Validate())
}

func (o *gatherOptions) collect() foretoken.CollectOptions {
	return foretoken.CollectOptions{Temperature: o.temperature, Seed: o.seed, Uncoupled: o.noCoupling, Every: o.every}
}

// made begins the record of how a file came about.
func (o *gatherOptions) made(texts []continued) spec.Made {
	m := spec.Made{Prompts: filepath.Base(o.prompts), Requests: len(texts), Temperature: o.temperature, Seed: o.seed, Settings: map[string]string{
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

// continued is a prompt with the target's continuation.
type continued struct {
	key      string // of the prompt's name and words
	Category string
	foretoken.Continuation
}

// readTexts reads the prompts and has the target continue those that it has not yet.
func (o *gatherOptions) readTexts(ctx context.Context, c *console, s *session) ([]continued, error) {
	prompts, err := readPrompts(o.prompts)
	if err != nil {
		return nil, err
	}
	categories, err := readCategories(o.prompts)
	if err != nil {
		return nil, err
	}
	j, err := openJournal(o.continuations, map[string]any{"target": s.Fingerprint().Target.Hash, "temperature": o.temperature, "seed": o.seed, "tokens": o.tokens})
	if err != nil {
		return nil, err
	}
	defer j.close()
	bar := newBarOf(c, "continuations", len(prompts))
	defer bar.clear()
	var all []continued
	for i, p := range prompts {
		if slices.Contains(o.exclude, categories[p.ID]) {
			continue
		}
		sum := sha256.Sum256([]byte(p.Prompt))
		t := continued{key: p.ID + " " + hex.EncodeToString(sum[:6]), Category: categories[p.ID]}
		ok, err := j.get(t.key, &t.Continuation)
		if err == nil && !ok {
			var made *foretoken.Continuation
			if made, err = s.Continue(ctx, p.Prompt, o.tokens, o.collect()); err == nil {
				t.Continuation = *made
				err = j.add(t.key, made)
			}
		}
		if err != nil {
			return nil, interruptedOr(ctx, fmt.Errorf("prompt %s: %w", printable(p.ID), err))
		}
		all = append(all, t)
		bar.set(i + 1)
	}
	if len(all) == 0 {
		return nil, fmt.Errorf("%s: no prompt is left without the categories %s", o.prompts, strings.Join(o.exclude, ", "))
	}
	return all, nil
}

// readCategories reads the optional field of prompts that readPrompts has accepted.
func readCategories(path string) (map[string]string, error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	categories := map[string]string{}
	for line := range strings.Lines(string(b)) {
		var p struct{ ID, Category string }
		if json.Unmarshal([]byte(line), &p) == nil {
			categories[p.ID] = p.Category
		}
	}
	return categories, nil
}

// gather does one piece of work for every text, keeping what is finished beside the
// output until that is written: done removes it.
func gather[T any](ctx context.Context, c *console, o *gatherOptions, s *session, what string, settings map[string]any, texts []continued, work func(t *continued) (T, error)) (all []T, done func() error, err error) {
	settings["pair"] = []string{s.Fingerprint().Target.Hash, s.Fingerprint().Draft.Hash}
	settings["temperature"], settings["seed"], settings["tokens"] = o.temperature, o.seed, o.tokens
	settings["coupled"], settings["every"] = !o.noCoupling, o.every
	j, err := openJournal(o.out+"."+strings.ReplaceAll(what, " ", "-")+".partial", settings)
	if err != nil {
		return nil, nil, err
	}
	bar := newBarOf(c, what, len(texts))
	defer bar.clear()
	for i := range texts {
		var one T
		ok, err := j.get(texts[i].key, &one)
		if err == nil && !ok {
			if err = ctx.Err(); err == nil {
				if one, err = work(&texts[i]); err == nil {
					err = j.add(texts[i].key, one)
				}
			}
		}
		if err != nil {
			j.close()
			if ctx.Err() != nil {
				return nil, nil, fmt.Errorf("%w after %d of %d prompts; the same command goes on from there", errInterrupted, i, len(texts))
			}
			return nil, nil, fmt.Errorf("prompt %s: %w", printable(texts[i].key), err)
		}
		all = append(all, one)
		bar.set(i + 1)
	}
	return all, j.remove, j.file.Sync()
}

// written is the JSON of a file that a command wrote.
type written struct {
	File         string            `json:"file"`
	Bytes        int               `json:"bytes"`
	Calibrations []calibrationHead `json:"calibrations"`
}

// calibrationHead is that of one calibration of a file.
type calibrationHead struct {
	Kind        string           `json:"kind"`
	Fingerprint spec.Fingerprint `json:"fingerprint"`
	Made        spec.Made        `json:"made"`
}

// write replaces the output in one step and then ends the journals.
func (o *gatherOptions) write(c *console, b []byte, done ...func() error) error {
	if err := os.MkdirAll(filepath.Dir(o.out), 0o777); err != nil {
		return err
	}
	next := o.out + ".new"
	if err := os.WriteFile(next, b, 0o666); err != nil {
		return err
	}
	if err := os.Rename(next, o.out); err != nil {
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
	if err := json.Unmarshal(b, &file); err != nil {
		return err
	}
	if len(file.Calibrations) == 0 {
		file.Calibrations = []calibrationHead{file.calibrationHead}
	}
	return printObject(c, written{o.out, len(b), file.Calibrations})
}

// newBarOf is a progress bar that says what it counts.
func newBarOf(c *console, what string, total int) *bar {
	if !c.errTerminal {
		return &bar{}
	}
	return &bar{progressbar.NewOptions(total, append(look(c), progressbar.OptionSetDescription(what), progressbar.OptionShowCount())...)}
}

var errNoTexts = errors.New("the continuations are too short for a single tree; give more --tokens")
