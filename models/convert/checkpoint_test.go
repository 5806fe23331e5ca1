package convert

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"
	"testing"

	"foretoken/internal/files"
	"foretoken/models/convert/converttest"
	"foretoken/models/gguf"
	"foretoken/models/safetensors"
	"foretoken/models/tokenizer"
)

// smallFiles is a checkpoint of a small model, in files.
func smallFiles(t testing.TB) converttest.Files {
	t.Helper()
	files := converttest.Files{}
	for _, src := range small(t, safetensors.F16) {
		files[baseName(src.Name())] = readAll(t, src)
	}
	return files
}

// sourcesOf gives the files as if they lay in the folder, in order of their names.
func sourcesOf(named converttest.Files, folder string) []files.Source {
	var all []files.Source
	for _, name := range slices.Sorted(maps.Keys(named)) {
		all = append(all, files.FromBytes(path.Join(folder, name), named[name]))
	}
	return all
}

// setConfig changes fields of config.json.
func setConfig(files converttest.Files, fields map[string]any) {
	var c map[string]any
	if err := json.Unmarshal(files["config.json"], &c); err != nil {
		panic(err) // a test's own mistake
	}
	maps.Copy(c, fields)
	files["config.json"], _ = json.Marshal(c)
}

// TestCheckpointsThatAreDamaged: every one is refused with the file, the field and what to do.
func TestCheckpointsThatAreDamaged(t *testing.T) {
	type saved = converttest.Files
	good := smallFiles(t)
	weights, err := safetensors.Open(files.FromBytes("w", good["model.safetensors"]))
	if err != nil {
		t.Fatal(err)
	}
	var tensors []safetensors.Tensor
	for i := range weights.Tensors {
		info := &weights.Tensors[i]
		data := make([]byte, info.Size)
		if err := weights.Read(info, data, 0); err != nil {
			t.Fatal(err)
		}
		tensors = append(tensors, safetensors.Tensor{Name: info.Name, Dtype: info.Dtype, Shape: info.Shape, Data: data})
	}
	with := func(change func([]safetensors.Tensor) []safetensors.Tensor) func(saved) {
		return func(f saved) {
			if err := f.SetWeights(change(slices.Clone(tensors)), 1); err != nil {
				t.Fatal(err)
			}
		}
	}
	sharded := func(change func(f saved, index map[string]any)) func(saved) {
		return func(f saved) {
			if err := f.SetWeights(tensors, 2); err != nil {
				t.Fatal(err)
			}
			var index map[string]any
			if err := json.Unmarshal(f[indexName], &index); err != nil {
				t.Fatal(err)
			}
			change(f, index)
			f[indexName], _ = json.Marshal(index)
		}
	}
	moved := func(name, file string) func(saved) {
		return sharded(func(f saved, index map[string]any) { index["weight_map"].(map[string]any)[name] = file })
	}
	const q, norm = "model.layers.1.self_attn.q_proj.weight", "model.norm.weight"
	find := func(all []safetensors.Tensor, name string) *safetensors.Tensor {
		return &all[slices.IndexFunc(all, func(s safetensors.Tensor) bool { return s.Name == name })]
	}
	config := func(fields map[string]any) func(saved) { return func(f saved) { setConfig(f, fields) } }
	for name, c := range map[string]struct {
		change func(saved)
		want   []string
	}{
		"no config": {func(f saved) { delete(f, "config.json") },
			[]string{"m: config.json is missing", "put it beside the weights"}},
		"empty config": {func(f saved) { f["config.json"] = nil }, []string{"m/config.json is empty"}},
		"no tokenizer": {func(f saved) { delete(f, "tokenizer.json") }, []string{"tokenizer.json is missing"}},
		"sentencepiece only": {func(f saved) { delete(f, "tokenizer.json"); f["tokenizer.model"] = []byte{1} },
			[]string{"tokenizer.model is not read", "AutoTokenizer"}},
		"huge config": {func(f saved) { f["config.json"] = make([]byte, maxConfig+1) },
			[]string{"m/config.json", "at most"}},
		"missing tensor": {with(func(s []safetensors.Tensor) []safetensors.Tensor { return s[1:] }),
			[]string{"model.safetensors", `"` + tensors[0].Name + `" is missing`}},
		"stray tensor": {with(func(s []safetensors.Tensor) []safetensors.Tensor {
			s[0].Name += "x"
			return append(
				s, tensors[0])
		}), []string{`x" has no place in a model of type llama with 2 layers`}},
		"another layer": {with(func(s []safetensors.Tensor) []safetensors.Tensor {
			extra := tensors[3]
			extra.Name = "model.layers.2.mlp.up_proj.weight"
			return append(s, extra)
		}), []string{"model.layers.2.mlp.up_proj.weight", "2 layers"}},
		"a bias": {with(func(s []safetensors.Tensor) []safetensors.Tensor {
			return append(s, safetensors.Tensor{Name: "model.layers.0.self_attn.q_proj.bias", Dtype: "F32",
				Shape: []uint64{144}, Data: make([]byte, 576)})
		}), []string{"q_proj.bias", "has no place"}},
		"experts": {with(func(s []safetensors.Tensor) []safetensors.Tensor {
			s[0].Name = "model.layers.0.block_sparse_moe.gate.weight"
			return append(s, tensors[0])
		}), []string{"block_sparse_moe"}},
		"transposed": {with(func(s []safetensors.Tensor) []safetensors.Tensor {
			find(s, q).Shape = []uint64{96, 144}
			return s
		}), []string{q, "has shape [96 144], want [144 96]"}},
		"one dimension too few": {with(func(s []safetensors.Tensor) []safetensors.Tensor {
			find(s, q).Shape = []uint64{144 * 96}
			return s
		}), []string{q, "has shape [13824], want [144 96]"}},
		"integers": {with(func(s []safetensors.Tensor) []safetensors.Tensor {
			find(s, q).Dtype = "I16"
			return s
		}), []string{q, "is I16: F32, F16 and BF16"}},
		"eight bits": {with(func(s []safetensors.Tensor) []safetensors.Tensor {
			x := find(s, q)
			x.Dtype, x.Data = "F8_E4M3", x.Data[:144*96]
			return s
		}), []string{q, "F8_E4M3"}},
		"other width": {config(map[string]any{"hidden_size": 128}), []string{"has shape [37 96], want [37 128]"}},
		"more heads": {config(map[string]any{"num_attention_heads": 12}),
			[]string{"q_proj.weight", "want [288 96]"}},
		"more layers": {config(map[string]any{"num_hidden_layers": 3}),
			[]string{"model.layers.2.input_layernorm.weight", "is missing"}},
		"other vocabulary": {config(map[string]any{"vocab_size": 38}), []string{"want [38 96]"}},
		"small vocabulary": {func(f saved) {
			setConfig(f, map[string]any{"vocab_size": 2})
			with(func(s []safetensors.Tensor) []safetensors.Tensor {
				for _, n := range []string{"model.embed_tokens.weight", "lm_head.weight"} {
					x := find(s, n)
					x.Shape, x.Data = []uint64{2, 96}, x.Data[:2*2*96]
				}
				return s
			})(f)
		}, []string{"m/tokenizer.json", "3 tokens, but the model's vocab_size is 2"}},
		"no output matrix": {with(func(s []safetensors.Tensor) []safetensors.Tensor {
			return slices.DeleteFunc(s, func(x safetensors.Tensor) bool { return x.Name == "lm_head.weight" })
		}), []string{"lm_head.weight is missing", "tie_word_embeddings"}},
		"adapter": {func(f saved) {
			f["adapter_model.safetensors"] = f["model.safetensors"]
			delete(f,
				"model.safetensors")
		}, []string{"m/adapter_model.safetensors", "merge it"}},
		"no index": {func(f saved) {
			f["model-1.safetensors"], f["model-2.safetensors"] = f["model.safetensors"], f["model.safetensors"]
			delete(f, "model.safetensors")
		}, []string{"2 files of weights and no " + indexName}},
		"shard missing": {
			sharded(func(f saved, _ map[string]any) { delete(f, "model-00002-of-00002.safetensors") }),
			[]string{indexName, `"model-00002-of-00002.safetensors"`, "missing"}},
		"shard elsewhere": {moved(norm, "../../etc/passwd"),
			[]string{indexName, "../../etc/passwd", "not a plain file name"}},
		"shard absolute":       {moved(norm, "/etc/passwd"), []string{"not a plain file name"}},
		"shard hidden":         {moved(norm, ".hidden"), []string{"not a plain file name"}},
		"shard of backslashes": {moved(norm, `..\x`), []string{"not a plain file name"}},
		"shard nameless":       {moved(norm, ""), []string{"not a plain file name"}},
		"wrong shard":          {moved(norm, "model-00001-of-00002.safetensors"), []string{indexName, norm}},
		"unlisted tensor": {sharded(func(_ saved, index map[string]any) {
			delete(index["weight_map"].(map[string]any), norm)
		}), []string{norm, "where weight_map does not have it"}},
		"listed, not there": {moved("model.more.weight", "model-00001-of-00002.safetensors"),
			[]string{"model.more.weight", "do not belong together"}},
		"twice": {sharded(func(f saved, _ map[string]any) {
			f["model-00002-of-00002.safetensors"] = f["model-00001-of-00002.safetensors"]
		}), []string{"tensor"}},
		"empty map": {sharded(func(_ saved, index map[string]any) {
			index["weight_map"] = map[string]any{}
		}), []string{"weight_map is missing or empty"}},
		"too many shards": {sharded(func(_ saved, index map[string]any) {
			for i := range 1100 {
				index["weight_map"].(map[string]any)[fmt.Sprint("w", i)] = fmt.Sprintf("m%d.safetensors", i)
			}
		}), []string{indexName, "files; at most 1024 are read"}},
		"map of numbers": {sharded(
			func(_ saved, index map[string]any) { index["weight_map"] = map[string]any{"a": 1} }), []string{indexName}},
		"truncated": {func(f saved) { f["model.safetensors"] = f["model.safetensors"][:2000] },
			[]string{"m/model.safetensors"}},
		"generation": {func(f saved) { f["generation_config.json"] = []byte("[1]") },
			[]string{"m/generation_config.json", "not a JSON object"}},
		"generation's end": {func(f saved) { f["generation_config.json"] = []byte(`{"eos_token_id": [1, 99]}`) },
			[]string{"id 99, but there are 37 tokens"}},
		"too many ends": {func(f saved) {
			f["generation_config.json"] = []byte(`{"eos_token_id": [1` + strings.Repeat(", 1", 64) + `]}`)
		}, []string{"eos_token_id names 65 tokens; at most 64"}},
		// 2 in 32 bits
		"generation's far end": {func(f saved) {
			f["generation_config.json"] = []byte(`{"eos_token_id": [2, 4294967298]}`)
		}, []string{"id 4294967298"}},
		"generation's word": {func(f saved) { f["generation_config.json"] = []byte(`{"eos_token_id": "end"}`) },
			[]string{"m/generation_config.json", "eos_token_id"}},
		"begin": {config(map[string]any{"bos_token_id": -7}), []string{"bos_token_id", "id -7"}},
		"template": {func(f saved) { f["chat_template.jinja"] = []byte{0xff} },
			[]string{"m/chat_template.jinja", "UTF-8"}},
	} {
		f := maps.Clone(good)
		c.change(f)
		src, err := Open(sourcesOf(f, "m"), Options{})
		if err == nil {
			t.Errorf("%s: taken for %s", name, src.Name())
			continue
		}
		refused(t, name, err, c.want...)
	}
	if _, err := Open(sourcesOf(good, "m"), Options{}); err != nil {
		t.Error(err)
	}
}

