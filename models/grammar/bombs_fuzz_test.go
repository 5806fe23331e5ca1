package grammar

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"foretoken/models/fuzztest"
)

// maker writes schemas and grammars by a script of bytes: definitions that refer to each other, so that what the
// fuzzer finds multiplies.
type maker struct {
	script []byte
	at     int
	defs   int // that may be referred to
	def    int // being written
	room   int // of parts
}

// pick is a number below n.
func (m *maker) pick(n int) int {
	if m.at >= len(m.script) {
		return 0
	}
	m.at++
	return int(m.script[m.at-1]) % n
}

func (m *maker) one(of ...string) string { return of[m.pick(len(of))] }

// another is the next definition mostly, or any.
func (m *maker) another() int {
	if m.pick(3) > 0 {
		return min(m.def+1, m.defs-1)
	}
	return m.pick(m.defs)
}

// few is one to four parts.
func (m *maker) few(part func() string, between string) string {
	all := []string{part()}
	for range m.pick(4) {
		all = append(all, part())
	}
	return strings.Join(all, between)
}

func (m *maker) count() string {
	return m.one("0", "1", "2", "3", "7", "1000", "30000", "262144", "1000000000")
}

// schema is a schema with keywords nested to a depth.
func (m *maker) schema(depth int) string {
	ref := fmt.Sprintf(`"$ref":"#/$defs/d%d"`, m.another())
	if m.room--; depth == 0 || m.room < 0 {
		return "{" + ref + "}"
	}
	part := func() string { return m.schema(depth - 1) }
	list := func() string { return "[" + m.few(part, ",") + "]" }
	named := func() string { return m.one(`"p"`, `"q"`, `"pq"`, `"é"`, `""`) + ":" + part() }
	word := func() string {
		return m.one(`"p"`, `"q"`, `1`, `1.5`, `null`, `{"a":[1]}`, `"`+strings.Repeat("w", 500)+`"`)
	}
	var keywords []string
	for range 1 + m.pick(3) {
		keywords = append(keywords, [...]func() string{
			func() string { return ref },
			func() string { return `"allOf":` + list() },
			func() string { return `"anyOf":` + list() },
			func() string { return `"oneOf":` + list() },
			func() string { return `"properties":{` + m.few(named, ",") + `}` },
			func() string { return `"required":["p","q"]` },
			func() string { return `"additionalProperties":` + m.one("true", "false", part()) },
			func() string { return `"items":` + part() },
			func() string { return `"prefixItems":` + list() },
			func() string { return m.one(`"minItems"`, `"maxItems"`) + ":" + m.count() },
			func() string { return m.one(`"minLength"`, `"maxLength"`, `"minProperties"`) + ":" + m.count() },
			func() string {
				return `"pattern":"` + m.few(func() string {
					return m.one("a?", "[ab]*", `(a|b)+`, "(a?){1000}", `\\pL`, "x", "(", ")", ".*", "^", "$")
				}, "") + `"`
			},
			func() string { return `"format":` + m.one(`"email"`, `"date-time"`, `"uri"`) },
			func() string {
				return m.one(`"minimum"`, `"maximum"`) + ":" + m.one("-3", "0.25", "99999999", "1.123456789")
			},
			func() string { return `"enum":[` + m.few(word, ",") + "]" },
			func() string { return `"const":` + word() },
			func() string { return `"type":` + m.one(`"object"`, `"array"`, `"string"`, `["integer","number"]`) },
		}[m.pick(17)]())
	}
	return "{" + strings.Join(keywords, ",") + "}"
}

// rule is the alternatives of a rule in GBNF.
func (m *maker) rule(depth int) string {
	sequence := func() string {
		return m.few(func() string {
			term := fmt.Sprintf("r%d", m.another())
			if m.room--; depth > 0 && m.room > 0 {
				term = [...]func() string{
					func() string { return term },
					func() string { return m.one(`"a"`, `""`, `"ab"`, `"{"`, `"\xff"`) },
					func() string { return m.one(`[a-z]`, `[^a]`, `.`, `[é-ё0-9]`) },
					func() string { return "(" + m.rule(depth-1) + ")" },
				}[m.pick(4)]()
			}
			return term + m.one("", "", "?", "*", "+", "{3}", "{0,40}", "{1000}", "{2,30000}", "{262144}")
		}, " ")
	}
	return m.few(sequence, " | ")
}

// FuzzBombs compiles and follows a schema and a grammar made of the script, and holds both to their bounds.
func FuzzBombs(f *testing.F) {
	f.Attr("attack", "schemas and grammars made of a script, which a search changes")
	f.Attr("bound", "those of compiling and of following, in every text")
	f.Add([]byte{40, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1})
	f.Add([]byte(strings.Repeat("\x1e\x01\x00\x01\x01\x02\x01", 40)))
	f.Add([]byte(strings.Repeat("\x04\x00\x02\x03\x01\x01\x0b", 40)))
	f.Fuzz(func(t *testing.T, script []byte) {
		for _, kind := range []string{"schema", "gbnf"} {
			m := &maker{script: script, room: 2000}
			m.defs = 1 + m.pick(60)
			var source strings.Builder
			for m.def = range m.defs {
				if kind == "schema" {
					fmt.Fprintf(&source, `"d%d":%s,`, m.def, m.schema(3))
				} else {
					fmt.Fprintf(&source, "r%d ::= %s\n", m.def, m.rule(3))
				}
			}
			b := newBuilder(context.Background())
			var g *Grammar
			var err error
			_, took := within(t, source.Len(), func() {
				if kind == "schema" {
					text := `{"$defs":{` + source.String() + `"end":{}},"$ref":"#/$defs/d0"}`
					g, err = b.schema([]byte(text), SchemaOptions{})
				} else {
					g, err = b.gbnf(source.String() + "root ::= r0\n")
				}
			})
			t.Logf("%s of %d bytes: %v, %d units: %.200v", kind, source.Len(), took, compileUnits-b.budget.left, err)
			if err != nil {
				fuzztest.Refusal(t, err, "grammar: ")
				continue
			}
			follow(t, g, string(script[:min(len(script), 12)]))
		}
	})
}
