package grammar

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"foretoken/models/fuzztest"
	"foretoken/models/grammar/lang"
)

// within does work on an input of so many bytes and fails if it allocates more than that and fuzztest.Overhead. It
// tells the bytes, and the time, which other programs on the machine change.
func within(t testing.TB, size int, work func()) (made uint64, took time.Duration) {
	t.Helper()
	before, begun := fuzztest.Allocated(), time.Now()
	work()
	took = time.Since(begun)
	if made = fuzztest.Allocated() - before; made > uint64(size)+fuzztest.Overhead {
		t.Errorf("%d MB allocated for %d bytes", made>>20, size)
	}
	return made, took
}

// placed is the part of a grammar that a refusal names.
var placed = regexp.MustCompile(`schema at #|rule "|line \d|at byte \d|there is no rule`)

// TestBombs compiles what asks for work without measure. Each is refused by name, or compiled after all because
// references are read once; both within the bounds.
func TestBombs(t *testing.T) {
	compiles := strings.Split("$ref beside keywords,allOf of one $ref,allOf of one $ref below properties,"+
		"allOf that puts properties together,const; nested,a class without many,"+
		"repetitions; nested,rules in a row,rules in a row; from the end,rules in a circle,rules that double", ",")
	all := maps.Clone(schemaBombs)
	maps.Copy(all, gbnfBombs)
	t.Attr("attack",
		"schemas and grammars that multiply: $ref, allOf, anyOf, oneOf, repetitions, lists, classes, names, "+
			"nesting")
	t.Attr("bound",
		fmt.Sprintf("%d units of work, %d steps, %d levels, %d bytes a pattern, and the input's size + %d MB",
			compileUnits, maxOps, deepestSchema, lang.LongestPattern, fuzztest.Overhead>>20))
	var mostUnits, refused int
	var mostMade uint64
	for _, name := range slices.Sorted(maps.Keys(all)) {
		t.Run(name, func(t *testing.T) {
			source := all[name]()
			b := newBuilder(context.Background())
			var g *Grammar
			var err error
			made, took := within(t, len(source), func() {
				if schemaBombs[name] != nil {
					g, err = b.schema([]byte(source), SchemaOptions{})
				} else {
					g, err = b.gbnf(source)
				}
			})
			units := compileUnits - b.budget.left
			t.Logf("%d bytes: %v, %d units, %d MB: %.200v", len(source), took, units, made>>20, err)
			mostUnits, mostMade = max(mostUnits, units), max(mostMade, made)
			if slices.Contains(compiles, strings.ReplaceAll(name, ",", ";")) && err != nil {
				t.Error(err)
			}
			if err != nil {
				refused++
				fuzztest.Refusal(t, err, "grammar: ")
				if !placed.MatchString(err.Error()) && !strings.Contains(err.Error(), "allows no text") {
					t.Errorf("%v names no place", err)
				}
				return
			}
			follow(t, g, source[max(len(source)-40, 0):])
		})
	}
	t.Attr("measured", fmt.Sprintf("%d refused by their place, %d compiled; at most %d units, %d MB allocated", refused,
		len(all)-refused, mostUnits, mostMade>>20))
}

// pieces has tokens for every byte, and for runs of the letters that JSON and the tests' grammars are made of.
var pieces = func() *Vocab {
	var all []string
	for b := range 256 {
		all = append(all, string([]byte{byte(b)}))
	}
	const letters = `ab1{}[]":, `
	for _, a := range letters {
		for _, b := range letters {
			all = append(all, string([]rune{a, b}), string([]rune{a, b, a}), strings.Repeat(string([]rune{a, b}), 8))
		}
	}
	return NewVocab(len(all), func(id int32) []byte { return []byte(all[id]) }, func(int32) bool { return false })
}()

// followed has the largest costs of following a text: units of work of a token, and bytes that the matcher kept.
type followed struct {
	units, bytes int
	err          error
}

// follow reads tokens of a grammar by a script and holds the matcher to its bounds, which may end it.
func follow(t *testing.T, g *Grammar, script string) (all followed) {
	t.Helper()
	m := NewMatcher(context.Background(), g, pieces)
	s, most, tokens := m.Start(), time.Duration(0), 0
	for i := range len(script) {
		left := m.budget.left
		_, took := within(t, 3*mostBytes, func() {
			mask := m.Mask(s)
			var can []int32
			for id := range int32(pieces.words * 32) {
				if mask[id/32]>>(id%32)&1 == 1 {
					can = append(can, id)
				}
			}
			if len(can) > 0 {
				s, _ = m.Commit(s, can[int(script[i])*len(can)/256])
				tokens++
			}
		})
		most = max(most, took)
		all.units, all.bytes = max(all.units, left+tokenUnits-m.budget.left), max(all.bytes, m.bytes)
		if m.budget.left > min(left+tokenUnits, matchUnits) {
			t.Fatalf("%d units are left, and %d were", m.budget.left, left)
		}
		if m.bytes > 2*mostBytes {
			t.Fatalf("%d MB are kept", m.bytes>>20)
		}
		if m.Err() != nil {
			fuzztest.Refusal(t, m.Err(), "grammar: ")
			if !placed.MatchString(m.Err().Error()) {
				t.Fatalf("%v names no rule", m.Err())
			}
			break
		}
		if s.MustEnd() {
			break
		}
	}
	t.Logf("%d tokens, the slowest in %v: %v", tokens, most, m.Err())
	all.err = m.Err()
	return all
}

