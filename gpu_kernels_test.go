//go:build !js

package foretoken

import (
	"context"
	"encoding/json"
	"fmt"
	"io/fs"
	"maps"
	"math"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"
	"testing"

	"foretoken/internal/files"
	"foretoken/models/demo"
	"foretoken/models/graph"
	"foretoken/models/modeltest"
	"foretoken/spec/method"
	"foretoken/webgpu"
	"foretoken/webgpu/kernels"
	"foretoken/webgpu/kernels/attention"
	"foretoken/webgpu/kernels/layer"
	"foretoken/webgpu/kernels/matmul"
)

// auditedContext is the context of attention's kernels, a constant of theirs: the default.
const auditedContext = 4096

// gpuKernel is a kernel that an adapter could be given.
type gpuKernel struct {
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
func (k gpuKernel) text() string {
	if k.end == "store" || k.end == "next" {
		return strings.ReplaceAll(k.Shader(), "P.squares > 0u", "false")
	}
	return k.Shader()
}

// kernelList collects kernels on a dry run. Each has the label of its first request.
type kernelList struct {
	t       testing.TB
	dry     *graph.DryRun
	kernels []gpuKernel
}

// take labels the kernels listed since the last call.
func (l *kernelList) take(of func(*webgpu.KernelSource) gpuKernel) {
	for _, s := range l.dry.Sources()[len(l.kernels):] {
		k := of(s)
		k.KernelSource = s
		if slices.ContainsFunc(l.kernels, func(other gpuKernel) bool { return other.label == k.label }) {
			k.label += " " + s.Name
		}
		l.kernels = append(l.kernels, k)
	}
}

// record lists the kernels of dispatches.
func (l *kernelList) record(k gpuKernel, dispatches func(*kernels.Recorder)) {
	l.t.Helper()
	r := kernels.NewRecorder(k.label, l.dry.Info())
	r.Rounded.Size = math.MaxInt32
	dispatches(r)
	if _, err := kernels.Build(l.dry, r); err != nil {
		l.t.Fatal(err)
	}
	l.take(func(s *webgpu.KernelSource) gpuKernel {
		if s.Name == "matmul/pack" { // before the first packed product
			return gpuKernel{label: s.Name}
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

// gpuKernels returns every kernel that an adapter can be given: matrix products of all formats, families, tiles and
// ends, attention over heads of all shapes and all caches, and what models record, of the built-in pair for every
// request. full is false for a list that compiles in seconds: it leaves out formats with the same unpacking, ends and
// heads that make kernels of about the same size, and requests that need no kernel of their own.
func gpuKernels(t testing.TB, info webgpu.Info, full bool) []gpuKernel {
	l := &kernelList{t: t, dry: graph.NewDryRun(info)}
	l.products(full)
	l.attention(full)
	l.models(full)
	return l.kernels
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
						l.record(gpuKernel{label: fmt.Sprintf("matmul %v %v M=%d %s", format, f, tile, end),
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

// attention lists the kernels of attention over heads of every shape.
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
					l.record(gpuKernel{label: label}, func(r *kernels.Recorder) {
						attention.Record(r, h, kernels.Slots{Table: table}, kernels.View{}, kernels.View{},
							kernels.View{}, scratch, kernels.View{}, 1, context)
					})
				}
			}
		}
	}
}

// models lists what sessions record: those of random weights for every architecture and storage type, the built-in
// pair and its head for every request.
func (l *kernelList) models(full bool) {
	// These are of every format.
	families := matmul.Families(l.dry.Info(), kernels.F32)
	ways := kernels.Ways(l.dry.Info())
	if !full {
		families = families[len(families)-1:]
	}
	// A small vocabulary's rows are verified by one invocation each.
	sampled := []Request{{Policy: method.DrafterSampled, Verifier: method.VerifierWithoutReplacement, Temperature: 0.8}}
	for i, typ := range modeltest.Types() {
		for j, arch := range []string{"llama", "qwen2", "qwen3", "mistral3"} {
			name, cache := arch+"-"+typ, []string{"f32", "f16", "q8"}[(i+j)%3]
			for _, lanes := range ways {
				if full || typ == "q8_0" {
					l.session(name, l.source(name), l.source(name), families[0], lanes, Options{KV: cache}, sampled)
				}
			}
		}
	}
	// Gates and ups in several bindings, as in models too large for a test.
	l.record(gpuKernel{label: "layer/silu"}, func(r *kernels.Recorder) {
		layer.RecordSiLU(r, kernels.View{}, kernels.View{}, 1, 64)
	})
	l.parts()
	weights, config := demo.Head()
	for _, cache := range []string{"f32", "f16", "q8"} {
		for _, f := range families {
			for _, lanes := range ways {
				requests := requestsOf(full && cache == "f32" && f == families[0])
				l.session("built-in pair", demo.Target(), demo.Draft(), f, lanes,
					Options{KV: cache, EAGLE3: weights, EAGLE3Config: config}, requests)
			}
		}
	}
}

// parts lists the kernels of parts that no model of the lists has.
func (l *kernelList) parts() {
	var v kernels.View
	h := kernels.Heads{Query: 8, KV: 4, Dim: 64}
	l.record(gpuKernel{label: "layer/norm_row"}, func(r *kernels.Recorder) { layer.RecordNormRow(r, h, v, v, 1, 1e-5) })
	l.record(gpuKernel{label: "layer/add_norm"}, func(r *kernels.Recorder) {
		layer.RecordAddNorm(r, v, v, v, 1, 64, 1e-5)
	})
	l.record(gpuKernel{label: "layer/add_norm next"}, func(r *kernels.Recorder) {
		layer.RecordAddNormNext(r, v, v, v, 1, 64, 1e-5, v, kernels.Rows{Stride: 128})
	})
	for format := range kernels.Formats {
		w := &kernels.Weight{Format: format, Rows: 8, Cols: 1024, Parts: []kernels.WeightPart{{Rows: 8}}}
		l.record(gpuKernel{label: fmt.Sprint("layer/embed times ", format)}, func(r *kernels.Recorder) {
			layer.RecordEmbed(r, w, v, v, 1, 12)
		})
		l.record(gpuKernel{label: fmt.Sprint("layer/embed next times ", format)}, func(r *kernels.Recorder) {
			layer.RecordEmbedNext(r, w, v, v, 1, 12, v, kernels.Rows{Stride: matmul.NextStride(w.Cols)}, 1e-5)
		})
	}
}

// requestsOf returns requests that together need every program: every legal combination of the methods' tables, or
// those of every drafter and of every verifier.
func requestsOf(full bool) []Request {
	var all []Request
	for _, drafter := range method.Drafters() {
		for _, source := range method.Sources() {
			for _, adapter := range method.AdapterNames() {
				for _, verifier := range method.VerifierNames() {
					few := adapter == method.AdapterNames()[0] || verifier == method.VerifierMatch
					for _, temperature := range []float64{0, 0.8} {
						r := Request{Policy: drafter, Source: source, Adapt: adapter, Verifier: verifier,
							Temperature: temperature}
						if drafter == method.DrafterEAGLE2 { // has calibrations
							r.Depth, r.TopK, r.Nodes = 4, 4, 16
						}
						// An acceptance head reads the hidden states of a draft model.
						refused := adapter == method.AdaptAcceptance && source == method.SourceEAGLE3
						if r.Validate() == nil && !refused && (full || few) {
							all = append(all, r)
						}
					}
				}
			}
		}
	}
	filtered := Request{Policy: method.DrafterNone, Temperature: 1, SampleTopK: 40, TopP: new(0.9), MinP: 0.05}
	filtered.FrequencyPenalty, filtered.JSONObject = 1, true
	return append(all, filtered, Request{Policy: method.DrafterEAGLE2, Nodes: 64})
}

// session lists what a session with forced kernel choices records.
func (l *kernelList) session(name string, target, draft files.Source, f matmul.Family, lanes kernels.Lanes, o Options,
	requests []Request) {
	l.t.Helper()
	o.Tuning = l.choices(target, draft, f, lanes, o)
	s := l.open(l.dry, target, draft, o)
	for _, r := range requests {
		if c := r.Config(); c.Source == method.SourceEAGLE3 { // has no calibrations of its own
			bins, classifier := *s.fitted.Hetero[0], *s.fitted.C2T
			bins.Fingerprint = s.pair.HeadIDs.Shaped(c.TopK, c.Depth, c.Nodes)
			classifier.Fingerprint = s.pair.HeadIDs
			r.Fitted.Hetero, r.Fitted.C2T = &bins, &classifier
		}
		c, err := s.configOf(&r)
		if err == nil {
			_, err = s.pair.Compile(c, r.Sampling().Temperature, r.Constraints.Needs())
		}
		if err != nil {
			text, _ := json.Marshal(r)
			l.t.Fatalf("%s: %s: %v", name, text, err)
		}
	}
	if requests != nil {
		if _, err := s.pair.Target.Score(context.Background(), make([]int32, 40)); err != nil {
			l.t.Fatal(err)
		}
	}
	s.Close()
	l.take(func(s *webgpu.KernelSource) gpuKernel { return gpuKernel{label: s.Name} })
}

// source returns a model of random weights.
func (l *kernelList) source(name string) files.Source {
	l.t.Helper()
	src, ok := modeltest.Source(name)
	if !ok {
		l.t.Fatal(name, " is no model")
	}
	return src
}

func (l *kernelList) open(dry webgpu.Device, target, draft files.Source, o Options) *Session {
	l.t.Helper()
	if o.EAGLE3 != nil { // the built-in pair
		return openPair(l.t, dry, target, draft, o)
	}
	s, err := Open(context.Background(), dry, target, draft, o)
	if err != nil {
		l.t.Fatal(err)
	}
	return s
}

// choices returns the tuning that forces a family and lanes. A software adapter, which times nothing, tells the classes
// of a model's matrices.
func (l *kernelList) choices(target, draft files.Source, f matmul.Family, lanes kernels.Lanes, o Options,
) map[string]map[string]string {
	software := l.dry.Info()
	software.Software = true
	s := l.open(graph.NewDryRun(software), target, draft, o)
	defer s.Close()
	out := s.pair.Tuning()
	for _, choices := range out {
		for class := range choices {
			choices[class] = f.String()
		}
		choices["rows"] = strconv.Itoa(int(lanes))
	}
	return out
}

// TestGPUKernelsAreComplete expects every shader of the repository in the lists of a GPU and of a software adapter.
func TestGPUKernelsAreComplete(t *testing.T) {
	info, used := gpuInfo(gpuFeatures...), map[string]bool{}
	for _, info.Software = range []bool{false, true} {
		for _, k := range gpuKernels(t, info, false) {
			for _, file := range strings.Fields(k.Name) {
				used[file] = true
			}
		}
	}
	shaders, err := fs.Glob(os.DirFS("webgpu/kernels"), "*.wgsl")
	if err != nil {
		t.Fatal(err)
	}
	own, err := fs.Glob(os.DirFS("webgpu/kernels"), "*/*.wgsl")
	if err != nil || len(own) < 40 {
		t.Fatal(len(own), err)
	}
	for _, file := range append(shaders, own...) {
		short := strings.HasPrefix(file, "unpack_") // the short list has some formats
		if name := strings.TrimSuffix(file, ".wgsl"); !used[name] && !short && path.Dir(file) != "kerneltest" {
			t.Errorf("no list has a kernel with %s", file)
		}
	}
}
