package tokenizer

import (
	"slices"
	"testing"
)

// TestTable finds tokens of vocabularies that spell bytes in three ways.
func TestTable(t *testing.T) {
	bpe, spm := smallBPE().tokenizer(t), smallSPM().tokenizer(t)
	bpeTable, spmTable := bpe.Table(), spm.Table()
	for text, want := range map[string][2]string{
		" world": {"Ġworld", "▁world"}, "\n": {"Ċ", "<0x0A>"}, "hello": {"hello", "hello"}, "\xf0": {"ð", "<0xF0>"},
		"  ": {"ĠĠ", "▁▁"}, "aaaa": {"aaaa", "aaaa"}, "a": {"a", "<0x61>"},
		"<|im_end|>": {}, "<think>": {}, "</s>": {"</s>"}, "<unk>": {}, "\uFFFD": {}, "[PAD]": {}, "": {},
	} {
		for i, tok := range []*Tokenizer{bpe, spm} {
			id, ok := []*Table{bpeTable, spmTable}[i].ID([]byte(text))
			if got := tok.TokenText(id); ok != (want[i] != "") || ok && got != want[i] {
				t.Errorf("%q: token %s, %t, want %s", text, got, ok, want[i])
			}
		}
	}
	shared := 0
	for id := range int32(bpe.VocabSize()) {
		if p := bpe.Piece(id); len(p) > 0 && bpe.kinds[id] == normal {
			if other, ok := spmTable.ID(p); ok {
				shared++
				if !slices.Equal(spm.Piece(other), p) {
					t.Errorf("%q becomes %q", p, spm.Piece(other))
				}
			}
		}
	}
	if got := bpeTable.Shared(spmTable); got != shared || shared < 256 {
		t.Errorf("%d tokens are shared, want %d", got, shared)
	}
}
