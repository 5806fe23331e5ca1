package lang

import (
	"fmt"
	"strings"
	"sync"
)

// Format is the language of a format of JSON Schema (2020-12, Validation, section 7.3), of which the strings of at most
// longest code points are meant; longest < 0 is no bound. It is false for other names.
// Where validators read a format more widely than its RFC, or less, Format has what both take:
//   - date-time and time (RFC 3339): T and Z in either case; seconds of 60 only in 23:59:60 at the offset zero, since
//     other offsets take a state for each minute of a day.
//   - duration is Appendix A of RFC 3339: no hours and seconds without minutes, no weeks beside others.
//   - uuid (RFC 4122) has no urn:uuid: before it.
//   - hostname (RFC 1123) has labels of at most 63 characters, 253 in all, and no dot at the end.
//   - email (RFC 5321) has a dot-string of at most 64 characters, a domain of two labels or more, 254 in all.
//   - idn-hostname has hostname's labels in lower case, and labels of at most 14 letters, marks and digits out of the
//     scripts in use that are written from left to right, since IDNA keeps all of these as they are and none takes five
//     characters in Punycode. It checks no normal form and has no contextual rules.
//   - idn-email (RFC 6531) has email's local part with characters beyond ASCII, which are fewer the more bytes one of
//     them takes, and a domain of idn-hostname's labels.
//   - uri (RFC 3986) and iri (RFC 3987) have something after the scheme and its colon.
//   - uri-template (RFC 6570) has no dots inside names of variables.
//   - relative-json-pointer has no + or - of indices.
//   - regex has groups up to two deep, lookarounds outside groups and without any inside, ranges of a class from
//     0, 1, a or A, and no references back and no named groups.
func (m *Maker) Format(name string) (l *Lang, longest int, known bool) {
	longest = -1
	iri := false
	expression := name
	switch name {
	case "iri", "iri-reference":
		expression, iri = "uri"+name[len("iri"):], true
	case "hostname", "idn-hostname":
		longest = 253
	case "email", "idn-email":
		longest = 254
	case "date", "time", "date-time", "duration", "uuid", "ipv4", "ipv6", "uri", "uri-reference", "uri-template",
		"json-pointer", "relative-json-pointer", "regex":
	default:
		return nil, longest, false
	}
	if !m.spend(formatUnits) {
		return nil, longest, true
	}
	formats.Lock()
	defer formats.Unlock()
	if l = formats.made[name]; l == nil {
		var err error
		if l, err = new(Maker).Pattern("^(?:" + expand(expression, iri) + ")$"); err != nil {
			panic(fmt.Sprintf("grammar/lang: %s: %v", name, err))
		}
		formats.made[name] = l
	}
	return l, longest, true
}

// formatUnits is about the cost of the largest format. Its use costs the same whether it was made before or not.
const formatUnits = 4000

var formats = struct {
	sync.Mutex
	made map[string]*Lang
}{made: map[string]*Lang{}}

