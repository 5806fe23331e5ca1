//go:build !js

package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"foretoken"
	"foretoken/models/convert"
	"foretoken/models/demo"
	"foretoken/models/gguf"
	"foretoken/webgpu"
	"foretoken/webgpu/open"
)

// noDraft is the value of --draft that asks for none.
const noDraft = "none"

// modelOptions say what to load, and where.
type modelOptions struct {
	target, draft string
	quantise      string // storage type of both models' weights; empty: the files' own
	device, kv    string
	patience      time.Duration // how long a call waits for the device before it is taken to hang
	memory        string        // the most that may be taken on the device; empty: no limit
	context       int
	beyond        bool // what the models were trained for
	noTuning      bool
	calibrations  []string
	eagle3        string // safetensors file of a head; empty: none
	useHead       bool   // what is to be run drafts from a head: the built-in one, where no other is named
	nodes         int    // the largest tree that can be verified; 0: the default
	candidates    int    // of the target's best tokens told of every position; 0: the default
}

func (o *modelOptions) flags(f *pflag.FlagSet) {
	f.StringVar(&o.target, "target", "", "the target: a GGUF file, one part of a split one, or a folder with safetensors (default the built-in one)")
	f.StringVar(&o.draft, "draft", "", "the draft, likewise, or none (default the built-in one, or none with --target)")
	f.StringVar(&o.quantise, "quantise", "", "store the weights of the files given as "+strings.Join(convert.Types(), ", ")+" while loading (default as the files have them)")
	f.StringVar(&o.device, "device", "auto", "auto, "+open.Accelerator+" or cpu")
	f.DurationVar(&o.patience, "device-timeout", 30*time.Second, "take a device that does not answer for so long to hang, and open it anew")
	f.StringVar(&o.kv, "kv", "f32", "KV cache: f32, f16 (half the memory; moves log-probabilities by up to 0.05 nats) or q8 (a bit over a quarter; by tenths of a nat)")
	f.StringVar(&o.memory, "max-memory", "", "refuse models that would take more on the device, such as 3GiB or 800MiB (default no limit)")
	f.IntVar(&o.context, "context", 0, "positions of the KV cache (default the models' own, at most 4096)")
	f.BoolVar(&o.beyond, "beyond-training", false, "let --context be longer than the models were trained for, to time long contexts: the text there is worth nothing")
	f.StringArrayVar(&o.calibrations, "calibration", nil, "file with what was fitted to the pair, from calibrate or train; may be given several times")
	f.StringVar(&o.eagle3, "eagle3", "", "safetensors file of an EAGLE-3 head for the target, with its config.json beside it (default the built-in target's, where a method drafts from one)")
	f.BoolVar(&o.noTuning, "no-tuning-cache", false, "neither use nor keep what was measured about kernels on this adapter")
}

// drafts tells whether there is a draft model.
func (o *modelOptions) drafts() bool {
	return o.draft != noDraft && (o.draft != "" || o.target == "")
}

// sources opens the files; draft is nil where there is none. close ends
// what reads them: a lost device has the weights loaded again.
func (o *modelOptions) sources(c *console) (target, draft gguf.Source, close func(), err error) {
	if err := oneOfFlag("quantise", strings.ToLower(o.quantise), append([]string{""}, convert.Types()...)); err != nil {
		return nil, nil, nil, err
	}
	var opened []func()
	close = func() {
		for _, f := range opened {
			f()
		}
	}
	model := func(path string) (gguf.Source, error) {
		src, closeFiles, err := convert.OpenPaths([]string{path}, convert.Options{Quantise: o.quantise, Note: func(s string) { c.note("%s", s) }})
		if err == nil {
			opened = append(opened, closeFiles)
		}
		return src, err
	}
	target = demo.Target()
	if o.target != "" {
		if target, err = model(o.target); err != nil {
			return nil, nil, nil, err
		}
	}
	switch {
	case !o.drafts():
	case o.draft == "":
		draft = demo.Draft()
	default:
		if draft, err = model(o.draft); err != nil {
			close()
			return nil, nil, nil, err
		}
	}
	return target, draft, close, nil
}

// fitted reads the calibration files, after those of the built-in pair where that is
// what is loaded.
func (o *modelOptions) fitted() (*foretoken.Calibrations, error) {
	var all foretoken.Calibrations
	if o.target == "" && o.draft == "" {
		for _, f := range demo.Calibrations() {
			if err := all.Parse(f.Name, f.Data); err != nil {
				return nil, err
			}
		}
	}
	for _, path := range o.calibrations {
		data, err := os.ReadFile(path)
		if err != nil {
			return nil, err // it names the file
		}
		if err := all.Parse(path, data); err != nil {
			return nil, err
		}
	}
	return &all, nil
}

