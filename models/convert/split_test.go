package convert

import (
	"bytes"
	"slices"
	"strings"
	"testing"

	"foretoken/internal/files"
	"foretoken/models/convert/converttest"
	"foretoken/models/gguf"
)

// toy is a GGUF file of five small tensors.
func toy(t testing.TB, arch string, fill byte) *gguf.File {
	t.Helper()
	var all []gguf.WriteTensor
	for _, name := range []string{"token_embd.weight", "blk.0.attn_q.weight", "blk.0.ffn_up.weight",
		"blk.1.attn_q.weight", "output.weight"} {
		all = append(all, gguf.WriteTensor{Name: name, Dims: []uint64{32, 3}, Type: gguf.Q8_0,
			Data: bytes.Repeat([]byte{fill + byte(len(all))}, 34*3)})
	}
	b, err := gguf.Bytes([]gguf.KV{{Key: "general.architecture", Value: arch},
		{Key: "general.alignment", Value: uint32(64)}, {Key: arch + ".block_count", Value: uint32(2)}}, all)
	if err != nil {
		t.Fatal(err)
	}
	return parse(t, files.FromBytes("toy.gguf", b))
}

func partsOf(t testing.TB, f *gguf.File, n int, bare bool) converttest.Files {
	t.Helper()
	parts, err := converttest.Parts(f, "toy", n, bare)
	if err != nil {
		t.Fatal(err)
	}
	return parts
}

func TestPartsBecomeTheFile(t *testing.T) {
	whole := toy(t, "llama", 1)
	for _, n := range []int{1, 2, 4} {
		for _, bare := range []bool{false, true} {
			if bare && n == 1 {
				continue
			}
			sources := sourcesOf(partsOf(t, whole, n, bare), "models")
			slices.Reverse(sources)
			src := open(t, sources, Options{})
			got := parse(t, src)
			sameTensors(t, got, whole)
			if n == 1 {
				continue // a complete file, whatever its name
			}
			if !slices.Equal(got.Keys(), whole.Keys()) {
				t.Errorf("%d parts: keys %v, want %v", n, got.Keys(), whole.Keys())
			}
			if src.Name() != "models/toy-00001-of-0000"+string(rune('0'+n))+".gguf" {
				t.Errorf("the source is called %q", src.Name())
			}
		}
	}
}

