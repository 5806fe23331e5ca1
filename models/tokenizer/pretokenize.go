package tokenizer

import (
	"slices"
)

// The expressions of the pre-tokenizers. Several apply in sequence, each to the pieces left by the one before; text
// that an expression does not match stays one piece.
const (
	gpt2Words  = `'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)`
	contracted = `(?:'[sS]|'[tT]|'[rR][eE]|'[vV][eE]|'[mM]|'[lL][lL]|'[dD])`
	wordsAnd   = contracted + `|[^\r\n\p{L}\p{N}]?\p{L}+|`
	otherWords = `| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+`
	llama3     = wordsAnd + `\p{N}{1,3}` + otherWords
	qwen2      = wordsAnd + `\p{N}` + otherWords
	qwen35     = contracted +
		`|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+`
	// Words of these expressions may begin with capitals and not contain them. They match the models' training;
	// llama.cpp knows ASCII capitals only.
	capitals   = `[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]`
	smalls     = `[\p{Ll}\p{Lm}\p{Lo}\p{M}]`
	otherPaths = `| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+`
	tekken     = capitals + `*` + smalls + `+|` + capitals + `+` + smalls + `*|\p{N}` + otherPaths
	gpt4o      = capitals + `*` + smalls + `+` + contracted + `?|` + capitals + `+` + smalls + `*` + contracted +
		`?|\p{N}{1,3}` + otherPaths
	kimiCapital = `[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]`
	kimiSmall   = `[\p{Ll}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]`
	kimi        = `[\p{Han}]+|[^\r\n\p{L}\p{N}]?` + kimiCapital + `*` + kimiSmall + `+` + contracted +
		`?|[^\r\n\p{L}\p{N}]?` + kimiCapital + `+` + kimiSmall + `*` + contracted + `?|\p{N}{1,3}` + otherWords
	// Punctuation is cut off unless ASCII letters follow it, or it is one of its kind before a word.
	asciiWords  = "[!\"#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+"
	symbolWords = asciiWords + `|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+`
	lines       = `[^\n]+|[\n]+`
	spacedWords = " ?[^(\\s|.,!?\u2026\u3002\uff0c\u3001\u0964\u06d4\u060c)]+"
	hanKana     = "[\u4e00-\u9fa5\u3040-\u309f\u30a0-\u30ff]+"
	asian       = "[\u4e00-\u9fa5\u0800-\u4e00\uac00-\ud7ff]+"
	// Letters of alphabets with capitals.
	cased = "\\s?[A-Za-z\u00b5\u00c0-\u00d6\u00d8-\u00f6\u00f8-\u01ba\u01bc-\u01bf\u01c4-\u0293\u0295-\u02af" +
		"\u0370-\u0373\u0376\u0377\u037b-\u037d\u037f\u0386\u0388-\u038a\u038c\u038e-\u03a1\u03a3-\u03f5" +
		"\u03f7-\u0481\u048a-\u052f\u0531-\u0556\u10a0-\u10c5\u13a0-\u13f5\u13f8-\u13fd\u1c90-\u1cba" +
		"\u1cbd-\u1cbf\u1d00-\u1d2b\u1d6b-\u1d77\u1d79-\u1d9a\u1e00-\u1f15\u1f18-\u1f1d\u1f20-\u1f45" +
		"\u1f48-\u1f4d\u1f50-\u1f57\u1f59\u1f5b\u1f5d\u1f5f-\u1f7d\u1f80-\u1fb4\u1fb6-\u1fbc\u1fbe\u1fc2-" +
		"\u1fc4\u1fc6-\u1fcc\u1fd0-\u1fd3\u1fd6-\u1fdb\u1fe0-\u1fec\u1ff2-\u1ff4\u1ff6-\u1ffc\u2102\u2107" +
		"\u210a-\u2113\u2115\u2119-\u211d\u2124\u2126\u2128\u212a-\u212d\u212f-\u2134\u2139\u213c-\u213f" +
		"\u2145-\u2149\u214e\u2183\u2184\u2c00-\u2c7b\u2c7e-\u2ce4\u2ceb-\u2cee\u2cf2\u2cf3\ua640-\ua66d" +
		"\ua680-\ua69b\ua722-\ua76f\ua771-\ua787\ua78b-\ua78e\uab70-\uabbf\ufb00-\ufb06\ufb13-\ufb17" +
		"\uff21-\uff3a\uff41-\uff5a\U00010400-\U0001044f\U000104b0-\U000104d3\U000104d8-\U000104fb" +
		"\U00010c80-\U00010cb2\U00010cc0-\U00010cf2\U000118a0-\U000118df\U0001e900-\U0001e943]+"
)

