package tokenizer

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unicode"

	"foretoken/models/gguf"
)

// The slow tokenizers of this file are written from the definitions, without
// the package's regular expressions, queues and caches.

// naiveMerge joins the pair of the lowest rank, the leftmost among equals, until there is none.
func naiveMerge(syms []string, ranks map[string]int) []string {
	for {
		best, at := -1, 0
		for i := range len(syms) - 1 {
			if r, ok := ranks[syms[i]+" "+syms[i+1]]; ok && (best < 0 || r < best) {
				best, at = r, i
			}
		}
		if best < 0 {
			return syms
		}
		syms = slices.Replace(syms, at, at+2, syms[at]+syms[at+1])
	}
}

// naiveBPE encodes words that scan cuts.
type naiveBPE struct {
	ids   map[string]int32
	ranks map[string]int
	scan  func(string) []string
	known map[string][]int32
}

func newNaiveBPE(t testing.TB, f *gguf.File, scan func(string) []string) *naiveBPE {
	t.Helper()
	tokens, err := f.Strings(keyTokens)
	if err != nil {
		t.Fatal(err)
	}
	merges, err := f.Strings(keyMerges)
	if err != nil {
		t.Fatal(err)
	}
	n := &naiveBPE{ids: map[string]int32{}, ranks: map[string]int{}, scan: scan, known: map[string][]int32{}}
	for id, s := range tokens {
		n.ids[s] = int32(id)
	}
	for rank, m := range merges {
		n.ranks[m] = rank
	}
	return n
}

func (n *naiveBPE) encode(text string) (ids []int32) {
	for _, w := range n.scan(text) {
		row, ok := n.known[w]
		if !ok {
			var syms []string
			for _, b := range []byte(w) {
				// GPT-2's table: printable bytes are themselves, the other 68 count up from U+0100 in order.
				r := rune(b)
				switch {
				case b <= 32:
					r = 256 + r
				case b >= 127 && b <= 160:
					r = 256 + 33 + r - 127
				case b == 173:
					r = 256 + 67
				}
				syms = append(syms, string(r))
			}
			for _, s := range naiveMerge(syms, n.ranks) {
				row = append(row, n.ids[s])
			}
			n.known[w] = row
		}
		ids = append(ids, row...)
	}
	return ids
}

func isL(r rune) bool { return unicode.Is(unicode.L, r) }
func isN(r rune) bool { return unicode.Is(unicode.N, r) }
func isX(r rune) bool { return !unicode.IsSpace(r) && !isL(r) && !isN(r) }

func run(text []rune, from int, is func(rune) bool) int {
	for from < len(text) && is(text[from]) {
		from++
	}
	return from
}

// contraction is the length of 's, 't, 're, 've, 'm, 'll or 'd at i.
func contraction(text []rune, i int, fold bool) int {
	rest := string(text[i:min(i+3, len(text))])
	if fold {
		rest = strings.Map(func(r rune) rune {
			if r < 128 {
				return unicode.ToLower(r)
			}
			return r
		}, rest)
	}
	for _, c := range []string{"'s", "'t", "'re", "'ve", "'m", "'ll", "'d"} {
		if strings.HasPrefix(rest, c) {
			return len(c)
		}
	}
	return 0
}

// spaces takes white space up to, but without, the last one before a word.
func spaces(text []rune, i int) int {
	end := run(text, i, unicode.IsSpace)
	if end < len(text) && end > i+1 {
		end--
	}
	return end
}

func scanWith(text string, next func(text []rune, i int) int) (words []string) {
	r := []rune(text)
	for i := 0; i < len(r); {
		end := next(r, i)
		words = append(words, string(r[i:end]))
		i = end
	}
	return words
}

func scanGPT2(text string) []string {
	return scanWith(text, func(r []rune, i int) int {
		if n := contraction(r, i, false); n > 0 {
			return i + n
		}
		for _, is := range []func(rune) bool{isL, isN, isX} {
			if is(r[i]) {
				return run(r, i, is)
			}
			if r[i] == ' ' && i+1 < len(r) && is(r[i+1]) {
				return run(r, i+1, is)
			}
		}
		return spaces(r, i)
	})
}

