package grammar

import (
	"fmt"
	"strings"
)

// ladder is a schema of definitions d0 to dN, each made of the next one, under a root.
func ladder(n int, root, rung, end string) string {
	var s strings.Builder
	s.WriteString(`{"$defs":{`)
	for i := range n {
		next := fmt.Sprintf(`"$ref":"#/$defs/d%d"`, i+1)
		fmt.Fprintf(&s, `"d%d":%s,`, i, strings.NewReplacer("NEXT", "{"+next+"}", "BESIDE", next).Replace(rung))
	}
	fmt.Fprintf(&s, `"d%d":%s},%s}`, n, end, strings.ReplaceAll(root, "FIRST", `{"$ref":"#/$defs/d0"}`))
	return s.String()
}

// many is n pieces with commas between, numbered where they have a verb.
func many(n int, piece string) string { return list(n, piece, ",") }

func list(n int, piece, between string) string {
	all := make([]string, n)
	for i := range all {
		if all[i] = piece; strings.Contains(piece, "%") {
			all[i] = fmt.Sprintf(piece, i)
		}
	}
	return strings.Join(all, between)
}

func nest(n int, open, inside, end string) string {
	return strings.Repeat(open, n) + inside + strings.Repeat(end, n)
}

const someObject = `{"type":"object","properties":{"a":{}}}`

