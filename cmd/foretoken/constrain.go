//go:build !js

package main

import (
	"cmp"
	"context"
	"encoding/json"
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

// complete reads the files and the bias list into c, validates it and compiles its grammar.
func (o *constraintOptions) complete(c *foretoken.Constraints) error {
	if err := cmp.Or(readFlag("grammar", &c.Grammar, o.grammarFile),
		readFlag("json-schema", &o.schema, o.schemaFile)); err != nil {
		return err
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
	if err := c.Compile(context.Background()); err != nil {
		return usagef("%s", strings.TrimPrefix(err.Error(), "foretoken: "))
	}
	return nil
}

// readFlag reads the text of a flag from the file of its second form, --NAME-file, if that was given.
func readFlag(name string, text *string, file string) error {
	if file == "" {
		return nil
	}
	if *text != "" {
		return usagef("--%[1]s and --%[1]s-file were given; give one of them", name)
	}
	b, err := readFile(file)
	if err != nil {
		return err
	}
	if *text = string(b); *text == "" {
		return usagef("--%s-file %s is empty", name, file)
	}
	return nil
}
