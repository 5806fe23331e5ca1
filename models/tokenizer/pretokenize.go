package tokenizer

import (
	"slices"
	"strings"

	"github.com/dlclark/regexp2"
)

// The expressions of the pre-tokenizers. Several apply in sequence, each to the pieces left by the one before; text
// that an expression does not match stays one piece. They need look-ahead, which Go's regexp lacks.
const (
	gpt2Words  = `'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)`
	contracted = `(?:'[sS]|'[tT]|'[rR][eE]|'[vV][eE]|'[mM]|'[lL][lL]|'[dD])`
	wordsAnd   = contracted + `|[^\r\n\p{L}\p{N}]?\p{L}+|`
	otherWords = `| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+`
	llama3     = wordsAnd + `\p{N}{1,3}` + otherWords
	qwen2      = wordsAnd + `\p{N}` + otherWords
	qwen35     = contracted +
		`|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+`
	// Words of these two expressions may begin with capitals and not contain them. They match the models' training;
	// llama.cpp knows ASCII capitals only.
	capitals   = `[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]`
	smalls     = `[\p{Ll}\p{Lm}\p{Lo}\p{M}]`
	otherPaths = `| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+`
	tekken     = capitals + `*` + smalls + `+|` + capitals + `+` + smalls + `*|\p{N}` + otherPaths
	gpt4o      = capitals + `*` + smalls + `+` + contracted + `?|` + capitals + `+` + smalls + `*` + contracted +
		`?|\p{N}{1,3}` + otherPaths
)

// preTokenizer is one way to cut text into words, which BPE never joins.
type preTokenizer struct {
	names []string // values of tokenizer.ggml.pre
	exprs []string
	// wholeWords takes a word that is a token without merging.
	wholeWords bool
	anyMerges  bool // tokenizer.json may differ: merges yield complete words too
	addBOS     bool // unless the file says otherwise
}

var preTokenizers = []preTokenizer{
	{names: []string{"gpt-2", "phi-2", "mpt", "olmo", "jais", "trillion", "gigachat", "mellum", "modern-bert",
		"exaone4", "granite-docling", "a.x-4.0"},
		exprs: []string{gpt2Words}},
	{names: []string{"qwen2", "deepseek-r1-qwen", "megrez", "stablelm2", "hunyuan", "solar-open", "grok-2",
		"kormo", "f2llmv2"},
		exprs: []string{qwen2}},
	{names: []string{"llama-bpe", "llama3", "llama-v3", "falcon3", "falcon-h1", "pixtral", "midm-2.0", "lfm2",
		"jina-v5-nano"},
		exprs: []string{llama3}, wholeWords: true, addBOS: true},
	{names: []string{"smaug-bpe", "dbrx", "glm4", "chatglm-bpe"},
		exprs: []string{llama3}},
	{names: []string{"qwen35"},
		exprs: []string{qwen35}},
	{names: []string{"tekken"},
		exprs: []string{tekken}, wholeWords: true, anyMerges: true, addBOS: true},
	{names: []string{"gpt-4o", "llama4", "kanana2"},
		exprs: []string{gpt4o}},
	{names: []string{"smollm", "starcoder", "refact", "command-r", "codeshell", "exaone", "minerva-7b", "mellum2"},
		exprs: []string{`\p{N}`, gpt2Words}},
	{names: []string{"deepseek-coder"},
		exprs: []string{`[\r\n]`, `\s?\p{L}+`, `\s?\p{P}+`, `[\u4e00-\u9fa5\u0800-\u4e00\uac00-\ud7ff]+`, `\p{N}`}},
	{names: []string{"falcon"},
		exprs: []string{`[\p{P}\$\+<=>\^~\|` + "`" + `]+`, gpt2Words, `[0-9][0-9][0-9]`}},
	{names: []string{"default"},
		exprs: []string{`[\p{P}\$\+<=>\^~\|]+`, gpt2Words, `\p{N}+`, `[0-9][0-9][0-9]`}},
}

// preNames lists the pre-tokenizers for a message.
func preNames() string {
	var all []string
	for _, p := range preTokenizers {
		all = append(all, p.names...)
	}
	slices.Sort(all)
	return strings.Join(all, ", ")
}

func findPre(name string) *preTokenizer {
	i := slices.IndexFunc(preTokenizers, func(p preTokenizer) bool {
		return slices.Contains(p.names, name) // bound: written out
	})
	if i < 0 {
		return nil
	}
	return &preTokenizers[i]
}

// cutter applies a pre-tokenizer's expressions.
type cutter []*regexp2.Regexp

func newCutter(p *preTokenizer) (cutter, error) {
	var c cutter
	for _, e := range p.exprs {
		re, err := regexp2.Compile(e, regexp2.None)
		if err != nil {
			return nil, err
		}
		c = append(c, re)
	}
	return c, nil
}

// cut gives the ends of the words of text, counted in characters.
func (c cutter) cut(text []rune, m *meter) []int {
	ends := []int{len(text)}
	for _, re := range c {
		next := make([]int, 0, len(ends)+len(text)/5)
		start := 0
		for _, end := range ends {
			next = cutPiece(re, text[start:end], start, next, m)
			start = end
		}
		ends = next
	}
	return ends
}

// cutPiece applies one expression to one piece, which begins at base. Look-ahead
// sees no further than the piece.
func cutPiece(re *regexp2.Regexp, piece []rune, base int, ends []int, work *meter) []int {
	if len(piece) == 1 { // one word, whether it matches or not
		return append(ends, base+1)
	}
	done := 0
	// The only error is a timeout, and none is set.
	for m, _ := re.FindRunesMatch(piece); m != nil && work.spend(m.Index-done+m.Length); m, _ = re.FindNextMatch(m) {
		if m.Index > done {
			ends = append(ends, base+m.Index)
		}
		done = m.Index + m.Length
		if m.Length > 0 {
			ends = append(ends, base+done)
		}
	}
	if done < len(piece) {
		ends = append(ends, base+len(piece))
	}
	return ends
}
