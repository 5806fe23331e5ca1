package runner

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"foretoken/internal/files"
	"foretoken/models/arch"
	"foretoken/models/convert"
	"foretoken/models/gguf"
	"foretoken/models/graph"
	"foretoken/models/safetensors"
	"foretoken/spec"
	"foretoken/spec/method"
	"foretoken/webgpu"

	"github.com/x448/float16"
)

// randomHead returns a head for a target with normal weights, which drafts a different tree at every position. Its
// draft vocabulary is every second id of the target's and a few more.
func randomHead(t *testing.T, c *arch.Model, dtype safetensors.Dtype, embedding bool,
	change func(config map[string]any)) (src, config files.Source) {
	t.Helper()
	hidden := c.Dim
	if embedding {
		hidden = 96
	}
	j := map[string]any{"architectures": `["LlamaForCausalLMEagle3"]`, "hidden_size": hidden,
		"target_hidden_size": c.Dim, "intermediate_size": 160, "num_attention_heads": 6, "num_key_value_heads": 2,
		"head_dim": 16, "vocab_size": c.Vocab, "draft_vocab_size": c.Vocab/2 + 5, "rms_norm_eps": 1e-5,
		"rope_theta": 5000, "eagle_config": fmt.Sprintf(`{"eagle_aux_hidden_state_layer_ids":[0,2,%d]}`,
			len(c.Layers)-1)}
	if change != nil {
		change(j)
	}
	var fields []string
	for k, v := range j {
		fields = append(fields, fmt.Sprintf("%q:%v", k, v))
	}
	config = files.FromBytes("config.json", []byte("{"+strings.Join(fields, ",")+"}"))
	number := func(name string) int { return j[name].(int) }
	vocab, draftVocab := number("vocab_size"), number("draft_vocab_size")
	head := arch.Model{Dim: number("hidden_size"), Vocab: vocab, Features: &arch.Features{
		Dim: number("target_hidden_size"), Targets: make([]int32, draftVocab), Embedding: embedding, Output: true},
		Layers: []arch.Layer{{Norms: arch.Norms{Before: true},
			Mix: &arch.Attention{Query: number("num_attention_heads"), KV: number("num_key_value_heads"),
				Dim: number("head_dim")},
			FFN: &arch.Gated{Width: number("intermediate_size")}}}}
	shapes := map[string][]uint64{}
	for want := range head.Tensors() {
		if want.Kind != arch.Header {
			shapes[want.HF] = nil
			for _, n := range want.Shape {
				shapes[want.HF] = append(shapes[want.HF], uint64(n))
			}
		}
	}
	var tensors []safetensors.Tensor
	rng := rand.New(rand.NewPCG(3, uint64(hidden)))
	for _, name := range slices.Sorted(maps.Keys(shapes)) {
		shape := shapes[name]
		n, scale, mean := uint64(1), 1.0, 0.0
		for _, d := range shape {
			n *= d
		}
		switch {
		case len(shape) == 1:
			scale, mean = 0.1, 1
		case name == "lm_head.weight":
			scale = 3 / math.Sqrt(float64(shape[1]))
		case name != "embed_tokens.weight":
			scale = 1 / math.Sqrt(float64(shape[1]))
		}
		var data []byte
		for range n {
			x := float32(mean + scale*rng.NormFloat64())
			switch dtype {
			case safetensors.F32:
				data = binary.LittleEndian.AppendUint32(data, math.Float32bits(x))
			case safetensors.F16:
				data = binary.LittleEndian.AppendUint16(data, float16.Fromfloat32(x).Bits())
			case safetensors.BF16:
				data = binary.LittleEndian.AppendUint16(data, uint16(math.Float32bits(x)>>16))
			}
		}
		tensors = append(tensors, safetensors.Tensor{Name: name, Dtype: dtype, Shape: shape, Data: data})
	}
	var d2t []byte
	t2d := make([]byte, vocab)
	for i := range draftVocab {
		id := 2 * i
		if id >= vocab { // the additional ids
			id = 2*(i-vocab/2) + 1
		}
		t2d[id] = 1
		d2t = binary.LittleEndian.AppendUint64(d2t, uint64(id-i))
	}
	tensors = append(tensors, safetensors.Tensor{Name: "d2t", Dtype: safetensors.I64,
		Shape: []uint64{uint64(draftVocab)}, Data: d2t},
		safetensors.Tensor{Name: "t2d", Dtype: safetensors.Bool, Shape: []uint64{uint64(vocab)}, Data: t2d})
	var b bytes.Buffer
	if err := safetensors.Write(&b, nil, tensors...); err != nil {
		t.Fatal(err)
	}
	return files.FromBytes("head.safetensors", b.Bytes()), config
}

