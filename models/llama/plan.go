package llama

import (
	"context"
	"fmt"
	"sort"

	"foretoken/models/eagle3"
	"foretoken/models/gguf"
	"foretoken/webgpu"
	"foretoken/webgpu/kernels"
)

// Memory is the bytes on a device that loading a model allocates. What single ways of drafting need beside
// (a tree's levels, a sampled chain) is made with the first request that uses them, and is small.
type Memory struct {
	Weights   int64  `json:"weights"`
	KV        int64  `json:"kv"`
	Workspace int64  `json:"workspace"` // activations, logits, tables and results
	Context   int    `json:"context"`   // positions that KV holds
	Format    string `json:"format"`    // of KV
}

// Total is all of it.
func (m Memory) Total() int64 { return m.Weights + m.KV + m.Workspace }

// String says what it is for, part by part.
func (m Memory) String() string {
	return fmt.Sprintf("weights %s, KV cache %s for %d positions in %s, workspace %s", Size(m.Weights), Size(m.KV), m.Context, m.Format, Size(m.Workspace))
}

// Size writes a number of bytes for people.
func Size(bytes int64) string {
	switch {
	case bytes >= 1<<30:
		return fmt.Sprintf("%.2f GiB", float64(bytes)/(1<<30))
	case bytes >= 1<<20:
		return fmt.Sprintf("%.1f MiB", float64(bytes)/(1<<20))
	case bytes >= 1<<10:
		return fmt.Sprintf("%.1f KiB", float64(bytes)/(1<<10))
	}
	return fmt.Sprintf("%d bytes", bytes)
}

// Sizes writes two numbers of bytes, exactly where they would read the same.
func Sizes(a, b int64) (string, string) {
	if Size(a) == Size(b) && a != b {
		return fmt.Sprintf("%d bytes", a), fmt.Sprintf("%d bytes", b)
	}
	return Size(a), Size(b)
}

// Plan says what LoadTarget would allocate for a file with these options on a device of these limits, to the byte:
// Model.Info's GPUBytes is the sum. It reads no weights. It is an error if the model cannot be loaded so: a
// tensor is missing or has no place, or a buffer would be larger than the device makes or binds.
func Plan(f *gguf.File, o Options, limits webgpu.Limits) (Memory, error) {
	return fitting(f, o, limits, planTarget)
}

// PlanDraft is Plan for LoadDraft.
func PlanDraft(f *gguf.File, o Options, limits webgpu.Limits) (Memory, error) {
	return fitting(f, o, limits, planDraft)
}

// PlanEAGLE3 says what LoadEAGLE3 would allocate beside a target that was loaded from a file with the options of: the
// head's own, and the features that the target keeps for it, which Model.Info counts as the target's.
func PlanEAGLE3(f *gguf.File, of Options, w *eagle3.Weights, o Options, limits webgpu.Limits) (head Memory, features int64, err error) {
	c, err := ReadConfig(f)
	if err != nil {
		return Memory{}, 0, err
	}
	of.trees = true
	m, err := newModel(&ledger{limits: limits}, c, f, of)
	if err != nil {
		return Memory{}, 0, err
	}
	if err := m.lay(context.Background(), f); err != nil {
		return Memory{}, 0, err
	}
	target, before := newTarget(m), m.bytes
	net, layers, err := newEagleNet(m.dev, target, w, o)
	if err != nil {
		return Memory{}, 0, err
	}
	if err := target.layTaps(layers); err != nil {
		return Memory{}, 0, err
	}
	if err := net.lay(context.Background()); err != nil {
		return Memory{}, 0, err
	}
	if err := newDraft(net.Model, net).layInputs(); err != nil {
		return Memory{}, 0, err
	}
	return net.memory(), m.bytes - before, nil
}

// memory is what a model that was laid out takes.
func (m *Model) memory() Memory {
	return Memory{Weights: m.weightBytes, KV: m.kvBytes, Workspace: m.bytes - m.weightBytes - m.kvBytes,
		Context: m.opts.Context, Format: m.heads.Format.String()}
}

// fitting plans, and refuses what does not fit.
func fitting(f *gguf.File, o Options, limits webgpu.Limits, p planner) (Memory, error) {
	c, err := ReadConfig(f)
	if err != nil {
		return Memory{}, err
	}
	memory, err := p(c, f, o, limits)
	if err != nil {
		return Memory{}, err
	}
	return memory, memory.fits(c, f, o, limits, p)
}

// planner says what a way to load allocates.
type planner func(*Config, *gguf.File, Options, webgpu.Limits) (Memory, error)

func planTarget(c *Config, f *gguf.File, o Options, limits webgpu.Limits) (Memory, error) {
	o.trees = true
	return planned(c, f, o, limits, func(m *Model) error { return newTarget(m).layResults() })
}

func planDraft(c *Config, f *gguf.File, o Options, limits webgpu.Limits) (Memory, error) {
	o.draft()
	return planned(c, f, o, limits, func(m *Model) error { return newDraft(m, m).layInputs() })
}

