//go:build !js

package main

import (
	"context"
	"fmt"

	"github.com/spf13/pflag"

	"foretoken"
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
	device, kv    string
	context       int
	noTuning      bool
}

func (o *modelOptions) flags(f *pflag.FlagSet) {
	f.StringVar(&o.target, "target", "", "GGUF file of the target (default the built-in one)")
	f.StringVar(&o.draft, "draft", "", "GGUF file of the draft, or none (default the built-in one, or none with --target)")
	f.StringVar(&o.device, "device", "auto", "auto, "+open.Accelerator+" or cpu")
	f.StringVar(&o.kv, "kv", "f32", "KV cache: f32, or f16 (half the memory; moves log-probabilities by up to 0.03 nats)")
	f.IntVar(&o.context, "context", 0, "positions of the KV cache (default the models' own, at most 4096)")
	f.BoolVar(&o.noTuning, "no-tuning-cache", false, "neither use nor keep what was measured about kernels on this adapter")
}

// drafts tells whether there is a draft model.
func (o *modelOptions) drafts() bool {
	return o.draft != noDraft && (o.draft != "" || o.target == "")
}

// diskFile is a file under the name that the user gave it: base names do not tell
// two folders' model.gguf apart.
type diskFile struct {
	*gguf.Disk
	path string
}

func (f diskFile) Name() string { return f.path }

// sources opens the files; draft is nil where there is none. close may be called
// once the weights are loaded.
func (o *modelOptions) sources() (target, draft gguf.Source, close func(), err error) {
	var files []*gguf.Disk
	close = func() {
		for _, f := range files {
			f.Close()
		}
	}
	onDisk := func(path string) (gguf.Source, error) {
		f, err := gguf.OpenFile(path)
		if err != nil {
			return nil, err
		}
		files = append(files, f)
		return diskFile{f, path}, nil
	}
	target = demo.Target()
	if o.target != "" {
		if target, err = onDisk(o.target); err != nil {
			return nil, nil, nil, err
		}
	}
	switch {
	case !o.drafts():
	case o.draft == "":
		draft = demo.Draft()
	default:
		if draft, err = onDisk(o.draft); err != nil {
			close()
			return nil, nil, nil, err
		}
	}
	return target, draft, close, nil
}

// session is an open pair with its device.
type session struct {
	*foretoken.Session
	dev webgpu.Device
}

func (s *session) close() {
	s.Session.Close()
	s.dev.Destroy()
}

// openSession opens a device and loads the models onto it.
func openSession(ctx context.Context, c *console, o *modelOptions) (*session, error) {
	target, draft, closeFiles, err := o.sources()
	if err != nil {
		return nil, err
	}
	defer closeFiles()
	dev, why, err := open.Device(ctx, o.device)
	if err != nil {
		return nil, err
	}
	if why != "" {
		c.note("decoding on the CPU, slowly: %s", why)
	}
	tuned := openTuning(c, dev.Info(), target, draft, o.noTuning)
	bar := loading{c: c}
	s, err := foretoken.Open(ctx, dev, target, draft, foretoken.Options{Context: o.context, KV: o.kv, Tuning: tuned.choices(), Progress: bar.report})
	bar.end()
	if err != nil {
		dev.Destroy()
		return nil, err
	}
	if err := tuned.keep(s.Tuning()); err != nil {
		c.note("kernel timings are not kept: %v", err)
	}
	return &session{s, dev}, nil
}

// modelKey names a file in the tuning cache: kernel choices follow from the
// shapes of its tensors.
func modelKey(src gguf.Source) string {
	return fmt.Sprintf("%s, %d bytes", baseName(src.Name()), src.Size())
}
