package foretoken

import (
	"fmt"

	"foretoken/models/gguf"
	"foretoken/models/tokenizer"
)

// usable is how many ids of a vocabulary may be drafted and drawn: all up to the last that is
// a token. Converters pad vocabularies to the rows of the matrix, which training
// never touched; their logits mean nothing.
func usable(tok *tokenizer.Tokenizer) int {
	n := tok.VocabSize()
	for n > 1 && len(tok.Piece(int32(n-1))) == 0 && !tok.Special(int32(n-1)) {
		n--
	}
	return n
}

// pairVocab is how many ids a target and its draft have in common. It refuses pairs that disagree on
// a token or a special id, and drafts that lack a token of the target's: what both know may
// be drafted, but the target may draw all of its own.
func pairVocab(target, draft *tokenizer.Tokenizer, targetName, draftName string) (int, error) {
	if err := tokenizer.Compatible(draft, target); err != nil {
		return 0, err // names both files and the first token they disagree on
	}
	n, m := usable(target), usable(draft)
	if n > m {
		return 0, fmt.Errorf("foretoken: %s has the token %d %s, which the draft %s has no id for; choose a draft of the same family, or none", targetName, n-1, gguf.Quote(target.TokenText(int32(n-1))), draftName)
	}
	return n, nil
}
