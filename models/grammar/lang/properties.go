package lang

import (
	"slices"
	"strconv"
	"strings"
	"unicode"
)

// property is the code points of what stands in the braces of \p{…}, by ECMA-262, tables 65 to 68, in Go's version of
// Unicode; nil if it is not known. Changes_When_… are not supported.
func property(name string) []Range {
	key, value, two := strings.Cut(name, "=")
	if !two {
		if all := category(name); all != nil {
			return all
		}
		if long, ok := binaryNames[name]; ok {
			name = long
		}
		return binaryProperty(name)
	}
	switch key {
	case "General_Category", "gc":
		return category(value)
	case "Script", "sc":
		name, table := script(value)
		if name == "" {
			return nil
		}
		return ranges(table)
	case "Script_Extensions", "scx":
		return extensions(value)
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

// script is a table of package unicode and its name, by that name or a code of four letters; "" if it is not known.
func script(name string) (string, *unicode.RangeTable) {
	if table, ok := unicode.Scripts[name]; ok {
		return name, table
	}
	if len(name) != 4 {
		return "", nil
	}
	for code := range strings.FieldsSeq(scriptCodes) {
		if code[:4] != name {
			continue
		}
		c, _ := strconv.ParseUint(code[4:], 16, 32)
		for long, table := range unicode.Scripts {
			if unicode.Is(table, rune(c)) {
				return long, table
			}
		}
	}
	return "", nil
}

// extensions is a value of Script_Extensions.
func extensions(value string) []Range {
	name, table := script(value)
	if name == "" {
		return nil
	}
	own := ranges(table)
	var changed []Range
	for entry := range strings.FieldsSeq(moreScripts) {
		at, codes, _ := strings.Cut(entry, ":")
		has := name == "Common" || name == "Inherited"
		for ; codes != "" && !has; codes = codes[4:] {
			long, _ := script(codes[:4])
			has = long == name
		}
		if has {
			changed = append(changed, parseRanges(at)...)
		}
	}
	if name == "Common" || name == "Inherited" { // these have only what no script claims
		return meet(own, except(normal(changed)))
	}
	return normal(append(own, changed...))
}

// parseRanges reads hexadecimal ranges of tables.go.
func parseRanges(text string) []Range {
	var all []Range
	for r := range strings.FieldsSeq(text) {
		lo, hi, two := strings.Cut(r, "-")
		if !two {
			hi = lo
		}
		from, _ := strconv.ParseUint(lo, 16, 32)
		to, _ := strconv.ParseUint(hi, 16, 32)
		all = append(all, Range{rune(from), rune(to)})
	}
	return all
}

// derived are the properties that Unicode's DerivedCoreProperties.txt makes of others: + adds one, - takes one away.
var derived = map[string]string{
	"Assigned":        "Any -Cn",
	"Lowercase":       "Ll Other_Lowercase",
	"Uppercase":       "Lu Other_Uppercase",
	"Cased":           "Lowercase Uppercase Lt",
	"Alphabetic":      "Lowercase Uppercase Lt Lm Lo Nl Other_Alphabetic",
	"Math":            "Sm Other_Math",
	"ID_Start":        "L Nl Other_ID_Start -Pattern_Syntax -Pattern_White_Space",
	"ID_Continue":     "ID_Start Mn Mc Nd Pc Other_ID_Continue -Pattern_Syntax -Pattern_White_Space",
	"XID_Start":       "ID_Start -unstable -unstable_start",
	"XID_Continue":    "ID_Continue -unstable",
	"Grapheme_Extend": "Me Mn Other_Grapheme_Extend",
	"Grapheme_Base":   "Any -Cc -Cf -Co -Cn -Zl -Zp -Grapheme_Extend",
	"Default_Ignorable_Code_Point": "Other_Default_Ignorable_Code_Point Cf Variation_Selector -White_Space " +
		"-Prepended_Concatenation_Mark -annotations",
}

// fixed are properties of few ranges, and parts of derived ones, in lower case.
var fixed = map[string][]Range{
	"Any":         scalars,
	"ASCII":       {{0, 0x7F}},
	"annotations": {{0xFFF9, 0xFFFB}, {0x13430, 0x13440}},

	// what NFKC does not keep as it is (Unicode Standard Annex 31, section 5.1)
	"unstable": {{0x37A, 0x37A}, {0x309B, 0x309C}, {0xFC5E, 0xFC63}, {0xFDFA, 0xFDFB}, {0xFE70, 0xFE70},
		{0xFE72, 0xFE72}, {0xFE74, 0xFE74}, {0xFE76, 0xFE76}, {0xFE78, 0xFE78}, {0xFE7A, 0xFE7A}, {0xFE7C, 0xFE7C},
		{0xFE7E, 0xFE7E}},
	"unstable_start": {{0xE33, 0xE33}, {0xEB3, 0xEB3}, {0xFF9E, 0xFF9F}},
}

// binaryProperty is a binary property by its long name; nil if it is not known.
func binaryProperty(name string) []Range {
	if all, ok := fixed[name]; ok && name[0] < 'a' {
		return all
	}
	if table, ok := unicode.Properties[name]; ok && !strings.HasPrefix(name, "Other_") && name != "Hyphen" &&
		name != "STerm" && name != "Prepended_Concatenation_Mark" {
		return ranges(table)
	}
	if text, ok := moreProperties[name]; ok {
		return parseRanges(text)
	}
	rule, ok := derived[name]
	if !ok {
		return nil
	}
	var all []Range
	for part := range strings.FieldsSeq(rule) {
		less := strings.HasPrefix(part, "-")
		ranges := rangesOf(strings.TrimPrefix(part, "-"))
		if less {
			all = meet(all, except(ranges))
		} else {
			all = normal(slices.Concat(all, ranges))
		}
	}
	return all
}

// rangesOf is a part of a rule of derived.
func rangesOf(part string) []Range {
	if table, ok := unicode.Properties[part]; ok {
		return ranges(table)
	}
	if all, ok := fixed[part]; ok {
		return all
	}
	if all := category(part); all != nil {
		return all
	}
	return binaryProperty(part)
}

// binaryNames are the short names of binary properties.
var binaryNames = map[string]string{
	"Alpha": "Alphabetic", "AHex": "ASCII_Hex_Digit", "Bidi_C": "Bidi_Control", "Bidi_M": "Bidi_Mirrored",
	"DI": "Default_Ignorable_Code_Point", "Dep": "Deprecated", "Dia": "Diacritic", "EBase": "Emoji_Modifier_Base",
	"EComp": "Emoji_Component", "EMod": "Emoji_Modifier", "EPres": "Emoji_Presentation", "Ext": "Extender",
	"ExtPict": "Extended_Pictographic", "Gr_Base": "Grapheme_Base", "Gr_Ext": "Grapheme_Extend", "Hex": "Hex_Digit",
	"IDC": "ID_Continue", "IDS": "ID_Start", "IDSB": "IDS_Binary_Operator", "IDST": "IDS_Trinary_Operator",
	"Ideo": "Ideographic", "Join_C": "Join_Control", "LOE": "Logical_Order_Exception", "Lower": "Lowercase",
	"NChar": "Noncharacter_Code_Point", "Pat_Syn": "Pattern_Syntax", "Pat_WS": "Pattern_White_Space",
	"QMark": "Quotation_Mark", "RI": "Regional_Indicator", "STerm": "Sentence_Terminal", "SD": "Soft_Dotted",
	"Term": "Terminal_Punctuation", "UIdeo": "Unified_Ideograph", "Upper": "Uppercase", "VS": "Variation_Selector",
	"space": "White_Space",
}
