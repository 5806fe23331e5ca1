package main

import (
	"context"

	"foretoken/models/grammar"
)

// compile stands apart because the report's build of an earlier commit has another.
func compile(schema []byte, open bool) (*grammar.Grammar, error) {
	return grammar.FromSchema(context.Background(), schema, grammar.SchemaOptions{Layout: grammar.Compact, Open: open})
}