// TestJSONOfFoldersIsStrict changes the JSON files of a folder so that parsers would read them in different ways.
func TestJSONOfFoldersIsStrict(t *testing.T) {
	good := smallFiles(t)
	good["generation_config.json"] = []byte(`{"eos_token_id": [2]}`)
	good["tokenizer_config.json"] = []byte(`{"bos_token": null}`)
	good["model.safetensors.index.json"], _ = json.Marshal(map[string]any{"weight_map": map[string]string{
		"a": "b.safetensors"}})
	n := 0
	for name, text := range good {
		if !strings.HasSuffix(name, ".json") {
			continue
		}
		for member, want := range map[string]string{
			`"x": {"y": 1, "y": 1}`: "x.y is given twice, at bytes 8 and 16",
			`"x": "\ud800"`:         `x holds \ud800 at byte 8, half of a pair`,
			"\"x\": \"\xff\"":       "x holds the byte 0xff at byte 8",
			`"\udc00": 1`:           `has a name that holds \udc00`,
			strings.Repeat(`"x": {`, 300) + strings.Repeat("}", 300): "deeper than 256",
		} {
			f := maps.Clone(good)
			if name != "model.safetensors.index.json" {
				delete(f, "model.safetensors.index.json")
			} else {
				delete(f, "model.safetensors")
			}
			f[name] = slices.Concat([]byte("{"), []byte(member), []byte(","), text[1:])
			_, err := Open(sourcesOf(f, "m"), Options{})
			if n++; err == nil {
				t.Errorf("%s with %.40s is taken", name, member)
				continue
			}
			refused(t, name, err, name, want)
		}
	}
	if n != 25 {
		t.Errorf("%d files", n)
	}
}

