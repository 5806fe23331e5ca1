package lang

import (
	"fmt"
	"strings"
	"sync"
)

// Format is the language of a format of JSON Schema (2020-12, Validation, section 7.3). It is false for other names.
// Where validators read a format more widely than its RFC, or less, Format has what both take:
//   - date-time and time (RFC 3339): T and Z in either case; seconds of 60 only in 23:59:60 at the offset zero, since
//     other offsets take a state for each minute of a day.
//   - duration is Appendix A of RFC 3339: no hours and seconds without minutes, no weeks beside others.
//   - uuid (RFC 4122) has no urn:uuid: before it.
//   - hostname (RFC 1123) has labels of at most 63 characters. For the bound of 253 in all a label counts in blocks of
//     23 with its dot, and eleven blocks are the most, since exact counts take a hundred times the states. There is no
//     dot at the end.
//   - email (RFC 5321) has a dot-string of at most 64 characters, and a domain of two labels or more in eight blocks.
//   - idn-hostname has hostname's labels, and labels of at most 14 letters, marks and digits in lower case out of the
//     scripts in use that are written from left to right. It checks no normal form and has no contextual rules.
//   - idn-email (RFC 6531) has email's local part with UTF-8 beyond ASCII, and a domain of idn-hostname's labels.
//   - uri (RFC 3986) and iri (RFC 3987) have something after the scheme and its colon.
//   - uri-template (RFC 6570) has no dots inside names of variables.
//   - relative-json-pointer has no + or - of indices.
//   - regex has groups up to two deep, lookarounds outside groups and without any inside, ranges of a class from
//     0, 1, a or A, and no references back and no named groups.
func (m *Maker) Format(name string) (l *Lang, known bool) {
	make, known := formats[name]
	if !known {
		return nil, false
	}
	if !m.spend(formatUnits) {
		return nil, true
	}
	return make(), true
}

// formatUnits is about the cost of the largest format. Its use costs the same whether it was made before or not.
const formatUnits = 4000

var formats = map[string]func() *Lang{
	"date":                  matched(text(date)),
	"time":                  matched(text(clock)),
	"date-time":             matched(text(date + "[Tt]" + clock)),
	"duration":              matched(text(duration)),
	"uuid":                  matched(text("[0-9A-Fa-f]{8}-(?:[0-9A-Fa-f]{4}-){3}[0-9A-Fa-f]{12}")),
	"ipv4":                  matched(text(ipv4)),
	"ipv6":                  matched(ipv6),
	"hostname":              made(hostname, false),
	"idn-hostname":          made(hostname, true),
	"email":                 made(email, false),
	"idn-email":             made(email, true),
	"uri":                   matched(func() string { return resource("", "", false) }),
	"uri-reference":         matched(func() string { return resource("", "", true) }),
	"iri":                   matched(func() string { return resource(ucschar, iprivate, false) }),
	"iri-reference":         matched(func() string { return resource(ucschar, iprivate, true) }),
	"uri-template":          matched(text(template)),
	"json-pointer":          matched(text(pointer)),
	"relative-json-pointer": matched(text("(?:0|[1-9][0-9]*)(?:#|" + pointer + ")")),
	"regex":                 matched(regex),
}

// matched is the language of the texts that an expression matches from end to end.
func matched(expression func() string) func() *Lang {
	return sync.OnceValue(func() *Lang {
		l, err := new(Maker).Pattern("^(?:" + expression() + ")$")
		if err != nil {
			panic(fmt.Sprintf("grammar/lang: a format's expression: %v", err))
		}
		return l
	})
}

func text(s string) func() string { return func() string { return s } }

// made is the language of the hosts or addresses of states.
func made(states func(international bool) []State, international bool) func() *Lang {
	return sync.OnceValue(func() *Lang { return new(Maker).Of(states(international)) })
}

const (
	leap = `(?:\d\d(?:0[48]|[2468][048]|[13579][26])|(?:[02468][048]|[13579][26])00)`
	date = `(?:\d{4}-(?:(?:0[13578]|1[02])-(?:0[1-9]|[12]\d|3[01])|(?:0[469]|11)-(?:0[1-9]|[12]\d|30)|` +
		`02-(?:0[1-9]|1\d|2[0-8]))|` + leap + `-02-29)`
	hour  = `(?:[01]\d|2[0-3])`
	clock = `(?:` + hour + `:[0-5]\d:[0-5]\d(?:\.\d+)?(?:[Zz]|[+-]` + hour + `:[0-5]\d)|` +
		`23:59:60(?:\.\d+)?(?:[Zz]|[+-]00:00))`
	hours    = `(?:\d+H(?:\d+M(?:\d+S)?)?|\d+M(?:\d+S)?|\d+S)`
	duration = `P(?:\d+W|(?:\d+Y(?:\d+M(?:\d+D)?)?|\d+M(?:\d+D)?|\d+D)(?:T` + hours + `)?|T` + hours + `)`

	ipv4 = `(?:(?:25[0-5]|2[0-4]\d|1\d\d|[1-9]?\d)\.){3}(?:25[0-5]|2[0-4]\d|1\d\d|[1-9]?\d)`

	pointer  = `(?:/(?:[^~/]|~[01])*)*`
	variable = `(?:[0-9A-Za-z_]|%[0-9A-Fa-f]{2})+(?::[1-9]\d{0,3}|\*)?`
	template = `(?:[!#$&(-;=?-\[\]_a-z~` + ucschar + iprivate + `]|%[0-9A-Fa-f]{2}|` +
		`\{[+#./;?&=,!@|]?` + variable + `(?:,` + variable + `)*\})*`

	iprivate = `\uE000-\uF8FF\u{F0000}-\u{FFFFD}\u{100000}-\u{10FFFD}`
	ucschar  = `\u00A0-\uD7FF\uF900-\uFDCF\uFDF0-\uFFEF\u{10000}-\u{1FFFD}\u{20000}-\u{2FFFD}\u{30000}-\u{3FFFD}` +
		`\u{40000}-\u{4FFFD}\u{50000}-\u{5FFFD}\u{60000}-\u{6FFFD}\u{70000}-\u{7FFFD}\u{80000}-\u{8FFFD}` +
		`\u{90000}-\u{9FFFD}\u{A0000}-\u{AFFFD}\u{B0000}-\u{BFFFD}\u{C0000}-\u{CFFFD}\u{D0000}-\u{DFFFD}` +
		`\u{E1000}-\u{EFFFD}`
)

