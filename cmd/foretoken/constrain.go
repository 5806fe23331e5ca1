//go:build !js

package main

import (
	"encoding/json"
	"os"
	"strconv"
	"strings"

	"github.com/spf13/pflag"

	"foretoken"
)

// constraintOptions are the flags that constrain a text, named as in llama.cpp.
type constraintOptions struct {
	grammarFile, schema, schemaFile string
	biases                          []string
}

func (o *constraintOptions) flags(f *pflag.FlagSet, c *foretoken.Constraints) {
	f.StringVar(&c.Grammar, "grammar", "", "constrain the text to a grammar in GBNF, the notation of llama.cpp")
	f.StringVar(&o.grammarFile, "grammar-file", "", "file with such a grammar")
	f.StringVar(&o.schema, "json-schema", "", "constrain the text to a JSON Schema")
	f.StringVar(&o.schemaFile, "json-schema-file", "", "file with such a schema")
	f.BoolVar(&c.JSONObject, "json-object", false, "constrain the text to a JSON object")
	f.Float64Var(&c.FrequencyPenalty, "frequency-penalty", 0,
		"subtract this from a token's logit each time the token occurs in the text, -2 to 2")
	f.Float64Var(&c.PresencePenalty, "presence-penalty", 0,
		"subtract this once from the logit of a token that occurs in the text, -2 to 2")
	f.StringArrayVar(&o.biases, "logit-bias", nil,
		"ID=ADD: add this to the logit of a token, -100 (never) to 100; may be given several times")
}

// complete reads the files and the bias list into c and validates it.
func (o *constraintOptions) complete(c *foretoken.Constraints) error {
	if o.grammarFile != "" {
		if c.Grammar != "" {
			return usagef("--grammar and --grammar-file were given; give one of them")
		}
		text, err := os.ReadFile(o.grammarFile)
		if err != nil {
			return err
		}
		if c.Grammar = string(text); c.Grammar == "" {
			return usagef("--grammar-file %s is empty", o.grammarFile)
		}
	}
	if o.schemaFile != "" {
		if o.schema != "" {
			return usagef("--json-schema and --json-schema-file were given; give one of them")
		}
		text, err := os.ReadFile(o.schemaFile)
		if err != nil {
			return err
		}
		if o.schema = string(text); o.schema == "" {
			return usagef("--json-schema-file %s is empty", o.schemaFile)
		}
	}
	c.JSONSchema = json.RawMessage(o.schema)
	for _, text := range o.biases {
		id, add, ok := strings.Cut(text, "=")
		token, err := strconv.ParseInt(strings.TrimSpace(id), 10, 32)
		bias, err2 := strconv.ParseFloat(strings.TrimSpace(add), 32)
		if !ok || err != nil || err2 != nil {
			return usagef("--logit-bias %q; want ID=ADD, such as 15=-100", text)
		}
		if c.LogitBias == nil {
			c.LogitBias = map[int32]float32{}
		}
		c.LogitBias[int32(token)] = float32(bias)
	}
	if err := c.Validate(); err != nil {
		return usagef("%s", strings.TrimPrefix(err.Error(), "foretoken: "))
	}
	return nil
}