// TestWhatIsBesideTheWeights: padding of the vocabulary, special ids and the template.
func TestWhatIsBesideTheWeights(t *testing.T) {
	files := smallFiles(t)
	setConfig(files, map[string]any{"bos_token_id": 0, "eos_token_id": 1, "pad_token_id": nil,
		"tie_word_embeddings": true})
	files["generation_config.json"] = []byte(`{"eos_token_id": [2, 5, 7, 2, 11], "temperature": 0.7}`)
	files["chat_template.jinja"] = []byte("{{ messages }}")
	files["README.md"] = []byte("not read")
	var notes []string
	f := parse(t,
		open(t, sourcesOf(files, "m"), Options{Name: "A name", Note: func(s string) { notes = append(notes, s) }}))
	tokens, err := f.Strings("tokenizer.ggml.tokens")
	if err != nil || len(tokens) != 37 || tokens[2] != "ab" || tokens[3] != "[PAD3]" || tokens[36] != "[PAD36]" {
		t.Errorf("tokens %q %v", tokens, err)
	}
	types, err := f.Int32s("tokenizer.ggml.token_type")
	if err != nil || len(types) != 37 || types[2] != 1 || types[3] != 5 {
		t.Errorf("types %v %v", types, err)
	}
	for key, want := range map[string]uint32{"tokenizer.ggml.bos_token_id": 0, "tokenizer.ggml.eos_token_id": 2,
		"tokenizer.ggml.eot_token_id": 5, "tokenizer.ggml.eom_token_id": 7} {
		if got, err := f.Uint32(key); err != nil || got != want {
			t.Errorf("%s is %d, want %d (%v)", key, got, want, err)
		}
	}
	if len(notes) != 1 || !strings.Contains(notes[0], "go on after 11") {
		t.Errorf("noted %q", notes)
	}
	if ends, err := f.Int32s("tokenizer.ggml.eos_token_ids"); err != nil || !slices.Equal(ends, []int32{2, 5, 7, 11}) {
		t.Errorf("texts end at %v, %v", ends, err)
	}
	tok, err := tokenizer.New(f)
	if err != nil {
		t.Fatal(err)
	}
	for id := range int32(37) {
		if want := slices.Contains([]int32{2, 5, 7, 11}, id); tok.EOG(id) != want {
			t.Errorf("token %d ends a text: %v, want %v", id, tok.EOG(id), want)
		}
	}
	const keyTemplate = "tokenizer.chat_template"
	if got, err := f.String(keyTemplate); err != nil || got != "{{ messages }}" {
		t.Errorf("the template is %q, %v", got, err)
	}
	files["chat_template.jinja"] = []byte(" \r\n") // says nothing, so the older place counts
	files["tokenizer_config.json"] = []byte(`{"chat_template": "older"}`)
	got, err := parse(t, open(t, sourcesOf(files, "m"), Options{})).String(keyTemplate)
	if err != nil || got != "older" {
		t.Errorf("beside a blank template: %q, %v", got, err)
	}
	delete(files, "tokenizer_config.json")
	if parse(t, open(t, sourcesOf(files, "m"), Options{})).Has(keyTemplate) {
		t.Error("a blank template is kept")
	}
	files["generation_config.json"] = []byte(`{"eos_token_id": [2, -1, 2]}`)
	if f := parse(t, open(t, sourcesOf(files, "m"), Options{})); f.Has("tokenizer.ggml.eos_token_ids") ||
		f.Has("tokenizer.ggml.eot_token_id") {
		t.Error("a list of one end")
	}
	files["generation_config.json"] = []byte(`{"temperature": 0.7}`) // config.json's own list
	setConfig(files, map[string]any{"eos_token_id": []int{1, 4}, "tie_word_embeddings": true})
	if ends, err := parse(t, open(t, sourcesOf(files, "m"), Options{})).Int32s(
		"tokenizer.ggml.eos_token_ids"); err != nil || !slices.Equal(ends, []int32{1, 4}) {
		t.Errorf("texts end at %v, %v", ends, err)
	}
	if f.Has("tokenizer.ggml.padding_token_id") {
		t.Error("a padding id that the file says is none")
	}
	if s, _ := f.String("tokenizer.chat_template"); s != "{{ messages }}" {
		t.Errorf("template %q", s)
	}
	if s, _ := f.String("general.name"); s != "A name" {
		t.Errorf("name %q", s)
	}
	if f.HasTensor("output.weight") { // the checkpoint has an lm_head although the embedding is tied
		t.Error("a tied model has an output matrix")
	}
	if plain := parse(t, open(t, sourcesOf(smallFiles(t), "m"), Options{})); !plain.HasTensor("output.weight") {
		t.Error("an untied model has no output matrix")
	}
}

