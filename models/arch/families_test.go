package arch

import (
	"encoding/binary"
	"maps"
	"math"
	"slices"
	"strings"
	"testing"

	"foretoken/internal/files"
	"foretoken/models/gguf"
)

// small returns a file of 4 layers and 2 heads of 16 elements with further fields and vectors of 8 equal elements.
func small(t *testing.T, architecture string, fields map[string]any, vectors map[string]float32) *gguf.File {
	t.Helper()
	all := map[string]any{"context_length": uint32(8192), "embedding_length": uint32(32), "block_count": uint32(4),
		"feed_forward_length": uint32(48), "attention.head_count": uint32(2),
		"attention.layer_norm_rms_epsilon": float32(1e-5)}
	maps.Copy(all, fields)
	kv := []gguf.KV{{Key: "general.architecture", Value: architecture}}
	for key, value := range all {
		kv = append(kv, gguf.KV{Key: architecture + "." + key, Value: value})
	}
	tensors := []gguf.WriteTensor{{Name: "token_embd.weight", Dims: []uint64{32, 8}, Data: make([]byte, 4*32*8)}}
	for name, x := range vectors {
		var data []byte
		for range 8 {
			data = binary.LittleEndian.AppendUint32(data, math.Float32bits(x))
		}
		tensors = append(tensors, gguf.WriteTensor{Name: name, Dims: []uint64{8}, Data: data})
	}
	raw, err := gguf.Bytes(kv, tensors)
	if err != nil {
		t.Fatal(err)
	}
	f, err := gguf.Open(files.FromBytes("small.gguf", raw))
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func mustRead(t *testing.T, f *gguf.File, context int) *Model {
	t.Helper()
	m, err := Read(f, context)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func listed(m *Model) map[string]bool {
	names := map[string]bool{}
	for w := range m.Tensors() {
		names[w.GGUF] = true
	}
	return names
}

func windowsOf(m *Model) (all []int) {
	for _, l := range m.Layers {
		all = append(all, l.Mix.Window)
	}
	return all
}

// TestLongRope: the allocated context chooses the divisors, and a file that also has another scaling has a tensor that
// is not listed, which loading refuses.
func TestLongRope(t *testing.T) {
	both := map[string]float32{ropeShort: 2, ropeLong: 4}
	with := func(more map[string]any) map[string]any {
		all := map[string]any{"rope.scaling.original_context_length": uint32(4096),
			"rope.scaling.attn_factor": float32(1.25)}
		maps.Copy(all, more)
		return all
	}
	for _, fields := range []map[string]any{with(nil), with(map[string]any{"rope.scaling.type": "longrope"}),
		with(map[string]any{"rope.scaling.type": "none"})} {
		f := small(t, "phi3", fields, both)
		for context, divisor := range map[int]float64{0: 2, 4095: 2, 4096: 2, 4097: 4, 8192: 4} {
			m := mustRead(t, f, context)
			if r := m.Layers[0].Mix.Rope; r.Inverse[0] != 1/divisor || r.Magnitude != 1.25 {
				t.Errorf("%v, context %d: %+v; want the divisor %g", fields, context, r, divisor)
			}
			if names := listed(m); !names[ropeShort] || !names[ropeLong] || names[ropeFreqs] {
				t.Errorf("the tensors of LongRoPE are %v", names)
			}
		}
	}
	for _, fields := range []map[string]any{{"rope.scaling.type": "linear", "rope.scaling.factor": float32(2)},
		{"rope.scaling.type": "yarn", "rope.scaling.factor": float32(2)}, {"rope.scaling.factor": float32(2)}} {
		if names := listed(mustRead(t, small(t, "phi3", fields, both), 0)); names[ropeShort] || names[ropeLong] {
			t.Errorf("%v: divisors of LongRoPE are listed", fields)
		}
	}
	alone := small(t, "phi3", with(nil), map[string]float32{ropeShort: 2})
	if r := mustRead(t, alone, 4096).Layers[0].Mix.Rope; r.Inverse[0] != 0.5 {
		t.Errorf("short divisors alone: %+v", r)
	}
	if _, err := Read(alone, 4097); err == nil || !strings.Contains(err.Error(), ropeLong) {
		t.Errorf("a long context without its divisors: %v", err)
	}
}

// TestOLMo3: three layers of four have a window and rotate without YaRN, also where the window exceeds the context.
func TestOLMo3(t *testing.T) {
	for window, want := range map[int][]int{0: {0, 0, 0, 0}, 4096: {4096, 4096, 4096, 0}, 8192: {0, 0, 0, 0}} {
		fields := map[string]any{"rope.scaling.type": "yarn", "rope.scaling.factor": float32(8),
			"rope.scaling.original_context_length": uint32(1024), "rope.scaling.yarn_attn_factor": float32(1.2079)}
		if window > 0 {
			fields["attention.sliding_window"] = uint32(window)
		}
		m := mustRead(t, small(t, "olmo2", fields, nil), 0)
		if got := windowsOf(m); !slices.Equal(got, want) {
			t.Errorf("windows of %d: %v, want %v", window, got, want)
		}
		own := 1 + 0.1*math.Log(8)
		for i, l := range m.Layers {
			magnitude := 1.0
			if window == 0 || i == 3 {
				magnitude = own
			}
			if got := l.Mix.Rope.Magnitude; math.Abs(got-magnitude) > 1e-6 {
				t.Errorf("window %d, layer %d: magnitude %g, want %g", window, i, got, magnitude)
			}
		}
	}
}

// TestListedWindows: where a file says which layers have a window, these have it.
func TestListedWindows(t *testing.T) {
	m := mustRead(t, small(t, "olmo2", map[string]any{"attention.sliding_window": uint32(64),
		"attention.sliding_window_pattern": []bool{true, false, false, true}}, nil), 0)
	if got, want := windowsOf(m), []int{64, 0, 0, 64}; !slices.Equal(got, want) {
		t.Errorf("windows %v, want %v", got, want)
	}
}

// TestEXAONE4: the model with windows rotates in their layers alone, other sizes in all. Its file must state them.
func TestEXAONE4(t *testing.T) {
	m := mustRead(t, small(t, "exaone4", map[string]any{"attention.sliding_window": uint32(4096)}, nil), 0)
	if got, want := windowsOf(m), []int{4096, 4096, 4096, 0}; !slices.Equal(got, want) {
		t.Errorf("windows %v, want %v", got, want)
	}
	for i, l := range m.Layers {
		if (l.Mix.Rope != nil) != (i < 3) {
			t.Errorf("layer %d: rotation %v", i, l.Mix.Rope)
		}
	}
	if m := mustRead(t, small(t, "exaone4", nil, nil), 0); m.Layers[3].Mix.Rope == nil || m.Layers[0].Mix.Window != 0 {
		t.Errorf("without windows: %+v", m.Layers[3].Mix)
	}
	_, err := Read(small(t, "exaone4", map[string]any{"block_count": uint32(64)}, nil), 0)
	if err == nil || !strings.Contains(err.Error(), "exaone4.attention.sliding_window is missing") {
		t.Errorf("64 layers without windows: %v", err)
	}
}

// TestHunyuan: a norm that follows the rotation takes YaRN's magnitude out.
func TestHunyuan(t *testing.T) {
	m := mustRead(t, small(t, "hunyuan-dense", map[string]any{"rope.scaling.type": "yarn",
		"rope.scaling.factor": float32(8), "rope.scaling.original_context_length": uint32(1024)}, nil), 0)
	if a := m.Layers[1].Mix; !a.NormLate || a.QKNorm != Head || a.Rope.Magnitude != 1 {
		t.Errorf("%+v, magnitude %g", a, a.Rope.Magnitude)
	}
}

// TestSections: the sections of a head cover its pairs, or the file is refused.
func TestSections(t *testing.T) {
	for _, architecture := range []string{"qwen2vl", "qwen3vl"} {
		for _, c := range []struct {
			sizes []int32
			taken bool
		}{{[]int32{2, 3, 3, 0}, true}, {[]int32{2, 3, 3}, true}, {[]int32{2, 2, 2, 2}, false},
			{[]int32{4, 3, 3}, false}, {[]int32{-1, 4, 5}, false}, {nil, false}} {
			fields := map[string]any{}
			if c.sizes != nil {
				fields["rope.dimension_sections"] = c.sizes
			}
			_, err := Read(small(t, architecture, fields, nil), 0)
			if (err == nil) != c.taken || err != nil && !strings.Contains(err.Error(), "rope.dimension_sections") {
				t.Errorf("%s, %v: %v", architecture, c.sizes, err)
			}
		}
	}
}

// TestMiniCPMFields: files without multipliers mean those of MiniCPM-2B, whose logits are those of 256 dimensions.
func TestMiniCPMFields(t *testing.T) {
	m := mustRead(t, small(t, "minicpm", nil, nil), 0)
	if m.Embed != 12 || m.Residual != 0.7 || m.Logit != 8 {
		t.Errorf("multipliers %g, %g and %g", m.Embed, m.Residual, m.Logit)
	}
	m = mustRead(t, small(t, "minicpm", map[string]any{"embedding_scale": float32(2), "residual_scale": float32(0.5),
		"logit_scale": float32(4)}, nil), 0)
	if m.Embed != 2 || m.Residual != 0.5 || m.Logit != 0.25 {
		t.Errorf("multipliers %g, %g and %g", m.Embed, m.Residual, m.Logit)
	}
}

// TestGraniteFields: finetuned false takes the rotation out, 0 leaves a multiplier unset, and the fields that files of
// dense models have of experts and state spaces have no effect.
func TestGraniteFields(t *testing.T) {
	m := mustRead(t, small(t, "granite", map[string]any{"rope.scaling.finetuned": false,
		"embedding_scale": float32(0), "residual_scale": float32(0), "logit_scale": float32(8),
		"expert_count": uint32(0), "expert_shared_feed_forward_length": uint32(64), "ssm.conv_kernel": uint32(4),
		"ssm.inner_size": uint32(64), "ssm.state_size": uint32(128), "ssm.time_step_rank": uint32(4),
		"ssm.group_count": uint32(1), "attention.head_count_kv": []int32{1, 1, 1, 1}}, nil), 0)
	if m.Layers[0].Mix.Rope != nil || m.Layers[0].Mix.Rotary != 0 || m.Embed != 1 || m.Residual != 1 ||
		m.Logit != 0.125 || m.Layers[3].Mix.KV != 1 {
		t.Errorf("%+v %+v", m, m.Layers[0].Mix)
	}
	m = mustRead(t, small(t, "granite", map[string]any{"rope.scaling.finetuned": true}, nil), 0)
	if m.Layers[0].Mix.Rope == nil {
		t.Error("finetuned true takes the rotation out")
	}
}

func TestWindowPatterns(t *testing.T) {
	for every, want := range map[uint32][]int{0: {7, 7, 7, 7}, 1: {0, 0, 0, 0}, 3: {7, 7, 0, 7}} {
		m := mustRead(t, small(t, "llama", map[string]any{"attention.sliding_window": uint32(7),
			"attention.sliding_window_pattern": every}, nil), 0)
		if got := windowsOf(m); !slices.Equal(got, want) {
			t.Errorf("a pattern of %d: %v, want %v", every, got, want)
		}
	}
}

// TestFusedProjections: any architecture may have one tensor of queries, keys and values.
func TestFusedProjections(t *testing.T) {
	m := mustRead(t, small(t, "llama", nil,
		map[string]float32{"blk.0.attn_qkv.weight": 0, "blk.0.attn_qkv.bias": 0}), 0)
	if names := listed(m); !names["blk.3.attn_qkv.weight"] || !names["blk.3.attn_qkv.bias"] ||
		names["blk.3.attn_q.weight"] || names["blk.3.attn_q.bias"] {
		t.Errorf("the tensors are %v", names)
	}
}

// TestResidualOfNorms: the graph applies no residual multiplier after a norm of outputs.
func TestResidualOfNorms(t *testing.T) {
	_, err := read(small(t, "both", nil, nil), 0, map[string]func(*fields) *Model{"both": func(r *fields) *Model {
		m := r.decoder()
		m.Residual, m.Layers[1].Norms = 0.5, Norms{After: true}
		return m
	}})
	if err == nil || !strings.Contains(err.Error(), "residual multiplier with norms") {
		t.Errorf("a multiplier of normalised outputs: %v", err)
	}
}

// TestRotatedWeights: every key of the rotation refuses the file, also one that is not known here.
func TestRotatedWeights(t *testing.T) {
	for _, key := range []string{"version", "of_2027"} {
		raw, err := gguf.Bytes([]gguf.KV{{Key: "general.architecture", Value: "qwen35"},
			{Key: "prism.hadamard." + key, Value: uint32(1)}}, nil)
		if err != nil {
			t.Fatal(err)
		}
		f, err := gguf.Open(files.FromBytes("bonsai.gguf", raw))
		if err != nil {
			t.Fatal(err)
		}
		if _, err = Read(f, 0); err == nil || !strings.Contains(err.Error(), "rotated (\"prism.hadamard."+key) {
			t.Errorf("%s: %v", key, err)
		}
	}
}
