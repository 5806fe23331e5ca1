//go:build !js

package main

import (
	"context"
	"fmt"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"foretoken"
	"foretoken/internal/files"
	"foretoken/models/convert"
	"foretoken/models/demo"
	"foretoken/webgpu"
	"foretoken/webgpu/open"
)

// noDraft is the value of --draft for no draft model.
const noDraft = "none"

// modelOptions selects the models and the device.
type modelOptions struct {
	target, draft string
	quantise      string // storage type of both models' weights; empty: the files' own
	device, kv    string
	threads       int           // of the cpu device; 0: as many as help
	timeout       time.Duration // time that a call waits for the device before it counts as hung
	memory        string        // limit of device memory; empty: none
	context       int
	noTuning      bool
	calibrations  []string
	eagle3        string // file of a head; empty: none
	headType      string // storage type of the head's weights; empty: the file's own
	timed         bool   // times the passes that auto decides by before the first request
	useHead       bool   // the method drafts from a head: use the built-in one unless eagle3 names one
	nodes         int    // largest tree to verify; 0: the default
	candidates    int    // likeliest tokens of the target available per position; 0: the default
	beams         int    // widest level of a drafted tree; 0: the default
}

func (o *modelOptions) flags(f *pflag.FlagSet) {
	f.SortFlags = false
	f.StringVar(&o.target, "target", "",
		"the target: a GGUF file, one part of a split one, or a folder with safetensors (default the built-in one)")
	f.StringVar(&o.draft, "draft", "",
		"the draft, in the same forms, or none (default the built-in one, or none with --target)")
	f.StringVar(&o.quantise, "quantise", "",
		"convert the weights to "+strings.Join(convert.Types(), ", ")+" while loading (default as stored)")
	f.StringVar(&o.device, "device", "auto", strings.Join(open.Kinds, ", "))
	f.IntVar(&o.threads, "threads", 0,
		"threads of the cpu device (default one for each core, up to eight)")
	f.DurationVar(&o.timeout, "device-timeout", 30*time.Second, "reopen a device that does not answer for this long")
	f.StringVar(&o.kv, "kv", "f32", "KV cache: f32, f16 (half the memory; moves log-probabilities a little) "+
		"or q8 (a bit over a quarter; moves them more)")
	f.StringVar(&o.memory, "max-memory", "",
		"refuse models that need more device memory, such as 3GiB or 800MiB (default no limit)")
	f.IntVar(&o.context, "context", 0, "positions of the KV cache (default the models' own, at most 4096)")
	f.StringArrayVar(&o.calibrations, "calibration", nil,
		"calibration file of the pair, from calibrate or train; may be given several times")
	f.StringVar(&o.eagle3, "eagle3", "", "an EAGLE-3 head for the target: a GGUF file, or a safetensors file next to "+
		"its config.json (default the built-in target's, if a method drafts from one)")
	f.StringVar(&o.headType, "eagle3-quantise", "",
		"convert the head's weights to "+strings.Join(convert.HeadTypes(), " or ")+" while loading (default as stored)")
	f.BoolVar(&o.noTuning, "no-tuning-cache", false,
		"do not read or write the cache of kernel choices for this adapter")
}

func (o *modelOptions) hasDraft() bool {
	return o.draft != noDraft && (o.draft != "" || o.target == "")
}

