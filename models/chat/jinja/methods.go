package jinja

import (
	"math"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// methods of Python's types that templates may call, by the name of the type. Those that change a value are refused, as
// Transformers' sandbox does.
var methods map[string]map[string]filterFunc

// text reads a string argument; it returns missing if the argument is absent or None.
func (m *machine) text(a arguments, i int, name, missing string) string {
	v, ok := a.get(i, name)
	if !ok || v == nil {
		return missing
	}
	s, ok := v.(string)
	if !ok {
		m.fail("an argument is %s, want a text", m.describe(v))
	}
	return s
}

func (m *machine) number(a arguments, i int, name string, missing int64) int64 {
	v, ok := a.get(i, name)
	if !ok || v == nil {
		return missing
	}
	n, ok := integer(v)
	if !ok {
		m.fail("an argument is %s, want an integer", m.describe(v))
	}
	return n
}

// part cuts a text to the bounds that startswith, find and count take.
func (m *machine) part(s string, a arguments) (string, int64) {
	if len(a.pos) < 2 {
		return s, 0
	}
	if !m.reads(2 * len(s)) {
		return "", 0
	}
	n := int64(utf8.RuneCountInString(s))
	at := func(i int64) int64 {
		if i < 0 {
			i += n
		}
		return min(max(i, 0), n)
	}
	from, to := at(m.number(a, 1, "", 0)), at(m.number(a, 2, "", n))
	if from >= to {
		return "", from
	}
	return characters(s, from, to), from
}

// fixes reads the prefixes or suffixes of startswith and endswith: one text or a tuple of them.
func (m *machine) fixes(s string, a arguments, has func(s, fix string) bool) Value {
	part, _ := m.part(s, a)
	v, _ := a.get(0, "")
	all := []Value{v}
	if l, ok := v.(*List); ok && l.tuple {
		all = l.Items
	}
	for _, v := range all {
		fix, ok := v.(string)
		if !ok {
			return m.fail("startswith and endswith need a text, not %s", m.describe(v))
		}
		if m.copies(min(len(part), len(fix))); has(part, fix) {
			return true
		}
	}
	return false
}

// splitText is str.split and str.rsplit.
func splitText(m *machine, s string, a arguments, right bool) Value {
	most := m.number(a, 1, "maxsplit", -1)
	if most < 0 {
		most = math.MaxInt64
	}
	v, ok := a.get(0, "sep")
	if !ok || v == nil {
		return splitSpace(m, s, most, right)
	}
	sep := m.text(a, 0, "sep", "")
	if sep == "" {
		return m.fail("split needs a separator that is not empty")
	}
	if !m.searches(len(s)) {
		return nil
	}
	index, out := strings.Index, NewList()
	if right {
		index = strings.LastIndex
	}
	for ; most > 0; most-- {
		i := index(s, sep)
		if i < 0 {
			break
		}
		part, rest := s[:i], s[i+len(sep):]
		if right {
			part, rest = rest, part
		}
		if !out.add(m, part) {
			return nil
		}
		s = rest
	}
	out.add(m, s)
	if right {
		slices.Reverse(out.Items)
	}
	return out
}

// add appends a part of a text.
func (l *List) add(m *machine, part string) bool {
	if !m.makes(2 * perItem) { // a list copies what it holds when it grows
		return false
	}
	l.Items = append(l.Items, part)
	return true
}

// splitSpace splits at runs of white space, at most `most` times.
func splitSpace(m *machine, s string, most int64, right bool) Value {
	if !m.reads(2 * len(s)) {
		return nil
	}
	trim, index := strings.TrimLeftFunc, strings.IndexFunc
	if right {
		trim, index = strings.TrimRightFunc, strings.LastIndexFunc
	}
	out := NewList()
	rest := trim(s, unicode.IsSpace)
	for ; most > 0 && rest != ""; most-- {
		i := index(rest, unicode.IsSpace)
		if i < 0 {
			break
		}
		_, n := utf8.DecodeRuneInString(rest[i:])
		part, other := rest[:i], rest[i+n:]
		if right {
			part, other = other, part
		}
		if !out.add(m, part) {
			return nil
		}
		rest = trim(other, unicode.IsSpace)
	}
	if rest != "" {
		out.add(m, rest)
	}
	if right {
		slices.Reverse(out.Items)
	}
	return out
}

// replaceText implements str.replace.
func replaceText(m *machine, s, old, with string, most int64) Value {
	if !m.searches(2 * len(s)) {
		return ""
	}
	n := int64(strings.Count(s, old))
	if most >= 0 {
		n = min(n, most)
	}
	if n == 0 {
		return s
	}
	if len(with) > 0 && n > int64(m.left.Memory/len(with)) || !m.spend(int(n)) || !m.makes(len(s)+int(n)*len(with)) {
		m.makes(m.limits.Memory + 1)
		return ""
	}
	return strings.Replace(s, old, with, int(n))
}

// stripText drops characters from the ends of a text. What it charges is known afterwards only.
func stripText(m *machine, s string, a arguments, left, right bool) Value {
	cut := unicode.IsSpace
	if v, ok := a.get(0, "chars"); ok && v != nil {
		chars := m.text(a, 0, "chars", "")
		if len(chars) > 1000 {
			return m.fail("strip is given %d bytes of characters, at most 1,000 are looked for", len(chars))
		}
		set := map[rune]bool{}
		for _, r := range chars {
			set[r] = true
		}
		m.spend(1 + len(set))
		cut = func(r rune) bool { return set[r] }
	}
	if m.err != nil {
		return ""
	}
	was := len(s)
	if left {
		s = strings.TrimLeftFunc(s, cut)
	}
	if right {
		s = strings.TrimRightFunc(s, cut)
	}
	m.reads(4 * (was - len(s)))
	return s
}

// titled makes the first letter of every run of letters a capital.
func titled(s string) string {
	inside := false
	return strings.Map(func(r rune) rune {
		was := inside
		inside = unicode.IsLetter(r)
		if was {
			return unicode.ToLower(r)
		}
		return unicode.ToTitle(r)
	}, s)
}

func capitalized(s string) string {
	r, n := utf8.DecodeRuneInString(s)
	if n == 0 {
		return s
	}
	return string(unicode.ToTitle(r)) + strings.ToLower(s[n:])
}

// changed applies f, whose result may be twice as long.
func (m *machine) changed(s string, f func(string) string) Value {
	if !m.reads(2*len(s)) || !m.makes(2*len(s)) {
		return ""
	}
	return f(s)
}

func init() {
	type text = func(m *machine, s string, a arguments) Value
	changed := func(f func(string) string) text {
		return func(m *machine, s string, _ arguments) Value { return m.changed(s, f) }
	}
	all := func(is func(r rune) bool) text {
		return func(m *machine, s string, _ arguments) Value {
			return m.reads(2*len(s)) && s != "" && strings.IndexFunc(s, func(r rune) bool { return !is(r) }) < 0
		}
	}
	find := func(index func(s, sub string) int, must bool) text {
		return func(m *machine, s string, a arguments) Value {
			part, from := m.part(s, a)
			if !m.searches(2 * len(part)) {
				return nil
			}
			i := index(part, m.text(a, 0, "", ""))
			if i < 0 {
				if must {
					return m.fail("the text that index looks for is not there")
				}
				return int64(-1)
			}
			return from + int64(utf8.RuneCountInString(part[:i]))
		}
	}
	partition := func(index func(s, sub string) int, right bool) text {
		return func(m *machine, s string, a arguments) Value {
			sep := m.text(a, 0, "sep", "")
			if sep == "" || !m.searches(len(s)) {
				return m.fail("partition needs a separator")
			}
			i := index(s, sep)
			switch {
			case i >= 0:
				return &List{Items: []Value{s[:i], sep, s[i+len(sep):]}, tuple: true}
			case right:
				return &List{Items: []Value{"", "", s}, tuple: true}
			}
			return &List{Items: []Value{s, "", ""}, tuple: true}
		}
	}
	texts := map[string]text{
		"strip":  func(m *machine, s string, a arguments) Value { return stripText(m, s, a, true, true) },
		"lstrip": func(m *machine, s string, a arguments) Value { return stripText(m, s, a, true, false) },
		"rstrip": func(m *machine, s string, a arguments) Value { return stripText(m, s, a, false, true) },
		"split":  func(m *machine, s string, a arguments) Value { return splitText(m, s, a, false) },
		"rsplit": func(m *machine, s string, a arguments) Value { return splitText(m, s, a, true) },
		"splitlines": func(m *machine, s string, a arguments) Value {
			keep, _ := a.get(0, "keepends")
			if !m.reads(2 * len(s)) {
				return nil
			}
			lines := NewList()
			for s != "" {
				i := strings.IndexFunc(s, func(r rune) bool {
					return r >= '\n' && r <= '\r' || r >= 0x1c && r <= 0x1e || r == 0x85 || r == 0x2028 || r == 0x2029
				})
				if i < 0 {
					lines.add(m, s)
					break
				}
				_, n := utf8.DecodeRuneInString(s[i:])
				if strings.HasPrefix(s[i:], "\r\n") {
					n = 2
				}
				line := s[:i]
				if truth(keep) {
					line = s[:i+n]
				}
				if !lines.add(m, line) {
					return nil
				}
				s = s[i+n:]
			}
			return lines
		},
		"startswith": func(m *machine, s string, a arguments) Value { return m.fixes(s, a, strings.HasPrefix) },
		"endswith":   func(m *machine, s string, a arguments) Value { return m.fixes(s, a, strings.HasSuffix) },
		"removeprefix": func(m *machine, s string, a arguments) Value {
			fix := m.text(a, 0, "", "")
			m.copies(len(fix))
			return strings.TrimPrefix(s, fix)
		},
		"removesuffix": func(m *machine, s string, a arguments) Value {
			fix := m.text(a, 0, "", "")
			m.copies(len(fix))
			return strings.TrimSuffix(s, fix)
		},
		"upper":      changed(strings.ToUpper),
		"lower":      changed(strings.ToLower),
		"title":      changed(titled),
		"capitalize": changed(capitalized),
		"replace": func(m *machine, s string, a arguments) Value {
			return replaceText(m, s, m.text(a, 0, "old", ""), m.text(a, 1, "new", ""), m.number(a, 2, "count", -1))
		},
		"find":   find(strings.Index, false),
		"rfind":  find(strings.LastIndex, false),
		"index":  find(strings.Index, true),
		"rindex": find(strings.LastIndex, true),
		"count": func(m *machine, s string, a arguments) Value {
			part, _ := m.part(s, a)
			if !m.searches(len(part)) {
				return nil
			}
			return int64(strings.Count(part, m.text(a, 0, "", "")))
		},
		"partition":  partition(strings.Index, false),
		"rpartition": partition(strings.LastIndex, true),
		"join": func(m *machine, s string, a arguments) Value {
			v, _ := a.get(0, "")
			return joinText(m, v, s)
		},
		"isalpha":   all(unicode.IsLetter),
		"isdigit":   all(unicode.IsDigit),
		"isdecimal": all(unicode.IsDigit),
		"isnumeric": all(unicode.IsNumber),
		"isspace":   all(unicode.IsSpace),
		"isalnum":   all(func(r rune) bool { return unicode.IsLetter(r) || unicode.IsNumber(r) }),
		"islower":   func(m *machine, s string, _ arguments) Value { return m.isCase(s, false) },
		"isupper":   func(m *machine, s string, _ arguments) Value { return m.isCase(s, true) },
		"format":    formatText,
	}
	count := func(m *machine, v Value, a arguments) Value {
		wanted, _ := a.get(0, "")
		n := int64(0)
		for _, item := range m.items(v) {
			if m.equal(item, wanted) {
				n++
			}
		}
		return n
	}
	lists := map[string]filterFunc{
		"index": func(m *machine, v Value, a arguments) Value {
			wanted, _ := a.get(0, "")
			i := slices.IndexFunc(m.items(v), func(item Value) bool { return m.equal(item, wanted) })
			if i < 0 {
				return m.fail("the element that index looks for is not there")
			}
			return int64(i)
		},
		"count": count,
		"copy":  func(_ *machine, v Value, _ arguments) Value { return v },
	}
	dicts := map[string]filterFunc{
		"keys":   func(_ *machine, v Value, _ arguments) Value { return &List{Items: v.(*Dict).keys} },
		"values": func(_ *machine, v Value, _ arguments) Value { return &List{Items: v.(*Dict).values} },
		"items":  func(m *machine, v Value, _ arguments) Value { return dictItems(m, v.(*Dict)) },
		"get": func(m *machine, v Value, a arguments) Value {
			key, _ := a.get(0, "")
			if v, ok := m.find(v.(*Dict), key); ok {
				return v
			}
			return a.or(1, "", nil)
		},
		"copy": func(m *machine, v Value, _ arguments) Value {
			c := NewDict()
			m.copyInto(c, v.(*Dict))
			return c
		},
	}
	refuse := func(to map[string]filterFunc, what string, names ...string) {
		for _, name := range names {
			to[name] = func(m *machine, _ Value, _ arguments) Value {
				return m.fail("%s.%s is refused: a template cannot change a %s; set a new one, or use a namespace",
					what, name, what)
			}
		}
	}
	refuse(lists, "list", "append", "extend", "insert", "pop", "remove", "clear", "sort", "reverse")
	refuse(dicts, "dict", "update", "pop", "popitem", "clear", "setdefault")
	methods = map[string]map[string]filterFunc{"str": {}, "list": lists, "tuple": lists, "dict": dicts}
	for name, f := range texts {
		methods["str"][name] = func(m *machine, v Value, a arguments) Value { return f(m, v.(string), a) }
	}
}

func dictItems(m *machine, d *Dict) Value {
	if !m.makesAll(len(d.keys), 4*perItem) {
		return nil
	}
	l := &List{Items: make([]Value, len(d.keys))}
	for i, key := range d.keys {
		l.Items[i] = &List{Items: []Value{key, d.values[i]}, tuple: true}
	}
	return l
}
