package grammar

import (
	"fmt"
	"slices"

	"foretoken/models/grammar/lang"
)

// languages makes the languages of strings, each once.
type languages struct {
	*keywordReader
	m        *lang.Maker
	langs    map[string]*lang.Lang // of patterns, formats and their joins
	counters map[string]*counter
	names    map[*lang.Lang]int32 // numbers of languages, for keys
}

func newLanguages(r *keywordReader) *languages {
	return &languages{keywordReader: r, m: &lang.Maker{Spend: r.b.spend}, langs: map[string]*lang.Lang{},
		counters: map[string]*counter{}, names: map[*lang.Lang]int32{}}
}

// mostListed is the most strings of a language of which each is looked for in others.
const mostListed = 64

// joined is the language of the strings that are in all languages of a form, and a key for it.
func (t *languages) joined(f *form) (*lang.Lang, string) {
	if len(f.langs) == 1 {
		return f.langs[0], fmt.Sprint("j", t.nameOf(f.langs[0]))
	}
	key := []byte("j")
	for _, l := range f.langs {
		key = fmt.Append(key, t.nameOf(l), " ")
	}
	return t.cached(string(key), func() *lang.Lang {
		for i, l := range f.langs {
			if few, ok := l.List(mostListed); ok && t.b.spend(len(few)*len(f.langs)) {
				others := slices.Delete(slices.Clone(f.langs), i, i+1)
				few = slices.DeleteFunc(few, func(text string) bool {
					lacks := func(l *lang.Lang) bool { return !l.Has(text) }
					return slices.ContainsFunc(others, lacks) // bound: keywords
				})
				return t.m.Texts(few...)
			}
		}
		l := t.m.All()
		for _, other := range f.langs {
			l = t.m.And(l, other)
		}
		return l
	}), string(key)
}

// langOfForm is the language of the strings of a form.
func (t *languages) langOfForm(f *form) *lang.Lang {
	l, key := t.joined(f)
	return t.cached(fmt.Sprint(key, ":", f.short, ":", f.long), func() *lang.Lang {
		return t.m.Length(l, f.short, f.long)
	})
}

// counterOf counts the characters of the strings of a form; nil where it has none.
func (t *languages) counterOf(f *form) *counter {
	l, key := t.joined(f)
	if l.Empty() {
		return nil
	}
	key = fmt.Sprint(key, ":", f.short, ":", f.long)
	c, ok := t.counters[key]
	if !ok {
		if c = t.b.counterOf(l, f.short, f.long); c != nil && !c.live(0, 0) {
			c = nil
		}
		t.counters[key] = c
	}
	return c
}

// nameOf is a number for a language.
func (t *languages) nameOf(l *lang.Lang) int32 {
	n, ok := t.names[l]
	if !ok {
		n = int32(len(t.names) + 1)
		t.names[l] = n
	}
	return n
}

func (t *languages) cachedNot(l *lang.Lang) *lang.Lang {
	return t.cached(fmt.Sprintf("n%d", t.nameOf(l)), func() *lang.Lang { return t.m.Not(l) })
}

func (t *languages) noString(f *form) string {
	if f.long >= 0 && f.short > f.long {
		return fmt.Sprintf("minLength %d is more than maxLength %d", f.short, f.long)
	}
	if len(f.langs) > 0 && t.counterOf(f) == nil && t.b.err == nil {
		return "no string passes its patterns, formats, lengths and list together"
	}
	return ""
}

// cached makes a language once.
func (t *languages) cached(key string, build func() *lang.Lang) *lang.Lang {
	if l, ok := t.langs[key]; ok {
		return l
	}
	l := build()
	t.langs[key] = l
	return l
}

// pattern is the language of an expression, which stands at a keyword, within another language and a bound of length;
// nil where it is left unchecked. key tells apart what it is made within.
func (t *languages) pattern(n *node, at, text, key string, in *lang.Lang, longest int) *lang.Lang {
	return t.cached(key+text, func() *lang.Lang {
		l, err := t.m.PatternIn(in, longest, text)
		if err != nil {
			t.refuse(n, at, "pattern", "%s", err)
		}
		return l
	})
}

// anywhere is the language of an expression by itself.
func (t *languages) anywhere(n *node, at, text string) *lang.Lang {
	return t.pattern(n, at, text, "p", t.m.All(), -1)
}

// format is the language of a format and its bound of length; nil without one, or for a name that is an annotation.
func (t *languages) format(n *node) (*lang.Lang, int) {
	text, ok := t.textOf(n, "format")
	if !ok {
		return nil, -1
	}
	l, longest, _ := t.m.Format(text)
	return l, longest
}