// planned loads a model onto a ledger: the code that loads is the code that plans.
func planned(c *Config, f *gguf.File, o Options, limits webgpu.Limits, rest func(*Model) error) (Memory, error) {
	m, err := newModel(&ledger{limits: limits}, c, f, o)
	if err != nil {
		return Memory{}, err
	}
	if err := m.lay(context.Background(), f); err != nil {
		return Memory{}, err
	}
	if err := rest(m); err != nil {
		return Memory{}, err
	}
	return m.memory(), nil
}

// fits refuses what takes more than Options.Memory, with what would fit.
func (memory Memory) fits(c *Config, f *gguf.File, o Options, limits webgpu.Limits, p planner) error {
	if o.Memory <= 0 || memory.Total() <= o.Memory {
		return nil
	}
	fit := func(positions int, kv kernels.KVFormat) bool {
		o.Context, o.KV = positions, kv
		m, err := p(c, f, o, limits)
		return err == nil && m.Total() <= o.Memory
	}
	takes, allowed := Sizes(memory.Total(), o.Memory)
	return fmt.Errorf("llama: %s: loading takes %s (weights %s, KV cache %s for %d positions in %s, workspace %s), more than the %s allowed; %s",
		f.Name(), takes, Size(memory.Weights), Size(memory.KV), memory.Context, memory.Format, Size(memory.Workspace), allowed,
		Advice(memory.Context, o.KV, fit))
}

// Advice says what to change so that what is loaded for positions in a KV format fits. fit tells whether it would for others.
func Advice(positions int, kv kernels.KVFormat, fit func(positions int, kv kernels.KVFormat) bool) string {
	least := 2
	longest := func(kv kernels.KVFormat) int {
		return least - 1 + sort.Search(positions-least, func(i int) bool { return !fit(least+i, kv) })
	}
	const shortest = 256 // what is less is of no use
	switch n, q8 := longest(kv), longest(kernels.KVQ8); {
	case n >= shortest:
		return fmt.Sprintf("a context of at most %d positions fits", n)
	case kv != kernels.KVQ8 && fit(positions, kernels.KVQ8):
		return fmt.Sprintf("with KV in q8 a context of %d positions fits", positions)
	case kv != kernels.KVQ8 && q8 >= shortest:
		return fmt.Sprintf("with KV in q8 a context of at most %d positions fits", q8)
	}
	return "even with a short context it does not fit: use a smaller file, of fewer bits a weight or fewer layers"
}

// ledger is a device on which everything takes the room it would take and nothing is there.
type ledger struct {
	webgpu.Device // none: a model that is laid out runs nothing
	limits        webgpu.Limits
	made          webgpu.Buffer
}

func (l *ledger) Info() webgpu.Info { return webgpu.Info{Backend: "ledger", Limits: l.limits} }

func (l *ledger) NewBuffer(string, int, webgpu.Usage) (webgpu.Buffer, error) {
	l.made++
	return l.made, nil
}

func (l *ledger) FreeBuffer(webgpu.Buffer) {}

// planning reports whether nothing is there: the model is laid out to see what it takes, or its loading is rehearsed.
func (m *Model) planning() bool {
	switch m.dev.(type) {
	case *ledger, *Rehearsal:
		return true
	}
	return false
}

// mostBound is the largest buffer that can be bound whole.
func (m *Model) mostBound() int {
	l := m.dev.Info().Limits
	return min(l.MaxBindingSize, l.MaxBufferSize)
}

// bound makes a buffer that kernels bind whole.
func (m *Model) bound(label string, size int) (kernels.View, error) {
	if most := m.mostBound(); size > most {
		return kernels.View{}, m.tooLarge(label, size, most)
	}
	return m.storage(label, size)
}

// tooLarge refuses a buffer with the numbers.
func (m *Model) tooLarge(label string, size, most int) error {
	return fmt.Errorf("llama: %s: %s would be a buffer of %s (%d bytes); this device takes %s (%d bytes) at most: use a context shorter than %d or trees of fewer than %d nodes",
		m.file, label, Size(int64(size)), size, Size(int64(most)), most, m.opts.Context, m.opts.MaxRows)
}

// cacheTooLarge refuses a layer's keys with the numbers, and what would fit.
func (m *Model) cacheTooLarge(size, most int) error {
	fits := func(kv kernels.KVFormat) int {
		h := m.heads
		h.Format = kv
		return most/(4*h.CacheWords(1)) - m.spareSlots() - 1
	}
	advice := fmt.Sprintf("at most %d positions fit", max(fits(m.heads.Format), 0))
	if m.heads.Format != kernels.KVQ8 {
		advice += fmt.Sprintf(", or %d in q8", max(fits(kernels.KVQ8), 0))
	}
	return fmt.Errorf("llama: %s: the keys of a layer for %d positions in %s would be a buffer of %s (%d bytes); this device binds %s (%d bytes) at most: %s",
		m.file, m.opts.Context, m.heads.Format, Size(int64(size)), size, Size(int64(most)), most, advice)
}
