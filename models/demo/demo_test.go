//go:build !js

package demo

import (
	"strconv"
	"testing"

	"foretoken/internal/files"
	"foretoken/models/arch"
	"foretoken/models/convert"
	"foretoken/models/gguf"
	"foretoken/models/graph"
	"foretoken/models/tokenizer"
	"foretoken/spec"
	"foretoken/spec/adapt"
)

const vocabulary = 4096 // tokens of both models

func open(t *testing.T, src files.Source) *gguf.File {
	t.Helper()
	f, err := gguf.Open(src)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func parameters(f *gguf.File) (n uint64) {
	for i := range f.Tensors {
		n += f.Tensors[i].Elements()
	}
	return n
}

// describe states the size of a model for docs/reports/pair.json.
func describe(t *testing.T, name string, parameters uint64, bytes int64) {
	t.Attr(name+"/parameters", strconv.FormatUint(parameters, 10))
	t.Attr(name+"/raw", strconv.FormatInt(bytes, 10))
}

func TestPairFitsTheRepository(t *testing.T) {
	target, draft := open(t, Target()), open(t, Draft())
	if n := target.Size() + draft.Size(); n > 12_000_000 {
		t.Errorf("the files take %d bytes together, want at most 12 MB", n)
	}
	if n := parameters(target); n < 6_000_000 || n > 12_000_000 {
		t.Errorf("the target has %d parameters, want 6 to 12 million", n)
	}
	if n := parameters(draft); n < 300_000 || n > 600_000 {
		t.Errorf("the draft has %d parameters, want 0.3 to 0.6 million", n)
	}
	for i, f := range []*gguf.File{target, draft} {
		name := []string{"target", "draft"}[i]
		describe(t, name, parameters(f), f.Size())
		for _, column := range [][2]string{{"width", "embedding_length"}, {"layers", "block_count"},
			{"heads", "attention.head_count"}, {"KV-heads", "attention.head_count_kv"},
			{"head", "attention.key_length"}, {"feed-forward", "feed_forward_length"}} {
			n, err := f.Uint32("llama." + column[1])
			if err != nil {
				t.Error(err)
			}
			t.Attr(name+"/"+column[0], strconv.Itoa(int(n)))
		}
		if arch, err := f.String("general.architecture"); err != nil || arch != "llama" {
			t.Errorf("%s: architecture %q, %v", f.Name(), arch, err)
		}
		for i := range f.Tensors {
			if err := graph.CheckType(f, &f.Tensors[i]); err != nil {
				t.Error(err)
			}
		}
	}
}

func TestPairSharesItsVocabulary(t *testing.T) {
	var pair [2]*tokenizer.Tokenizer
	for i, src := range []files.Source{Target(), Draft()} {
		f := open(t, src)
		tok, err := tokenizer.New(f)
		if err != nil {
			t.Fatal(err)
		}
		emb, err := f.Tensor("token_embd.weight")
		if err != nil {
			t.Fatal(err)
		}
		if rows := emb.Dims[1]; rows != vocabulary || tok.VocabSize() != vocabulary {
			t.Errorf("%s: %d rows of embeddings, %d tokens", f.Name(), rows, tok.VocabSize())
		}
		pair[i] = tok
	}
	if err := tokenizer.Compatible(pair[0], pair[1]); err != nil {
		t.Error(err)
	}
	const code = "// Copyright\nfunc main() {\n\tfmt.Println(\"héllo, 世界 🚀\")\n}\n"
	ids := pair[0].Encode(code, true)
	if bos, ok := pair[0].BOS(); !ok || ids[0] != bos {
		t.Errorf("ids begin with %d, want BOS", ids[0])
	}
	if got := pair[1].Decode(ids); got != code {
		t.Errorf("the draft reads %q as %q", code, got)
	}
}

func TestCalibrationsAreSmallAndNameTheirKinds(t *testing.T) {
	kinds := map[string]bool{}
	for _, f := range Calibrations() {
		kind, err := spec.CalibrationKind(f.Name, f.Data)
		if err != nil {
			t.Error(err)
		}
		kinds[kind] = true
		if n := len(f.Data); n > 100_000 {
			t.Errorf("%s has %d bytes, want at most 100 kB", f.Name, n)
		}
	}
	for _, kind := range []string{"set", adapt.KindC2T, "acceptance-head"} {
		if !kinds[kind] {
			t.Errorf("there is no calibration of kind %s", kind)
		}
	}
}

func TestHeadBelongsToTheTarget(t *testing.T) {
	weights, config := Head()
	if n := weights.Size() + config.Size(); n > 4_500_000 {
		t.Errorf("the head takes %d bytes, want at most 4.5 MB", n)
	}
	f, err := convert.Head(weights, config)
	if err != nil {
		t.Fatal(err)
	}
	head, err := arch.ReadHead(f)
	if err != nil {
		t.Fatal(err)
	}
	target := open(t, Target())
	dim, err := target.Uint32("llama.embedding_length")
	if err != nil {
		t.Fatal(err)
	}
	if c := head; c.Dim != int(dim) || c.Features.Dim != int(dim) || c.Vocab != vocabulary {
		t.Errorf("the head is for features of %d and %d tokens: %+v", dim, vocabulary, c)
	}
	var n uint64
	for _, tensor := range f.Tensors {
		if tensor.Type != gguf.I64 { // the table of ids
			n += tensor.Elements()
		}
	}
	describe(t, "EAGLE-3-head", n, weights.Size())
}
