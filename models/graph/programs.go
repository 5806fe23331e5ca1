package graph

import (
	"fmt"

	"foretoken/webgpu"
	"foretoken/webgpu/kernels"
)

// Recorder starts a program.
func (g *Graph) Recorder(label string) *kernels.Recorder {
	r := kernels.NewRecorder(label, g.Dev.Info())
	r.Rounded = g.Space.rounded
	return r
}

// build builds the programs of recorders; Close frees them.
func (g *Graph) build(recorders ...*kernels.Recorder) ([]webgpu.Program, error) {
	if err := g.Kernels.Err(); err != nil { // of proofs that ran while the programs were recorded
		return nil, fmt.Errorf("graph: %s: %w", g.File, err)
	}
	b, err := kernels.Build(g.Dev, recorders...)
	if err != nil {
		return nil, fmt.Errorf("graph: %s: %w", g.File, err)
	}
	g.built = append(g.built, b)
	return b.Programs, nil
}

// BuildInto builds one program and stores it.
func BuildInto[K comparable](g *Graph, programs map[K]webgpu.Program, key K,
	r *kernels.Recorder) (webgpu.Program, error) {
	made, err := g.build(r)
	if err != nil {
		return 0, err
	}
	programs[key] = made[0]
	return made[0], nil
}

// Batch is a list of programs to build together; their kernels compile in parallel if the device can.
type Batch struct {
	recorders []*kernels.Recorder
	programs  []*webgpu.Program
	then      []func()
}

// Add adds a program, which Build stores.
func (b *Batch) Add(r *kernels.Recorder, to *webgpu.Program) {
	b.recorders, b.programs = append(b.recorders, r), append(b.programs, to)
}

// AddTo adds a program, which Build stores in a map.
func AddTo[K comparable](b *Batch, programs map[K]webgpu.Program, key K, r *kernels.Recorder) {
	made := new(webgpu.Program)
	b.Add(r, made)
	b.Then(func() { programs[key] = *made })
}

// Then has f called once all programs are built.
func (b *Batch) Then(f func()) { b.then = append(b.then, f) }

// Empty reports whether no program was added.
func (b *Batch) Empty() bool { return len(b.recorders) == 0 }

// Build builds the programs of a batch.
func (g *Graph) Build(b *Batch) error {
	if b.Empty() {
		return nil
	}
	made, err := g.build(b.recorders...)
	if err != nil {
		return err
	}
	for i, p := range made {
		*b.programs[i] = p
	}
	for _, f := range b.then {
		f()
	}
	return nil
}
