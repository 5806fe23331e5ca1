//go:build cgo && !js

package audit

import (
	"context"
	"fmt"
	"io/fs"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"foretoken/internal/files"
	"foretoken/internal/pair"
	"foretoken/models/demo"
	"foretoken/models/graph"
	"foretoken/models/modeltest"
	"foretoken/spec"
	"foretoken/spec/adapt"
	"foretoken/spec/method"
	"foretoken/webgpu"
	"foretoken/webgpu/kernels"
	"foretoken/webgpu/kernels/attention"
	"foretoken/webgpu/kernels/layer"
	"foretoken/webgpu/kernels/matmul"
)

// auditedContext is the context of attention's kernels, a constant of theirs: the default.
const auditedContext = 4096

// kernel is a kernel that an adapter could be given.
type kernel struct {
	*webgpu.KernelSource
	label string
	// Of a matrix product by groups: its family, end, and the number of weight rows and of rows of x in a tile.
	product    bool
	format     kernels.Format
	family     matmul.Family
	end        string
	rows, tile int
	lane       int // consecutive steps of a lane
}

// text returns the shader. Products that need not follow a norm lose their loops over its sums, of which the compiler
// would count turns.
func (k kernel) text() string {
	if k.end == "store" || k.end == "next" {
		return strings.ReplaceAll(k.Shader(), "P.squares > 0u", "false")
	}
	return k.Shader()
}

// kernelList collects kernels on a dry run. Each has the label of its first request.
type kernelList struct {
	dry     *graph.DryRun
	kernels []kernel
	err     error // the first one
}

// take labels the kernels listed since the last call.
func (l *kernelList) take(of func(*webgpu.KernelSource) kernel) {
	for _, s := range l.dry.Sources()[len(l.kernels):] {
		k := of(s)
		k.KernelSource = s
		if slices.ContainsFunc(l.kernels, func(other kernel) bool { return other.label == k.label }) {
			k.label += " " + s.Name
		}
		l.kernels = append(l.kernels, k)
	}
}

// fail keeps the first error.
func (l *kernelList) fail(label string, err error) {
	if l.err == nil {
		l.err = fmt.Errorf("audit: %s: %w", label, err)
	}
}

// record lists the kernels of dispatches.
func (l *kernelList) record(k kernel, dispatches func(*kernels.Recorder)) {
	r := kernels.NewRecorder(k.label, l.dry.Info())
	r.Rounded.Size = math.MaxInt32
	dispatches(r)
	if _, err := kernels.Build(l.dry, r); err != nil {
		l.fail(k.label, err)
	}
	l.take(func(s *webgpu.KernelSource) kernel {
		if s.Name == "matmul/pack" { // before the first packed product
			return kernel{label: s.Name}
		}
		return k
	})
}

// gpuFeatures are the features that some kernels need. Browsers have them; wgpu-native 0.17 has neither.
var gpuFeatures = []string{matmul.DotProduct, "subgroups"}

// gpuInfo describes a GPU with room for every model.
func gpuInfo(features ...string) webgpu.Info {
	info := webgpu.Info{Backend: "native", Limits: webgpu.DefaultLimits(), Features: features}
	info.Limits.MaxBindingSize, info.Limits.MaxBufferSize = math.MaxInt32, math.MaxInt32
	return info
}

// kernelsOf returns every kernel that an adapter can be given: matrix products of all formats, families, tiles and
// ends, attention over heads of all sizes and all caches, and what models record, of the built-in pair for every
// method. full is false for a list that compiles in seconds: it leaves out formats with the same unpacking, ends and
// heads that make kernels of about the same size, and methods that need no kernel but what others need.
func kernelsOf(info webgpu.Info, full bool) ([]kernel, error) {
	l := &kernelList{dry: graph.NewDryRun(info)}
	l.products(full)
	l.attention(full)
	l.models(full)
	return l.kernels, l.err
}

