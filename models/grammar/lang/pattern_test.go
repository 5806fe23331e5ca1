package lang

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"
)

// expression of package regexp's syntax, which ECMA-262 reads alike.
func randomExpression(r *rand.Rand, depth int) string {
	if depth == 0 || r.IntN(4) == 0 {
		return []string{"a", "b", "c", ".", "[ab]", "[^a]", "^", "$", `\b`, `\B`, "é", `\n`, "[b-é]", `\w`, `\W`, " ",
			"(?:)"}[r.IntN(17)]
	}
	sub := func() string { return randomExpression(r, depth-1) }
	switch r.IntN(8) {
	case 0, 1, 2:
		return sub() + sub()
	case 3:
		return "(?:" + sub() + "|" + sub() + ")"
	case 4:
		return "(?:" + sub() + ")" + []string{"*", "+", "?", "*?", "+?", "??"}[r.IntN(6)]
	case 5:
		return fmt.Sprintf("(?:%s){%d,%d}", sub(), r.IntN(2), 1+r.IntN(3))
	case 6:
		return "(" + sub() + ")"
	default:
		return sub() + sub() + sub()
	}
}

func TestPatternAgreesWithRegexp(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	alphabet := []rune("aabbc é_\n😀")
	for range 3000 {
		source := randomExpression(r, 4)
		// package regexp has ASCII boundaries as ECMA-262 does, but takes fewer characters for ends of lines
		want := regexp.MustCompile(strings.ReplaceAll(source, ".", `[^\n\r\x{2028}\x{2029}]`))
		l, err := new(Maker).Pattern(source)
		if err != nil {
			t.Fatalf("%s: %v", source, err)
		}
		check(t, l)
		for range 30 {
			text := make([]rune, r.IntN(7))
			for i := range text {
				text[i] = alphabet[r.IntN(len(alphabet))]
			}
			if got, want := l.Has(string(text)), want.MatchString(string(text)); got != want {
				t.Fatalf("%s on %q: %v, want %v", source, string(text), got, want)
			}
		}
	}
}

// TestPatternAgreesWithV8 holds Pattern to what testdata/patterns.mjs wrote. V8 accepts an expression if its verdicts
// are not empty.
func TestPatternAgreesWithV8(t *testing.T) {
	var table struct {
		Texts    []string
		Patterns [][2]string
	}
	data, err := os.ReadFile("testdata/patterns.json")
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(data, &table); err != nil {
		t.Fatal(err)
	}
	for _, p := range table.Patterns {
		l, err := new(Maker).Pattern(p[0])
		if err != nil || p[1] == "" {
			if (err == nil) != (p[1] != "") {
				t.Errorf("%s: error %v, verdicts %q", p[0], err, p[1])
			}
			continue
		}
		check(t, l)
		for i, text := range table.Texts {
			if got := l.Has(text); got != (p[1][i] == '1') {
				t.Errorf("%s on %q: %v", p[0], text, got)
			}
		}
	}
}

func TestPatternBeyondFlagU(t *testing.T) {
	for source, texts := range map[string][2][]string{
		`^\-\_\@\"\:\/$`:        {{`-_@":/`}, {`\-\_`}},
		`^[\_\@]]{a}{$`:         {{`@]{a}{`}, {`@{a}{`}},
		`^(?=){3}a$`:            {{"a"}, {"aaa", ""}},
		`^[\w-.]$`:              {{"-", ".", "a"}, {"/", "+"}},
		`^(?i:aé\u212A)[a]$`:    {{"aéka", "AÉKa", "aÉ\u212Aa"}, {"aéka\n", "AÉKA"}},
		`^(?i:[^a-c])$`:         {{"d", "D"}, {"a", "B"}},
		`^(?i:\w)\W$`:           {{"\u017F\u017F"}, {"aa", "\u017Fa"}},
		`^(?s:.(?-s:.))$`:       {{"\na", "aa"}, {"a\n"}},
		`(?m:^a$)`:              {{"a", "b\na\nb", "a\u2028"}, {"ba", "ab"}},
		`^[^\uD800-\uDFFF\0]$`:  {{"é", "😀"}, {"\x00", ""}},
		`^\P{Cs}\p{XID_Start}$`: {{"1a", "😀é"}, {"a1", "a\u037A"}},
		`^\p{Script=Latin}\d?$`: {{"a", "é1"}, {"α", "1"}},
	} {
		l, err := new(Maker).Pattern(source)
		if err != nil {
			t.Errorf("%s: %v", source, err)
			continue
		}
		for i, has := range []bool{true, false} {
			for _, text := range texts[i] {
				if l.Has(text) != has {
					t.Errorf("%s on %q: %v", source, text, !has)
				}
			}
		}
	}
}