// preTokenizer is one way to cut text into words, which BPE never joins.
type preTokenizer struct {
	names []string // values of tokenizer.ggml.pre
	exprs []string
	// wholeWords takes a word that is a token without merging.
	wholeWords bool
	anyMerges  bool // tokenizer.json may differ: merges yield complete words too
	addBOS     bool // unless the file says otherwise
	spell      spelling
	wholeLines bool // a run of line ends that is a token is not merged
}

// spelling is how the tokens of a vocabulary spell text.
type spelling uint8

const (
	byteAlphabet spelling = iota // each byte by one character
	plainText                    // as it is
	plainSpaces                  // with ▁ for spaces
	plainWords                   // with ▁ for spaces, which the encoder of the model writes
)

var preTokenizers = []preTokenizer{
	{names: []string{"gpt-2", "phi-2", "mpt", "olmo", "jais", "trillion", "gigachat", "mellum", "modern-bert",
		"exaone4", "granite-docling", "a.x-4.0", "jina-es", "jina-de", "jina-v2-es", "jina-v2-de",
		"jina-v1-en", "jina-v2-code", "roberta-bpe"},
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
	{names: []string{"gpt-4o", "llama4", "kanana2", "talkie", "minimax-m2"},
		exprs: []string{gpt4o}},
	{names: []string{"granite-embed-multi-97m"},
		exprs: []string{gpt4o}, wholeWords: true},
	{names: []string{"tiny_aya", "cohere2moe"},
		exprs: []string{`\d{1,3}(?=(?:\d{3})*\b)`, gpt4o}},
	{names: []string{"kimi-k2"},
		exprs: []string{kimi}},
	{names: []string{"youtu"},
		exprs: []string{"[\uac00-\ud7a3\u3131-\u318e]+|[\uff01\u2026\u201c\u201d\u2018\u2019\u2014\uff1a\uff1b\uff0c" +
			"\u3001-\u303f\ufe30-\ufe4f]+|[\u3105-\u312f]+|[\u4e00-\u9fa5\u3040-\u309f\u30a0-\u30ff]+",
			capitals + `*` + smalls + `+` + contracted + `?|` + capitals + `+` + smalls + `*` + contracted + `?|\p{N}` +
				otherPaths}, wholeWords: true},
	{names: []string{"smollm", "starcoder", "refact", "command-r", "codeshell", "exaone", "minerva-7b", "mellum2"},
		exprs: []string{`\p{N}`, gpt2Words}},
	{names: []string{"deepseek-coder"},
		exprs: []string{`[\r\n]`, `\s?\p{L}+`, `\s?\p{P}+`, asian, `\p{N}`}},
	{names: []string{"deepseek-llm"},
		exprs: []string{`[\r\n]`, cased,
			"\\s?[!-/:-~\uff01-\uff0f\uff1a-\uff5e\u2018-\u201f\u3000-\u3002]+", `\s+$`, asian, `\p{N}+`}},
	{names: []string{"deepseek-v3", "hunyuan-dense", "hy_v4", "joyai-llm"},
		exprs: []string{`\p{N}{1,3}`, hanKana, symbolWords + `[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+`}},
	{names: []string{"spark2_5"},
		exprs: []string{`\p{N}{1,3}`, hanKana, symbolWords + `|[\r\n]|\s+(?!\S)|\s+`, `\p{N}`}},
	{names: []string{"afmoe"},
		exprs: []string{`\p{N}{1,3}(?=(?:\p{N}{3})*(?!\p{N}))`,
			"[\u4e00-\u9fff\u3400-\u4dbf\u8c48-\ufaff\u3040-\u309f\u30a0-\u30ff\uff65-\uff9f\u2f00-\u2fdf" +
				"\u0e40-\u0e7f\u0e80-\u0eff\u1780-\u17ff\u1000-\u109f\uaa60-\uaa7f\ua9e0-\ua9ff\uac00-\ud7af" +
				"\u1100-\u11ff]+",
			symbolWords + `[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+`}},
	{names: []string{"minicpm5"},
		exprs: []string{`\p{N}{1,3}`, wordsAnd + `\p{N}+` + otherWords}, wholeWords: true},
	{names: []string{"jais-2"},
		exprs: []string{wordsAnd + `\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s{512}(?!\S)|\s{256}(?!\S)|` +
			`\s{128}(?!\S)|\s{64}(?!\S)|\s{32}(?!\S)|\s{16}(?!\S)|\s{8}(?!\S)|\s{4}(?!\S)|\s{1,2}(?!\S)|\s{1}`}},
	{names: []string{"seed-coder"},
		exprs: []string{wordsAnd + `\p{N}{1}| ?[^\s\p{L}\p{N}\r\n]+|\s*[\r\n]+|\s+(?!\S)|\s+`}},
	{names: []string{"bailingmoe", "bailingmoe2", "llada-moe"},
		exprs: []string{`'(?:[sSdDmMtT]|[lL][lL]|[vV][eE]|[rR][eE])|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}` +
			`| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]|\s+(?!\S)|\s+`}},
	{names: []string{"exaone-moe"},
		exprs: []string{contracted + `|[^\r\n\p{L}\p{N}]?(?:\p{L}\p{M}*(?: \p{L}\p{M}*)*)+|\p{N}` +
			`| ?[^\s\p{L}\p{N}]+[\r\n/]?|\s*[\r\n]|\s+(?!\S)|\s+`}},
	{names: []string{"ufakzeka"}, // without contractions: Turkish has apostrophes before suffixes
		exprs: []string{`[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}` + otherWords}},
	{names: []string{"laguna"},
		exprs: []string{lines, qwen2}},
	{names: []string{"superbpe"},
		exprs: []string{`\p{N}+`, `(?=(\d{3})+(?!\d))`}},
	{names: []string{"poro-chat", "bloom", "gpt3-finnish"},
		exprs: []string{spacedWords}},
	{names: []string{"viking"},
		exprs: []string{spacedWords, `\p{N}`}},
	{names: []string{"chameleon"},
		exprs: []string{`<sentinel:[0-9]+>`, `(IMGIMG)((A|B|C|D|E|F|G|H|I){1,4})Z`, `([\t\n]|    |  )`, `\p{N}`,
			"[\\p{P}!-/:-@\\[-`{-~]", gpt2Words}, addBOS: true},
	{names: []string{"falcon"},
		exprs: []string{`[\p{P}\$\+<=>\^~\|` + "`" + `]+`, gpt2Words, `[0-9][0-9][0-9]`}},
	{names: []string{"default"},
		exprs: []string{`[\p{P}\$\+<=>\^~\|]+`, gpt2Words, `\p{N}+`, `[0-9][0-9][0-9]`}},
	{names: []string{"gemma4", "granite-embed-multi-311m"},
		exprs: []string{lines}, spell: plainSpaces, addBOS: true, wholeLines: true},
	{names: []string{"sarvam-moe"},
		exprs: []string{lines}, spell: plainSpaces},
	{names: []string{"whitespace"},
		exprs: []string{`\S+`}, spell: plainText},
}

// preNames lists the pre-tokenizers, sorted.
func preNames() (all []string) {
	for _, p := range preTokenizers {
		all = append(all, p.names...)
	}
	slices.Sort(all)
	return all
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
type cutter []*pattern

func newCutter(p *preTokenizer) (cutter, error) {
	var c cutter
	for _, e := range p.exprs {
		re, err := compile(e)
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
	for _, p := range c {
		next := make([]int, 0, len(ends)+len(text)/5)
		pieces := newMatcher(p, text)
		start := 0
		for _, end := range ends {
			next = pieces.cut(start, end, next, m)
			start = end
		}
		ends = next
	}
	return ends
}

// cut applies the pattern to one piece and appends the ends of its parts. Look-ahead sees no further than the piece.
func (m *matcher) cut(start, end int, ends []int, work *meter) []int {
	m.piece(start, end)
	done := start
	for at := start; at < end; {
		from, to := m.find(at)
		if to < 0 || !work.spend(to-done) {
			break
		}
		if from > done {
			ends = append(ends, from)
		}
		if to > from {
			ends = append(ends, to)
		}
		done = to
		at = max(to, from+1)
	}
	if done < end {
		ends = append(ends, end)
	}
	return ends
}