// products lists matrix products.
func (l *kernelList) products(full bool) {
	const cols = 1024
	info := l.dry.Info()
	for format := range kernels.Formats {
		if short := []kernels.Format{kernels.F16, kernels.Q8_0, kernels.Q4_0, kernels.Q4_K, kernels.Q6_K}; !full &&
			!slices.Contains(short, format) {
			continue
		}
		for _, f := range matmul.Families(info, format) {
			tiles := map[int]bool{}
			for m := 1; m <= 64; m++ {
				if tile := f.Tile(m); !tiles[tile] {
					tiles[tile] = true
					for end, record := range l.ends(full, format, f, cols, m) {
						l.record(kernel{label: fmt.Sprintf("matmul %v %v M=%d %s", format, f, tile, end),
							product: f.Kind != matmul.ByRow, format: format, family: f, end: end, tile: tile,
							rows: f.Rows, lane: f.LaneSteps(format)}, record)
					}
				}
			}
		}
	}
}

// ends yields every end of a product of m rows that a family supports.
func (l *kernelList) ends(full bool, format kernels.Format, f matmul.Family, cols, m int) (
	all func(func(string, func(*kernels.Recorder)) bool)) {
	var v kernels.View
	x, out := kernels.Rows{Stride: cols}, kernels.Rows{Stride: 4096}
	weight := func(rows int) *kernels.Weight {
		return &kernels.Weight{Format: format, Rows: rows, Cols: cols, Parts: []kernels.WeightPart{{Rows: rows}}}
	}
	square, gated := weight(1024), weight(2048)
	made := map[string]func(*kernels.Recorder){
		"store": func(r *kernels.Recorder) { matmul.Record(r, f, square, x, out, m, false) }}
	if f.CanNext(square) {
		made["next"] = func(r *kernels.Recorder) {
			matmul.RecordNext(r, f, square, x, out, m, v, kernels.Rows{Stride: matmul.NextStride(square.Rows)}, 1e-5)
		}
	}
	if f.CanGate(gated) {
		made["gate"] = func(r *kernels.Recorder) { matmul.RecordSiLU(r, f, gated, x, out, m) }
	}
	for _, cache := range []kernels.KVFormat{kernels.KVF32, kernels.KVF16, kernels.KVQ8} {
		for _, half := range []bool{false, true} {
			h := kernels.Heads{Query: 8, KV: 4, Dim: 64, Rotary: 64, HalfSplit: half, Format: cache}
			w := weight(h.Width())
			if !f.CanRope(w, h) || !full && (cache == kernels.KVF32) != half {
				continue
			}
			made[fmt.Sprintf("rope %v half=%v", cache, half)] = func(r *kernels.Recorder) {
				matmul.RecordRope(r, f, w, h, x, v, v, v, v, v, m)
			}
		}
	}
	return func(yield func(string, func(*kernels.Recorder)) bool) {
		for _, end := range slices.Sorted(maps.Keys(made)) {
			if !yield(end, made[end]) {
				return
			}
		}
	}
}

// attention lists the kernels of attention over heads of every size.
func (l *kernelList) attention(full bool) {
	for dim := 8; dim <= 256; dim += 8 {
		if !full && !slices.Contains([]int{64, 128, 256}, dim) {
			continue
		}
		for group := 1; group <= 8; group++ { // query heads that share a key
			for _, cache := range []kernels.KVFormat{kernels.KVF32, kernels.KVF16, kernels.KVQ8} {
				for _, context := range []int{64, auditedContext} {
					if !full && context != auditedContext {
						continue
					}
					h := kernels.Heads{Query: group, KV: 1, Dim: dim, Rotary: dim, Format: cache}
					table := kernels.View{Size: 4 * context}
					scratch := kernels.View{Size: 4 * max(1, attention.Scratch(h, context, context))}
					label := fmt.Sprintf("attention %v group=%d dim=%d context=%d", cache, group, dim, context)
					l.record(kernel{label: label}, func(r *kernels.Recorder) {
						attention.Record(r, h, kernels.Slots{Table: table}, kernels.View{}, kernels.View{},
							kernels.View{}, scratch, kernels.View{}, 1, context)
					})
				}
			}
		}
	}
}

