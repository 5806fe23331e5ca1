package llama

import (
	"context"
	"fmt"
	"sort"

	"foretoken/models/arch"
	"foretoken/models/gguf"
	"foretoken/webgpu"
	"foretoken/webgpu/kernels"
)

// Memory is the number of device bytes that loading a model allocates. Buffers for particular drafting methods (the
// levels of a tree, a sampled chain) are small and allocated by the first request that uses them.
type Memory struct {
	Weights   int64  `json:"weights"`
	KV        int64  `json:"kv"`
	Workspace int64  `json:"workspace"` // activations, logits, tables and results
	Context   int    `json:"context"`   // positions of the KV cache
	Format    string `json:"format"`    // of the KV cache
}

// Total returns the sum.
func (m Memory) Total() int64 { return m.Weights + m.KV + m.Workspace }

// String lists the parts.
func (m Memory) String() string {
	return fmt.Sprintf("weights %s, KV cache %s for %d positions in %s, workspace %s", Size(m.Weights), Size(m.KV),
		m.Context, m.Format, Size(m.Workspace))
}

// Size formats a number of bytes for people.
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

// Sizes formats two numbers of bytes, in full where rounding would make them equal.
func Sizes(a, b int64) (string, string) {
	if Size(a) == Size(b) && a != b {
		return fmt.Sprintf("%d bytes", a), fmt.Sprintf("%d bytes", b)
	}
	return Size(a), Size(b)
}

// Plan returns what LoadTarget would allocate for a file with these options on a device with these limits. It is
// exact: the total equals the GPUBytes of Model.Info. It reads no weights. It returns an error if the model cannot
// be loaded: a tensor is missing or unknown, or a buffer exceeds the limits.
func Plan(f *gguf.File, o Options, limits webgpu.Limits) (Memory, error) {
	o.trees = true
	return planOnLedger(f, o, limits, func(m *Model) error { return newTarget(m).allocateResults() })
}

// PlanDraft is Plan for LoadDraft.
func PlanDraft(f *gguf.File, o Options, limits webgpu.Limits) (Memory, error) {
	o.completeDraft()
	return planOnLedger(f, o, limits, func(m *Model) error { return newDraft(m, m).allocateInputs() })
}

// PlanEAGLE3 returns what LoadEAGLE3 would allocate for a target loaded from f with the options of: the head's
// memory, and the features that the target stores for it, which Model.Info counts as the target's.
func PlanEAGLE3(f *gguf.File, of Options, h *gguf.File, o Options,
	limits webgpu.Limits) (head Memory, features int64, err error) {
	of.trees = true
	_, err = planOnLedger(f, of, limits, func(m *Model) error {
		target, before := newTarget(m), m.bytes
		net, layers, err := newEagleNet(m.dev, target, h, o)
		if err != nil {
			return err
		}
		if err := target.allocateTaps(layers); err != nil {
			return err
		}
		if err := net.loadBuffers(context.Background()); err != nil {
			return err
		}
		if err := newDraft(net.Model, net).allocateInputs(); err != nil {
			return err
		}
		head, features = net.memory(), m.bytes-before
		return nil
	})
	return head, features, err
}

// memory returns what a model with all its buffers takes.
func (m *Model) memory() Memory {
	return Memory{Weights: m.weightBytes, KV: m.kvBytes, Workspace: m.bytes - m.weightBytes - m.kvBytes,
		Context: m.opts.Context, Format: m.heads.Format.String()}
}

// planOnLedger loads a model onto a ledger: the code that loads also plans.
func planOnLedger(f *gguf.File, o Options, limits webgpu.Limits, rest func(*Model) error) (Memory, error) {
	c, err := arch.Read(f, o.Context)
	if err != nil {
		return Memory{}, err
	}
	m, err := newModel(&ledger{limits: limits}, c, f, o)
	if err != nil {
		return Memory{}, err
	}
	if err := m.loadBuffers(context.Background(), f); err != nil {
		return Memory{}, err
	}
	if err := rest(m); err != nil {
		return Memory{}, err
	}
	return m.memory(), nil
}

// Advice says what to change so that a model fits that does not fit with positions in a KV format. fit reports
// whether it fits with others.
func Advice(positions int, kv kernels.KVFormat, fit func(positions int, kv kernels.KVFormat) bool) string {
	least := 2
	longest := func(kv kernels.KVFormat) int {
		return least - 1 + sort.Search(positions-least, func(i int) bool { return !fit(least+i, kv) })
	}
	const shortest = 256 // a shorter context is of no use
	switch n, q8 := longest(kv), longest(kernels.KVQ8); {
	case n >= shortest:
		return fmt.Sprintf("a context of at most %d positions fits", n)
	case kv != kernels.KVQ8 && fit(positions, kernels.KVQ8):
		return fmt.Sprintf("with KV in q8 a context of %d positions fits", positions)
	case kv != kernels.KVQ8 && q8 >= shortest:
		return fmt.Sprintf("with KV in q8 a context of at most %d positions fits", q8)
	}
	return "it does not fit even with a short context; use a smaller file, with fewer bits a weight or fewer layers"
}

// ledger is a device that counts allocations and makes none.
type ledger struct {
	webgpu.Device // nil: a planned model runs nothing
	limits        webgpu.Limits
	made          webgpu.Buffer
}

func (l *ledger) Info() webgpu.Info { return webgpu.Info{Backend: "ledger", Limits: l.limits} }

func (l *ledger) NewBuffer(string, int, webgpu.Usage) (webgpu.Buffer, error) {
	l.made++
	return l.made, nil
}

func (l *ledger) FreeBuffer(webgpu.Buffer) {}

// planning reports whether the device has no memory: a ledger or a dry run.
func (m *Model) planning() bool {
	switch m.dev.(type) {
	case *ledger, *DryRun:
		return true
	}
	return false
}

// maxBinding returns the largest buffer that fits in one binding.
func (m *Model) maxBinding() int {
	l := m.dev.Info().Limits
	return min(l.MaxBindingSize, l.MaxBufferSize)
}

// newBinding makes a buffer that kernels bind in full.
func (m *Model) newBinding(label string, size int) (kernels.View, error) {
	if most := m.maxBinding(); size > most {
		return kernels.View{}, m.tooLarge(label, size, most)
	}
	return m.newBuffer(label, size)
}

// tooLarge returns the error for a buffer that exceeds a limit.
func (m *Model) tooLarge(label string, size, most int) error {
	return fmt.Errorf("llama: %s: %s would be a buffer of %s (%d bytes); "+
		"this device takes %s (%d bytes) at most: use a context shorter than %d or trees of fewer than %d nodes",
		m.file, label, Size(int64(size)), size, Size(int64(most)), most, m.opts.Context, m.opts.MaxRows)
}

// cacheTooLarge returns the error for keys of a layer that exceed a binding, with the context that would fit.
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
	return fmt.Errorf("llama: %s: the keys of a layer for %d positions in %s would be a buffer of %s (%d bytes); "+
		"this device binds %s (%d bytes) at most: %s",
		m.file, m.opts.Context, m.heads.Format, Size(int64(size)), size, Size(int64(most)), most, advice)
}