// TestMatchingBombs follows grammars that compile and have ever more ways to read a text.
func TestMatchingBombs(t *testing.T) {
	t.Attr("attack", "grammars with ever more ways to read a text")
	t.Attr("bound", fmt.Sprintf("%d units of work ahead, %d a token, %d MB; then the request ends with the rule's name",
		matchUnits, tokenUnits, mostBytes>>20))
	var most followed
	ended, texts := 0, 0
	for name, c := range map[string]struct {
		source string
		ends   bool // by the bound
	}{
		"what may be left out, many times": {`root ::= ([a-z]?){50000}`, true},
		"lists of what may be empty":       {`root ::= ("a" root?)* root?`, true},
		"every tree of a text":             {`root ::= "a" root root | "a"`, true},
		"two trees in turn": {"root ::= a | b\na ::= [a-z] root root | [a-z]\nb ::= c [a-z]\n" +
			"c ::= [a-z] c c | [a-z] a | [a-z]", true},
		"repetitions side by side":  {`root ::= ` + strings.Repeat(`[a-z]* `, 3000), false},
		"alternatives that are one": {`{"anyOf":[` + many(2000, `{"pattern":"^[a-z]*%d$"}`) + `]}`, false},
		"rules in a row":            {chain(30000, func(i int) string { return fmt.Sprintf(`r%d | "b"`, i+1) }), false},
		"an enum of many":           {`{"enum":[` + many(9000, `"value of number %d"`) + `]}`, false},
		"JSON":                      {`true`, false},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBuilder(context.Background())
			var g *Grammar
			var err error
			if strings.HasPrefix(c.source, "root") {
				g, err = b.gbnf(c.source)
			} else {
				g, err = b.schema([]byte(c.source), SchemaOptions{})
			}
			if err != nil {
				t.Fatal(err)
			}
			got := follow(t, g, strings.Repeat("\xff", 300))
			if (got.err != nil) != c.ends {
				t.Errorf("%v, want a bound: %v", got.err, c.ends)
			}
			if texts++; got.err != nil {
				ended++
			}
			most.units, most.bytes = max(most.units, got.units), max(most.bytes, got.bytes)
		})
	}
	t.Attr("measured",
		fmt.Sprintf("%d of %d end so; at most %d units for a token, %d MB kept", ended, texts, most.units,
			most.bytes>>20))
}

// asked is a context that ends when it is asked for the nth time.
type asked struct {
	context.Context
	times, most int
}

func (a *asked) Err() error {
	if a.times++; a.times >= a.most {
		return context.Canceled
	}
	return nil
}

// TestCancelled ends compiling and matching in the middle.
func TestCancelled(t *testing.T) {
	t.Attr("attack", "a client that leaves while its grammar is compiled or followed")
	t.Attr("bound", fmt.Sprintf("every %d units ask the request's context, and its end is the work's", askUnits))
	for _, name := range []string{"allOf of enums", "properties of thousands", "enum of a million"} {
		ctx := &asked{context.Background(), 0, 5}
		_, err := FromSchema(ctx, []byte(schemaBombs[name]()), SchemaOptions{})
		if !errors.Is(err, context.Canceled) || ctx.times != 5 {
			t.Errorf("%s: %v, asked %d times", name, err, ctx.times)
		}
	}
	ctx := &asked{context.Background(), 0, 5}
	if _, err := ParseGBNF(ctx, gbnfBombs["alternatives of repetitions"]()); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	ctx = &asked{context.Background(), 0, 5}
	m := NewMatcher(ctx, parse(t, `root ::= ([a-z]?){50000}`), pieces)
	if m.Mask(m.Start()); !errors.Is(m.Err(), context.Canceled) || ctx.times != 5 {
		t.Errorf("%v, asked %d times", m.Err(), ctx.times)
	}
	if _, ok := m.Accept(m.Start(), 'a'); ok {
		t.Error("a matcher that has ended allows a token")
	}
}

// TestSharedSchemas compares schemas that refer to others with the same written out.
func TestSharedSchemas(t *testing.T) {
	for _, c := range []struct{ schema, yes, no string }{
		{`{"$defs":{"a":{"properties":{"n":{"$ref":"#/$defs/a","type":"object"},"v":{"type":"integer"}},` +
			`"required":["v"]}},"$ref":"#/$defs/a","type":"object"}`,
			`{"n":{"n":{"v":1},"v":2},"v":3}`, `{"n":{},"v":1}`},
		{`{"$defs":{"a":{"allOf":[{"$ref":"#/$defs/b"},{"properties":{"c":{"$ref":"#/$defs/a"}}}]},` +
			`"b":{"type":"object","properties":{"v":{"type":"integer"}},"required":["v"]}},"$ref":"#/$defs/a"}`,
			`{"v":1,"c":{"v":2}}`, `{"v":1,"c":{}}`},
		{ladder(30, `"allOf":[FIRST,FIRST]`, `{"allOf":[NEXT,NEXT]}`, `{"type":"integer","minimum":3}`), `3`, `2`},
		{`{"type":"array","minItems":2,"prefixItems":[{"const":1},{"const":2},{"const":3}]}`, `[1,2]`, `[1]`},
	} {
		g := schemaGrammar(t, c.schema, Free)
		if !allows(g, c.yes) || allows(g, c.no) {
			t.Errorf("%.100s: %s %v, %s %v", c.schema, c.yes, allows(g, c.yes), c.no, allows(g, c.no))
		}
	}
}