// models lists what pairs of models record: pairs of random weights for every architecture and storage type, the
// built-in pair and its head for every method.
func (l *kernelList) models(full bool) {
	// These are of every format.
	families := matmul.Families(l.dry.Info(), kernels.F32)
	ways := kernels.Ways(l.dry.Info())
	if !full {
		families = families[len(families)-1:]
	}
	// A small vocabulary's rows are verified by one invocation each.
	sampled := method.ByName(method.DrafterSampled)
	sampled.Verifier = method.VerifierWithoutReplacement
	for i, typ := range modeltest.Types() {
		for j, arch := range []string{"llama", "qwen2", "qwen3", "mistral3"} {
			o := pair.Options{KV: []string{"f32", "f16", "q8"}[(i+j)%3]}
			m := models{name: arch + "-" + typ, options: o}
			var ok bool
			if m.target, ok = modeltest.Source(m.name); !ok {
				l.fail(m.name, fs.ErrNotExist)
				return
			}
			m.draft = m.target
			for _, lanes := range ways {
				if full || typ == "q8_0" {
					l.pair(m, families[0], lanes, []use{{Config: sampled, temperature: 0.8}})
				}
			}
		}
	}
	// Gates and ups in several bindings, as in models too large for a test.
	l.record(kernel{label: "layer/silu"}, func(r *kernels.Recorder) {
		layer.RecordSiLU(r, kernels.View{}, kernels.View{}, 1, 64)
	})
	l.parts()
	builtIn := models{name: "built-in pair", target: demo.Target(), draft: demo.Draft()}
	builtIn.options.EAGLE3, builtIn.options.EAGLE3Config = demo.Head()
	for _, cache := range []string{"f32", "f16", "q8"} {
		builtIn.options.KV = cache
		for _, f := range families {
			for _, lanes := range ways {
				l.pair(builtIn, f, lanes, uses(full && cache == "f32" && f == families[0]))
			}
		}
	}
}

// parts lists the kernels of parts that no model of the lists has.
func (l *kernelList) parts() {
	var v kernels.View
	h := kernels.Heads{Query: 8, KV: 4, Dim: 64}
	l.record(kernel{label: "layer/norm_row"}, func(r *kernels.Recorder) { layer.RecordNormRow(r, h, v, v, 1, 1e-5) })
	for _, h.Format = range []kernels.KVFormat{kernels.KVF32, kernels.KVF16, kernels.KVQ8} {
		l.record(kernel{label: fmt.Sprint("attention/rope gain ", h.Format)}, func(r *kernels.Recorder) {
			attention.RecordRopeGain(r, h, v, v, kernels.View{Buffer: 1}, v, v, v, 1)
		})
	}
	l.record(kernel{label: "layer/add_norm"}, func(r *kernels.Recorder) {
		layer.RecordAddNorm(r, v, v, v, 1, 64, 1e-5)
	})
	l.record(kernel{label: "layer/add_norm next"}, func(r *kernels.Recorder) {
		layer.RecordAddNormNext(r, v, v, v, 1, 64, 1e-5, v, kernels.Rows{Stride: 128})
	})
	for format := range kernels.Formats {
		w := &kernels.Weight{Format: format, Rows: 8, Cols: 1024, Parts: []kernels.WeightPart{{Rows: 8}}}
		l.record(kernel{label: fmt.Sprint("layer/embed times ", format)}, func(r *kernels.Recorder) {
			layer.RecordEmbed(r, w, v, v, 1, 12)
		})
		l.record(kernel{label: fmt.Sprint("layer/embed next times ", format)}, func(r *kernels.Recorder) {
			layer.RecordEmbedNext(r, w, v, v, 1, 12, v, kernels.Rows{Stride: matmul.NextStride(w.Cols)}, 1e-5)
		})
	}
}

// use is a method at a temperature, with the ways in which constraints adjust its logits.
type use struct {
	method.Config
	temperature float64
	adjust      spec.AdjustmentKinds
}