// sources opens the files; draft is nil without a draft model. The files stay open until close: after a device loss
// the weights are loaded again.
func (o *modelOptions) sources(c *console) (target, draft files.Source, close func(), err error) {
	if err := oneOfFlagOrNone("quantise", strings.ToLower(o.quantise), convert.Types()); err != nil {
		return nil, nil, nil, err
	}
	var opened []func()
	close = func() {
		for _, f := range opened {
			f()
		}
	}
	model := func(path string) (files.Source, error) {
		src, closeFiles, err := convert.OpenPaths([]string{path},
			convert.Options{Quantise: o.quantise, Note: func(s string) { c.note("%s", s) }})
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
	case !o.hasDraft():
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

// readCalibrations reads the built-in pair's calibrations, if it is loaded, and then the files.
func (o *modelOptions) readCalibrations() (*foretoken.Calibrations, error) {
	var all foretoken.Calibrations
	if o.target == "" && o.draft == "" {
		for _, f := range demo.Calibrations() {
			if err := all.Parse(f.Name, f.Data); err != nil {
				return nil, err
			}
		}
	}
	for _, path := range o.calibrations {
		data, err := readFile(path)
		if err != nil {
			return nil, err // the error names the file
		}
		if err := all.Parse(path, data); err != nil {
			return nil, err
		}
	}
	return &all, nil
}

// maxHead bounds the bytes of an EAGLE-3 head, which is held in memory. Published heads have less than 2 GiB.
const maxHead = 8 << 30

// head opens an EAGLE-3 head's file and its config.json in the same folder; nil without a head.
func (o *modelOptions) head() (weights, config files.Source, err error) {
	if o.eagle3 == "" {
		if o.useHead && o.target == "" {
			weights, config = demo.Head()
		}
		return weights, config, nil
	}
	read := func(path string) (files.Source, error) {
		data, err := files.Read(path, maxHead)
		if err != nil {
			return nil, err // the error names the file
		}
		return files.FromBytes(path, data), nil
	}
	if weights, err = read(o.eagle3); err != nil || convert.IsGGUF(weights) {
		return weights, nil, err
	}
	config, err = read(filepath.Join(filepath.Dir(o.eagle3), "config.json"))
	return weights, config, err
}

// The values of --device and --kv.
var (
	devices   = open.Kinds
	kvFormats = []string{"f32", "f16", "q8"}
)

// parseMemory reads a number of bytes with an optional binary unit: K, M or G, with or without iB or B.
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
	destroy func() // destroys the device that was opened first
	files   func() // closes the models' files
	tuning  *tuning
	note    func(format string, args ...any)
}

func (s *session) close() {
	if err := s.tuning.save(s.Tuning()); err != nil { // costs measured since then
		s.note("costs are not kept: %v", err)
	}
	s.Session.Close()
	s.destroy()
	s.files()
}

func openSession(ctx context.Context, c *console, o *modelOptions) (opened *session, err error) {
	target, draft, closeFiles, err := o.sources(c)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			closeFiles()
			err = interruptedOr(ctx, err)
		}
	}()
	fitted, err := o.readCalibrations()
	if err != nil {
		return nil, err
	}
	head, headConfig, err := o.head()
	if err != nil {
		return nil, err
	}
	memory, err := parseMemory(o.memory)
	if err != nil {
		return nil, err
	}
	opening := open.Options{Timeout: o.timeout, Threads: o.threads}
	dev, why, err := opening.Device(ctx, o.device)
	if err != nil {
		return nil, err
	}
	if why != "" {
		c.note("decoding on the CPU: %s", why)
	}
	reopen := func(ctx context.Context) (webgpu.Device, error) {
		again, _, err := opening.Device(ctx, dev.Info().Backend)
		return again, err
	}
	tuned := openTuning(c, dev.Info(), target, draft, o.noTuning)
	if head != nil && tuned != nil {
		tuned.models["eagle3"] = modelKey(head) + o.headType
	}
	bar, loaded := loading{c: c}, false
	s, err := foretoken.Open(ctx, dev, target, draft, foretoken.Options{
		Context: o.context, KV: o.kv, Memory: memory, Nodes: o.nodes, Candidates: o.candidates,
		Beams: o.beams, Calibrations: fitted, EAGLE3: head, EAGLE3Config: headConfig,
		EAGLE3Quantise: o.headType, Tuning: tuned.choices(),
		Progress: func(p foretoken.Progress) {
			if !loaded { // later it would be drawn into the text
				bar.report(p)
			}
		},
		Reopen: reopen, Lost: func(l foretoken.Loss) { c.note("%s", l) }})
	if err == nil && o.timed {
		bar.report(foretoken.Progress{Stage: "kernels", Note: "timing passes"})
		if err = s.TimePasses(ctx); err != nil {
			s.Close()
		}
	}
	loaded = true
	bar.end()
	if err != nil {
		dev.Destroy()
		return nil, err
	}
	if err := tuned.save(s.Tuning()); err != nil {
		c.note("kernel timings are not kept: %v", err)
	}
	return &session{s, dev.Destroy, closeFiles, tuned, c.note}, nil
}

// modelKey identifies a file in the tuning cache: the shapes of its tensors determine the kernel choices.
func modelKey(src files.Source) string {
	return fmt.Sprintf("%s, %d bytes", baseName(src.Name()), src.Size())
}
