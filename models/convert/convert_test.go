package convert

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"

	"foretoken/internal/files"
	"foretoken/models/arch"
	"foretoken/models/convert/converttest"
	"foretoken/models/gguf"
	"foretoken/models/modeltest"
	"foretoken/models/quant"
	"foretoken/models/safetensors"
)

// testModel makes a model of random weights.
func testModel(t testing.TB, name string) *gguf.File {
	t.Helper()
	return modeltest.File(t, name)
}

func parse(t testing.TB, src files.Source) *gguf.File {
	t.Helper()
	f, err := gguf.Open(src)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func checkpointOf(t testing.TB, f *gguf.File, dtype safetensors.Dtype) converttest.Files {
	t.Helper()
	files, err := converttest.Checkpoint(f, dtype)
	if err != nil {
		t.Fatal(err)
	}
	return files
}

func open(t testing.TB, sources []files.Source, o Options) files.Source {
	t.Helper()
	src, err := Open(sources, o)
	if err != nil {
		t.Fatal(err)
	}
	return src
}

func readAll(t testing.TB, src files.Source) []byte {
	t.Helper()
	b := make([]byte, src.Size())
	if n, err := src.ReadAt(b, 0); n != len(b) {
		t.Fatalf("%d of %d bytes: %v", n, len(b), err)
	}
	return b
}

func tensorBytes(t testing.TB, f *gguf.File, name string) (*gguf.TensorInfo, []byte) {
	t.Helper()
	info, err := f.Tensor(name)
	if err != nil {
		t.Fatal(err)
	}
	b := make([]byte, info.Size)
	if err := f.ReadTensor(info, b, 0); err != nil {
		t.Fatal(err)
	}
	return info, b
}

// sameTensors compares types, shapes and bytes, whatever the order.
func sameTensors(t testing.TB, got, want *gguf.File) {
	t.Helper()
	if len(got.Tensors) != len(want.Tensors) {
		t.Errorf("%d tensors, want %d", len(got.Tensors), len(want.Tensors))
	}
	for i := range want.Tensors {
		name := want.Tensors[i].Name
		w, wantBytes := tensorBytes(t, want, name)
		g, gotBytes := tensorBytes(t, got, name)
		if g.Type != w.Type || !slices.Equal(g.Dims, w.Dims) || !bytes.Equal(gotBytes, wantBytes) {
			t.Errorf("%s is %s %v, want %s %v, with the same bytes: %v", name, g.Type, g.Dims, w.Type, w.Dims,
				bytes.Equal(gotBytes, wantBytes))
		}
	}
}

// sameMetadata compares what both files have and demands the keys that matter to running a model.
func sameMetadata(t testing.TB, got, want *gguf.File) {
	t.Helper()
	arch, _ := want.String("general.architecture")
	must := []string{"general.architecture", "general.file_type", "tokenizer.ggml.model", "tokenizer.ggml.tokens",
		"tokenizer.ggml.token_type"}
	for _, key := range []string{"context_length", "embedding_length", "block_count", "feed_forward_length",
		"attention.head_count", "attention.head_count_kv",
		"attention.layer_norm_rms_epsilon", "rope.freq_base", "vocab_size", "rope.dimension_count",
		"attention.key_length", "attention.value_length"} {
		if key = arch + "." + key; want.Has(key) {
			must = append(must, key)
		}
	}
	for _, key := range must {
		if !got.Has(key) {
			t.Errorf("%s is missing", key)
		}
	}
	for _, key := range got.Keys() {
		if key == "general.name" || key == "tokenizer.ggml.scores" || !want.Has(key) {
			continue
		}
		if g, w := got.Describe(key), want.Describe(key); g != w {
			t.Errorf("%s is %s, want %s", key, g, w)
		}
		if g, err := got.Strings(key); err == nil {
			if w, err := want.Strings(key); err != nil || !slices.Equal(g, w) {
				t.Errorf("%s has other elements (%v)", key, err)
			}
		}
		if g, err := got.Int32s(key); err == nil {
			if w, err := want.Int32s(key); err != nil || !slices.Equal(g, w) {
				t.Errorf("%s has other elements (%v)", key, err)
			}
		}
	}
}

// TestCheckpointsBecomeTheirModels takes models apart and puts them together again. Numbers that
// were quantised come back to the same bits: each block's scale is found again.
func TestCheckpointsBecomeTheirModels(t *testing.T) {
	for _, c := range []struct {
		model, quantise string
		dtype           safetensors.Dtype
		shards          int
	}{
		{"tiny-f32", "", safetensors.F32, 1}, {"tiny-f16", "", safetensors.F16, 3},
		{"tiny-f16", "f16", safetensors.F32, 1},
		{"tiny-q8_0", "q8_0", safetensors.F32, 2}, {"tiny-q4_0", "q4_0", safetensors.F32, 1},
		{"qwen2-f32", "", safetensors.F32, 2}, {"qwen3-f32", "f32", safetensors.F32, 1},
		{"qwen2-q8_0", "q8_0", safetensors.F32, 1}, {"qwen3-q8_0", "Q8_0", safetensors.F32, 1},
		{"phi3-f32", "", safetensors.F32, 1}, {"smollm3-f32", "", safetensors.F32, 1},
		{"granite-f32", "", safetensors.F32, 1}, {"olmo2-f32", "", safetensors.F32, 1},
		{"ernie4_5-f32", "", safetensors.F32, 1},
	} {
		t.Run(fmt.Sprintf("%s/%s-%s", c.model, c.dtype, c.quantise), func(t *testing.T) {
			if testing.Short() && strings.HasPrefix(c.model, "qwen") {
				t.Skip("short: the small model says the same")
			}
			want := testModel(t, c.model)
			files := checkpointOf(t, want, c.dtype)
			tensors, err := converttest.Tensors(want, c.dtype)
			if err == nil {
				err = files.SetWeights(tensors, c.shards)
			}
			if err != nil {
				t.Fatal(err)
			}
			noted := ""
			src := open(t, sourcesOf(files, "hub/some-model"),
				Options{Quantise: c.quantise, Note: func(s string) { noted += s }})
			if noted != "" {
				t.Errorf("noted %q", noted)
			}
			got := parse(t, src)
			sameTensors(t, got, want)
			sameMetadata(t, got, want)
			if name, _ := got.String("general.name"); name != "some-model" {
				t.Errorf("general.name is %q", name)
			}
			if src.Name() != "hub/some-model" {
				t.Errorf("the source is called %q", src.Name())
			}
		})
	}
}

// TestBF16 stores numbers of 16 bits as they are, and vectors with 32.
func TestBF16(t *testing.T) {
	want := testModel(t, "tiny-f32")
	tensors, err := converttest.Tensors(want, safetensors.BF16)
	if err != nil {
		t.Fatal(err)
	}
	files := checkpointOf(t, want, safetensors.BF16)
	for i := range tensors { // vectors too
		if s := &tensors[i]; s.Dtype == safetensors.F32 {
			x := make([]float32, len(s.Data)/4)
			if err := quant.Dequantize(gguf.F32, s.Data, x); err != nil {
				t.Fatal(err)
			}
			s.Dtype, s.Data = safetensors.BF16, converttest.Encode(safetensors.BF16, x)
		}
	}
	if err := files.SetWeights(tensors, 1); err != nil {
		t.Fatal(err)
	}
	got := parse(t, open(t, sourcesOf(files, "m"), Options{}))
	for i := range want.Tensors {
		name := want.Tensors[i].Name
		info, b := tensorBytes(t, got, name)
		_, original := tensorBytes(t, want, name)
		x, y := make([]float32, info.Elements()), make([]float32, info.Elements())
		if err := errors.Join(quant.Dequantize(info.Type, b, x), quant.Dequantize(gguf.F32, original, y)); err != nil {
			t.Fatal(err)
		}
		for j := range y {
			y[j] = math.Float32frombits(math.Float32bits(y[j]) &^ 0xffff) // as Encode cut them
		}
		if wantType := map[bool]gguf.Type{true: gguf.F32,
			false: gguf.BF16}[len(info.Dims) == 1]; info.Type != wantType || !slices.Equal(x, y) {
			t.Errorf("%s is %s, want %s, with the same numbers: %v", name, info.Type, wantType, slices.Equal(x, y))
		}
	}
	if n, _ := got.Uint32("general.file_type"); n != 32 {
		t.Errorf("general.file_type is %d, want 32", n)
	}
}

// TestRowsThatAreNoBlocksStayWide: the feed-forward layer of this model is 172 wide.
func TestRowsThatAreNoBlocksStayWide(t *testing.T) {
	want := testModel(t, "uneven-f32")
	var notes []string
	got := parse(t, open(t, sourcesOf(checkpointOf(t, want, safetensors.F32), "m"),
		Options{Quantise: "q4_0", Note: func(s string) { notes = append(notes, s) }}))
	for i := range got.Tensors {
		info := &got.Tensors[i]
		want := gguf.Q4_0
		switch {
		case len(info.Dims) == 1:
			want = gguf.F32
		case info.Dims[0]%32 != 0:
			want = gguf.F16
		case info.Name == "token_embd.weight": // the output matrix too
			want = gguf.Q8_0
		}
		if info.Type != want {
			t.Errorf("%s is %s, want %s", info.Name, info.Type, want)
		}
	}
	if len(notes) != 1 || !strings.Contains(notes[0], "stored as f16: blk.0.ffn_down.weight") ||
		!strings.Contains(notes[0], "1 more") {
		t.Errorf("noted %q", notes)
	}
}

// TestRequantise stores a GGUF file in another type; the rest of its header stays.
func TestRequantise(t *testing.T) {
	for _, c := range []struct{ from, to, like, note string }{
		{"tiny-f32", "f16", "tiny-f16", ""},
		{"tiny-q8_0", "q8_0", "tiny-q8_0", ""},
		{"tiny-q8_0", "f32", "", ""},
		{"tiny-q8_0", "q4_0", "", "tensors were quantised before"},
		{"tiny-f16", "bf16", "", ""},
		{"llama-q4_k", "q8_0", "", "quantised before"},
	} {
		t.Run(c.from+"-"+c.to, func(t *testing.T) {
			if testing.Short() && strings.HasPrefix(c.from, "llama") {
				t.Skip("short: the small model says the same")
			}
			from := testModel(t, c.from)
			notes := ""
			got := parse(t, open(t, []files.Source{files.FromBytes(from.Name(), fileBytes(t, from))},
				Options{Quantise: c.to, Note: func(s string) { notes += s }}))
			if (notes != "") != (c.note != "") || !strings.Contains(notes, c.note) {
				t.Errorf("noted %q", notes)
			}
			if c.like != "" {
				sameTensors(t, got, testModel(t, c.like))
			}
			typ, _, err := (&Options{Quantise: c.to}).storage()
			if err != nil {
				t.Fatal(err)
			}
			if n, _ := got.Uint32("general.file_type"); n != fileTypes[typ] {
				t.Errorf("general.file_type is %d", n)
			}
			for _, key := range from.Keys() {
				if key != "general.file_type" && got.Describe(key) != from.Describe(key) {
					t.Errorf("%s is %s, was %s", key, got.Describe(key), from.Describe(key))
				}
			}
			for i := range from.Tensors { // every number is as near as the type allows
				w, wantBytes := tensorBytes(t, from, from.Tensors[i].Name)
				g, gotBytes := tensorBytes(t, got, w.Name)
				x, y, again := make([]float32, w.Elements()), make([]float32, w.Elements()), make([]byte, len(gotBytes))
				if err := errors.Join(quant.Dequantize(w.Type, wantBytes, x),
					quant.Dequantize(g.Type, gotBytes, y)); err != nil {
					t.Fatal(err)
				}
				if err := quant.Quantize(g.Type, x, again); err != nil || !bytes.Equal(again, gotBytes) {
					t.Errorf("%s: not what its numbers become (%v)", w.Name, err)
				}
				if !slices.Equal(g.Dims, w.Dims) {
					t.Errorf("%s has dimensions %v, had %v", w.Name, g.Dims, w.Dims)
				}
			}
		})
	}
	f := testModel(t, "tiny-f16")
	same := files.FromBytes("a.gguf", fileBytes(t, f))
	if got := open(t, []files.Source{same}, Options{}); got != same {
		t.Error("a file that stays as it is is not given as it is")
	}
}

// TestTypesWithoutKernels stores matrices in types that no kernel reads as Q8_0. The second scale of NVFP4 goes into
// its matrix, and the scale of another type's matrix stays.
func TestTypesWithoutKernels(t *testing.T) {
	const rows, cols = 3, 512
	const factor = "\x00\x00\x40\x3f" // 0.75
	var written []gguf.WriteTensor
	decoded := map[string][]float32{}
	random := rand.NewChaCha8([32]byte{})
	for name, typ := range map[string]gguf.Type{"a": gguf.IQ1S, "b": gguf.IQ1M, "c": gguf.NVFP4, "d": gguf.Q8_1,
		"e": gguf.NVFP4} {
		size, _ := quant.RowBytes(typ, cols*rows)
		raw, x := make([]byte, size), make([]float32, cols*rows)
		random.Read(raw)
		for i := range raw {
			raw[i] &= 0x3f // scales are finite
		}
		if err := quant.Dequantize(typ, raw, x); err != nil {
			t.Fatal(err)
		}
		decoded[name+".weight"] = x
		written = append(written, gguf.WriteTensor{Name: name + ".weight", Dims: []uint64{cols, rows}, Type: typ,
			Data: raw})
	}
	for _, name := range []string{"a.scale", "c.scale", "c.input_scale"} {
		written = append(written, gguf.WriteTensor{Name: name, Dims: []uint64{1}, Data: []byte(factor)})
	}
	for i := range decoded["c.weight"] {
		decoded["c.weight"][i] *= 0.75
	}
	file, err := gguf.Bytes(nil, written)
	if err != nil {
		t.Fatal(err)
	}
	note := ""
	got := parse(t, open(t, []files.Source{files.FromBytes("m.gguf", file)},
		Options{Quantise: "q8_0", Note: func(s string) { note += s }}))
	if !strings.Contains(note, "5 of 6 tensors were quantised before, in ") || !strings.Contains(note, "IQ1_S") {
		t.Errorf("noted %q", note)
	}
	if !got.HasTensor("a.scale") || got.HasTensor("c.scale") || got.HasTensor("c.input_scale") {
		t.Errorf("the tensors are %v", got.Tensors)
	}
	for name, x := range decoded {
		info, raw := tensorBytes(t, got, name)
		want := make([]byte, len(raw))
		if err := quant.Quantize(gguf.Q8_0, x, want); err != nil || info.Type != gguf.Q8_0 || !bytes.Equal(raw, want) {
			t.Errorf("%s: not what its numbers become (%v)", name, err)
		}
	}
	for _, bad := range [][]byte{{0, 0, 0, 0}, {0, 0, 0xc0, 0x7f}} {
		file := bytes.ReplaceAll(file, []byte(factor), bad)
		if _, err := Open([]files.Source{files.FromBytes("m.gguf", file)}, Options{Quantise: "f32"}); err == nil ||
			!strings.Contains(err.Error(), `tensor "c.scale" is`) {
			t.Errorf("a scale of % x: %v", bad, err)
		}
	}
}

func fileBytes(t testing.TB, f *gguf.File) []byte {
	t.Helper()
	b, err := converttest.Rewrite(f, f.Metadata(), 0, len(f.Tensors))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// tensorsOf lists the tensors of the checkpoint with a config.json.
func tensorsOf(t testing.TB, config string) (all []arch.Tensor) {
	t.Helper()
	_, m, err := readConfig("config.json", []byte(config))
	if err != nil {
		t.Fatal(err)
	}
	for w := range m.Tensors() {
		if w.Kind != arch.Header {
			all = append(all, w)
		}
	}
	return all
}

// small makes a model of one layer whose heads, rows and alignment hit the corners.
func small(t testing.TB, dtype safetensors.Dtype) []files.Source {
	t.Helper()
	r := rand.New(rand.NewPCG(3, 4))
	config := `{"model_type": "llama", "architectures": ["LlamaForCausalLM"],
		"hidden_size": 96, "num_hidden_layers": 2, "intermediate_size": 160, "num_attention_heads": 6,
		"num_key_value_heads": 3, "head_dim": 24, "vocab_size": 37,
		"max_position_embeddings": 64, "rms_norm_eps": 1e-5, "hidden_act": "silu"}`
	var all []safetensors.Tensor
	for _, w := range tensorsOf(t, config) {
		n, shape := 1, []uint64{}
		for _, d := range w.Shape {
			n *= d
			shape = append(shape, uint64(d))
		}
		x := make([]float32, n)
		for i := range x {
			x[i] = float32(r.NormFloat64())
		}
		all = append(all,
			safetensors.Tensor{Name: w.HF, Dtype: dtype, Shape: shape, Data: converttest.Encode(dtype, x)})
	}
	var b bytes.Buffer
	if err := safetensors.Write(&b, nil, all...); err != nil {
		t.Fatal(err)
	}
	return []files.Source{files.FromBytes("m/model.safetensors", b.Bytes()),
		files.FromBytes("m/config.json", []byte(config)),
		files.FromBytes("m/tokenizer.json", []byte(tinyTokenizer))}
}

// tinyTokenizer is a tokenizer of three tokens.
const tinyTokenizer = `{"version": "1.0", "added_tokens": [], "normalizer": null,
	"pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": true},
	"decoder": {"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": true},
	"model": {"type": "BPE", "dropout": null, "unk_token": null, "continuing_subword_prefix": "",
	"end_of_word_suffix": "", "fuse_unk": false, "byte_fallback": false,
		"vocab": {"a": 0, "b": 1, "ab": 2}, "merges": ["a b"]}}`

// TestAnyRange reads ranges of every kind of virtual file from several goroutines and compares them with a complete
// read.
func TestAnyRange(t *testing.T) {
	f := testModel(t, "tiny-f32")
	parts, err := converttest.Parts(f, "m", 3, false)
	if err != nil {
		t.Fatal(err)
	}
	reads := 150
	if testing.Short() {
		reads = 30
	}
	for name, sources := range map[string][]files.Source{"f16": small(t, safetensors.F16),
		"bf16": small(t, safetensors.BF16), "f32": small(t, safetensors.F32), "parts": sourcesOf(parts, "m")} {
		for _, to := range append([]string{""}, Types()...) {
			t.Run(name+"-"+to, func(t *testing.T) {
				src := open(t, sources, Options{Quantise: to})
				whole := readAll(t, src)
				var wait sync.WaitGroup
				for g := range 4 {
					wait.Go(func() {
						r := rand.New(rand.NewPCG(5, uint64(g)))
						for range reads {
							off := r.Int64N(src.Size())
							n := r.Int64N(1 + min(src.Size()-off, []int64{3, 40, 700, 1 << 20}[r.IntN(4)]))
							p := bytes.Repeat([]byte{0xa5}, int(n)+4)
							if got, err := src.ReadAt(p[:n], off); got != int(n) || err != nil || !bytes.Equal(p[:n],
								whole[off:off+n]) || !bytes.Equal(p[n:], []byte{0xa5, 0xa5, 0xa5, 0xa5}) {
								t.Errorf("%d bytes at %d of %d: %d, %v, or other bytes", n, off, src.Size(), got, err)
								return
							}
						}
					})
				}
				wait.Wait()
				end := make([]byte, 10)
				if n, err := src.ReadAt(end, src.Size()-4); n != 4 || err != io.EOF ||
					!bytes.Equal(end[:4], whole[len(whole)-4:]) {
					t.Errorf("beyond the end: %d, %v", n, err)
				}
				if n, err := src.ReadAt(end, src.Size()+9); n != 0 || err != io.EOF {
					t.Errorf("after the end: %d, %v", n, err)
				}
				if _, err := src.ReadAt(end, -1); err == nil {
					t.Error("a negative offset is read")
				}
			})
		}
	}
}

// endless is a file of numbers that need no memory, with a header before them.
type endless struct {
	name string
	head []byte
	size int64
}

func (e *endless) Name() string { return e.name }
func (e *endless) Size() int64  { return e.size }
func (e *endless) ReadAt(p []byte, off int64) (int, error) {
	n := 0
	if off < int64(len(e.head)) {
		n = copy(p, e.head[off:])
	}
	for i := range p[n:] {
		p[n+i] = byte(off+int64(n+i)) & 0x3f // halves below 2
	}
	return len(p), nil
}

// TestMemoryIsBounded reads a checkpoint of 5 GB in places, and asks for much of it at once.
func TestMemoryIsBounded(t *testing.T) {
	small := small(t, safetensors.F16)
	text := `{"model_type": "llama", "hidden_size": 8192, "num_hidden_layers": 3, "intermediate_size": 32768,
		"num_attention_heads": 64, "num_key_value_heads": 8, "vocab_size": 32000, "max_position_embeddings": 64,
		"rms_norm_eps": 1e-5, "hidden_act": "silu"}`
	var b strings.Builder
	at := 0
	for _, w := range tensorsOf(t, text) {
		n := 2
		for _, d := range w.Shape {
			n *= d
		}
		fmt.Fprintf(&b, `%s"%s":{"dtype":"F16","shape":%s,"data_offsets":[%d,%d]}`, map[bool]string{true: "{",
			false: ","}[at == 0], w.HF, strings.ReplaceAll(fmt.Sprint(w.Shape), " ", ","), at, at+n)
		at += n
	}
	b.WriteByte('}')
	head := append([]byte{byte(b.Len()), byte(b.Len() >> 8), 0, 0, 0, 0, 0, 0}, b.String()...)
	weights := &endless{"m/model.safetensors", head, int64(len(head)) + int64(at)}
	config := files.FromBytes("m/config.json", []byte(text))
	if weights.size < 5e9 {
		t.Fatalf("the checkpoint is of %d bytes only", weights.size)
	}
	allocated := func() uint64 {
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.TotalAlloc
	}
	before := allocated()
	src := open(t, []files.Source{weights, config, small[2]}, Options{Quantise: "q8_0"})
	if n := allocated() - before; n > 16<<20 {
		t.Errorf("opening takes %d MiB", n>>20)
	}
	f := parse(t, src)
	const most = 3 << 20
	p := make([]byte, 6<<20)
	for _, name := range []string{"blk.1.attn_q.weight", "blk.0.ffn_down.weight", "token_embd.weight"} {
		info, err := f.Tensor(name)
		if err != nil {
			t.Fatal(err)
		}
		for _, n := range []int{len(p), 1 << 20, 1} {
			before := allocated()
			if _, err := src.ReadAt(p[:n], info.Offset+1000); err != nil {
				t.Fatal(err)
			}
			if took := allocated() - before; took > most {
				t.Errorf("%s: reading %d bytes takes %d MiB beside them", name, n, took>>20)
			}
		}
	}
}

func TestErrorsOfInputsNameTheTensor(t *testing.T) {
	sources := small(t, safetensors.F32)
	b := readAll(t, sources[0])
	for i := range 4 { // the last number of the last tensor becomes NaN
		b[len(b)-1-i] = 0xff
	}
	src := open(t, []files.Source{files.FromBytes("m/model.safetensors", b), sources[1], sources[2]},
		Options{Quantise: "q8_0"})
	if _, err := src.ReadAt(make([]byte, src.Size()), 0); err == nil || !strings.HasPrefix(err.Error(), "convert: ") ||
		!strings.Contains(err.Error(), `"output.weight"`) ||
		!strings.Contains(err.Error(), "NaN") {
		t.Errorf("a weight that is no number: %v", err)
	}
	short := &endless{"m/model.safetensors", readAll(t, sources[0]), sources[0].Size()}
	src = open(t, []files.Source{broken{short}, sources[1], sources[2]}, Options{Quantise: "q8_0"})
	if n, err := src.ReadAt(make([]byte, src.Size()), 0); err == nil || int64(n) == src.Size() ||
		!strings.Contains(err.Error(), "the disk is gone") ||
		!strings.Contains(err.Error(), "tensor") {
		t.Errorf("a source that fails: %d, %v", n, err)
	}
}

// broken fails in its second half.
type broken struct{ *endless }

func (b broken) ReadAt(p []byte, off int64) (int, error) {
	if off+int64(len(p)) > b.size/2 && off > 0 {
		return 0, errors.New("the disk is gone")
	}
	return b.endless.ReadAt(p, off)
}
