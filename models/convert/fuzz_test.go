package convert

import (
	"bytes"
	"encoding/binary"
	"maps"
	"slices"
	"strings"
	"testing"

	"foretoken/internal/files"
	"foretoken/models/arch"
	"foretoken/models/fuzztest"
	"foretoken/models/gguf"
	"foretoken/models/safetensors"
)

// FuzzConfig: a config.json is refused in one line, or gives a configuration whose tensors can be listed.
func FuzzConfig(f *testing.F) {
	add := func(modelType string, fields map[string]string) {
		with := map[string]string{"num_hidden_layers": "2"} // an input with fewer tensors is tried sooner
		maps.Copy(with, fields)
		f.Add(changed(f, modelType, with))
	}
	for _, c := range notUnderstood {
		add(c.modelType, c.fields)
	}
	for _, text := range notConfigs {
		f.Add([]byte(text[:min(len(text), 500)]))
	}
	for modelType := range base {
		for _, fields := range []map[string]string{
			nil,
			{"rope_scaling": `{"rope_type": "llama3", "factor": 8, "low_freq_factor": 1, "high_freq_factor": ` +
				`4, "original_max_position_embeddings": 8192}`, "head_dim": "64"},
			{"rope_scaling": `{"type": "yarn", "factor": 4, "original_max_position_embeddings": 32768, "beta_fast": ` +
				`32, "beta_slow": 1, "attention_factor": 1.138629436}`},
			{"rope_scaling": `{"type": "linear", "rope_type": "linear", "factor": 4.0}`,
				"tie_word_embeddings": "false"},
			{"rope_theta": "-", "rope_scaling": "-",
				"rope_parameters": `{"rope_type": "default", "rope_theta": 500000, "partial_rotary_factor": 1}`},
			{"rope_scaling": "-", "rope_parameters": `{"rope_type": "linear", "factor": 1e30, "rope_theta": 3}`,
				"layer_types": `["full_attention", "full_attention"]`, "eos_token_id": "[1, 2]"},
			{"use_sliding_window": "true", "max_window_layers": "1", "sliding_window": "4096"},
			{"use_sliding_window": "true", "max_window_layers": "0", "sliding_window": "4096",
				"layer_types": `["sliding_attention", "full_attention"]`},
			{"use_sliding_window": "false", "sliding_window": "null", "num_key_value_heads": "-",
				"tie_word_embeddings": "true", "model_type": "-"},
			{"head_dim": "-", "num_attention_heads": "8", "num_key_value_heads": "4", "architectures": "-",
				"attention_bias": "true", "_name_or_path": `"a/b"`, "eos_token_id": "null"},
			{"num_experts": "0", "auto_map": "{}", "logit_scale": "1.0", "embedding_multiplier": "1",
				"is_causal": "true", "eos_token_id": "[]", "bos_token_id": "-1"},
		} {
			add(modelType, fields)
		}
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		var s *hparams
		var m *arch.Model
		var err error
		fuzztest.Bound(t, len(raw), func() { s, m, err = readConfig("config.json", raw) })
		if err != nil {
			refused(t, "fuzz", err, "config.json")
			return
		}
		for _, l := range m.Layers {
			a := l.Mix
			if a.Query%a.KV != 0 || a.Dim < 2 || a.Window < 0 || a.Window >= m.Context || !(m.Eps > 0 && m.Eps < 1) {
				t.Fatalf("%+v %+v", m, a)
			}
		}
		for _, d := range s.divisors {
			values := divisorsOf(t, d)
			for i, x := range values { // those of Llama 3 never decrease
				if !(x > 0) || d.name == "rope_freqs.weight" && i > 0 && x < values[i-1]*(1-1e-5) {
					t.Errorf("%s: divisor %d is %g after %g", d.name, i, x, values[max(i-1, 0)])
				}
			}
		}
		written := s.kv
		b, err := gguf.Bytes(written, nil)
		if err != nil {
			t.Fatal(err)
		}
		file, err := gguf.Open(files.FromBytes("m.gguf", b)) // which refuses a key that is there twice
		if err != nil || len(file.Keys()) != len(written) {
			t.Errorf("%d fields are read as %v, %v", len(written), file, err)
		}
		names := map[string]bool{}
		all := slices.Collect(m.Tensors())
		for _, w := range all {
			names[w.GGUF] = true
			if slices.Contains(w.Shape, 0) || w.Heads > 0 && w.Shape[0]%(2*w.Heads) != 0 {
				t.Errorf("%+v", w)
			}
		}
		if len(names) != len(all) || names["output.weight"] == s.tied {
			t.Errorf("%d names of %d tensors, tied: %v", len(names), len(all), s.tied)
		}
	})
}

