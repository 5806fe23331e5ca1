package convert

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"foretoken/internal/files"
	"foretoken/models/arch"
	"foretoken/models/fuzztest"
	"foretoken/models/gguf"
	"foretoken/models/safetensors"
)

// publishedHead is a config.json as the authors publish it, of a small head.
const publishedHead = `{
  "architectures": ["LlamaForCausalLMEagle3"], "bos_token_id": 1, "eos_token_id": 2, "hidden_act": "silu",
  "hidden_size": 16, "initializer_range": 0.02, "intermediate_size": 24, "max_position_embeddings": 2048,
  "model_type": "llama", "num_attention_heads": 2, "num_key_value_heads": 1, "num_hidden_layers": 1,
  "pad_token_id": 0, "rms_norm_eps": 1e-05, "tie_word_embeddings": false, "torch_dtype": "float16",
  "transformers_version": "4.46.2", "use_cache": true, "vocab_size": 12, "draft_vocab_size": 5
}`

// setHead is publishedHead with one field changed, or with "" for value, without it.
func setHead(field, value string) string {
	if at := strings.Index(publishedHead, `"`+field+`"`); at >= 0 {
		end := at + strings.Index(publishedHead[at:], ": ")
		rest := publishedHead[end+2:]
		stop := strings.IndexAny(rest, ",\n}")
		if rest[0] == '[' {
			stop = strings.Index(rest, "]") + 1
		}
		if value == "" {
			return publishedHead[:at] + `"unused": 0` + rest[stop:]
		}
		return publishedHead[:end+2] + value + rest[stop:]
	}
	return strings.Replace(publishedHead, "{", `{"`+field+`": `+value+",", 1)
}

