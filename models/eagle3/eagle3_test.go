package eagle3

import (
	"bytes"
	"encoding/binary"
	"math"
	"slices"
	"strings"
	"testing"

	"foretoken/internal/files"
	"foretoken/models/fuzztest"
	"foretoken/models/safetensors"
)

// published is a config.json as the authors publish it, of a small head.
const published = `{
  "architectures": ["LlamaForCausalLMEagle3"], "bos_token_id": 1, "eos_token_id": 2, "hidden_act": "silu",
  "hidden_size": 16, "initializer_range": 0.02, "intermediate_size": 24, "max_position_embeddings": 2048,
  "model_type": "llama", "num_attention_heads": 2, "num_key_value_heads": 1, "num_hidden_layers": 1,
  "pad_token_id": 0, "rms_norm_eps": 1e-05, "tie_word_embeddings": false, "torch_dtype": "float16",
  "transformers_version": "4.46.2", "use_cache": true, "vocab_size": 12, "draft_vocab_size": 5
}`

func config(text string) files.Source { return files.FromBytes("config.json", []byte(text)) }

// set is published with one field changed, or with "" for value, without it.
func set(field, value string) string {
	if at := strings.Index(published, `"`+field+`"`); at >= 0 {
		end := at + strings.Index(published[at:], ": ")
		rest := published[end+2:]
		stop := strings.IndexAny(rest, ",\n}")
		if rest[0] == '[' {
			stop = strings.Index(rest, "]") + 1
		}
		if value == "" {
			return published[:at] + `"unused": 0` + rest[stop:]
		}
		return published[:end+2] + value + rest[stop:]
	}
	return strings.Replace(published, "{", `{"`+field+`": `+value+",", 1)
}

func TestPublishedConfig(t *testing.T) {
	c, err := ReadConfig(config(published))
	if err != nil {
		t.Fatal(err)
	}
	if c.Hidden != 16 || c.TargetHidden != 16 || c.FFN != 24 || c.Heads != 2 || c.KV != 1 || c.HeadDim != 8 ||
		c.Vocab != 12 || c.DraftVocab != 5 || c.Eps != 1e-5 {
		t.Errorf("read %+v", c)
	}
	if got, want := c.Rope.Inverse, []float64{1, 0.1, 0.01, 0.001}; len(got) != 4 ||
		math.Abs(got[3]-want[3]) > 1e-12 || math.Abs(got[1]-want[1]) > 1e-12 {
		t.Errorf("inverse frequencies %v, want %v", got, want)
	}
	if taps, err := c.TapsOf(32); err != nil || !slices.Equal(taps, []int{1, 15, 28}) {
		t.Errorf("taps of 32 layers: %v, %v; the authors' code reads the inputs of layers 2, 16 and 29", taps, err)
	}
	if _, err := c.TapsOf(6); err == nil {
		t.Error("taps of 6 layers are not three different ones")
	}
}

func TestConfigFields(t *testing.T) {
	c, err := ReadConfig(
		config(set("eagle_config", `{"eagle_aux_hidden_state_layer_ids": [1, 2, 4], "use_aux_hidden_state": true}`)))
	if err != nil {
		t.Fatal(err)
	}
	if taps, err := c.TapsOf(5); err != nil || !slices.Equal(taps, []int{1, 2, 4}) {
		t.Errorf("taps %v, %v", taps, err)
	}
	if c, err = ReadConfig(config(set("rope_scaling", `{"rope_type": "linear", "factor": 4}`))); err != nil ||
		c.Rope.Inverse[0] != 0.25 {
		t.Errorf("linear scaling: %v, %v", c, err)
	}
	if c, err = ReadConfig(config(set("rope_scaling", "null"))); err != nil || c.Rope.Inverse[0] != 1 {
		t.Errorf("no scaling: %v, %v", c, err)
	}
	// Llama 3.1's rule over a context of 100: a wavelength of 2π is within, one of 2π·1000 past it, and
	// those of 2π·10 (1.59 turns) between one and four turns.
	c, err = ReadConfig(config(set("rope_scaling", `{"rope_type": "llama3", "factor": 8, "low_freq_factor": `+
		`1, "high_freq_factor": 4, "original_max_position_embeddings": 100}`)))
	if err != nil {
		t.Fatal(err)
	}
	keep := (100/(2*math.Pi*10) - 1) / 3
	for i, want := range []float64{1, 0.1 * (keep + (1-keep)/8), 0.01 / 8, 0.001 / 8} {
		if math.Abs(c.Rope.Inverse[i]-want) > 1e-12 {
			t.Errorf("llama3 scaling: frequency %d is %g, want %g", i, c.Rope.Inverse[i], want)
		}
	}
}