// ipv6 is IPv6address of RFC 3986, the texts of RFC 4291, section 2.2.
func ipv6() string {
	const part, last = `[0-9A-Fa-f]{1,4}`, `(?:[0-9A-Fa-f]{1,4}:[0-9A-Fa-f]{1,4}|` + ipv4 + `)`
	all := []string{`(?:` + part + `:){6}` + last}
	for before := range 8 { // at most so many parts less one before ::
		start := `(?:(?:` + part + `:){0,` + fmt.Sprint(before-1) + `}` + part + `)?::`
		switch after := 7 - before; {
		case before == 0:
			all = append(all, `::(?:`+part+`:){5}`+last)
		case after == 0:
			all = append(all, start)
		case after == 1:
			all = append(all, start+part)
		default:
			all = append(all, start+`(?:`+part+`:){`+fmt.Sprint(after-2)+`}`+last)
		}
	}
	return `(?:` + strings.Join(all, "|") + `)`
}

// resource is URI of RFC 3986 or IRI of RFC 3987, which has more characters, some only in queries; or a reference.
func resource(more, moreQuery string, reference bool) string {
	const subDelims, escape = `!$&'()*+,;=`, `%[0-9A-Fa-f]{2}`
	unreserved := `0-9A-Za-z\-._~` + more
	char := func(others string) string { return `(?:[` + unreserved + subDelims + others + `]|` + escape + `)` }
	segments := `(?:/` + char(":@") + `*)*`
	host := `(?:\[(?:` + ipv6() + `|[Vv][0-9A-Fa-f]+\.[0-9A-Za-z\-._~` + subDelims + `:]+)\]|` + char("") + `*)`
	authority := `//(?:` + char(":") + `*@)?` + host + `(?::\d*)?` + segments
	absolute := `/(?:` + char(":@") + `+` + segments + `)?`
	rest := `(?:\?` + char(`:@/?`+moreQuery) + `*)?(?:#` + char(`:@/?`) + `*)?`
	path := `(?:` + authority + `|` + absolute + `|` + char(":@") + `+` + segments + `)`
	full := `[A-Za-z][A-Za-z0-9+\-.]*:` + path
	if reference {
		full = `(?:` + full + `?|(?:` + authority + `|` + absolute + `|` + char("@") + `+` + segments + `)?)`
	}
	return full + rest
}

// regex is a part of ECMA-262's Pattern that is the same with the flag u and without it.
func regex() string {
	const (
		count = `(?:[*+?]|\{(?:\d+|\d+,|0,\d+|1,[1-9]\d*|[2-9],[1-9]\d+|[1-9]\d,[1-9]\d{2,}|2,[2-9]|` +
			`3,[3-9]|4,[4-9]|5,[5-9]|6,[6-9]|7,[7-9]|8,[89]|9,9)\})\??`
		chars = `\\(?:[dDwWsStnrfv^$\\.*+?()\[\]{}|/]|x[0-9A-Fa-f]{2}|u[0-9A-Fa-f]{4}|c[A-Za-z]|` +
			`[pP]\{(?:L[ulto]?|N[dlo]?|P|S|M|Z)\})`
		plain  = `[^\^$\\.*+?()\[\]{}|]`
		ranges = `0-[1-9]|1-[2-9]|a-[b-z]|A-[B-Z]`
		class  = `\[\^?-?(?:[^\\\]\-]|` + chars + `|` + ranges + `)*-?\]`
		atom   = plain + `|\.|` + chars + `|` + class
		edge   = `\^|\$|\\[bB]`
	)
	inner := `(?:` + edge + `|(?:` + atom + `)(?:` + count + `)?|\|)*`
	look := `|\(\?<?[=!]` + inner + `\)`
	for depth := range 2 {
		also := ""
		if depth == 1 {
			also = look
		}
		inner = `(?:` + edge + also + `|(?:` + atom + `|\((?:\?:)?` + inner + `\))(?:` + count + `)?|\|)*`
	}
	return inner
}
