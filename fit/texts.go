//go:build !js

package fit

import (
	"context"
	"crypto/sha256"
	"encoding/hex"

	"foretoken"
)

// Prompt is a text that the target continues.
type Prompt struct{ ID, Category, Prompt string }

// Text is a prompt with the target's continuation.
type Text struct {
	Key      string // identifies the prompt by its id and text
	Category string
	Continuation
	prompt string
}

// ContinueAll lets the target continue prompts by up to tokens tokens each. The journal keeps finished texts for
// the next command. On an error it returns the texts before the failed prompt.
func ContinueAll(ctx context.Context, s *foretoken.Session, j *Journal, prompts []Prompt, tokens int, o Options,
	progress func(done int)) ([]Text, error) {
	var texts []Text
	for _, p := range prompts {
		sum := sha256.Sum256([]byte(p.Prompt))
		texts = append(texts,
			Text{Key: p.ID + " " + hex.EncodeToString(sum[:6]), Category: p.Category, prompt: p.Prompt})
	}
	all, err := Gather(ctx, j, texts, progress, func(t *Text) (*Continuation, error) {
		return Continue(ctx, s, t.prompt, tokens, o)
	})
	for i, c := range all {
		texts[i].Continuation = *c
	}
	return texts[:len(all)], err
}

// Gather runs work on every text and keeps the results in a journal. On an error it returns the finished results;
// the text after those failed, or ctx has ended.
func Gather[T any](ctx context.Context, j *Journal, texts []Text, progress func(done int),
	work func(t *Text) (T, error)) (all []T, err error) {
	for i := range texts {
		var one T
		ok, err := j.Get(texts[i].Key, &one)
		if err == nil && !ok {
			if err = ctx.Err(); err == nil {
				if one, err = work(&texts[i]); err == nil {
					err = j.Add(texts[i].Key, one)
				}
			}
		}
		if err != nil {
			return all, err
		}
		all = append(all, one)
		progress(i + 1)
	}
	return all, nil
}