// headed loads a small target and a random head for it.
func headed(t *testing.T, dev webgpu.Device, dtype safetensors.Dtype, embedding bool,
	o graph.Options) (*Target, *Draft, *gguf.File) {
	t.Helper()
	target, err := LoadTarget(background, dev, testModel(t, "tiny-f32"),
		graph.Options{Context: 96, TopK: 4, MaxRows: 32})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(target.Close)
	file, err := convert.Head(randomHead(t, target.Graph.Arch, dtype, embedding, nil))
	if err != nil {
		t.Fatal(err)
	}
	var done, total int64
	o.Progress = func(d, t int64) { done, total = d, t }
	head, err := LoadEAGLE3(background, dev, target, file, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(head.Close)
	if done != total || total == 0 {
		t.Errorf("loading reported %d of %d bytes", done, total)
	}
	return target, head, file
}

// device reads a view back.
func device(t *testing.T, dev webgpu.Device, buffer webgpu.Buffer, words int) webgpu.Memory {
	t.Helper()
	m := webgpu.NewMemory(4 * words)
	if err := dev.Run(nil, webgpu.Region{Buffer: buffer, Dst: m.Bytes()}); err != nil {
		t.Fatal(err)
	}
	return m
}

// features returns the features that a target stores for each committed position, tap by tap.
func features(t *testing.T, target *Target) [][]float64 {
	t.Helper()
	dim, out := target.Graph.Arch.Dim, make([][]float64, target.Len())
	for _, v := range target.Graph.Features() {
		all := device(t, target.Graph.Dev, v.Buffer, v.Size/4).F32()
		for p := range out {
			for _, x := range all[int(target.seq.Slot(p))*dim:][:dim] {
				out[p] = append(out[p], float64(x))
			}
		}
	}
	return out
}

// accepted returns the beams and tokens of a path of the given number of levels, along the best beam of the last.
func accepted(levels []spec.Level, n int) (beams, tokens []int32) {
	at := 0 // beam of the deepest accepted level
	for level := n - 1; level >= 0; level-- {
		c := levels[level].Candidates[levels[level].Beams[at]]
		beams, tokens = append([]int32{int32(at)}, beams...), append([]int32{c.Token}, tokens...)
		at = int(c.Beam)
	}
	return beams, tokens
}

// commitRun makes the target consume and commit the root and tokens after it.
func commitRun(t *testing.T, target *Target, run []int32) []spec.NodeOutput {
	t.Helper()
	var tree spec.Tree
	tree.Reset(run[0])
	path := []int32{0}
	for i, token := range run[1:] {
		tree.Add(int32(i), token, 0)
		path = append(path, int32(i+1))
	}
	// A sibling that is not accepted, so that slots are out of order.
	tree.Add(0, (run[0]+3)%int32(target.Graph.Arch.Vocab), 0)
	out, err := verify(target, &tree, spec.Sampling{})
	if err != nil {
		t.Fatal(err)
	}
	if err := target.Commit(path); err != nil {
		t.Fatal(err)
	}
	return out
}

// TestEAGLE3Reference drafts trees over several rounds with different acceptance lengths and compares every number
// with a float64 head that reads the features stored by the target.
func TestEAGLE3Reference(t *testing.T) {
	onDevices(t, func(t *testing.T, dev webgpu.Device) {
		for _, c := range []struct {
			dtype     safetensors.Dtype
			embedding bool
		}{{safetensors.F32, false}, {safetensors.F16, true}, {safetensors.BF16, false}} {
			t.Run(fmt.Sprintf("%s/%v", c.dtype, c.embedding), func(t *testing.T) {
				target, head, w := headed(t, dev, c.dtype, c.embedding, graph.Options{})
				ref := newRefHead(t, testModel(t, "tiny-f32"), w)
				testReference(t, target, head, ref, nil)
			})
		}
	})
}

// testReference drafts and compares with ref, which reads the features that exact gives for tokens or, where that is
// nil, those that the target has stored.
func testReference(t *testing.T, target *Target, head *Draft, ref *refHead, exact func(tokens []int32) [][]float64) {
	const k, depth = 3, 3
	seq := slices.Clone(text)
	target.Reset()
	head.Reset()
	if err := target.Prefill(background, seq[:len(seq)-1]); err != nil {
		t.Fatal(err)
	}
	if err := head.Prefill(background, seq[:4]); err != nil { // the rest is pending at first
		t.Fatal(err)
	}
	if err := head.Prefill(background, seq[4:len(seq)-6]); err != nil {
		t.Fatal(err)
	}
	for round, accept := range []int{2, 0, 3, 1, 0} {
		if head.Len() != len(seq)-6 && round == 0 {
			t.Fatalf("the head holds %d tokens, want %d", head.Len(), len(seq)-6)
		}
		pending := seq[head.Len():]
		what := fmt.Sprintf("round %d", round)
		r := spec.DraftRequest{Pending: pending, Depth: depth, K: k}
		levels := mustLevels(t)(head.Draft(background, r))
		if head.Len() != len(seq) {
			t.Fatalf("%s: the head holds %d tokens, want %d", what, head.Len(), len(seq))
		}
		kept := features(t, target)
		if len(kept) != len(seq)-1 {
			t.Fatalf("%s: features of %d tokens, want %d", what, len(kept), len(seq)-1)
		}
		if exact != nil {
			want := exact(seq[:len(seq)-1])
			for p := range want {
				for i, x := range want[p] {
					if math.Abs(kept[p][i]-x) > 5e-5*max(1, math.Abs(x)) {
						t.Fatalf("%s: feature %d of token %d is %g, want %g", what, i, p, kept[p][i], x)
					}
				}
			}
			kept = want
		}
		ref.checkTree(t, what, kept, seq, levels, k)
		beams, tokens := accepted(levels, accept)
		run := append([]int32{seq[len(seq)-1]}, tokens...)
		commitRun(t, target, run)
		if err := head.Commit(beams); err != nil {
			t.Fatal(err)
		}
		seq = append(append(seq, tokens...), int32(7+2*round)) // and the target's bonus token
	}
}

// TestEAGLE3Taps compares the stored features of the last layer with the target's logits for the position, whether
// it was prefilled, decoded or verified in a tree, and compares the bits of the three.
func TestEAGLE3Taps(t *testing.T) {
	onDevices(t, func(t *testing.T, dev webgpu.Device) {
		target, _, _ := headed(t, dev, safetensors.F32, false, graph.Options{})
		f := testModel(t, "tiny-f32")
		output := "output.weight"
		if target.Graph.Arch.Tied {
			output = "token_embd.weight"
		}
		matrix, norm := hostMatrix(t, f, output), hostMatrix(t, f, "output_norm.weight")
		outputs := commitAll(t, target, text, len(text))
		kept := features(t, target)
		for i, out := range outputs {
			logits := product(matrix, normed(kept[i][2*target.Graph.Arch.Dim:], norm, target.Graph.Arch.Eps))
			for rank, id := range out.TopIDs {
				if math.Abs(logits[id]-float64(out.TopLogits[rank])) > 2e-3 {
					t.Fatalf("token %d: logit %d is %g, from the stored feature %g", i, id, out.TopLogits[rank],
						logits[id])
				}
			}
		}
		for _, step := range []int{1, 2, 5} {
			commitAll(t, target, text, step)
			if got := features(t, target); !slices.EqualFunc(got, kept, slices.Equal) {
				t.Errorf("features of tokens run %d at once differ from those of one tree", step)
			}
		}
		target.Reset()
		if err := target.Prefill(background, text); err != nil {
			t.Fatal(err)
		}
		if got := features(t, target); !slices.EqualFunc(got, kept, slices.Equal) {
			t.Error("features of a prefill differ from those of one tree")
		}
	})
}

// commitAll empties the sequence and commits tokens in trees of the given size.
func commitAll(t *testing.T, target *Target, tokens []int32, step int) []spec.NodeOutput {
	t.Helper()
	target.Reset()
	var all []spec.NodeOutput
	for at := 0; at < len(tokens); at += step {
		n := min(step, len(tokens)-at)
		for _, out := range commitRun(t, target, tokens[at:at+n])[:n] {
			out.TopIDs, out.TopLogits = slices.Clone(out.TopIDs), slices.Clone(out.TopLogits)
			all = append(all, out)
		}
	}
	return all
}

// TestEAGLE3Grows grows trees in several calls and compares the bits with those of one call.
func TestEAGLE3Grows(t *testing.T) {
	onDevices(t, func(t *testing.T, dev webgpu.Device) {
		target, head, _ := headed(t, dev, safetensors.F32, false, graph.Options{})
		begin := func() {
			target.Reset()
			head.Reset()
			if err := target.Prefill(background, text[:len(text)-1]); err != nil {
				t.Fatal(err)
			}
			if err := head.Prefill(background, text[:len(text)-1]); err != nil {
				t.Fatal(err)
			}
		}
		for _, s := range []spec.Sampling{{}, {Temperature: 0.9, Seed: 5}} {
			r := spec.DraftRequest{Pending: text[len(text)-1:], Depth: 3, K: 3, Coupled: true, Sampling: s}
			begin()
			want := mustLevels(t)(head.Draft(background, r))
			begin()
			r.Depth = 1
			mustLevels(t)(head.Draft(background, r))
			got := mustLevels(t)(head.Extend(background, spec.Extension{Passes: 1}))
			got = mustLevels(t)(head.Extend(background, spec.Extension{Beams: bestBeams(got, 3)}))
			sameLevels(t, fmt.Sprintf("temperature %g", s.Temperature), got, want)
			beams, tokens := accepted(got, 3)
			if err := head.Commit(beams); err != nil {
				t.Fatal(err)
			}
			if !slices.Equal(head.pairs.uncached, tokens) || head.Len() != len(text)+3 {
				t.Errorf("committed %v of %v; %d tokens", head.pairs.uncached, tokens, head.Len())
			}
		}
	})
}

// TestEAGLE3Exact generates with the head by every method that is exact token for token and compares with plain
// decoding. After a prompt of one token there is no feature to draft from.
func TestEAGLE3Exact(t *testing.T) {
	onDevices(t, func(t *testing.T, dev webgpu.Device) {
		target, head, _ := headed(t, dev, safetensors.F16, false, graph.Options{})
		tokens := 24
		if testing.Short() {
			tokens = 12
		}
		generate := func(prompt []int32, s spec.Sampling, c method.Config) ([]int32, spec.Stats) {
			t.Helper()
			g, err := method.New(target, c, nil, head)
			if err != nil {
				t.Fatal(err)
			}
			var out []int32
			stats, err := g.Generate(background, prompt, spec.Options{Sampling: s, MaxTokens: tokens},
				func(e *spec.Event) error {
					out = append(out, e.Tokens...)
					return nil
				})
			if err != nil {
				t.Fatalf("%+v: %v", c, err)
			}
			return out, stats
		}
		prompts := [][]int32{text, text[:1], text[:2]}
		if testing.Short() {
			prompts = prompts[:2]
		}
		for _, prompt := range prompts {
			for _, s := range []spec.Sampling{{}, {Temperature: 0.8, Seed: 11}} {
				want, _ := generate(prompt, s, method.Config{Drafter: method.DrafterNone})
				for _, c := range []method.Config{
					{Drafter: method.DrafterEAGLE2, Source: method.SourceEAGLE3, Depth: 3, TopK: 4, Nodes: 12},
					{Drafter: method.DrafterEAGLE2, Source: method.SourceEAGLE3, Depth: 2, TopK: 3, Nodes: 8,
						Uncoupled: true},
					{Drafter: method.DrafterChain, Source: method.SourceEAGLE3, Depth: 4},
				} {
					got, stats := generate(prompt, s, c)
					if !slices.Equal(got, want) {
						t.Errorf("prompt of %d, temperature %g, %s: %v, plain decoding gives %v", len(prompt),
							s.Temperature, c.Drafter, got, want)
					}
					if stats.Drafted == 0 {
						t.Errorf("prompt of %d, %s: nothing was drafted", len(prompt), c.Drafter)
					}
				}
			}
		}
		// Exact only in distribution: check that it runs and that its statistics agree.
		for _, c := range []method.Config{
			{Drafter: method.DrafterChain, Source: method.SourceEAGLE3, Verifier: method.VerifierRejection, Depth: 3},
			{Drafter: method.DrafterSampled, Source: method.SourceEAGLE3, Verifier: method.VerifierWithoutReplacement,
				Shape: [][]int{{2}, {2, 1}}},
		} {
			if got, _ := generate(text, spec.Sampling{Temperature: 1, Seed: 3}, c); len(got) != tokens {
				t.Errorf("%s: %d tokens", c.Drafter, len(got))
			}
		}
	})
}
