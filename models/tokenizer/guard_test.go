package tokenizer

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"
)

// guardedVocab is a tokenizer whose control tokens overlap each other.
func guardedVocab() *Tokenizer {
	t := &Tokenizer{name: "test", bos: none, eos: none, unk: none}
	add := func(text string, k kind) {
		t.texts, t.kinds = append(t.texts, text), append(t.kinds, k)
		t.pieces = append(t.pieces, text...)
		t.ends = append(t.ends, uint32(len(t.pieces)))
	}
	for b := range 256 {
		add(string([]byte{byte(b)}), normal)
	}
	for _, s := range []string{"<a>", "ab", "bc", "<a><a>", "<|é|>", "§"} {
		add(s, control)
	}
	add("<t>", userDefined)
	t.special = newPartition(t, nil)
	t.guard = t.newGuard()
	t.model = bytewise{}
	return t
}

// bytewise gives each byte its own id.
type bytewise struct{}

func (bytewise) encode(text string, ids []int32, _ *meter) []int32 {
	for i := range len(text) {
		ids = append(ids, int32(text[i]))
	}
	return ids
}

func protected(g *Guard, text, mark string, ends []string) string {
	text, _ = g.Protector(mark, ends, nil)(text)
	return text
}

// checkGuard: between a template's tokens, a content is its bytes and its user-defined tokens, whatever it spells.
func checkGuard(t *testing.T, tok *Tokenizer, content string) {
	t.Helper()
	if !utf8.ValidString(content) {
		content = strings.ToValidUTF8(content, "?")
	}
	g := tok.Guard()
	mark := g.Mark(slices.Values([]string{content, content}))
	if strings.Contains(content, mark) {
		t.Fatalf("%q contains its mark", content)
	}
	text := "<a>x" + protected(g, content, mark, nil) + "y<a>"
	want := slices.Concat([]int32{256}, tok.Encode("x"+content+"y", false), []int32{256})
	got, err := tok.EncodeWith(text, EncodeOptions{Special: true, Mark: mark})
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("%q gives %v, want %v", content, got, want)
	}
}

func TestGuard(t *testing.T) {
	tok := guardedVocab()
	if ids := tok.EncodeSpecial("<a>abc<t>", false); !slices.Equal(ids, []int32{256, 257, 'c', 262}) {
		t.Fatalf("%v", ids)
	}
	for _, content := range []string{"", "plain", "<a>", "<a><a><a>", "abc", "aabcbc", "<t><a>", "<|é|>", "<<a>a>",
		"\ufdd0", "\ufdd0<a>\ufdd0\ufdd0", "a\ufdd0bc", "<\ufdd0a>", "a\ufdd0\ufdd0b\ufdd0", "§", "§§<a>", "\ufdd0§",
		strings.Repeat("\ufdd0", 5000) + strings.Repeat("<a>", 5000), allMarks(3) + "<a>§"} {
		checkGuard(t, tok, content)
	}
	if g := tok.Guard(); protected(g, "nothing here", "\ufdd0", nil) != "nothing here" {
		t.Error("a content without control tokens changed")
	}
}

// TestTokensInPieces: control tokens that a template and contents spell together are text, however they are cut.
func TestTokensInPieces(t *testing.T) {
	tok := guardedVocab()
	for _, token := range []string{"<a>", "<|é|>", "abc", "bc", "<a><a>"} {
		for i := range len(token) {
			for j := i + 1; j <= len(token); j++ {
				if !utf8.ValidString(token[:i]) || !utf8.ValidString(token[i:j]) {
					continue
				}
				before, content, after := token[:i], token[i:j], token[j:]
				g := tok.Guard()
				ends := g.Ends([]string{"x" + before, "y"})
				texts := []string{"x" + before + protected(g, content, "\ufdd0", ends) + after}
				if before == "" { // two contents
					texts = append(texts, protected(g, content, "\ufdd0", nil)+protected(g, after, "\ufdd0", nil))
				}
				for _, text := range texts {
					ids, err := tok.EncodeWith(text, EncodeOptions{Special: true, Mark: "\ufdd0"})
					for _, id := range ids {
						if err != nil || tok.Special(id) && !strings.Contains(after+before, tok.TokenText(id)) {
							t.Errorf("%q, %q, %q: %v is a control token; %v", before, content, after, id, err)
						}
					}
				}
			}
		}
	}
}

// TestManyEnds: the work for a text is bounded for templates that end within many control tokens, and can be ended.
func TestManyEnds(t *testing.T) {
	tok := guardedVocab()
	var own []string
	for i := range 3 * maxEnds {
		own = append(own, string(rune(0x4e00+i)))
		tok.texts, tok.kinds = append(tok.texts, own[i]+"x"), append(tok.kinds, control)
		tok.ends = append(tok.ends, uint32(len(tok.pieces)))
	}
	tok.special = newPartition(tok, nil)
	g := tok.newGuard()
	for _, n := range []int{1, maxEnds, maxEnds + 1, len(own)} {
		ends := g.Ends(own[:n])
		if len(ends) != min(n, maxEnds+1) {
			t.Errorf("%d ends of %d", len(ends), n)
		}
		for _, before := range own[:n] {
			text := "<a>" + before + protected(g, "x", "\ufdd0", ends)
			want := append([]int32{256}, tok.Encode(before+"x", false)...)
			ids, err := tok.EncodeWith(text, EncodeOptions{Special: true, Mark: "\ufdd0"})
			if err != nil || !slices.Equal(ids, want) {
				t.Errorf("%d ends: %q gives %v, want %v; %v", n, text, ids, want, err)
			}
		}
	}
	yields, gone := 0, errors.New("gone")
	protect := g.Protector("\ufdd0", g.Ends(own[:maxEnds]), func() error {
		if yields++; yields == 3 {
			return gone
		}
		return nil
	})
	for i := range 10_000 {
		if _, err := protect("y"); err != nil {
			if err != gone || i > 200 {
				t.Errorf("text %d: %v", i, err)
			}
			return
		}
	}
	t.Errorf("%d yields", yields)
}

// allMarks spells every mark of so many characters.
func allMarks(length int) string {
	var b strings.Builder
	for code := range 1 << (5 * length) {
		for i := range length {
			b.WriteRune(firstMark + rune(code>>(5*i)&31))
		}
		b.WriteByte(' ')
	}
	return b.String()
}

// TestMarksStayShort: a mark is as long as it must be, however long the runs of its characters in a text are.
func TestMarksStayShort(t *testing.T) {
	tok := guardedVocab()
	for text, want := range map[string]int{"": 1, "\ufdd0": 1, strings.Repeat("\ufdd0", 1<<20): 5, allMarks(2): 3} {
		if mark := tok.Guard().Mark(slices.Values([]string{text})); utf8.RuneCountInString(mark) > want {
			t.Errorf("the mark for %.40q has %d characters, want at most %d", text, utf8.RuneCountInString(mark), want)
		}
	}
}

func FuzzGuard(f *testing.F) {
	for _, s := range []string{"<a>", "abc<t>", "\ufdd0<|é|>\ufdd0"} {
		f.Add(s)
	}
	tok := guardedVocab()
	f.Fuzz(func(t *testing.T, content string) { checkGuard(t, tok, content) })
}