// refused holds configurations that are refused and the words of the refusal.
var refused = map[string]struct{ text, want string }{
	"empty":              {"", "0 bytes"},
	"not json":           {"hello", "JSON"},
	"a list":             {"[]", "JSON"},
	"architecture":       {set("architectures", `["LlamaForCausalLMEagle"]`), "architectures"},
	"no architecture":    {set("architectures", ""), "architectures"},
	"layers":             {set("num_hidden_layers", "2"), "num_hidden_layers is 2"},
	"activation":         {set("hidden_act", `"gelu"`), `hidden_act is "gelu"`},
	"bias":               {set("attention_bias", "true"), "attention_bias"},
	"window":             {set("layer_types", `["sliding_attention"]`), `layer_types is ["sliding_attention"]`},
	"residual":           {set("norm_before_residual", "true"), "norm_before_residual is true: the field is not known"},
	"no size":            {set("hidden_size", ""), "hidden_size is missing"},
	"negative size":      {set("hidden_size", "-4"), "hidden_size is -4"},
	"huge size":          {set("hidden_size", "1e300"), "hidden_size is 1e+300"},
	"half a head":        {set("num_attention_heads", "1.5"), "num_attention_heads is 1.5"},
	"groups":             {set("num_key_value_heads", "3"), "not a multiple of num_key_value_heads, 3"},
	"head size":          {set("head_dim", "12"), "head_dim is 12"},
	"odd width":          {set("intermediate_size", "22"), "multiples of 4"},
	"no epsilon":         {set("rms_norm_eps", ""), "rms_norm_eps"},
	"draft vocabulary":   {set("draft_vocab_size", "13"), "more than vocab_size"},
	"theta":              {set("rope_theta", "0"), "rope_theta"},
	"scaling":            {set("rope_scaling", `{"rope_type": "yarn", "factor": 4}`), `"yarn"`},
	"scaling factor":     {set("rope_scaling", `{"rope_type": "linear"}`), "factor is 0"},
	"scaling is text":    {set("rope_scaling", `"linear"`), "rope_scaling"},
	"four taps":          {set("eagle_config", `{"eagle_aux_hidden_state_layer_ids": [0, 1, 2, 3]}`), "names 4 layers"},
	"no features":        {set("eagle_config", `{"use_aux_hidden_state": false}`), "use_aux_hidden_state"},
	"string for a field": {set("vocab_size", `"12"`), "JSON"},
}

func TestConfigRefusals(t *testing.T) {
	for name, c := range refused {
		if _, err := ReadConfig(config(c.text)); err == nil || !strings.Contains(err.Error(), c.want) ||
			!strings.HasPrefix(err.Error(), "eagle3: config.json: ") || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: %v; want %q", name, err, c.want)
		}
	}
	for _, taps := range []string{"[1, 1, 2]", "[2, 1, 3]", "[0, 1, 5]", "[-1, 1, 2]"} {
		c, err := ReadConfig(config(set("eagle_config", `{"eagle_aux_hidden_state_layer_ids": `+taps+`}`)))
		if err == nil {
			_, err = c.TapsOf(5)
		}
		if err == nil || !strings.Contains(err.Error(), "eagle_aux_hidden_state_layer_ids") {
			t.Errorf("taps %s: %v", taps, err)
		}
	}
}

// tensors returns a complete head of zeros, with the draft ids for tokens 1, 3, 4, 8 and 11.
func tensors(t *testing.T) []safetensors.Tensor {
	t.Helper()
	c, err := ReadConfig(config(published))
	if err != nil {
		t.Fatal(err)
	}
	var all []safetensors.Tensor
	for name, shape := range c.Shapes() {
		n := uint64(2)
		for _, d := range shape {
			n *= d
		}
		if name != Embedding {
			all = append(all,
				safetensors.Tensor{Name: name, Dtype: safetensors.F16, Shape: shape, Data: make([]byte, n)})
		}
	}
	return append(all, offsets(1, 2, 2, 5, 7), mask(1, 3, 4, 8, 11))
}

func offsets(o ...int64) safetensors.Tensor {
	var data []byte
	for _, v := range o {
		data = binary.LittleEndian.AppendUint64(data, uint64(v))
	}
	return safetensors.Tensor{Name: DraftToTarget, Dtype: safetensors.I64, Shape: []uint64{uint64(len(o))}, Data: data}
}

func mask(ids ...int) safetensors.Tensor {
	m := safetensors.Tensor{Name: TargetToDraft, Dtype: safetensors.Bool, Shape: []uint64{12}, Data: make([]byte, 12)}
	for _, id := range ids {
		m.Data[id] = 1
	}
	return m
}

