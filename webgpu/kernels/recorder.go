// Package kernels holds Foretoken's compute shaders. Each kernel has four
// neighbours: x.wgsl (the shader), x.go (its key, parameters and dispatch),
// x_ref.go (the same computation on the host, accumulated in float64, which
// is also what the cpu device runs) and x_test.go. A forward pass is recorded
// by calling the kernels' methods on a Recorder; Build compiles what was
// recorded and makes the programs.
//
// All kernels are batch invariant: the bits of an output row depend neither on
// the number of rows nor on the row's place among them.
package kernels

import (
	"embed"
	"fmt"
	"math"
	"regexp"
	"strings"
	"sync"

	"foretoken/webgpu"
)

//go:embed *.wgsl
var shaders embed.FS

// View is a range of a buffer that a kernel reads or writes.
type View = webgpu.Binding

// constant is one `const` line of a kernel's prelude: uint32, float32 or bool.
type constant struct {
	name  string
	value any
}

// sources keeps the kernels made, by their key: a model's programs use the same few
// hundreds of times, and unrolling a large one takes milliseconds.
var sources sync.Map // string → *webgpu.KernelSource

// enables are the lines of a shader that ask for what not every device has.
var enables = regexp.MustCompile(`(?m)^enable \w+;\n`)

// source makes a kernel from .wgsl files, joined, and the constants of this specialisation.
// The files and constants decide the access and the reference.
func source(files string, access []webgpu.Access, ref func([3]int, []webgpu.Memory), consts ...constant) *webgpu.KernelSource {
	var prelude, key strings.Builder
	extensions := ""
	key.WriteString(files)
	for _, c := range consts {
		fmt.Fprintf(&key, " %s=%v", c.name, c.value)
	}
	if s, ok := sources.Load(key.String()); ok {
		return s.(*webgpu.KernelSource)
	}
	bounds := map[string]uint32{}
	for _, c := range consts {
		switch v := c.value.(type) {
		case uint32:
			bounds[c.name] = v
			fmt.Fprintf(&prelude, "const %s: u32 = %du;\n", c.name, v)
		case float32:
			fmt.Fprintf(&prelude, "const %s: f32 = %v;\n", c.name, v)
		case bool:
			fmt.Fprintf(&prelude, "const %s: bool = %t;\n", c.name, v)
		default:
			panic(fmt.Sprintf("kernels: %s: constant %s has type %T", files, c.name, c.value))
		}
	}
	for _, file := range strings.Fields(files) {
		body, err := shaders.ReadFile(file + ".wgsl")
		if err != nil {
			panic("kernels: no shader " + file) // the files are embedded: only a wrong name gets here
		}
		text := unroll(string(body), bounds)
		if wg, ok := bounds["WG"]; ok { // wgpu-native 0.17 takes a literal here only
			text = strings.ReplaceAll(text, "@workgroup_size(WG)", fmt.Sprintf("@workgroup_size(%d)", wg))
		}
		for _, enable := range enables.FindAllString(text, -1) { // has to come before all else
			extensions += enable
		}
		prelude.WriteString(enables.ReplaceAllString(text, ""))
	}
	s := &webgpu.KernelSource{Name: key.String(), Key: key.String(), WGSL: extensions + prelude.String(),
		Bindings: access, Reference: ref}
	sources.Store(s.Key, s)
	return s
}

// step is a dispatch before its kernel is compiled and its parameters have a place.
type step struct {
	source *webgpu.KernelSource
	params []uint32
	views  []View
	groups [3]int
}

// Recorder collects the dispatches of one program. Its kernel methods panic
// only on arguments that no model file can cause (a programmer's mistake).
type Recorder struct {
	label string
	limit webgpu.Limits
	quads bool // four threads of a subgroup can hand each other what they have
	steps []step
}

// NewRecorder starts a program for a device.
func NewRecorder(label string, dev webgpu.Info) *Recorder {
	return &Recorder{label: label, limit: dev.Limits, quads: dev.Has("subgroups")}
}

// Len is the number of dispatches recorded.
func (r *Recorder) Len() int { return len(r.steps) }