// TestNamesOfModels: as asked for, of the folder, as saved, of the model type.
func TestNamesOfModels(t *testing.T) {
	for _, c := range []struct{ asked, folder, saved, want string }{
		{"asked", "hub/folder", "org/saved", "asked"}, {"", "hub/folder", "org/saved", "folder"},
		{"", "", "org/saved", "saved"}, {"", "", "", "llama"},
	} {
		files := smallFiles(t)
		setConfig(files, map[string]any{"_name_or_path": c.saved, "pad_token_id": 37})
		f := parse(t, open(t, sourcesOf(files, c.folder), Options{Name: c.asked}))
		if got, err := f.String("general.name"); err != nil || got != c.want {
			t.Errorf("%+v: %q %v", c, got, err)
		}
		if f.Has("tokenizer.ggml.padding_token_id") {
			t.Error("a padding id beyond the vocabulary")
		}
	}
}

// TestLlama3Checkpoint has the divisors of its frequencies in a tensor, first.
func TestLlama3Checkpoint(t *testing.T) {
	files := smallFiles(t)
	scaling := map[string]any{"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
		"original_max_position_embeddings": 32}
	setConfig(files, map[string]any{"rope_scaling": scaling})
	for _, to := range []string{"", "q8_0", "f16"} {
		f := parse(t, open(t, sourcesOf(files, "m"), Options{Quantise: to}))
		info, raw := tensorBytes(t, f, "rope_freqs.weight")
		if info.Type != gguf.F32 || !slices.Equal(info.Dims, []uint64{12}) ||
			!bytes.Equal(raw[:4], []byte{0, 0, 0x80, 0x3f}) || !bytes.Equal(raw[44:], []byte{0, 0, 0, 0x41}) {
			t.Errorf("%q: rope_freqs.weight is %s %v: % x", to, info.Type, info.Dims, raw)
		}
	}
}