// headOf describes the head of a config.json, over the complete vocabulary.
func headOf(t *testing.T, text string) *arch.Model {
	t.Helper()
	s, err := readHead("config.json", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	m, err := s.describe("config.json", []tensor{placeholder("output.weight", 1)}, arch.ReadHead)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// ofSpeculators is the config.json of a head as the library speculators saves it, with further fields.
func ofSpeculators(fields string) string {
	layer := strings.NewReplacer(`"architectures": ["LlamaForCausalLMEagle3"], `, "", `, "draft_vocab_size": 5`, "",
		`"tie_word_embeddings": false, `, `"tie_word_embeddings": true, `).Replace(publishedHead)
	return `{"architectures": ["Eagle3Speculator"], "draft_vocab_size": 5, "speculators_model_type": "eagle3",
	"speculators_version": "0.3.0", "model_type": "speculators", "tie_word_embeddings": false,
	"embed_requires_grad": false, "has_no_defaults_at_init": false, "target_hidden_size": null,
	"speculators_config": {"algorithm": "eagle3", "verifier": {"architectures": ["LlamaForCausalLM"]}},
	"transformer_layer_config": ` + layer + fields + "}"
}

// TestHeadDialects reads what the three dialects say of a head's norms and of the target's layers.
func TestHeadDialects(t *testing.T) {
	const outputs = `{"eagle_aux_hidden_state_layer_ids": [1, 2, 4]}`
	for name, c := range map[string]struct {
		text              string
		fused, skip, next bool
		taps              []int
	}{
		"outputs":       {text: setHead("eagle_config", outputs), taps: []int{1, 2, 4}},
		"inputs":        {text: setHead("eagle_aux_hidden_state_layer_ids", "[0, 4, 2]"), taps: []int{-1, 3, 1}},
		"an empty list": {text: setHead("eagle_config", `{"`+tappedLayers+`": []}`), taps: []int{1, 15, 28}},
		"class of vLLM": {text: setHead("architectures", `["Eagle3LlamaForCausalLM"]`), taps: []int{1, 15, 28}},
		"residual":      {text: setHead(normedSkip, "true"), skip: true, taps: []int{1, 15, 28}},
		"nested norm": {text: setHead("eagle_config", `{"norm_before_fc": true, "use_last_layernorm": true,
			"use_input_layernorm_in_first_layer": true, "use_mtp_layernorm": false}`), fused: true,
			taps: []int{1, 15, 28}},
		"speculators": {text: ofSpeculators(`, "norm_before_residual": true, "norm_before_fc": true,
			"norm_output": true, "fc_norm": false, "eagle_aux_hidden_state_layer_ids": [2, 3, 29]`), fused: true,
			skip: true, next: true, taps: []int{1, 2, 28}},
		"speculators, plain": {text: ofSpeculators(`, "norm_before_residual": false`), taps: []int{1, 15, 28}},
	} {
		m := headOf(t, c.text)
		f := m.Features
		taps, err := f.TapsOf("x", 32)
		if err != nil || !slices.Equal(taps, c.taps) || f.NormFused != c.fused || f.NormedSkip != c.skip ||
			f.NormedNext != c.next || m.Dim != 16 || m.Vocab != 12 {
			t.Errorf("%s: %+v, taps %v, %v", name, f, taps, err)
		}
	}
}

func TestPublishedHead(t *testing.T) {
	m := headOf(t, publishedHead)
	a := m.Layers[0].Mix
	if m.Dim != 16 || m.Features.Dim != 16 || m.Layers[0].FFN.Width != 24 || a.Query != 2 || a.KV != 1 || a.Dim != 8 ||
		m.Vocab != 12 || m.Eps != float64(float32(1e-5)) || !a.HalfSplit {
		t.Errorf("read %+v %+v", m, a)
	}
	if got, want := a.Rope.Inverse, []float64{1, 0.1, 0.01, 0.001}; len(got) != 4 ||
		math.Abs(got[3]-want[3]) > 1e-12 || math.Abs(got[1]-want[1]) > 1e-12 {
		t.Errorf("inverse frequencies %v, want %v", got, want)
	}
	if taps, err := m.Features.TapsOf("x", 32); err != nil || !slices.Equal(taps, []int{1, 15, 28}) {
		t.Errorf("taps of 32 layers: %v, %v; the authors' code reads the inputs of layers 2, 16 and 29", taps, err)
	}
	if _, err := m.Features.TapsOf("x", 6); err == nil {
		t.Error("taps of 6 layers are not three different ones")
	}
}

func TestHeadFields(t *testing.T) {
	m := headOf(t, setHead("eagle_config",
		`{"eagle_aux_hidden_state_layer_ids": [1, 2, 4], "use_aux_hidden_state": true}`))
	if taps, err := m.Features.TapsOf("x", 5); err != nil || !slices.Equal(taps, []int{1, 2, 4}) {
		t.Errorf("taps %v, %v", taps, err)
	}
	inverse := func(text string) []float64 { return headOf(t, text).Layers[0].Mix.Rope.Inverse }
	if got := inverse(setHead("rope_scaling", `{"rope_type": "linear", "factor": 4}`)); got[0] != 0.25 {
		t.Errorf("linear scaling: %v", got)
	}
	if got := inverse(setHead("rope_scaling", "null")); got[0] != 1 {
		t.Errorf("no scaling: %v", got)
	}
	// Llama 3.1's rule over a context of 100: a wavelength of 2π is within, one of 2π·1000 past it, and
	// those of 2π·10 (1.59 turns) between one and four turns.
	got := inverse(setHead("rope_scaling", `{"rope_type": "llama3", "factor": 8, "low_freq_factor": `+
		`1, "high_freq_factor": 4, "original_max_position_embeddings": 100}`))
	keep := (100/(2*math.Pi*10) - 1) / 3
	for i, want := range []float64{1, 0.1 * (keep + (1-keep)/8), 0.01 / 8, 0.001 / 8} {
		if math.Abs(got[i]-want) > 1e-6*want { // the divisors are stored as f32
			t.Errorf("llama3 scaling: frequency %d is %g, want %g", i, got[i], want)
		}
	}
	yarn := headOf(t, setHead("rope_scaling",
		`{"rope_type": "yarn", "factor": 4, "original_max_position_embeddings": 100}`)).Layers[0].Mix.Rope
	if last := yarn.Inverse[3]; yarn.Inverse[0] != 1 || math.Abs(last-0.001/4) > 1e-12 ||
		math.Abs(yarn.Magnitude-1-0.1*math.Log(4)) > 1e-12 {
		t.Errorf("yarn scaling: %+v", yarn)
	}
}

// refusedHeads holds configurations that are refused and the words of the refusal.
var refusedHeads = map[string]struct{ text, want string }{
	"empty":           {"", "the text is empty"},
	"not json":        {"hello", "JSON"},
	"a list":          {"[]", "JSON"},
	"architecture":    {setHead("architectures", `["LlamaForCausalLMEagle"]`), "architectures"},
	"no architecture": {setHead("architectures", ""), "architectures"},
	"layers":          {setHead("num_hidden_layers", "2"), "num_hidden_layers is 2"},
	"activation":      {setHead("hidden_act", `"gelu"`), `hidden_act is "gelu"`},
	"bias":            {setHead("attention_bias", "true"), "attention_bias"},
	"window":          {setHead("layer_types", `["sliding_attention"]`), "sliding_attention for layer 0"},
	"norms of layers": {setHead("fc_norm", "true"), "fc_norm is true: norms of single layers"},
	"residual":        {setHead("norm_before_residual", "1"), "norm_before_residual is 1: want true or false"},
	"no residual":     {ofSpeculators(""), "norm_before_residual is missing"},
	"no layer":        {setHead("architectures", `["Eagle3DraftModel"]`), "norm_before_residual is missing"},
	"two widths": {ofSpeculators(`, "norm_before_residual": true, "hidden_size": 32`),
		"hidden_size is 16, but 32 outside"},
	"another kind": {strings.Replace(ofSpeculators(""), `"eagle3"`, `"peagle"`, 1),
		`speculators_model_type is "peagle"`},
	"nested unknown": {setHead("eagle_config", `{"norm_after_fc": true}`),
		"eagle_config.norm_after_fc is true: the field"},
	"nested norm": {setHead("eagle_config", `{"use_last_layernorm": false}`), "use_last_layernorm is false"},
	"two lists": {ofSpeculators(`, "norm_before_residual": true, "eagle_aux_hidden_state_layer_ids": [0, 1, 2],
		"eagle_config": {"eagle_aux_hidden_state_layer_ids": [1, 2, 3]}`), "is [1 2 3], and the field is at the top"},
	"no size":          {setHead("hidden_size", ""), "hidden_size is missing"},
	"negative size":    {setHead("hidden_size", "-4"), "hidden_size is -4"},
	"huge size":        {setHead("hidden_size", "1e300"), "hidden_size is 1e300"},
	"half a head":      {setHead("num_attention_heads", "1.5"), "num_attention_heads is 1.5"},
	"groups":           {setHead("num_key_value_heads", "3"), "no multiple of num_key_value_heads, 3"},
	"head size":        {setHead("head_dim", "12"), "key_length is 12"},
	"odd width":        {setHead("intermediate_size", "22"), "multiples of 4"},
	"no epsilon":       {setHead("rms_norm_eps", ""), "rms_norm_eps"},
	"draft vocabulary": {setHead("draft_vocab_size", "13"), "draft_vocab_size is 13: want a whole number of 1 to 12"},
	"theta":            {setHead("rope_theta", "0"), "rope_theta"},
	"scaling":          {setHead("rope_scaling", `{"rope_type": "dynamic", "factor": 4}`), `"dynamic"`},
	"yarn's context": {setHead("rope_scaling", `{"rope_type": "yarn", "factor": 4}`),
		"original_max_position_embeddings is missing"},
	"scaling factor":  {setHead("rope_scaling", `{"rope_type": "linear"}`), "factor is missing"},
	"scaling is text": {setHead("rope_scaling", `"linear"`), "rope_scaling"},
	"four taps": {setHead("eagle_config", `{"eagle_aux_hidden_state_layer_ids": [0, 1, 2, 3]}`),
		"[0,1,2,3]: want 3 layers"},
	"no features":        {setHead("eagle_config", `{"use_aux_hidden_state": false}`), "use_aux_hidden_state"},
	"string for a field": {setHead("vocab_size", `"12"`), `vocab_size is "12"`},
}

func TestHeadRefusals(t *testing.T) {
	for name, c := range refusedHeads {
		s, err := readHead("config.json", []byte(c.text))
		if err == nil {
			_, err = s.describe("config.json", []tensor{placeholder("output.weight", 1)}, arch.ReadHead)
		}
		if err == nil {
			t.Errorf("%s is taken", name)
		} else {
			refused(t, name, err, "config.json: ", c.want)
		}
	}
	for _, taps := range []string{"[0, 1, 5]", "[-1, 1, 2]"} {
		for of, text := range map[string]string{"outputs": setHead("eagle_config", `{"`+tappedLayers+`": `+taps+`}`),
			"inputs": setHead(tappedLayers, taps)} {
			_, err := headOf(t, text).Features.TapsOf("x", 5)
			if err == nil || !strings.Contains(err.Error(), of+" of its target's layers") {
				t.Errorf("%s %s: %v", of, taps, err)
			}
		}
	}
}

// headTensors returns a complete head of zeros, with the draft ids for tokens 1, 3, 4, 8 and 11.
func headTensors(t *testing.T) []safetensors.Tensor {
	t.Helper()
	m := headOf(t, publishedHead)
	m.Features.Targets = m.Features.Targets[:5]
	var all []safetensors.Tensor
	seen := map[string]bool{}
	for want := range m.Tensors() {
		if want.Kind == arch.Header || seen[want.HF] {
			continue
		}
		seen[want.HF] = true
		x := safetensors.Tensor{Name: want.HF, Dtype: safetensors.F16}
		n := 2
		for _, d := range want.Shape {
			x.Shape = append(x.Shape, uint64(d))
			n *= d
		}
		x.Data = make([]byte, n)
		all = append(all, x)
	}
	return append(all, offsets(1, 2, 2, 5, 7), mask(1, 3, 4, 8, 11))
}

func offsets(o ...int64) safetensors.Tensor {
	var data []byte
	for _, v := range o {
		data = binary.LittleEndian.AppendUint64(data, uint64(v))
	}
	return safetensors.Tensor{Name: draftToTarget, Dtype: safetensors.I64, Shape: []uint64{uint64(len(o))}, Data: data}
}

func mask(ids ...int) safetensors.Tensor {
	m := safetensors.Tensor{Name: targetToDraft, Dtype: safetensors.Bool, Shape: []uint64{12}, Data: make([]byte, 12)}
	for _, id := range ids {
		m.Data[id] = 1
	}
	return m
}

func openHead(t *testing.T, text string, all []safetensors.Tensor) (*arch.Model, error) {
	t.Helper()
	var b bytes.Buffer
	if err := safetensors.Write(&b, nil, all...); err != nil {
		t.Fatal(err)
	}
	f, err := Head(files.FromBytes("head.safetensors", b.Bytes()), files.FromBytes("config.json", []byte(text)))
	if err != nil {
		return nil, err
	}
	return arch.ReadHead(f)
}

func TestHead(t *testing.T) {
	m, err := openHead(t, publishedHead, headTensors(t))
	if err != nil {
		t.Fatal(err)
	}
	if want := []int32{1, 3, 4, 8, 11}; !slices.Equal(m.Features.Targets, want) || m.Features.Embedding {
		t.Errorf("tokens %v, want %v; an embedding of its own: %v", m.Features.Targets, want, m.Features.Embedding)
	}
	renamed := headTensors(t)
	for i := range renamed {
		renamed[i].Name = strings.Replace(renamed[i].Name, "midlayer.", "layers.0.", 1)
	}
	const skip = `, "norm_before_residual": true`
	if _, err := openHead(t, ofSpeculators(skip), renamed); err != nil {
		t.Errorf("a head of speculators: %v", err)
	}
	if _, err := openHead(t, ofSpeculators(skip+`, "norm_before_fc": true`), renamed); err == nil ||
		!strings.Contains(err.Error(), "input_norm.weight") {
		t.Errorf("a head without its norm before fc: %v", err)
	}
}

// TestHeadKeepsItsTypes opens a head whose tensors have 16 bits, and stores it in fewer.
func TestHeadKeepsItsTypes(t *testing.T) {
	all := headTensors(t)
	for i := range all {
		if all[i].Dtype == safetensors.F16 {
			all[i].Dtype = safetensors.BF16
		}
	}
	var b bytes.Buffer
	if err := safetensors.Write(&b, nil, all...); err != nil {
		t.Fatal(err)
	}
	weights := files.FromBytes("head.safetensors", b.Bytes())
	f, err := Head(weights, files.FromBytes("config.json", []byte(publishedHead)))
	if err != nil {
		t.Fatal(err)
	}
	types := func(f *gguf.File) string {
		at := func(name string) gguf.Type {
			x, err := f.Tensor(name)
			if err != nil {
				t.Fatal(err)
			}
			return x.Type
		}
		return fmt.Sprint(at("fc.weight"), at("blk.0.attn_norm.weight"), at("blk.0.ffn_up.weight"), at("d2t"))
	}
	if got := types(f); got != "BF16 F32 BF16 I64" {
		t.Errorf("stored as %s", got)
	}
	if same, err := QuantiseHead(f, ""); err != nil || same != f {
		t.Errorf("not to be quantised: %v", err)
	}
	small, err := QuantiseHead(f, "q4_k") // rows of 16: no whole block
	if err != nil || types(small) != "BF16 F32 BF16 I64" {
		t.Errorf("rows of 16: %s, %v", types(small), err)
	}
	if _, err := QuantiseHead(f, "q5_0"); err == nil || !strings.Contains(err.Error(), "want q8_0 or q4_k") {
		t.Errorf("another type: %v", err)
	}
	if _, err := Head(weights, nil); err == nil ||
		!strings.Contains(err.Error(), "config.json") {
		t.Errorf("no config.json: %v", err)
	}
}

func TestDamagedHeads(t *testing.T) {
	replaced := func(by safetensors.Tensor) []safetensors.Tensor {
		var all []safetensors.Tensor
		for _, x := range headTensors(t) {
			if x.Name == by.Name {
				x = by
			}
			if x.Dtype != "" {
				all = append(all, x)
			}
		}
		return all
	}
	for name, c := range map[string]struct {
		text    string
		tensors []safetensors.Tensor
		want    string
	}{
		"no fc": {publishedHead, replaced(safetensors.Tensor{Name: "fc.weight"}), "tensor \"fc.weight\" is missing"},
		"fc of two taps": {publishedHead, replaced(safetensors.Tensor{Name: "fc.weight", Dtype: safetensors.F16,
			Shape: []uint64{16, 32}, Data: make([]byte, 1024)}), "want [16 48]"},
		"norm of ints": {publishedHead, replaced(safetensors.Tensor{Name: "norm.weight", Dtype: safetensors.I64,
			Shape: []uint64{16}, Data: make([]byte, 128)}), "is I64"},
		"no d2t":         {publishedHead, replaced(safetensors.Tensor{Name: draftToTarget}), "d2t is missing"},
		"short d2t":      {publishedHead, replaced(offsets(1, 2)), "want [5]"},
		"d2t past vocab": {publishedHead, replaced(offsets(1, 2, 2, 5, 8)), "draft id 4 stands for token 12"},
		"d2t negative":   {publishedHead, replaced(offsets(-1, 2, 2, 5, 7)), "draft id 0 stands for token -1"},
		"d2t overflows":  {publishedHead, replaced(offsets(1, math.MaxInt64, 2, 5, 7)), "draft id 1"},
		"d2t twice":      {publishedHead, replaced(offsets(1, 2, 1, 5, 7)), "two draft ids stand for token 3"},
		"t2d disagrees":  {publishedHead, replaced(mask(1, 3, 4, 8, 10)), "disagree on token 10"},
		"stray tensor": {publishedHead, append(headTensors(t),
			safetensors.Tensor{Name: "layers.0.q", Dtype: safetensors.F32, Shape: []uint64{0}}), "has no place"},
		"other width": {setHead("target_hidden_size", "32"), replaced(safetensors.Tensor{Name: "fc.weight",
			Dtype: safetensors.F16, Shape: []uint64{16, 96}, Data: make([]byte, 3072)}), "width 32"},
		"other ffn": {setHead("intermediate_size", "28"), headTensors(t), "want [28 16]"},
	} {
		_, err := openHead(t, c.text, c.tensors)
		if err == nil ||
			!strings.Contains(err.Error(), c.want) && !(name == "other ffn" && strings.Contains(err.Error(), "28")) ||
			!strings.Contains(err.Error(), "head.safetensors: ") || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: %v; want %q", name, err, c.want)
		}
	}
}

// FuzzHead: a head's config.json is refused in one line, or gives shapes of tensors and frequencies.
func FuzzHead(f *testing.F) {
	f.Add([]byte(publishedHead))
	for _, c := range refusedHeads {
		f.Add([]byte(c.text))
	}
	for _, fields := range [][2]string{{"rope_scaling", `{"rope_type": "llama3", "factor": 8, "low_freq_factor": ` +
		`1, "high_freq_factor": 4, "original_max_position_embeddings": 100}`},
		{"rope_scaling", `{"type": "linear", "factor": 4}`}, {"rope_scaling", `{"rope_type": "default"}`},
		{"rope_scaling", `{"rope_type": "llama3", "factor": 8, "low_freq_factor": 4, "high_freq_factor": 1}`},
		{"rope_scaling", "null"}, {"rope_theta", "500000.0"}, {"head_dim", "64"}, {"target_hidden_size", "32"},
		{"draft_vocab_size", ""}, {"num_key_value_heads", ""}, {"num_hidden_layers", ""},
		{"architectures", `["LlamaForCausalLM"]`},
		{"eagle_config", `{"eagle_aux_hidden_state_layer_ids": [1, 2, 4], "use_aux_hidden_state": true}`},
		{"eagle_config", `{"eagle_aux_hidden_state_layer_ids": [2, 1, -9223372036854775808]}`}, {"eagle_config", "7"},
		{"attention_bias", "null"},
		{"head_dim", "null"}, {"vocab_size", "\"1\\n2\""}, {"hidden_act", `"` + strings.Repeat("é", 400) + `"`}} {
		f.Add([]byte(setHead(fields[0], fields[1])))
	}
	f.Add([]byte(ofSpeculators(`, "norm_before_residual": true, "eagle_aux_hidden_state_layer_ids": [1, 2, 3]`)))
	f.Fuzz(func(t *testing.T, text []byte) {
		fuzztest.Bound(t, len(text), func() {
			s, err := readHead("config.json", text)
			var m *arch.Model
			if err == nil {
				m, err = s.describe("config.json", []tensor{placeholder("output.weight", 1)}, arch.ReadHead)
			}
			if err != nil {
				refused(t, "fuzz", err, "config.json: ")
				return
			}
			for w := range m.Tensors() {
				if slices.Min(w.Shape) < 1 {
					t.Fatalf("%s has the shape %v", w.HF, w.Shape)
				}
			}
			if a := m.Layers[0].Mix; a.Query%a.KV != 0 || s.proposed > m.Vocab ||
				len(a.Rope.Inverse) != a.Rotary/2 {
				t.Fatalf("%+v proposes %d of %d tokens", a, s.proposed, m.Vocab)
			}
			last := 1.0 // later elements turn more slowly, however they are scaled
			for i, x := range m.Layers[0].Mix.Rope.Inverse {
				if !(x >= 0 && x <= last*(1+1e-9)) {
					t.Fatalf("frequency %d is %g after %g", i, x, last)
				}
				last = x
			}
			for _, layers := range []int{5, 32} {
				taps, err := m.Features.TapsOf("config.json", layers)
				if err != nil {
					refused(t, "taps", err, "config.json: ")
				} else if len(taps) != arch.Taps || slices.Min(taps) < -1 || slices.Max(taps) >= layers {
					t.Fatalf("taps %v of %d layers", taps, layers)
				}
			}
		})
	})
}
