package main

import (
	"context"
	"fmt"

	"foretoken"
	"foretoken/internal/strictjson"

	"github.com/hack-pad/safejs"
)

// embed embeds texts: (request JSON) → JSON list of embeddings.
func (e *engine) embed(ctx context.Context, body []byte, _ []safejs.Value) (any, error) {
	var r struct {
		Texts []string `json:"texts"`
		foretoken.EmbedOptions
	}
	if err := strictjson.Decode(body, &r); err != nil {
		return nil, withCode("bad_option", fmt.Errorf("foretoken: embed: %w", err))
	}
	all := make([]*foretoken.Embedding, len(r.Texts))
	for i, text := range r.Texts {
		var err error
		if all[i], err = e.session.Embed(ctx, text, r.EmbedOptions); err != nil {
			return nil, err
		}
	}
	return all, nil
}