// schemaBombs ask for work or memory without measure, one for each keyword at least.
var schemaBombs = map[string]func() string{
	"allOf of one $ref": func() string {
		return ladder(40, `"allOf":[FIRST,FIRST]`, `{"allOf":[NEXT,NEXT]}`, someObject)
	},
	"allOf of one $ref below properties": func() string {
		return ladder(40, `"properties":{"x":FIRST}`,
			`{"properties":{"p":{"allOf":[NEXT,NEXT]},"q":{"allOf":[NEXT]}},"required":["p","q"]}`, someObject)
	},
	"$ref beside keywords": func() string {
		return ladder(40, `"allOf":[FIRST]`,
			`{"properties":{"p":{"type":"object",BESIDE},"q":{"type":"object",BESIDE}}}`, someObject)
	},
	"anyOf beside keywords": func() string {
		return ladder(40, `"type":"object","anyOf":[FIRST,FIRST]`, `{"anyOf":[NEXT,NEXT]}`, someObject)
	},
	"oneOf beside keywords": func() string {
		return ladder(40, `"type":"object","oneOf":[FIRST,FIRST]`, `{"oneOf":[NEXT,NEXT]}`, someObject)
	},
	"anyOf and allOf in turn": func() string {
		return ladder(60, `"anyOf":[FIRST,FIRST]`, `{"type":"object","anyOf":[{"allOf":[NEXT,NEXT]},NEXT]}`, someObject)
	},
	"allOf that puts properties together": func() string {
		var s strings.Builder
		for i := range 40 {
			a, b := fmt.Sprintf(`{"$ref":"#/$defs/a%d"}`, i+1), fmt.Sprintf(`{"$ref":"#/$defs/b%d"}`, i+1)
			const both = `"%s%d":{"properties":{"p":{"allOf":[%s,%s]}}},`
			fmt.Fprintf(&s, both+both, "a", i, a, b, "b", i, b, a)
		}
		return `{"$defs":{` + s.String() + `"a40":{},"b40":{}},"allOf":[{"$ref":"#/$defs/a0"},{"$ref":"#/$defs/b0"}]}`
	},
	"allOf of lists of required": func() string {
		return `{"properties":{` + many(2000, `"k%d":{}`) + `},"allOf":[` +
			many(200, `{"required":["k%d",`+strings.ReplaceAll(many(2000, `"k%d"`), "%", "%%")+`]}`) + `]}`
	},
	"allOf of enums": func() string {
		return `{"allOf":[{"enum":[` + many(60000, `"%d"`) + `]},{"enum":[` + many(60000, `"x%d"`) + `,"5"]}]}`
	},
	"allOf of keywords that are null": func() string {
		return `{` + many(20000, `"x%d":null`) + `,"allOf":[` + many(2000, `{"type":"string"}`) + `]}`
	},
	"$ref to itself": func() string { return `{"allOf":[{"$ref":"#"},{"$ref":"#"}]}` },
	"$ref in a circle": func() string {
		return ladder(50, `"$ref":"#/$defs/d0"`, `NEXT`, `{"$ref":"#/$defs/d0"}`)
	},
	"$ref in a circle of allOf": func() string {
		return ladder(50, `"allOf":[FIRST]`, `{"allOf":[NEXT,NEXT]}`, `{"$ref":"#/$defs/d3","type":"object"}`)
	},
	"$ref that grows": func() string {
		a, b := `{"$ref":"#/$defs/a"}`, `{"$ref":"#/$defs/b"}`
		return strings.NewReplacer("[A", "["+a, ",A", ","+a, "[B", "["+b, ",B", ","+b).Replace(
			`{"$defs":{"a":{"properties":{"x":{"allOf":[A,B]},"y":{"allOf":[B,A]}}},` +
				`"b":{"properties":{"x":{"allOf":[B,A]},"y":{"allOf":[A,A]}}}},"allOf":[A,B]}`)
	},
	"$ref of a long pointer": func() string {
		return `{"$defs":` + nest(190, `{"":`, `{"type":"null"}`, `}`) + `,"anyOf":[` +
			many(20000, `{"$ref":"#/$defs`+strings.Repeat("/", 190)+`","title":"%d","type":"null"}`) + `]}`
	},
	"$ref, each through the next": func() string {
		return ladder(20000, `"$ref":"#/$defs/d0"`, `{"items":NEXT}`, someObject)
	},
	"pattern of repetitions": func() string {
		return `{"type":"string","pattern":"^` + strings.Repeat(`a{1000}`, 3000) + `$"}`
	},
	"pattern of groups": func() string {
		return `{"type":"string","pattern":"^` + nest(900, `(`, strings.Repeat(`a{1000}`, 100), `)`) + `$"}`
	},
	"pattern of classes": func() string {
		return `{"type":"string","pattern":"^` + strings.Repeat(`\\pL`, 20000) + `$"}`
	},
	"patterns of classes": func() string {
		return `{"anyOf":[` + many(400, `{"type":"string","pattern":"\\pL\\pL\\pL\\pL%d"}`) + `]}`
	},
	"pattern of alternatives": func() string {
		return `{"type":"string","pattern":"` + list(100000, `a%db`, "|") + `"}`
	},
	"pattern under (?i)": func() string {
		return `{"type":"string","pattern":"(?i)` + strings.Repeat(`[^a]\\w`, 50000) + `"}`
	},
	"format of many": func() string {
		return `{"type":"array","prefixItems":[` + many(20000, `{"type":"string","format":"email"}`) + `]}`
	},
	"minItems of 1e9":  func() string { return `{"type":"array","minItems":1000000000}` },
	"minItems, nested": func() string { return nest(50, `{"type":"array","minItems":200000,"items":`, `{}`, `}`) },
	"maxItems, nested": func() string { return nest(50, `{"type":"array","maxItems":60000,"items":`, `{}`, `}`) },
	"minLength side by side": func() string {
		return `{"anyOf":[` + many(5000, `{"type":"string","minLength":200000}`) + `]}`
	},
	"minProperties side by side": func() string {
		return `{"anyOf":[` + many(5000, `{"type":"object","minProperties":200000}`) + `]}`
	},
	"prefixItems that must all be there": func() string {
		return `{"type":"array","minItems":30000,"prefixItems":[` + many(30000, `{"type":"null"}`) + `]}`
	},
	"prefixItems, nested": func() string {
		return nest(95, `{"minItems":3,"prefixItems":[{"const":"`+strings.Repeat("c", 5000)+`"},{},`, `{}`,
			`]}`)
	},
	"enum of a million":   func() string { return `{"enum":[` + many(1000000, `%d`) + `]}` },
	"enum of a long text": func() string { return `{"enum":["` + strings.Repeat("e", 4<<20) + `"]}` },
	"const of 4 MB":       func() string { return `{"const":"` + strings.Repeat("c", 4<<20) + `"}` },
	"const, nested":       func() string { return `{"const":` + nest(199, `[`, many(100000, "1"), `]`) + `}` },
	"properties of thousands": func() string {
		return `{"properties":{` + many(100000, `"k%d":{}`) + `}}`
	},
	"properties that differ in a letter": func() string {
		var s strings.Builder
		for r := rune(0x4e00); r < 0x4e00+20000; r++ {
			fmt.Fprintf(&s, `"%c":{},`, r)
		}
		return `{"additionalProperties":true,"properties":{` + s.String() + `"z":{}}}`
	},
	"properties of long names": func() string {
		return `{"additionalProperties":true,"properties":{` + many(5000, `"`+strings.Repeat("n", 500)+`%d":{}`) + `}}`
	},
	"properties below long names": func() string {
		return nest(90, `{"properties":{"`+strings.Repeat("n", 500)+`":`, `{"properties":{`+many(20000, `"%d":{}`)+`}}`,
			`}}`)
	},
	"required of thousands": func() string { return `{"required":[` + many(200000, `"%d"`) + `]}` },
	"required of thousands among properties": func() string {
		return `{"properties":{` + many(50000, `"%d":{}`) + `},"required":[` + many(50000, `"%d"`) + `]}`
	},
	"additionalProperties, nested": func() string {
		return nest(190, `{"additionalProperties":`, `{"properties":{`+many(20000, `"%d":{}`)+`}}`, `}`)
	},
	"type of a million": func() string { return `{"type":[` + many(500000, `"string"`) + `]}` },
	"items, nested":     func() string { return nest(100000, `{"items":`, `{}`, `}`) },
	"lists, nested":     func() string { return nest(1000000, `[`, ``, `]`) },
	"a list of lists":   func() string { return `{"examples":[` + many(1000000, `[]`) + `]}` },
	"a list of objects": func() string { return `{"examples":[` + many(400000, `{"":0}`) + `]}` },
	"bounds of numbers": func() string {
		return `{"anyOf":[` +
			many(30000, `{"type":"number","minimum":-0.123456789123456,"maximum":%d.987654321987654}`) + `]}`
	},
}