// add records a dispatch. Binding 0 of every kernel is its uniform parameter
// block, whose words are params; views are bindings 1 and up.
func (r *Recorder) add(src *webgpu.KernelSource, groups [3]int, params []uint32, views ...View) {
	if len(src.Bindings) != len(views)+1 {
		panic(fmt.Sprintf("kernels: %s: %d views for %d bindings", src.Name, len(views), len(src.Bindings)))
	}
	r.steps = append(r.steps, step{src, params, views, groups})
}

// paramBlock is the size of a parameter block: one binding alignment.
const paramBlock = webgpu.BindingAlign

// Built is a set of programs and the parameter buffer they share.
type Built struct {
	Programs []webgpu.Program // in the order of the recorders
	dev      webgpu.Device
	params   webgpu.Buffer
}

// Free gives the programs and their parameters back.
func (b *Built) Free() {
	for _, p := range b.Programs {
		b.dev.FreeProgram(p)
	}
	if b.params != 0 {
		b.dev.FreeBuffer(b.params)
	}
	b.Programs, b.params = nil, 0
}

// Build compiles every kernel the recorders use (together, where the device can
// compile in parallel), writes all parameter blocks into one uniform buffer and makes the programs.
func Build(dev webgpu.Device, recorders ...*Recorder) (*Built, error) {
	blocks := map[string]int{} // parameter words → block: equal blocks are shared
	var words []uint32
	at := make([][]int, len(recorders))
	for i, r := range recorders {
		for _, s := range r.steps {
			key := fmt.Sprint(s.params)
			n, ok := blocks[key]
			if !ok {
				if len(s.params)*4 > paramBlock {
					panic("kernels: " + s.source.Name + ": too many parameters")
				}
				n = len(words) * 4 / paramBlock
				blocks[key] = n
				words = append(words, s.params...)
				for len(words)%(paramBlock/4) != 0 {
					words = append(words, 0)
				}
			}
			at[i] = append(at[i], n)
		}
	}
	handles, err := compile(dev, recorders)
	if err != nil {
		return nil, err
	}
	b := &Built{dev: dev}
	if b.params, err = dev.NewBuffer("kernel parameters", max(4*len(words), paramBlock), webgpu.Uniform); err != nil {
		return nil, err
	}
	if err := dev.Write(b.params, 0, webgpu.U32Bytes(words)); err != nil {
		b.Free()
		return nil, err
	}
	for i, r := range recorders {
		var dispatches []webgpu.Dispatch
		for j, s := range r.steps {
			bindings := append([]webgpu.Binding{{Buffer: b.params, Offset: at[i][j] * paramBlock, Size: paramBlock}}, s.views...)
			dispatches = append(dispatches, webgpu.Dispatch{Kernel: handles[s.source.Key], Bindings: bindings, Groups: s.groups})
		}
		p, err := dev.NewProgram(r.label, dispatches)
		if err != nil {
			b.Free()
			return nil, err
		}
		b.Programs = append(b.Programs, p)
	}
	return b, nil
}

func compile(dev webgpu.Device, recorders []*Recorder) (map[string]webgpu.Kernel, error) {
	var sources []*webgpu.KernelSource
	seen := map[string]bool{}
	for _, r := range recorders {
		for _, s := range r.steps {
			if !seen[s.source.Key] {
				seen[s.source.Key] = true
				sources = append(sources, s.source)
			}
		}
	}
	kernels, err := webgpu.CompileAll(dev, sources)
	if err != nil {
		return nil, err
	}
	handles := make(map[string]webgpu.Kernel, len(sources))
	for i, s := range sources {
		handles[s.Key] = kernels[i]
	}
	return handles, nil
}

// groupsFor is how many workgroups of size threads cover n threads, folded into
// two dimensions where one would pass the limit. A kernel finds its linear
// thread index as gid.x + gid.y * num_workgroups.x * size.
func (r *Recorder) groupsFor(n, size int) [3]int {
	groups := max((n+size-1)/size, 1)
	if most := r.limit.MaxWorkgroupsPerDim; groups > most {
		rows := (groups + most - 1) / most
		return [3]int{(groups + rows - 1) / rows, rows, 1}
	}
	return [3]int{groups, 1, 1}
}

func f32(x float64) uint32 { return math.Float32bits(float32(x)) }
func u32(x int) uint32     { return uint32(x) }

func flag(set bool) uint32 {
	if set {
		return 1
	}
	return 0
}

func fromBits(w uint32) float64 { return float64(math.Float32frombits(w)) }
