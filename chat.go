package foretoken

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"foretoken/internal/kind"
	"foretoken/internal/quote"
	"foretoken/models/chat"
	"foretoken/models/gguf"
	"foretoken/models/tokenizer"
	"foretoken/spec"
)

// Roles of a Message.
const (
	RoleSystem    = "system"
	RoleUser      = "user"
	RoleAssistant = "assistant"
	RoleTool      = "tool"
)

// ChatOptions are a conversation's.
type ChatOptions struct {
	// System is a system message at the start; "": only the template's own.
	System string
	// Messages are a conversation to go on with, after the system message.
	Messages []Message
	// Template is a chat template in Jinja; blank: the one in the target's file.
	Template string
	// Tools are the functions described to the model, as templates take them: {"type": "function", "function":
	// {…}}. Vars are further variables of the template, such as enable_thinking: values that encoding/json can
	// write.
	Tools []json.RawMessage
	Vars  map[string]any
	// Reserve is the least number of positions of the context that a reply gets: older turns
	// are dropped for it. 0: Request.MaxTokens, at most a quarter of the context.
	Reserve int
}

// Chat is a conversation with the target. An answer prefills only the messages since the last one: the models' KV
// caches keep the conversation, also across other requests of the session that begin with the same tokens. Answers
// do not depend on it.
//
// When a conversation no longer fits the context, its oldest turns are dropped from the model's input, and the rest
// is prefilled at its new positions: keys are never shifted. A turn is a user message with everything up to the
// next one.
//
// Its methods must not be called concurrently with other methods of the session.
type Chat struct {
	s        *Session
	template *template
	messages []Message
	dropped  int // turns that the model does not see any more
	reserve  int
}

// Reply is an answer.
type Reply struct {
	*Result
	Message Message `json:"message"` // as it was added to the conversation
	// Dropped counts the turns newly left out for this answer, Unseen all that it did not see.
	Dropped int `json:"dropped"`
	Unseen  int `json:"unseen"`
}

// NewChat begins a conversation. It refuses a target whose file has no chat template, unless the
// options bring one: such a model continues texts, which Generate does.
func (s *Session) NewChat(o ChatOptions) (*Chat, error) {
	t, err := s.chatTemplate(&o)
	if err != nil {
		return nil, kind.Of(ErrRequest, err)
	}
	if o.Reserve < 0 || o.Reserve > 0 && o.Reserve >= s.limits.Context {
		return nil, kind.Refuse("foretoken: %w", &spec.FieldError{Field: "reserve", Reason: fmt.Sprintf(
			"is %d, want positions of the context of %d for a reply", o.Reserve, s.limits.Context)})
	}
	if err := chat.CheckVariables(o.Vars); err != nil {
		return nil, kind.Of(ErrRequest, err)
	}
	c := &Chat{s: s, template: t, reserve: o.Reserve}
	if o.System != "" {
		c.messages = append(c.messages, Message{Role: RoleSystem, Content: o.System})
	}
	for i, m := range o.Messages {
		if !slices.Contains([]string{RoleSystem, RoleUser, RoleAssistant, RoleTool}, m.Role) {
			return nil, kind.Refuse("foretoken: %w", &spec.FieldError{Field: fmt.Sprintf("messages[%d].role", i),
				Reason: fmt.Sprintf("is %s, want system, user, assistant or tool", quote.Text(m.Role))})
		}
		c.messages = append(c.messages, m)
	}
	return c, nil
}

// Messages is the conversation, dropped turns included.
func (c *Chat) Messages() []Message { return slices.Clone(c.messages) }

// Unseen returns the number of dropped messages. The leading system messages do not count.
func (c *Chat) Unseen() int {
	_, turns := turnsOf(c.messages)
	n := 0
	for _, t := range turns[:min(c.dropped, len(turns))] {
		n += len(t)
	}
	return n
}

// Note says how the conversation is rendered where that is not by the file's own template, or "".
func (c *Chat) Note() string { return c.template.note }

// Send adds a message, a user's unless its role is tool, and answers it. emit is Generate's. Cancelling ctx ends
// the answer within a round and keeps the text so far in the conversation. An error leaves the conversation
// unchanged.
func (c *Chat) Send(ctx context.Context, m Message, r Request, emit func(*Event) error) (*Reply, error) {
	switch m.Role {
	case "":
		m.Role = RoleUser
	case RoleUser, RoleTool:
	default:
		return nil, kind.Refuse("foretoken: a message of role %.80q cannot be answered; want user or tool", m.Role)
	}
	return c.answer(ctx, append(slices.Clip(c.messages), m), c.dropped, r, emit)
}

