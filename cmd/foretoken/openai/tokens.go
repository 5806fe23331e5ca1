package openai

import (
	"errors"

	"foretoken"
)

// tokens returns the tokens of each prompt. A prompt with more bytes than the longest tokens of a full context is
// refused before it is tokenised.
func (o *opened) tokens(q *parsedRequest, template string) ([][]int32, error) {
	var all [][]int32
	name, room := "prompt", o.info.Target.Context
	fits := func(bytes int) error {
		if bytes/max(o.longest, 1) < room {
			return nil
		}
		return wrong("context_length_exceeded", name, "%s has %d bytes, and the context holds %d tokens with the "+
			"answer, of at most %d bytes; shorten it, or start the server with a longer --context", name, bytes, room,
			o.longest)
	}
	if q.chat {
		name = "messages"
		bytes := 0
		for _, m := range q.messages {
			bytes += len(m.Content)
		}
		if err := fits(bytes); err != nil {
			return nil, err
		}
		ids, err := o.ChatIDs(foretoken.ChatOptions{Messages: q.messages, Template: template, Tools: q.tools,
			Vars: q.vars})
		if errors.Is(err, foretoken.ErrNoChatTemplate) {
			return nil, err
		}
		if err != nil { // the template's word on the conversation
			return nil, invalid("messages", "%s", oneLine(err))
		}
		all = append(all, ids)
	}
	for i, p := range q.prompts {
		ids := p.ids
		if ids == nil {
			if err := fits(len(p.text)); err != nil {
				return nil, err
			}
			ids = o.Tokenizer().Encode(p.text, true)
		}
		for _, id := range ids {
			if id < 0 || int(id) >= o.info.Target.Vocab {
				return nil, invalid("prompt", "prompt %d has the token %d; want 0 to %d", i, id, o.info.Target.Vocab-1)
			}
		}
		all = append(all, ids)
	}
	for _, ids := range all {
		if len(ids) == 0 {
			return nil, invalid(name, "%s is empty, and the model has no token to begin with", name)
		}
		if len(ids) >= room {
			return nil, wrong("context_length_exceeded", name, "%s has %d tokens, and the context holds %d with the "+
				"answer; shorten it, or start the server with a longer --context", name, len(ids), room)
		}
	}
	return all, nil
}