// scanLlama3 is the scanner of Llama 3 with runs of three digits, of Qwen2 with one.
func scanLlama3(digits int) func(string) []string {
	newline := func(r rune) bool { return r == '\r' || r == '\n' }
	return func(text string) []string {
		return scanWith(text, func(r []rune, i int) int {
			if n := contraction(r, i, true); n > 0 {
				return i + n
			}
			if isL(r[i]) {
				return run(r, i, isL)
			}
			if !newline(r[i]) && !isN(r[i]) && i+1 < len(r) && isL(r[i+1]) {
				return run(r, i+1, isL)
			}
			if isN(r[i]) {
				return min(run(r, i, isN), i+digits)
			}
			if isX(r[i]) {
				return run(r, run(r, i, isX), newline)
			}
			if r[i] == ' ' && i+1 < len(r) && isX(r[i+1]) {
				return run(r, run(r, i+1, isX), newline)
			}
			for end := run(r, i, unicode.IsSpace); end > i; end-- {
				if newline(r[end-1]) {
					return end
				}
			}
			return spaces(r, i)
		})
	}
}

// scanStarcoder cuts out every digit before GPT-2's scanner.
func scanStarcoder(text string) (words []string) {
	var part strings.Builder
	flush := func() {
		words = append(words, scanGPT2(part.String())...)
		part.Reset()
	}
	for _, r := range text {
		if isN(r) {
			flush()
			words = append(words, string(r))
		} else {
			part.WriteRune(r)
		}
	}
	flush()
	return words
}

var scanners = map[string]func(string) []string{
	"gpt-2": scanGPT2, "llama-bpe": scanLlama3(3), "qwen2": scanLlama3(1), "smollm": scanStarcoder,
}

func cutWords(t testing.TB, pre, text string) (words []string) {
	t.Helper()
	c, err := newCutter(findPre(pre))
	if err != nil {
		t.Fatal(err)
	}
	r, from := []rune(text), 0
	for _, end := range c.cut(r, &meter{left: slice}) {
		words = append(words, string(r[from:end]))
		from = end
	}
	return words
}

var awkward = []string{
	"", " ", "  ", "\n", "\n\n", " \n ", "\r\n\r\n x", "a  b   c", "\t\tif x {\n\t\t\treturn\n\t\t}\n\n",
	"I'm you'RE we'Ve 'tis ''s 's' D'D", "x1234567 12 3.14e-10 ½¾ ⅷ ٣٤٥ 1a2b", "!?... ---\n\n--- ,\r\n", "  !  !\n \n!",
	"Ünïcödé e\u0301 ﬁ ǅ ª", "世界 こんにちは 안녕 ไทย កាន់", "🚀👩‍👩‍👧 🏳️‍🌈", "\u00a0\u2003x\u2028y\u0085z\u3000",
	"a\u200db \u00ad-",
	"'", "' ", " '", "'l", "'lx", "'ll", "'vE'", "ſ'ſ", "\x00\x01\x7f", "€$+<=>^~|`", "_a_b_ __init__",
	"\u1680 \u180e\u200b end", "a\n", "a \n", "a\n ", "1\n2", "  1", "\v\f x",
}

func TestWordsMatchScanners(t *testing.T) {
	for pre, scan := range scanners {
		for _, text := range awkward {
			if got, want := cutWords(t, pre, text), scan(text); !slices.Equal(got, want) {
				t.Errorf("%s cuts %q into %q, want %q", pre, text, got, want)
			}
		}
	}
}