// Regenerate answers the last message again, in place of the last answer. With the same seed
// the answer is the same.
func (c *Chat) Regenerate(ctx context.Context, r Request, emit func(*Event) error) (*Reply, error) {
	n := len(c.messages)
	if n > 0 && c.messages[n-1].Role == RoleAssistant {
		n--
	}
	if n == 0 || !answerable(c.messages[n-1]) {
		return nil, kind.Refuse("foretoken: the conversation has no message to answer yet")
	}
	return c.answer(ctx, slices.Clip(c.messages[:n]), 0, r, emit)
}

// Edit gives message i of Messages another content, drops all that came after it, and answers.
func (c *Chat) Edit(ctx context.Context, i int, content string, r Request, emit func(*Event) error) (*Reply, error) {
	if i < 0 || i >= len(c.messages) {
		return nil, kind.Refuse("foretoken: there is no message %d to edit; the conversation has 0 to %d", i,
			len(c.messages)-1)
	}
	m := c.messages[i]
	if !answerable(m) {
		return nil, kind.Refuse("foretoken: message %d is the %s's; only user and tool messages can be edited and "+
			"answered again", i, quote.Name(m.Role))
	}
	m.Content, m.Parts = content, nil
	return c.answer(ctx, append(slices.Clip(c.messages[:i]), m), 0, r, emit)
}

// answerable reports whether an answer may follow a message.
func answerable(m Message) bool { return m.Role == RoleUser || m.Role == RoleTool }

// answer generates what follows messages, and makes both the conversation. dropped is how many turns
// are dropped at least.
func (c *Chat) answer(
	ctx context.Context, messages []Message, dropped int, r Request, emit func(*Event) error,
) (*Reply, error) {
	if r.Echo {
		return nil, kind.Of(ErrRequest, spec.Refuse("echo", "is true, and an answer does not repeat its conversation"))
	}
	ids, unseen, err := c.trim(ctx, messages, dropped, &r)
	var got *Result
	switch {
	case err == nil:
		got, err = c.s.GenerateIDs(ctx, ids, r, emit)
	case ctx.Err() != nil: // before there was a prompt
		unseen = dropped
		got, err = aborted([]int32{}, emit)
	}
	if err != nil {
		return nil, err
	}
	reply := &Reply{Result: got, Message: Message{Role: RoleAssistant, Content: got.Text}, Unseen: unseen,
		Dropped: max(unseen-c.dropped, 0)}
	c.messages, c.dropped = append(messages, reply.Message), unseen
	return reply, nil
}

// turnsOf cuts a conversation into the system messages that it begins with and its turns.
func turnsOf(messages []Message) (head []Message, turns [][]Message) {
	n := 0
	for n < len(messages) && messages[n].Role == RoleSystem {
		n++
	}
	head = messages[:n]
	for from := n; n < len(messages); {
		if n++; n == len(messages) || messages[n].Role == RoleUser {
			turns, from = append(turns, messages[from:n]), n
		}
	}
	return head, turns
}

// trim encodes a conversation and drops its oldest turns until the reply fits.
func (c *Chat) trim(
	ctx context.Context, messages []Message, dropped int, r *Request,
) (ids []int32, unseen int, err error) {
	most := c.s.limits.Context
	reserve := c.reserve
	if reserve == 0 {
		reserve = max(most/4, 1)
		if r.MaxTokens > 0 {
			reserve = min(reserve, r.MaxTokens)
		}
	}
	head, turns := turnsOf(messages)
	for unseen = min(dropped, len(turns)-1); ; unseen++ {
		seen := slices.Clone(head)
		for _, t := range turns[unseen:] {
			seen = append(seen, t...)
		}
		ids, err = c.template.encode(seen, yieldOf(ctx))
		last := unseen == len(turns)-1
		switch {
		case err == nil && len(ids)+reserve <= most:
			return ids, unseen, nil
		case err != nil && (last || !errors.Is(err, ErrContextFull)):
			return nil, 0, err
		case last:
			return nil, 0, kind.Of(ErrContextFull, fmt.Errorf("foretoken: the message takes %d positions with what "+
				"goes with it, and %d are kept for the reply, of a context of %d; shorten it by %d tokens, or open "+
				"the models with a longer context", len(ids), reserve, most, len(ids)+reserve-most))
		}
	}
}

