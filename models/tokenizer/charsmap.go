package tokenizer

import (
	"encoding/binary"
	"strings"
	"unicode/utf8"

	"foretoken/models/gguf"
)

// charsMap replaces texts before a unigram model sees them: SentencePiece's precompiled rules of normalisation. The
// longest rule that fits at a place applies. Rules lie in a double array (Kanda et al. 2018), whose units have the
// character that leads to them in bits 0 to 7, a bit 8 if a rule ends there, an offset in bits 10 to 30 with its scale
// in bit 9, and a bit 31 if they are the value of a rule.
type charsMap struct {
	units []uint32
	texts string // what the rules give, each ended by a zero byte
}

// readCharsMap reads a file's rules, if it has some.
func (t *Tokenizer) readCharsMap(f *gguf.File) (*charsMap, error) {
	if !f.Has(keyCharsMap) {
		return nil, nil
	}
	elements, err := f.Int32s(keyCharsMap)
	if err != nil {
		return nil, t.wrap(err)
	}
	b := make([]byte, len(elements))
	for i, n := range elements {
		b[i] = byte(n) // files have signed and unsigned ones
	}
	if len(b) < 4 {
		return nil, t.bad(keyCharsMap, "%d bytes are no rules", len(b))
	}
	size := uint64(binary.LittleEndian.Uint32(b))
	if b = b[4:]; size == 0 || size%4 != 0 || size >= uint64(len(b)) || b[len(b)-1] != 0 {
		return nil, t.bad(keyCharsMap, "%d bytes of units and their texts do not fit into %d", size, len(b))
	}
	c := &charsMap{units: make([]uint32, size/4), texts: string(b[size:])}
	for i := range c.units {
		c.units[i] = binary.LittleEndian.Uint32(b[4*i:])
	}
	return c, nil
}

// unit returns a unit, or one that nothing leads to.
func (c *charsMap) unit(i uint32) uint32 {
	if int(i) >= len(c.units) {
		return 1 << 31
	}
	return c.units[i]
}

func offset(unit uint32) uint32 { return unit >> 10 << (unit & (1 << 9) >> 6) }

// maxRule bounds the bytes that one rule replaces, and those that it gives. Published ones give 33.
const maxRule = 256

// rule returns what the longest rule that a text begins with gives, and the bytes that it replaces, 0 without one.
func (c *charsMap) rule(text string) (gives string, length int) {
	at := offset(c.unit(0))
	for i := range min(len(text), maxRule) {
		b := uint32(text[i])
		if at ^= b; b == 0 || c.unit(at)&(1<<31|0xFF) != b {
			break
		}
		leaf := c.unit(at)>>8&1 != 0
		at ^= offset(c.unit(at))
		if from := int(c.unit(at) & (1<<31 - 1)); leaf && from < len(c.texts) {
			gives, length = c.texts[from:min(from+maxRule, len(c.texts))], i+1
		}
	}
	gives, _, _ = strings.Cut(gives, "\x00")
	return gives, length
}

// normalise returns a text by the rules, with ▁ for spaces: those at its beginning and end, and behind others, are left
// out if the file asks for it, and one is put before the first word if it asks for that.
func (u *unigram) normalise(text string, m *meter) string {
	var b strings.Builder
	b.Grow(len(text) + len(text)/4)
	prefix, word := u.prefix, false
	add := func(s string) {
		for i := range len(s) {
			if s[i] != ' ' {
				if !word && (prefix || u.merge) {
					b.WriteString("▁")
					prefix = false
				}
				word = true
				b.WriteByte(s[i])
				continue
			}
			word = false
			if !u.merge {
				b.WriteString("▁")
			}
		}
	}
	for at := 0; at < len(text) && m.spend(1); {
		if u.chars != nil {
			if gives, n := u.chars.rule(text[at:]); n > 0 {
				add(gives)
				at += n
				continue
			}
		}
		_, n := utf8.DecodeRuneInString(text[at:])
		add(text[at : at+n])
		at += n
	}
	return b.String()
}