func open(t *testing.T, text string, all []safetensors.Tensor) (*Weights, error) {
	t.Helper()
	var b bytes.Buffer
	if err := safetensors.Write(&b, nil, all...); err != nil {
		t.Fatal(err)
	}
	return Open(files.FromBytes("head.safetensors", b.Bytes()), config(text))
}

func TestOpen(t *testing.T) {
	w, err := open(t, published, tensors(t))
	if err != nil {
		t.Fatal(err)
	}
	if want := []int32{1, 3, 4, 8, 11}; !slices.Equal(w.Targets, want) || w.Embedding {
		t.Errorf("tokens %v, want %v; an embedding of its own: %v", w.Targets, want, w.Embedding)
	}
}

func TestOpenRefusals(t *testing.T) {
	replaced := func(by safetensors.Tensor) []safetensors.Tensor {
		var all []safetensors.Tensor
		for _, x := range tensors(t) {
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
		"no fc": {published, replaced(safetensors.Tensor{Name: FC}), "tensor \"fc.weight\" is missing"},
		"fc of two taps": {published, replaced(safetensors.Tensor{Name: FC, Dtype: safetensors.F16,
			Shape: []uint64{16, 32}, Data: make([]byte, 1024)}), "want [16 48]"},
		"norm of ints": {published, replaced(safetensors.Tensor{Name: OutNorm, Dtype: safetensors.I64,
			Shape: []uint64{16}, Data: make([]byte, 128)}), "is I64"},
		"no d2t":         {published, replaced(safetensors.Tensor{Name: DraftToTarget}), "d2t is missing"},
		"short d2t":      {published, replaced(offsets(1, 2)), "want [5]"},
		"d2t past vocab": {published, replaced(offsets(1, 2, 2, 5, 8)), "draft id 4 has the offset 8"},
		"d2t negative":   {published, replaced(offsets(-1, 2, 2, 5, 7)), "draft id 0 has the offset -1"},
		"d2t overflows":  {published, replaced(offsets(1, math.MaxInt64, 2, 5, 7)), "draft id 1"},
		"d2t twice":      {published, replaced(offsets(1, 2, 1, 5, 7)), "two draft ids stand for token 3"},
		"t2d disagrees":  {published, replaced(mask(1, 3, 4, 8, 10)), "disagree on token 10"},
		"stray tensor": {published, append(tensors(t),
			safetensors.Tensor{Name: "layers.0.q", Dtype: safetensors.F32, Shape: []uint64{0}}), "has no place"},
		"other width": {set("target_hidden_size", "32"), replaced(safetensors.Tensor{Name: FC,
			Dtype: safetensors.F16, Shape: []uint64{16, 96}, Data: make([]byte, 3072)}), "width 32"},
		"other ffn": {set("intermediate_size", "28"), tensors(t), "want [28 16]"},
	} {
		_, err := open(t, c.text, c.tensors)
		if err == nil ||
			!strings.Contains(err.Error(), c.want) && !(name == "other ffn" && strings.Contains(err.Error(), "28")) ||
			!strings.Contains(err.Error(), "head.safetensors: ") || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: %v; want %q", name, err, c.want)
		}
	}
}

// FuzzConfig: a head's config.json is refused in one line, or gives shapes of tensors and frequencies.
func FuzzConfig(f *testing.F) {
	f.Add([]byte(published))
	for _, c := range refused {
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
		f.Add([]byte(set(fields[0], fields[1])))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		fuzztest.Bound(t, len(text), func() {
			c, err := ReadConfig(files.FromBytes("config.json", text))
			if err != nil {
				fuzztest.Refusal(t, err, "eagle3: config.json: ")
				return
			}
			for name, shape := range c.Shapes() {
				for _, n := range shape {
					if n < 1 {
						t.Fatalf("%s has the shape %v", name, shape)
					}
				}
			}
			if c.Heads%c.KV != 0 || c.DraftVocab > c.Vocab || len(c.Rope.Inverse) != c.HeadDim/2 {
				t.Fatalf("%+v", c)
			}
			last := 1.0 // later elements turn more slowly, however they are scaled
			for i, x := range c.Rope.Inverse {
				if !(x >= 0 && x <= last*(1+1e-9)) {
					t.Fatalf("frequency %d is %g after %g", i, x, last)
				}
				last = x
			}
			for _, layers := range []int{5, 32} {
				taps, err := c.TapsOf(layers)
				if err != nil {
					fuzztest.Refusal(t, err, "eagle3: config.json: ")
				} else if len(taps) != Taps || !slices.IsSorted(taps) || taps[0] < 0 || taps[Taps-1] >= layers {
					t.Fatalf("taps %v of %d layers", taps, layers)
				}
			}
		})
	})
}