// TestRowsOfHeads works out by hand where rows go: heads of 4 rows, 0 1 2 3 become 0 2 1 3.
func TestRowsOfHeads(t *testing.T) {
	from := memory([]byte{0, 1, 2, 3, 4, 5, 6, 7, 10, 11, 12, 13, 14, 15, 16, 17}) // 8 rows of 2 bytes
	want := []byte{0, 1, 4, 5, 2, 3, 6, 7, 10, 11, 14, 15, 12, 13, 16, 17}
	r := &interleaved{from: from, rowBytes: 2, headRows: 4}
	for off := range want {
		for n := range len(want) - off + 1 {
			got := make([]byte, n)
			if err := r.readAt(got, int64(off)); err != nil || !bytes.Equal(got, want[off:off+n]) {
				t.Fatalf("%d bytes at %d: % d, want % d (%v)", n, off, got, want[off:off+n], err)
			}
		}
	}
}

func TestNamesOfFolders(t *testing.T) {
	for name, want := range map[string][2]string{
		"a/b/c.gguf": {"a/b", "c.gguf"}, "c.gguf": {"", "c.gguf"}, "/c.gguf": {"", "c.gguf"},
		`C:\x\c.gguf`:                        {`C:\x`, "c.gguf"},
		"https://h/a/c.gguf?download=true#x": {"https://h/a", "c.gguf"}, "a.gguf/a.gguf": {"a.gguf", "a.gguf"},
		"what?.gguf": {"", "what?.gguf"},
	} {
		if got := [2]string{folder(name), baseName(name)}; got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
}

func TestListsAreShort(t *testing.T) {
	var names []string
	for i := range 6 {
		names = append(names, fmt.Sprint(i))
	}
	if got := list(names); got != "0, 1, 2, 3 and 2 more" {
		t.Error(got)
	}
	if got := list(names[:3]); got != "0, 1, 2" {
		t.Error(got)
	}
}