// gbnfBombs are their siblings in GBNF.
var gbnfBombs = map[string]func() string{
	"alternatives of repetitions": func() string { return `root ::= ` + list(20000, `"a"{260000}`, "|") },
	"repetitions in groups":       func() string { return `root ::= ` + nest(190, `(`, `"a"{260000}`, `)`) },
	"repetitions, nested":         func() string { return `root ::= ` + nest(190, `(`, `"a"`, `){1000}`) },
	"repetitions without end":     func() string { return `root ::= "a"` + strings.Repeat("+", 100000) },
	"repetitions of nothing":      func() string { return `root ::= ` + nest(190, `(`, `""`, `){0,60000}`) },
	"a repetition of 1e9":         func() string { return `root ::= "a"{1000000000}` },
	"a long literal":              func() string { return `root ::= "` + strings.Repeat("a", 4<<20) + `"` },
	"a class of many":             func() string { return `root ::= [` + strings.Repeat("é-ёa", 500000) + `]` },
	"a class without many": func() string {
		var s strings.Builder
		for r := rune(0x4e00); r < 0x4e00+40000; r += 2 {
			s.WriteRune(r)
		}
		return `root ::= [^` + s.String() + `]`
	},
	"classes of any character": func() string { return `root ::= ` + strings.Repeat(`. `, 500000) },
	"rules in a row": func() string {
		return chain(30000, func(i int) string { return fmt.Sprintf("r%d", i+1) })
	},
	"rules in a row, from the end": func() string {
		return chain(30000, func(i int) string { return fmt.Sprintf("r%d", i-1) })
	},
	"rules in a circle": func() string {
		return chain(30000, func(i int) string { return fmt.Sprintf(`"a" r%d | r%d`, (i+1)%30000, (i+7)%30000) })
	},
	"rules that double": func() string {
		return chain(60, func(i int) string { return fmt.Sprintf(`r%d r%d`, i+1, i+1) })
	},
	"rules that double what is empty": func() string {
		return chain(60, func(i int) string { return fmt.Sprintf(`r%d r%d | ""`, i+1, i+1) })
	},
	"rules that are not defined": func() string { return `root ::= ` + list(300000, `n%d`, " ") },
	"groups, nested":             func() string { return `root ::= ` + nest(100000, `(`, `"a"`, `)`) },
	"groups of alternatives":     func() string { return `root ::= ` + nest(190, `(`, `"a"`, `|"a")*`) },
	"a comment of 4 MB":          func() string { return "root ::= \"a\" #" + strings.Repeat("x", 4<<20) },
}

// chain has rules r0 to rN, all of which root names: a letter is the first one and the last, body makes the others.
func chain(n int, body func(i int) string) string {
	var s strings.Builder
	s.WriteString("root ::= " + list(n, "r%d", " | ") + "\nr0 ::= \"a\"\n")
	for i := 1; i < n; i++ {
		fmt.Fprintf(&s, "r%d ::= %s\n", i, body(i))
	}
	fmt.Fprintf(&s, "r%d ::= \"z\"\n", n)
	return s.String()
}
