//go:build !js

package demo

import (
	"testing"

	"foretoken/models/gguf"
	"foretoken/models/quant"
	"foretoken/models/tokenizer"
)

func open(t *testing.T, src gguf.Source) *gguf.File {
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

func TestPairFitsTheRepository(t *testing.T) {
	target, draft := open(t, Target()), open(t, Draft())
	if n := target.Size() + draft.Size(); n >= 4_000_000 {
		t.Errorf("the files take %d bytes together, want less than 4 MB", n)
	}
	if n := parameters(target); n < 2_350_000 || n > 2_450_000 {
		t.Errorf("the target has %d parameters, want 2.4 million", n)
	}
	if n := parameters(draft); n >= 500_000 {
		t.Errorf("the draft has %d parameters, want less than 0.5 million", n)
	}
	for _, f := range []*gguf.File{target, draft} {
		if arch, err := f.String("general.architecture"); err != nil || arch != "llama" {
			t.Errorf("%s: architecture %q, %v", f.Name(), arch, err)
		}
		for i := range f.Tensors {
			if info := &f.Tensors[i]; !quant.Supported(info.Type) {
				t.Errorf("%s: tensor %s is of type %s", f.Name(), info.Name, info.Type)
			}
		}
	}
}

func TestPairSharesItsVocabulary(t *testing.T) {
	var pair [2]*tokenizer.Tokenizer
	for i, src := range []gguf.Source{Target(), Draft()} {
		f := open(t, src)
		tok, err := tokenizer.New(f)
		if err != nil {
			t.Fatal(err)
		}
		emb, err := f.Tensor("token_embd.weight")
		if err != nil {
			t.Fatal(err)
		}
		if rows := emb.Rows(); rows != 2048 || tok.VocabSize() != 2048 {
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