// uses returns methods that together need every program: every legal combination of the methods' tables, or those of
// every drafter and of every verifier.
func uses(full bool) []use {
	var all []use
	for _, drafter := range method.Drafters() {
		for _, source := range method.Sources() {
			for _, adapter := range method.AdapterNames() {
				for _, verifier := range method.VerifierNames() {
					few := adapter == method.AdapterNames()[0] || verifier == method.VerifierMatch
					c := method.ByName(drafter)
					c.Source, c.Adapt, c.Verifier = source, adapter, verifier
					bins := &adapt.HeteroCalibration{Fits: []*adapt.HeteroFit{{}, {Temperature: 1}}}
					bins.Fingerprint = bins.Fingerprint.WithTree(c.TopK, c.Depth, c.Nodes)
					c.Fitted = method.Fitted{Hetero: bins, C2T: &adapt.C2TClassifier{}, Head: &adapt.AcceptanceHead{}}
					if c.Validate() == nil && (full || few) {
						all = append(all, use{Config: c}, use{Config: c, temperature: 0.8})
					}
				}
			}
		}
	}
	constrained := use{Config: method.ByName(method.DrafterNone), temperature: 1}
	constrained.adjust = spec.AdjustmentKinds{Masks: true, Biases: true}
	large := use{Config: method.ByName(method.DrafterEAGLE2)}
	large.Nodes = 64
	return append(all, constrained, large)
}

// models are the files of a pair and the options that it is opened with.
type models struct {
	name          string
	target, draft files.Source
	options       pair.Options
}

// open loads the models.
func (m models) open(dry *graph.DryRun) (*pair.Pair, error) {
	m.options.Default = method.ByName(method.DrafterAuto)
	read, err := pair.Read(m.target, m.draft, m.options)
	if err != nil {
		return nil, err
	}
	return pair.Open(context.Background(), dry, read)
}

// pair lists what models with forced kernel choices record.
func (l *kernelList) pair(m models, f matmul.Family, lanes kernels.Lanes, uses []use) {
	var err error
	if m.options.Tuning, err = l.choices(m, f, lanes); err != nil {
		l.fail(m.name, err)
		return
	}
	p, err := m.open(l.dry)
	if err != nil {
		l.fail(m.name, err)
		return
	}
	defer p.Close()
	for _, u := range uses {
		c := u.Limit(p.Target.Limits().MaxRows)
		if c.Adapt == method.AdaptAcceptance {
			c.Fitted.Head = acceptanceHead(p, c.AcceptanceUse(u.temperature))
		}
		if _, err := p.Compile(c, u.temperature, u.adjust); err != nil {
			l.fail(fmt.Sprintf("%s: %s from %s, %s, %s at %g", m.name, c.Drafter, c.Source, c.Adapt, c.Verifier,
				u.temperature), err)
		}
	}
	if _, err := p.Target.Score(context.Background(), make([]int32, 40)); err != nil {
		l.fail(m.name, err)
	}
	l.take(func(s *webgpu.KernelSource) kernel { return kernel{label: s.Name} })
}

// acceptanceHead returns a head of zeros for what a pair drafts with.
func acceptanceHead(p *pair.Pair, use adapt.AcceptanceUse) *adapt.AcceptanceHead {
	n := p.Draft.Graph.Arch.Dim
	if use.Source == method.SourceEAGLE3 {
		n = p.Head.Graph.Arch.Dim
	}
	h := &adapt.AcceptanceHead{Source: use.Source, Label: use.Label, Estimator: spec.Estimator{Dim: n,
		Layers: []spec.EstimatorLayer{{Weight: make(spec.Floats, n*n), Bias: make(spec.Floats, n)}},
		Weight: make(spec.Floats, n)}}
	h.Made.Temperature = use.Temperature
	return h
}

// choices returns the tuning that forces a family and lanes. A software adapter, which times nothing, tells the classes
// of a model's matrices.
func (l *kernelList) choices(m models, f matmul.Family, lanes kernels.Lanes) (map[string]map[string]string, error) {
	software := l.dry.Info()
	software.Software = true
	p, err := m.open(graph.NewDryRun(software))
	if err != nil {
		return nil, err
	}
	defer p.Close()
	out := p.Tuning()
	for _, choices := range out {
		for class := range choices {
			choices[class] = f.String()
		}
		choices["rows"] = strconv.Itoa(int(lanes))
	}
	return out, nil
}