// TestPartsThatDoNotBelongTogether: every error names the part and what to do.
func TestPartsThatDoNotBelongTogether(t *testing.T) {
	a, b := toy(t, "llama", 1), toy(t, "llama", 100)
	three, other := partsOf(t, a, 3, false), partsOf(t, b, 3, false)
	const one, two, last = "toy-00001-of-00003.gguf", "toy-00002-of-00003.gguf", "toy-00003-of-00003.gguf"
	with := func(change func(converttest.Files)) []files.Source {
		f := converttest.Files{}
		for name, raw := range three {
			f[name] = raw
		}
		change(f)
		return sourcesOf(f, "d")
	}
	foreign := func(keys map[string]any, from, to int) []byte {
		kv := []gguf.KV{{Key: "split.no", Value: uint16(1)}, {Key: "split.count", Value: uint16(3)},
			{Key: "split.tensors.count", Value: int32(5)}}
		for i := range kv {
			if v, ok := keys[kv[i].Key]; ok {
				kv[i].Value = v
				delete(keys, kv[i].Key)
			}
		}
		for key, v := range keys {
			kv = append(kv, gguf.KV{Key: key, Value: v})
		}
		raw, err := converttest.Rewrite(b, kv, from, to)
		if err != nil {
			t.Fatal(err)
		}
		return raw
	}
	for name, c := range map[string]struct {
		sources []files.Source
		want    []string
	}{
		"one missing": {with(func(f converttest.Files) { delete(f, two) }),
			[]string{"d/" + one, "1 of 3 parts are missing: " + two, "put them beside it"}},
		"first missing": {with(func(f converttest.Files) { delete(f, one); delete(f, last) }),
			[]string{"2 of 3 parts are missing: " + one + ", " + last}},
		"one alone": {with(func(f converttest.Files) { delete(f, one); delete(f, two) }), []string{last, one}},
		"swapped": {with(func(f converttest.Files) { f[one], f[two] = f[two], f[one] }),
			[]string{"d/" + one, "part 2", "part 1", "its own name"}},
		"the same twice": {with(func(f converttest.Files) { f[last] = f[two] }),
			[]string{"d/" + last, "is part 2 of its file by its metadata, part 3 by its name"}},
		"too many": {[]files.Source{files.FromBytes("d/m-00001-of-99999.gguf", nil)},
			[]string{"d/m-00001-of-99999.gguf is one of 99999 parts; at most 1024 are read"}},
		"twice given": {append(sourcesOf(three, "d"), sourcesOf(three, "d")[1]),
			[]string{"part 2 of 3 is given twice"}},
		"other count": {append(sourcesOf(three, "d"), sourcesOf(partsOf(t, a, 2, false), "d")...),
			[]string{"one of 3 parts", "one of 2"}},
		"count by name": {with(func(f converttest.Files) {
			f[two] = foreign(map[string]any{"split.count": uint16(4)}, 1, 3)
		}), []string{"d/" + two,
			"one of 4 parts by its metadata, of 3 by its name"}},
		"other model": {with(func(f converttest.Files) { f[two] = other[one] }),
			[]string{"d/" + two, "part 1 of its file"}},
		"other tensors": {with(func(f converttest.Files) { f[two] = foreign(map[string]any{}, 0, 2) }),
			[]string{"d/" + two, `"token_embd.weight"`, "different models"}},
		"too few": {with(func(f converttest.Files) { f[two] = foreign(map[string]any{}, 1, 2) }),
			[]string{"split.tensors.count is 5", "4 tensors together"}},
		"other total": {with(func(f converttest.Files) {
			f[two] = foreign(map[string]any{"split.tensors.count": int32(9)}, 1, 3)
		}), []string{"d/" + two,
			"split.tensors.count is 9, but 5", "different models"}},
		"other model type": {with(func(f converttest.Files) {
			f[two] = foreign(
				map[string]any{"general.architecture": "qwen2"}, 1, 3)
		}), []string{"d/" + two, `"qwen2"`, `"llama"`}},
		"whole file": {with(func(f converttest.Files) { f[two] = fileBytes(t, a) }),
			[]string{"d/" + two, "split.count is missing"}},
		"negative total": {with(func(f converttest.Files) {
			f[two] = foreign(
				map[string]any{"split.tensors.count": int32(-5)}, 1, 3)
		}), []string{"d/" + two, "split.tensors.count"}},
		"truncated": {with(func(f converttest.Files) { f[two] = f[two][:len(f[two])-64] }),
			[]string{"d/" + two, "truncated"}},
		"no beginning": {with(func(f converttest.Files) {
			f[one] = bytes.Replace(f[one], []byte("general.architecture"), []byte("general.architectura"), 1)
		}), []string{"d/" + one, "general.architecture"}},
		"unrelated files": {[]files.Source{files.FromBytes("d/x.gguf", three[one]),
			files.FromBytes("d/y.gguf", three[one])}, []string{"d/x.gguf", "d/y.gguf", "choose one model"}},
		"part and file": {append(sourcesOf(three, "d"), files.FromBytes("d/y.gguf", three[one])),
			[]string{"d/y.gguf", "choose one model"}},
		"two stems": {append(sourcesOf(three, "d"), files.FromBytes("d/dog-00002-of-00003.gguf", three[two])),
			[]string{"parts of different files"}},
		"two folders": {append(sourcesOf(three, "d"), sourcesOf(three, "e")...), []string{"parts of different files"}},
		"part 0": {append(sourcesOf(three, "d"), files.FromBytes("d/toy-00000-of-00003.gguf", three[two])),
			[]string{"there is no part 0 of 3"}},
		"part 4": {append(sourcesOf(three, "d"), files.FromBytes("d/toy-00004-of-00003.gguf", three[two])),
			[]string{"there is no part 4 of 3"}},
	} {
		src, err := Open(c.sources, Options{})
		if err == nil {
			t.Errorf("%s: taken for %s", name, src.Name())
			continue
		}
		refused(t, name, err, c.want...)
	}
}

// refused checks that an error is one line, starts with its package and contains the wanted words.
func refused(t testing.TB, name string, err error, want ...string) {
	t.Helper()
	text := err.Error()
	package_, _, _ := strings.Cut(text, ":")
	if !slices.Contains([]string{"convert", "arch", "gguf", "safetensors", "tokenizer"}, package_) ||
		strings.Contains(text, "\n") {
		t.Errorf("%s: %q is not one line that begins with its package", name, text)
	}
	for _, w := range want {
		if !strings.Contains(text, w) {
			t.Errorf("%s: %q says nothing of %q", name, text, w)
		}
	}
}