// FuzzSafetensors: a file's header is refused in one line, or gives tensors that lie in the file and
// can be read; with the index of a sharded checkpoint in front of it, too.
func FuzzSafetensors(f *testing.F) {
	add := func(header string, data int, index string) {
		raw := binary.LittleEndian.AppendUint64(nil, uint64(len(header)))
		f.Add(append(append(raw, header...), make([]byte, data)...), []byte(index))
	}
	index := `{"weight_map": {"a": "w.safetensors", "b": "w.safetensors"}}`
	add(`{"a":{"dtype":"F32","shape":[2,3],"data_offsets":[0,24]},"b":{"dtype":"BF16","shape":[2],`+
		`"data_offsets":[24,28]}}`,
		28, index)
	add(`{"__metadata__":{"format":"pt"},"a":{"dtype":"F16","shape":[],"data_offsets":[0,2]}}   `, 2,
		`{"weight_map": {"a": "../w.safetensors"}}`)
	add(`{"a":{"dtype":"F32","shape":[18446744073709551615,3],"data_offsets":[0,24]}}`, 24, `{"weight_map": {"a": 1}}`)
	add(`{"a":{"dtype":"F32","shape":[0],"data_offsets":[0,0]},"a":{"dtype":"F32","shape":[0],"data_offsets":[0,0]}}`,
		0, `{"weight_map": {}}`)
	add(`{"a":{"dtype":"I64","shape":[1],"data_offsets":[4,12]}}`, 12, `[]`)
	add(`{"a":null}`, 0, "")
	var b bytes.Buffer
	if err := safetensors.Write(&b, nil,
		safetensors.Tensor{Name: "a", Dtype: "U8", Shape: []uint64{3}, Data: make([]byte, 3)}); err != nil {
		f.Fatal(err)
	}
	f.Add(b.Bytes(), []byte(index))
	f.Fuzz(func(t *testing.T, raw, index []byte) {
		src := files.FromBytes("w.safetensors", raw)
		check := func(file *safetensors.File, err error) {
			if err != nil {
				if text := err.Error(); !strings.HasPrefix(text, "safetensors: ") || strings.Contains(text, "\n") {
					t.Errorf("%q is not one line that begins with its package", text)
				}
				return
			}
			for i := range file.Tensors {
				info := &file.Tensors[i]
				if info.Offset < 8 || info.Size < 0 || info.Offset+info.Size > int64(len(raw)) {
					t.Fatalf("%s lies at %d, %d bytes, in a file of %d", info.Name, info.Offset, info.Size, len(raw))
				}
				if err := file.Read(info, make([]byte, info.Size), 0); err != nil {
					t.Error(err)
				}
				if _, err := file.Tensor(info.Name, info.Shape...); err != nil && len(info.Shape) > 0 {
					t.Error(err)
				}
			}
		}
		fuzztest.Bound(t, 4*(len(raw)+len(index)), func() { // reading is a part of it
			check(safetensors.Open(src))
			check(safetensors.OpenSharded(files.FromBytes(indexName, index),
				func(string) (files.Source, error) { return src, nil }))
		})
	})
}