// definitions are expressions by name, a line each. {name} stands for another one, and {more} and {private} for what
// IRIs have beyond URIs: ucschar and iprivate of RFC 3987.
const definitions = `
leap (?:\d\d(?:0[48]|[2468][048]|[13579][26])|(?:[02468][048]|[13579][26])00)
date (?:\d{4}-(?:{days}|02-(?:0[1-9]|1\d|2[0-8]))|{leap}-02-29)
days (?:0[13578]|1[02])-(?:0[1-9]|[12]\d|3[01])|(?:0[469]|11)-(?:0[1-9]|[12]\d|30)
hour (?:[01]\d|2[0-3])
time (?:{hour}:[0-5]\d:[0-5]\d{fraction}(?:[Zz]|[+-]{hour}:[0-5]\d)|23:59:60{fraction}(?:[Zz]|[+-]00:00))
fraction (?:\.\d+)?
date-time {date}[Tt]{time}
duration P(?:\d+W|(?:\d+Y(?:\d+M(?:\d+D)?)?|\d+M(?:\d+D)?|\d+D)(?:T{hours})?|T{hours})
hours (?:\d+H(?:\d+M(?:\d+S)?)?|\d+M(?:\d+S)?|\d+S)
uuid {hex}{8}-(?:{hex}{4}-){3}{hex}{12}
hex [0-9A-Fa-f]
hostname {label}(?:\.{label})*
label [0-9A-Za-z](?:[0-9A-Za-z\-]{0,61}[0-9A-Za-z])?
email (?=[^@]{1,64}@){atom}(?:\.{atom})*@{label}(?:\.{label})+
atom [{atext}]+
atext !#-'*+\-/-9=?A-Z\^-~
idn-hostname {idn}(?:\.{idn})*
idn (?:(?=[^.]{1,63}(?:\.|$))[0-9a-z]+(?:-[0-9a-z]+)*|(?=[^.]{1,14}(?:\.|$)){letter}{inside}*(?:-{inside}+)*)
letter [0-9a-z{letters}]
inside [0-9a-z{letters}{marks}]
letters \xDF-\xF6\xF8-\xFF\u03AC-\u03CE\u0430-\u045F\u0905-\u0939\u0E01-\u0E30\u10D0-\u10F0{east}
east \u3041-\u3096\u30A1-\u30FA\u4E00-\u9FFF\uAC00-\uD7A3
marks \u093E-\u094D\u0E31\u0E32\u0E34-\u0E3A\u0E40-\u0E4E\u30FC
idn-email (?={bytes}@){wide}(?:\.{wide})*@{idn}(?:\.{idn})+
bytes (?:[\0-\x7F]{1,64}|[\0-\u07FF]{1,32}|[\0-\uFFFF]{1,21}|[^]{1,16})
wide [{atext}\x80-\uFFFF\u{10000}-\u{10FFFF}]+
ipv4 (?:{byte}\.){3}{byte}
byte (?:25[0-5]|2[0-4]\d|1\d\d|[1-9]?\d)
ipv6 (?:(?:{h}:){6}{ls}|::(?:{h}:){5}{ls}|{h}?::(?:{h}:){4}{ls}|(?:(?:{h}:)?{h})?::(?:{h}:){3}{ls}|{short})
short (?:(?:{h}:){0,2}{h})?::(?:{h}:){2}{ls}|(?:(?:{h}:){0,3}{h})?::{h}:{ls}|(?:(?:{h}:){0,4}{h})?::{ls}|{shorter}
shorter (?:(?:{h}:){0,5}{h})?::{h}|(?:(?:{h}:){0,6}{h})?::
h (?:{hex}{1,4})
ls (?:{h}:{h}|{ipv4})
uri {scheme}{path}{rest}
uri-reference (?:{scheme}{path}?|(?:{authority}|{absolute}|(?:[@{chars}]|{escape})+{segments})?){rest}
scheme [A-Za-z][A-Za-z0-9+\-.]*:
path (?:{authority}|{absolute}|(?:[:@{chars}]|{escape})+{segments})
authority //(?:(?:[:{chars}]|{escape})*@)?{host}(?::\d*)?{segments}
host (?:\[(?:{ipv6}|[Vv]{hex}+\.[:0-9A-Za-z\-._~{delims}]+)\]|(?:[{chars}]|{escape})*)
absolute /(?:(?:[:@{chars}]|{escape})+{segments})?
segments (?:/(?:[:@{chars}]|{escape})*)*
rest (?:\?(?:[:@/?{chars}{private}]|{escape})*)?(?:#(?:[:@/?{chars}]|{escape})*)?
chars 0-9A-Za-z\-._~{delims}{more}
delims !$&'()*+,;=
escape %{hex}{2}
uri-template (?:[!#$&(-;=?-\[\]_a-z~{ucschar}{iprivate}]|{escape}|\{[+#./;?&=,!@|]?{variable}(?:,{variable})*\})*
variable (?:[0-9A-Za-z_]|{escape})+(?::[1-9]\d{0,3}|\*)?
ucschar \u00A0-\uD7FF\uF900-\uFDCF\uFDF0-\uFFEF{planes}\u{E1000}-\u{EFFFD}
planes {low}\u{80000}-\u{8FFFD}\u{90000}-\u{9FFFD}\u{A0000}-\u{AFFFD}\u{B0000}-\u{BFFFD}{high}
low \u{10000}-\u{1FFFD}\u{20000}-\u{2FFFD}\u{30000}-\u{3FFFD}\u{40000}-\u{4FFFD}\u{50000}-\u{5FFFD}{lower}
lower \u{60000}-\u{6FFFD}\u{70000}-\u{7FFFD}
high \u{C0000}-\u{CFFFD}\u{D0000}-\u{DFFFD}
iprivate \uE000-\uF8FF\u{F0000}-\u{FFFFD}\u{100000}-\u{10FFFD}
json-pointer (?:/(?:[^~/]|~[01])*)*
relative-json-pointer (?:0|[1-9][0-9]*)(?:#|{json-pointer})
regex (?:{edge}|\(\?<?[=!]{flat}\)|(?:{piece}|\((?:\?:)?{inner}\)){count}?|\|)*
inner (?:{edge}|(?:{piece}|\((?:\?:)?{flat}\)){count}?|\|)*
flat (?:{edge}|(?:{piece}){count}?|\|)*
edge \^|\$|\\[bB]
piece [^\^$\\.*+?()\[\]{}|]|\.|{escaped}|\[\^?-?(?:[^\\\]\-]|{escaped}|{order})*-?\]
order 0-[1-9]|1-[2-9]|a-[b-z]|A-[B-Z]
escaped \\(?:[dDwWsStnrfv^$\\.*+?()\[\]{}|/]|x{hex}{2}|u{hex}{4}|c[A-Za-z]|[pP]\{(?:L[ulto]?|N[dlo]?|P|S|M|Z)\})
count (?:(?:[*+?]|\{(?:\d+,?|0,\d+|1,[1-9]\d*|[2-9],[1-9]\d+|[1-9]\d,[1-9]\d{2,}|{pairs})\})\??)
pairs 2,[2-9]|3,[3-9]|4,[4-9]|5,[5-9]|6,[6-9]|7,[7-9]|8,[89]|9,9
`

// expand is an expression of definitions without names of others.
func expand(name string, iri bool) string {
	switch {
	case name == "more" && iri:
		name = "ucschar"
	case name == "private" && iri:
		name = "iprivate"
	}
	text := lookup(definitions, name)
	for at := 0; at+1 < len(text); at++ {
		if text[at] == '{' && text[at+1] >= 'a' && text[at+1] <= 'z' {
			other, after, _ := strings.Cut(text[at+1:], "}")
			other = expand(other, iri)
			text = text[:at] + other + after
			at += len(other) - 1
		}
	}
	return text
}

// lookup returns the definition of a name: the rest of the line that begins with it and a space; "" without such a
// line. A newline comes before and after each line.
func lookup(text, name string) string {
	_, found, _ := strings.Cut(text, "\n"+name+" ")
	line, _, _ := strings.Cut(found, "\n")
	return line
}
