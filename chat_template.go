package foretoken

import (
	"fmt"
	"slices"
	"strings"

	"foretoken/models/chat"
	"foretoken/models/tokenizer"
)

// Message is one of a conversation.
type Message = chat.Message

// ErrNoChatTemplate says that a target's file has no chat template: it continues texts, and
// nobody has told how it would be talked to.
var ErrNoChatTemplate = chat.ErrNoTemplate

// template renders conversations for the target.
type template struct {
	*chat.Template
	options chat.RenderOptions
	file    string // of the target
	tok     *tokenizer.Tokenizer
	guard   *tokenizer.Guard
	note    string
}

// CanChat tells why there can be no conversation with the target without a template of the
// caller's, nil where there can.
func (s *Session) CanChat() error { return s.templateErr }

// ChatIDs gives the tokens of a conversation up to where an answer begins, for GenerateIDs. Unlike
// Chat it drops nothing: how many positions the context has is the caller's to heed.
func (s *Session) ChatIDs(o ChatOptions) ([]int32, error) {
	c, err := s.NewChat(o)
	if err != nil {
		return nil, err
	}
	return c.template.encode(c.messages)
}

// chatTemplate is the given one, or the file's.
func (s *Session) chatTemplate(o *ChatOptions) (*template, error) {
	t := &template{Template: s.template, file: s.info.Target.File, tok: s.tok, guard: s.tok.NewGuard(),
		options: chat.RenderOptions{AddGenerationPrompt: true, Tools: o.Tools, Vars: o.Vars}}
	if o.Template == "" {
		return t, s.templateErr
	}
	spelled := func(which func() (int32, bool)) string {
		if id, ok := which(); ok {
			return s.tok.TokenText(id)
		}
		return ""
	}
	var err error
	t.Template, err = chat.New(o.Template, chat.Options{BOS: spelled(s.tok.BOS), EOS: spelled(s.tok.EOS)})
	t.note = "conversations are rendered by the template that was given, not by the file's own"
	return t, err
}

// encode gives the ids of a conversation, up to where the reply begins. Control tokens in it are
// the template's: those that a message spells out are plain text. Where the tokenizer says that
// texts begin with a BOS, this one does, once, whether the template wrote it or not.
func (t *template) encode(messages []Message) ([]int32, error) {
	mark := t.guard.Mark(written(messages)...)
	options := t.options
	options.Escape = func(s string) string { return t.guard.Protect(s, mark) }
	text, err := t.Render(messages, options)
	if err != nil {
		return nil, fmt.Errorf("foretoken: %s: %w", t.file, err)
	}
	ids := t.tok.EncodeGuarded(text, mark, false)
	if bos, ok := t.tok.BOS(); ok && t.tok.AddBOS() && (len(ids) == 0 || ids[0] != bos) {
		ids = slices.Insert(ids, 0, bos)
	}
	if len(ids) == 0 {
		return nil, fmt.Errorf("foretoken: %s: the chat template wrote nothing", t.file)
	}
	return ids, nil
}

// written is all that people and models wrote of a conversation. Arguments may spell a mark in
// JSON's escapes; a longer mark than need be does no harm.
func written(messages []Message) []string {
	var all []string
	for _, m := range messages {
		all = append(all, m.Content, m.Reasoning, m.Name, m.ToolCallID)
		for _, c := range m.ToolCalls {
			all = append(all, c.Name, c.ID, string(c.Arguments), strings.ReplaceAll(strings.ToLower(string(c.Arguments)), `\ufdd0`, "\ufdd0"))
		}
	}
	return all
}