func TestPatternSaysWhatIsWrong(t *testing.T) {
	for source, want := range map[string]string{
		`(?i)a`: "write (?i:…)", `(?P<x>a)`: "write (?<name>…)", `\Aa`: "write ^", `a\z`: "write $",
		`(a)\1`: "references back",
		`a{,3}`: "write {0,n}", `a++`: "possessive", `(?>a)`: "atomic", `[[:alpha:]]`: `write \d`, `\pL`: `write \p{L}`,
		`\p{Nope}`: "not supported: Nope", `\p{scx=Deva}`: "not supported", `\p{unstable}`: "not supported",
		`\p{Emoji 23}`: "not supported", "\\p{\x01}": `known or not supported: "\x01"`,
		`(?<=a(?=b))`: "inside a lookbehind",
		`(?<=a$)`:     "inside a lookbehind", `\uD83D`: "both halves", `[\uDE00\uD83D]`: "both halves",
		`\u{D83D}`: "both halves",
		`[z-a]`:    "wrong order", `\x{41}`: `\u{…}`, "(": "without its )", "a)": "without a (",
		"[a": "without its ]",
		`\h`: `[\t\p{Zs}]`, "a{2}{3}": "two quantifiers", strings.Repeat("a", LongestPattern+1): "at most 16384",
		strings.Repeat("(", 300): "200 deep", `a\`: "at the end", `\07`: "octal",
	} {
		if l, err := new(Maker).Pattern(source); l != nil || err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.40s: %v; want %q", source, err, want)
		}
	}
}

func TestPatternsAreSmall(t *testing.T) {
	for source, most := range map[string]int{
		`^[a-z]+$`: 2, `^[a-z]{2,255}$`: 256, "foo": 4, `^(?:(?!ab).)*$`: 2, "": 1,
		`^(?!\.)(?!.*\.\.)([A-Za-z0-9_'+\-\.]*)[A-Za-z0-9_+-]@([A-Za-z0-9][A-Za-z0-9\-]*\.)+[A-Za-z]{2,}$`: 8,
		`^(?=.*[a-z])(?=.*[A-Z])(?=.*\d)(?=.*[^\w\s]).{8,64}$`:                                             976,
	} {
		spent := 0
		l, err := (&Maker{Spend: func(n int) bool { spent += n; return true }}).Pattern(source)
		if err != nil || len(l.states) > most || !l.single || spent > 300<<10 {
			t.Errorf("%s: %d states for %d units, deterministic %v, %v", source, len(l.states), spent, l.single, err)
		}
	}
}

func TestPatternInIsAnd(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	m := &Maker{}
	for range 300 {
		a, _ := m.Pattern(randomExpression(r, 3))
		source := "^(?=" + randomExpression(r, 3) + ")(?!" + randomExpression(r, 2) + ")" + randomExpression(r, 3)
		b, _ := m.Pattern(source)
		in, err := m.PatternIn(a, -1, source)
		if err != nil {
			t.Fatal(err)
		}
		check(t, in)
		and := m.And(a, b)
		if !m.And(in, m.Not(and)).Empty() || !m.And(and, m.Not(in)).Empty() {
			t.Fatalf("differs from And for %s", source)
		}
	}
	hostname, longest, _ := m.Format("hostname")
	spent := 0
	m.Spend = func(n int) bool { spent += n; return true }
	l, err := m.PatternIn(hostname, longest, `^(?=.{1,253}\.?$)[a-zA-Z0-9]`+
		`(?:[a-zA-Z0-9-]{0,61}[a-zA-Z0-9])?(?:\.[a-zA-Z0-9](?:[-0-9a-zA-Z]{0,61}[0-9a-zA-Z])?)*\.?$`)
	if err != nil || len(l.states) != len(hostname.states) || spent > 300<<10 {
		t.Errorf("a pattern that the format implies: %d states for %d units, %v", len(l.states), spent, err)
	}
}

func TestPatternBombsEnd(t *testing.T) {
	for _, source := range []string{
		`(?:a{1000}){1000}`, `a{0,1000000000}`, `(?:){1000000000}(?:(?:){3}|){1000000000}`,
		`(?:(?:(?:a?){99}){99}){99}`,
		`^(?!.*a.{30})`, `(?<=a.{30})b`, `(?:(?=.*a.{9})(?=.*b.{9})(?=.*c.{9}).)*`,
		strings.Repeat(`(?=.*a)\p{L}`, 1000), strings.Repeat(`(?i:a)`, 2500), strings.Repeat("(?<=a)", 2000),
		strings.Repeat(`(?:\b|a)`, 1900), strings.Repeat("(?:", 190) + "a" + strings.Repeat(")*", 190),
		strings.Repeat("a|", 8000), `^(?:` + strings.Repeat("a?", 4000) + `)$`, strings.Repeat(`[^\p{L}\p{N}]`, 1200),
	} {
		left := 3 << 20
		l, err := (&Maker{Spend: func(n int) bool { left -= n; return left >= 0 }}).Pattern(source)
		if err != nil || (l == nil) != (left < 0) {
			t.Errorf("%.40s: made %v with %d units left, error %v", source, l != nil, left, err)
		}
	}
}

func FuzzPattern(f *testing.F) {
	for _, source := range []string{`^(?=.*a)[^\p{L}-]{2,3}?$|\bx\B`, `(?<n>a)(?<!b+)(?i:É)`,
		`\uD83D\uDE00[\0-\x1F\cA]`, `(?-s:.)*`} {
		f.Add(source, "aé\n")
	}
	f.Fuzz(func(t *testing.T, source, text string) {
		left := 1 << 17
		m := &Maker{Spend: func(n int) bool { left -= n; return left >= 0 }}
		l, err := m.Pattern(source)
		if err != nil && (l != nil || len(err.Error()) > 200 || !utf8.ValidString(err.Error())) {
			t.Fatalf("%q: %q", source, err)
		}
		if l == nil {
			return
		}
		check(t, l)
		text = strings.ToValidUTF8(text, "?")
		if not := m.Not(l); not != nil && not.Has(text) == l.Has(text) {
			t.Fatalf("%q and its complement on %q", source, text)
		}
	})
}