func TestWordsOfArchitectures(t *testing.T) {
	const text = "func (x) y1234 := a+b  // 你好abc don't\n\n\tok"
	for pre, want := range map[string]string{
		"falcon": `["func" " " "(" "x" ")" " y" "123" "4" " " ":=" " a" "+" "b" "  " "//" " 你好abc" " don" "'" ` +
			`"t" "\n\n" "\t" "ok"]`,
		"deepseek-coder": `["func" " (" "x" ")" " y" "1" "2" "3" "4" " :" "=" " a" "+" "b" " " " //" " " ` +
			`"你好" "abc" " ` +
			`don" "'" "t" "\n" "\n" "\tok"]`,
		"tekken": `["func" " (" "x" ")" " y" "1" "2" "3" "4" " :=" " a" "+b" " " " //" " 你好abc" " don" "'t" ` +
			`"\n\n" "\tok"]`,
		"gpt-4o": `["func" " (" "x" ")" " y" "123" "4" " :=" " a" "+b" " " " //" " 你好abc" " don't" ` +
			`"\n\n" "\tok"]`,
		"qwen35": `["func" " (" "x" ")" " y" "1" "2" "3" "4" " :=" " a" "+b" " " " //" " 你好abc" " don" "'t" ` +
			`"\n\n" "\tok"]`,
		"default": `["func" " " "(" "x" ")" " y" "123" "4" " " ":=" " a" "+" "b" "  " "//" " 你好abc" " don" "'" ` +
			`"t" "\n\n" "\t" "ok"]`,
		"llama-bpe": `["func" " (" "x" ")" " y" "123" "4" " :=" " a" "+b" " " " //" " 你好abc" " don" "'t" ` +
			`"\n\n" "\tok"]`,
		"starcoder": `["func" " (" "x" ")" " y" "1" "2" "3" "4" " :=" " a" "+" "b" " " " //" " 你好abc" " don" ` +
			`"'t" "\n\n" "\t" "ok"]`,
	} {
		if got := fmt.Sprintf("%q", cutWords(t, pre, text)); got != want {
			t.Errorf("%s:\n got %s\nwant %s", pre, got, want)
		}
	}
}

// TestWordsWithCapitals is about the pre-tokenizers that cut between a small
// letter and a capital, and about marks that belong to their letters.
func TestWordsWithCapitals(t *testing.T) {
	const text = "HTTPServer fooBar ÉcoleÀ ЖизньМир x/y\n/z e\u0301a क्षि ǅungla"
	for pre, want := range map[string]string{
		"tekken": `["HTTPServer" " foo" "Bar" " École" "À" " Жизнь" "Мир" " x" "/y" "\n" "/z" " e\u0301a" " ` +
			`क्षि" " ǅungla"]`,
		"gpt-4o": `["HTTPServer" " foo" "Bar" " École" "À" " Жизнь" "Мир" " x" "/y" "\n" "/z" " e\u0301a" " ` +
			`क्षि" " ǅungla"]`,
		"qwen35": `["HTTPServer" " fooBar" " ÉcoleÀ" " ЖизньМир" " x" "/y" "\n" "/z" " e\u0301a" " क्षि" " ǅungla"]`,
		"qwen2": `["HTTPServer" " fooBar" " ÉcoleÀ" " ЖизньМир" " x" "/y" "\n" "/z" " e" "\u0301a" " क" "्ष" ` +
			`"ि" " ǅungla"]`,
	} {
		if got := fmt.Sprintf("%+q", cutWords(t, pre, text)); got != fmt.Sprintf("%+q", unquoted(t, want)) {
			t.Errorf("%s:\n got %q\nwant %s", pre, cutWords(t, pre, text), want)
		}
	}
}

// unquoted reads a list as %q prints it.
func unquoted(t testing.TB, list string) (words []string) {
	t.Helper()
	for rest := strings.Trim(list, "[]"); rest != ""; {
		q, err := strconv.QuotedPrefix(rest)
		if err != nil {
			t.Fatal(err)
		}
		w, err := strconv.Unquote(q)
		if err != nil {
			t.Fatal(err)
		}
		words = append(words, w)
		rest = strings.TrimPrefix(rest[len(q):], " ")
	}
	return words
}

// naiveSPM joins the neighbours that make the token of the highest score, the
// leftmost among equals, until no two make one.
func naiveSPM(tok *Tokenizer, scores []float32, text string) (ids []int32) {
	if text == "" {
		return nil
	}
	syms := strings.Split(strings.ReplaceAll(" "+text, " ", "▁"), "")
	for {
		at := -1
		var best float32
		for i := range len(syms) - 1 {
			if id, ok := tok.ids.id(syms[i] + syms[i+1]); ok && (at < 0 || scores[id] > best) {
				best, at = scores[id], i
			}
		}
		if at < 0 {
			break
		}
		syms = slices.Replace(syms, at, at+2, syms[at]+syms[at+1])
	}
	for _, s := range syms {
		if id, ok := tok.ids.id(s); ok {
			ids = append(ids, id)
			continue
		}
		for _, b := range []byte(s) {
			ids = append(ids, idOf(tok, fmt.Sprintf("<0x%02X>", b)))
		}
	}
	return ids
}