// Message is one of a conversation.
type Message = chat.Message

// ErrNoChatTemplate reports a target whose file has no chat template: it continues texts only.
var ErrNoChatTemplate = chat.ErrNoTemplate

// template renders conversations for the target.
type template struct {
	*chat.Template
	options chat.RenderOptions
	tok     *tokenizer.Tokenizer
	context int // tokens
	note    string
}

// CanChat returns why the target cannot hold a conversation without a template from the caller, or nil.
func (s *Session) CanChat() error { return s.templateErr }

// ChatIDs gives the tokens of a conversation up to where an answer begins, for GenerateIDs. Unlike
// Chat it drops nothing: the caller checks the context's length. It may be called while a request
// runs. yield, which may be nil, is called about every millisecond; an error of it ends the work and is returned.
func (s *Session) ChatIDs(o ChatOptions, yield func() error) ([]int32, error) {
	c, err := s.NewChat(o)
	if err != nil {
		return nil, err
	}
	c.template.options.Limits = chat.RequestLimits()
	return c.template.encode(c.messages, yield)
}

// chatTemplate is the given one, or the file's.
func (s *Session) chatTemplate(o *ChatOptions) (*template, error) {
	t := &template{Template: s.template, tok: s.tok, context: s.limits.Context,
		options: chat.RenderOptions{AddGenerationPrompt: true, Tools: o.Tools, Vars: o.Vars}}
	if gguf.Blank(o.Template) {
		return t, s.templateErr
	}
	t.note = "conversations are rendered by the template that was given, not by the file's own"
	last := s.given.Load()
	if last == nil || last.text != o.Template {
		parsed, err := chat.New(o.Template, templateOptions(s.tok))
		if err != nil {
			return t, err
		}
		last = &givenTemplate{o.Template, parsed}
		s.given.Store(last)
	}
	t.Template = last.Template
	return t, nil
}

// givenTemplate is the last template that was given in place of the file's: a server gives it with every request.
type givenTemplate struct {
	text string
	*chat.Template
}

// templateOptions returns the texts of BOS and EOS for a template.
func templateOptions(tok *tokenizer.Tokenizer) chat.Options {
	bos, _ := tok.BOS() // of a missing token the text is empty
	eos, _ := tok.EOS()
	return chat.Options{BOS: tok.TokenText(bos), EOS: tok.TokenText(eos)}
}

// encode returns the ids of a conversation up to the start of the reply. Only the template's control tokens act as
// such: those that people, models or tools spelled out anywhere are plain text. Where the tokenizer begins texts with a
// BOS, the result has exactly one, whether the template writes it or not. A text that cannot have as few tokens as
// the context holds is refused before it is tokenised.
func (t *template) encode(messages []Message, yield func() error) ([]int32, error) {
	options := t.options
	options.Yield = yield
	text, mark, err := t.RenderGuarded(messages, options, t.tok.Guard())
	if err != nil {
		return nil, kind.Of(ErrRequest, fmt.Errorf("foretoken: %w", err))
	}
	bytes := len(text)
	if mark != "" {
		bytes -= len(mark) * strings.Count(text, mark)
	}
	if least := t.tok.Least(bytes, true); least > t.context {
		return nil, kind.Of(ErrContextFull, fmt.Errorf("foretoken: the conversation has %d bytes with what the "+
			"template writes, which are at least %d tokens, but the context holds %d; shorten it, or open the models "+
			"with a longer context", bytes, least, t.context))
	}
	ids, err := t.tok.EncodeWith(text, tokenizer.EncodeOptions{Special: true, Mark: mark, Yield: yield})
	if err != nil {
		return nil, err
	}
	if bos, ok := t.tok.BOS(); ok && t.tok.AddBOS() && (len(ids) == 0 || ids[0] != bos) {
		ids = slices.Insert(ids, 0, bos)
	}
	if len(ids) == 0 {
		return nil, kind.Refuse("foretoken: the chat template wrote nothing")
	}
	return ids, nil
}
