package convert

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"strings"

	"foretoken/internal/quote"
	"foretoken/internal/strictjson"
	"foretoken/models/safetensors"
)

// fields are the values of a JSON object. The first that is wrong is kept in err; after
// it every read gives a harmless value.
type fields struct {
	name   string // of the file
	within string // the object's own place in the file, with a dot
	values map[string]json.RawMessage
	err    error
}

func (c *fields) fail(key, format string, args ...any) {
	if c.err == nil {
		c.err = fmt.Errorf("convert: %s: %s%s %s", c.name, c.within, quote.Name(key), fmt.Sprintf(format, args...))
	}
}

// has reports whether a field is there and not null.
func (c *fields) has(key string) bool {
	raw, ok := c.values[key]
	return ok && string(raw) != "null"
}

// text shows a field's value within reason.
func (c *fields) text(key string) string {
	var b bytes.Buffer
	if json.Compact(&b, c.values[key]) != nil {
		return "no JSON"
	}
	return quote.Escape(b.String(), 60)
}

// neutral reports whether a field is absent or says that nothing is to be done.
func (c *fields) neutral(key string) bool {
	if !c.has(key) {
		return true
	}
	text := c.text(key)
	if safetensors.Neutral(json.RawMessage(text)) {
		return true
	}
	switch text {
	case "1", "1.0": // neutral as a factor
		return strings.HasSuffix(key, "_multiplier") || strings.HasPrefix(key, "logit")
	}
	return false
}

func (c *fields) number(key string) float64 {
	if c.err != nil {
		return 1
	}
	if !c.has(key) {
		c.fail(key, "is missing: the file is incomplete or of another kind of model")
		return 1
	}
	var x float64
	if strictjson.DecodeForeign(c.values[key], &x) != nil {
		c.fail(key, "is %s: want a number", c.text(key))
		return 1
	}
	return x
}

// count reads an integer from 1 to most.
func (c *fields) count(key string, most int) int {
	x := c.number(key)
	if c.err == nil && (x != math.Trunc(x) || x < 1 || x > float64(most)) {
		c.fail(key, "is %s: want a whole number of 1 to %d", c.text(key), most)
		return 1
	}
	return int(x)
}

// whole reads an integer from 0 to most.
func (c *fields) whole(key string, most int) int {
	if c.has(key) && c.text(key) == "0" {
		return 0
	}
	return c.count(key, most)
}

// positive reads a number above 0 that 32 bits hold.
func (c *fields) positive(key string) float64 {
	x := c.number(key)
	if c.err == nil && !(float32(x) > 0 && float32(x) <= math.MaxFloat32) {
		c.fail(key, "is %s: want a number above 0", c.text(key))
		return 1
	}
	return x
}

func (c *fields) atLeastOne(key string) float64 {
	x := c.positive(key)
	if c.err == nil && x < 1 {
		c.fail(key, "is %s: want 1 or more", c.text(key))
		return 1
	}
	return x
}

// list reads n numbers above 0 that 32 bits hold.
func (c *fields) list(key string, n int) []float64 {
	var all []float64
	fits := c.err == nil && strictjson.DecodeForeign(c.values[key], &all) == nil && len(all) == n
	for _, x := range all {
		fits = fits && float32(x) > 0 && float32(x) <= math.MaxFloat32
	}
	if !fits {
		c.fail(key, "is %s: want %d numbers above 0", c.text(key), n)
	}
	return all
}

// flag reads a boolean; a missing one is false, the format's default for every flag here.
func (c *fields) flag(key string) bool {
	var b bool
	if c.err == nil && c.has(key) && strictjson.DecodeForeign(c.values[key], &b) != nil {
		c.fail(key, "is %s: want true or false", c.text(key))
	}
	return b
}

func (c *fields) word(key string) string {
	var s string
	switch {
	case c.err != nil:
	case !c.has(key):
		c.fail(key, "is missing: the file is incomplete or of another kind of model")
	case strictjson.DecodeForeign(c.values[key], &s) != nil:
		c.fail(key, "is %s: want a text", c.text(key))
	}
	return s
}

// ids reads a token id or a list of them; nil where there is none.
func (c *fields) ids(key string) []int {
	if c.err != nil || !c.has(key) {
		return nil
	}
	var one int
	if strictjson.DecodeForeign(c.values[key], &one) == nil {
		return []int{one}
	}
	var all []int
	if strictjson.DecodeForeign(c.values[key], &all) != nil {
		c.fail(key, "is %s: want a token id, or a list of them", c.text(key))
	}
	return all
}
