package graph

import (
	"fmt"
	"sort"

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

// Memory returns what the model takes, with the buffers that its caller has made.
func (g *Graph) Memory() Memory {
	return Memory{Weights: g.weightBytes, KV: g.kvBytes, Workspace: g.bytes - g.weightBytes - g.kvBytes,
		Context: g.Options.Context, Format: g.Options.KV.String()}
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

// NewLedger returns a device with these limits on which loading a model plans it: the code that loads also counts.
func NewLedger(limits webgpu.Limits) webgpu.Device { return &ledger{limits: limits} }

// planning reports whether the device has no memory: a ledger or a dry run.
func (s *Resources) planning() bool {
	switch s.Dev.(type) {
	case *ledger, *DryRun:
		return true
	}
	return false
}