// head opens an EAGLE-3 head's file and the config.json beside it; nil without one.
func (o *modelOptions) head() (weights, config gguf.Source, err error) {
	if o.eagle3 == "" {
		if o.useHead && o.target == "" {
			weights, config = demo.Head()
		}
		return weights, config, nil
	}
	var read [2]gguf.Source
	for i, path := range []string{o.eagle3, filepath.Join(filepath.Dir(o.eagle3), "config.json")} {
		data, err := os.ReadFile(path)
		if err != nil {
			return nil, nil, err // it names the file
		}
		read[i] = gguf.FromBytes(path, data)
	}
	return read[0], read[1], nil
}

// kvFormats are the values of --kv.
var kvFormats = []string{"f32", "f16", "q8"}

// parseMemory reads a number of bytes, with a unit of 1024 where one is given: K, M, G, or with iB or B behind.
func parseMemory(s string) (int64, error) {
	if s == "" {
		return 0, nil
	}
	number := strings.TrimRight(strings.TrimSpace(s), "iIbB")
	unit := int64(1)
	for letter, size := range map[string]int64{"k": 1 << 10, "m": 1 << 20, "g": 1 << 30} {
		if rest, ok := strings.CutSuffix(strings.ToLower(number), letter); ok {
			number, unit = strings.TrimSpace(rest), size
		}
	}
	n, err := strconv.ParseFloat(number, 64)
	if bytes := n * float64(unit); err == nil && bytes >= 1 && bytes < 1<<62 {
		return int64(bytes), nil
	}
	return 0, usagef("--max-memory is %q; want a number of bytes above 0, such as 3GiB or 800MiB", s)
}

// session is an open pair with its device.
type session struct {
	*foretoken.Session
	dev   webgpu.Device // as it was first opened
	files func()        // closes the models' files
	tuned *tuning
	note  func(format string, args ...any)
}

func (s *session) close() {
	if err := s.tuned.keep(s.Tuning()); err != nil { // what was learnt meanwhile
		s.note("costs are not kept: %v", err)
	}
	s.Session.Close()
	s.dev.Destroy()
	s.files()
}

// openSession opens a device and loads the models onto it.
func openSession(ctx context.Context, c *console, o *modelOptions) (opened *session, err error) {
	target, draft, closeFiles, err := o.sources(c)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			closeFiles()
		}
	}()
	fitted, err := o.fitted()
	if err != nil {
		return nil, err
	}
	head, headConfig, err := o.head()
	if err != nil {
		return nil, err
	}
	dev, why, err := open.Patient(ctx, o.device, o.patience)
	if err != nil {
		return nil, err
	}
	if why != "" {
		c.note("decoding on the CPU, slowly: %s", why)
	}
	memory, err := parseMemory(o.memory)
	if err != nil {
		dev.Destroy()
		return nil, err
	}
	if o.beyond {
		c.note("--beyond-training: past what the models were trained for only speed counts; the text there is worth nothing")
	}
	tuned := openTuning(c, dev.Info(), target, draft, o.noTuning)
	bar, loaded := loading{c: c}, false
	s, err := foretoken.Open(ctx, dev, target, draft, foretoken.Options{Context: o.context, Beyond: o.beyond, KV: o.kv, Memory: memory, Nodes: o.nodes, Candidates: o.candidates, Calibrations: fitted,
		EAGLE3: head, EAGLE3Config: headConfig, Tuning: tuned.choices(),
		Progress: func(p foretoken.Progress) {
			if !loaded { // afterwards it would be drawn into the text
				bar.report(p)
			}
		},
		Reopen: func(ctx context.Context) (webgpu.Device, error) {
			dev, _, err := open.Patient(ctx, dev.Info().Backend, o.patience)
			return dev, err
		},
		Lost: func(l foretoken.Loss) { c.note("%s", l) }})
	loaded = true
	bar.end()
	if err != nil {
		dev.Destroy()
		return nil, err
	}
	if err := tuned.keep(s.Tuning()); err != nil {
		c.note("kernel timings are not kept: %v", err)
	}
	return &session{s, dev, closeFiles, tuned, c.note}, nil
}

// modelKey names a file in the tuning cache: kernel choices follow from the
// shapes of its tensors.
func modelKey(src gguf.Source) string {
	return fmt.Sprintf("%s, %d bytes", baseName(src.Name()), src.Size())
}