// TestRenamedPart: metadata identifies a part whose file name does not.
func TestRenamedPart(t *testing.T) {
	parts := partsOf(t, toy(t, "llama", 1), 3, false)
	src := files.FromBytes("d/model.gguf", parts["toy-00002-of-00003.gguf"])
	_, err := Open([]files.Source{src}, Options{Quantise: "f16"})
	for _, err := range []error{err, CheckWhole(parse(t, src))} {
		if err == nil {
			t.Fatal("a part is taken for a whole file")
		}
		refused(t, "renamed", err, "d/model.gguf is one of 3 parts", "model-00001-of-00003.gguf")
	}
	for _, whole := range []files.Source{files.FromBytes("a.gguf", fileBytes(t, toy(t, "llama", 1))),
		files.FromBytes("b.gguf", partsOf(t, toy(t, "llama", 1), 1, false)["toy-00001-of-00001.gguf"])} {
		if err := CheckWhole(parse(t, whole)); err != nil {
			t.Error(err)
		}
	}
}

func TestSiblings(t *testing.T) {
	for name, want := range map[string][]string{
		"m-00002-of-00002.gguf":     {"m-00001-of-00002.gguf", "m-00002-of-00002.gguf"},
		"a/b-c-00001-of-00002.gguf": {"a/b-c-00001-of-00002.gguf", "a/b-c-00002-of-00002.gguf"},
		"https://hub/o/r/resolve/main/m-00001-of-00002.gguf?download=true": {
			"https://hub/o/r/resolve/main/m-00001-of-00002.gguf?download=true",
			"https://hub/o/r/resolve/main/m-00002-of-00002.gguf?download=true"},
		"m.gguf": nil, "m-1-of-2.gguf": nil, "m-00003-of-00002.gguf": nil, "m-00001-of-00002.gguf.part": nil,
		"-00001-of-00002.gguf": nil,
	} {
		if got := Siblings(name); !slices.Equal(got, want) {
			t.Errorf("%s: %v, want %v", name, got, want)
		}
	}
}

func TestWhatIsNoModelIsRefused(t *testing.T) {
	b := func(name, text string) files.Source { return files.FromBytes(name, []byte(text)) }
	for name, c := range map[string]struct {
		sources []files.Source
		o       Options
		want    []string
	}{
		"nothing": {nil, Options{}, []string{"no files"}},
		"no such type": {[]files.Source{b("a.gguf", "GGUF")}, Options{Quantise: "q9"},
			[]string{`"q9"`, "q8_0", "q4_0"}},
		"two kinds": {[]files.Source{b("a.gguf", "GGUF"), b("model.safetensors", "")}, Options{},
			[]string{"a.gguf", "model.safetensors", "choose one"}},
		"settings only": {[]files.Source{b("m/config.json", "{}"), b("m/tokenizer.json", "{}")}, Options{},
			[]string{"m/config.json", "no weights"}},
		"one setting": {[]files.Source{b("m/config.json", "{}")}, Options{}, []string{"m/config.json", "no weights"}},
		"a web page": {[]files.Source{b("model", "<!doctype html>")}, Options{Quantise: "f16"},
			[]string{"web page"}},
		"a damaged file": {[]files.Source{b("a.gguf", "GGUF")}, Options{Quantise: "f16"}, []string{"a.gguf"}},
	} {
		_, err := Open(c.sources, c.o)
		if err == nil {
			t.Errorf("%s: taken", name)
			continue
		}
		refused(t, name, err, c.want...)
	}
	// A type that cannot be decoded stays as it is, and is refused in another one.
	raw, err := gguf.Bytes([]gguf.KV{{Key: "general.architecture", Value: "llama"}},
		[]gguf.WriteTensor{{Name: "x", Dims: []uint64{256, 2}, Type: gguf.Q8_K, Data: make([]byte, 584)}})
	if err != nil {
		t.Fatal(err)
	}
	src := []files.Source{files.FromBytes("a.gguf", raw)}
	open(t, src, Options{})
	if _, err := Open(src, Options{Quantise: "q8_0"}); err == nil {
		t.Error("Q8_K is decoded")
	} else {
		refused(t, "Q8_K", err, "a.gguf", `"x"`, "Q8_K", "cannot be decoded")
	}
}
