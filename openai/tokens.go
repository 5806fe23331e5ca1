package openai

import (
	"cmp"
	"errors"

	"foretoken"
	"foretoken/internal/public"
	"foretoken/models/gguf"
	"foretoken/models/tokenizer"
)

// slice is the bytes of short texts in a slice of Tokens' work.
const slice = 4096

// Tokens returns the tokens of each of the request's texts, and forgets the texts: they may be megabytes. A prompt that
// cannot have as few tokens as the context holds is refused before it is tokenised. yield is called between slices of
// the work, of about a millisecond each; its error ends the work.
func (m *Model) Tokens(q *Request, yield func() error) ([][]int32, error) {
	defer func() { q.messages, q.tools, q.vars, q.template, q.prompts = nil, nil, nil, "", nil }()
	var all [][]int32
	name, room, with := q.Endpoint.field(), m.Info.Target.Context, " with the answer"
	if q.Endpoint == Embeddings {
		room, with = room+1, ""
	}
	if q.Endpoint == ChatCompletions {
		template := cmp.Or(q.template, m.Template)
		if err := m.engine.CanChat(); err != nil && gguf.Blank(template) {
			e := wrong("no_chat_template", "messages", "the model has no chat template that can be used; give one "+
				"with --chat-template, or in JavaScript chat_template, or use completions")
			e.Detail = public.Message(err)
			return nil, e
		}
		if err := yield(); err != nil {
			return nil, err
		}
		var ended error
		ids, err := m.engine.ChatIDs(foretoken.ChatOptions{Messages: q.messages, Template: template, Tools: q.tools,
			Vars: q.vars}, func() error { ended = yield(); return ended })
		if ended != nil {
			return nil, ended
		}
		if errors.Is(err, foretoken.ErrContextFull) {
			return nil, wrong("context_length_exceeded", name, "%s", m.told(err))
		}
		if err != nil { // the template's word on the conversation
			return nil, invalid("messages", "%s", m.told(err))
		}
		all = append(all, ids)
	}
	work := 0
	for i, p := range q.prompts {
		if work += len(p.text) + len(p.ids); work > slice { // longer texts are cut into slices of their own
			work = 0
			if err := yield(); err != nil {
				return nil, err
			}
		}
		ids := p.ids
		if ids == nil {
			if least := m.engine.Tokenizer().Least(len(p.text), false); least >= room {
				return nil, wrong("context_length_exceeded", name, "%s has %d bytes, which are at least %d tokens, "+
					"and the context holds %d%s; shorten it, or load the model with a longer context", name,
					len(p.text), least, m.Info.Target.Context, with)
			}
			var err error
			ids, err = m.engine.Tokenizer().EncodeWith(p.text, tokenizer.EncodeOptions{Begin: true,
				Complete: q.Endpoint == Embeddings, Yield: yield})
			if err != nil {
				return nil, err
			}
		}
		for _, id := range ids {
			if id < 0 || int(id) >= m.Info.Target.Vocab {
				return nil, invalid(name, "%s %d has the token %d; want 0 to %d", name, i, id, m.Info.Target.Vocab-1)
			}
		}
		all = append(all, ids)
	}
	for _, ids := range all {
		if len(ids) == 0 {
			return nil, invalid(name, "%s is empty, and the model has no token to begin with", name)
		}
		if len(ids) >= room {
			return nil, wrong("context_length_exceeded", name, "%s has %d tokens, and the context holds %d%s; "+
				"shorten it, or load the model with a longer context", name, len(ids), m.Info.Target.Context, with)
		}
	}
	return all, nil
}
