package lang

import (
	"strconv"
	"strings"
	"unicode"
)

// property is the code points of what stands in the braces of \p{…}, by ECMA-262, tables 65 to 68, in Go's version of
// Unicode; nil if it is not known. Script_Extensions, Case_Ignorable and
// Changes_When_… are not supported.
func property(name string) []Range {
	if strings.ContainsFunc(name, func(c rune) bool { return c != '=' && c != '_' && !holds(alphanumeric, c) }) {
		return nil
	}
	key, value, two := strings.Cut(name, "=")
	if !two {
		if all := category(name); all != nil {
			return all
		}
		if long := lookup(shortNames, name); long != "" {
			name = long
		}
		if name == "" || name[0] > 'Z' || name == "Hyphen" || strings.HasPrefix(name, "Other_") ||
			strings.HasPrefix(name, "Prepended_") { // parts of others
			return nil
		}
		return binaryProperty(name)
	}
	switch key {
	case "General_Category", "gc":
		return category(value)
	case "Script", "sc":
		return script(value)
	}
	return nil
}

// category is a value of General_Category by its short or long name.
func category(name string) []Range {
	if short, ok := unicode.CategoryAliases[name]; ok {
		name = short
	}
	table, ok := unicode.Categories[name]
	if !ok {
		return nil
	}
	return append([]Range{}, ranges(table)...) // of Cs no text has a character
}

// script is a value of Script, by its name or its code of four letters; nil if it is not known.
func script(name string) []Range {
	if table, ok := unicode.Scripts[name]; ok {
		return ranges(table)
	}
	if c, _ := strconv.ParseUint(lookup(scriptCodes, name), 16, 32); c > 0 {
		for _, table := range unicode.Scripts {
			if unicode.Is(table, rune(c)) {
				return ranges(table)
			}
		}
	}
	return nil
}

// parseRanges reads hexadecimal ranges with spaces between.
func parseRanges(text string) []Range {
	var all []Range
	for _, r := range strings.Fields(text) {
		lo, hi, two := strings.Cut(r, "-")
		if !two {
			hi = lo
		}
		from, _ := strconv.ParseUint(lo, 16, 32)
		to, _ := strconv.ParseUint(hi, 16, 32)
		all = append(all, Range{rune(from), rune(to)})
	}
	return normal(all)
}

// derived are the properties that Unicode's DerivedCoreProperties.txt makes of others, a line each: - takes one away,
// and = is a range.
const derived = `
ASCII =0-7f
Any =0-10ffff
Assigned Any -Cn
Lowercase Ll Other_Lowercase
Uppercase Lu Other_Uppercase
Cased Lowercase Uppercase Lt
Alphabetic Lowercase Uppercase Lt Lm Lo Nl Other_Alphabetic
Math Sm Other_Math
ID_Start L Nl Other_ID_Start -Pattern_Syntax -Pattern_White_Space
ID_Continue ID_Start Mn Mc Nd Pc Other_ID_Continue -Pattern_Syntax -Pattern_White_Space
XID_Start ID_Start -unstable -=e33 -=eb3 -=ff9e-ff9f
XID_Continue ID_Continue -unstable
unstable =37a =309b-309c =fc5e-fc63 =fdfa-fdfb =fe70 =fe72 =fe74 =fe76 =fe78 =fe7a =fe7c =fe7e
Grapheme_Extend Me Mn Other_Grapheme_Extend
Grapheme_Base Any -Cc -Cf -Co -Cn -Zl -Zp -Grapheme_Extend
Default_Ignorable_Code_Point Other_Default_Ignorable_Code_Point Cf Variation_Selector -White_Space -ignored
ignored Prepended_Concatenation_Mark =fff9-fffb =13430-13440
`

// binaryProperty is a binary property by its long name, or a part of one; nil if it is not known.
func binaryProperty(name string) []Range {
	if text := lookup(moreProperties, name); text != "" {
		return parseRanges(text)
	}
	rule := lookup(derived, name)
	if rule == "" {
		if table, ok := unicode.Properties[name]; ok {
			return ranges(table)
		}
		return category(name)
	}
	var all []Range
	for _, part := range strings.Fields(rule) {
		name, less := strings.CutPrefix(part, "-")
		part := parseRanges(strings.TrimPrefix(name, "="))
		if name[0] != '=' {
			part = binaryProperty(name)
		}
		if less {
			all = meet(all, except(part))
		} else {
			all = normal(append(all, part...))
		}
	}
	return all
}

// shortNames lists the short names of binary properties.
const shortNames = `
AHex ASCII_Hex_Digit
Alpha Alphabetic
Bidi_C Bidi_Control
Bidi_M Bidi_Mirrored
DI Default_Ignorable_Code_Point
Dep Deprecated
Dia Diacritic
EBase Emoji_Modifier_Base
EComp Emoji_Component
EMod Emoji_Modifier
EPres Emoji_Presentation
Ext Extender
ExtPict Extended_Pictographic
Gr_Base Grapheme_Base
Gr_Ext Grapheme_Extend
Hex Hex_Digit
IDC ID_Continue
IDS ID_Start
IDSB IDS_Binary_Operator
IDST IDS_Trinary_Operator
Ideo Ideographic
Join_C Join_Control
LOE Logical_Order_Exception
Lower Lowercase
NChar Noncharacter_Code_Point
Pat_Syn Pattern_Syntax
Pat_WS Pattern_White_Space
QMark Quotation_Mark
RI Regional_Indicator
SD Soft_Dotted
STerm Sentence_Terminal
Term Terminal_Punctuation
UIdeo Unified_Ideograph
Upper Uppercase
VS Variation_Selector
XIDC XID_Continue
XIDS XID_Start
space White_Space
`

var alphanumeric = []Range{{'0', '9'}, {'A', 'Z'}, {'a', 'z'}}
