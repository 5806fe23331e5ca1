package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"foretoken"
	"foretoken/internal/strictjson"
	"foretoken/models/chat"

	"github.com/hack-pad/safejs"
)

// chatInfo reports whether the target can hold a conversation.
type chatInfo struct {
	OK      bool   `json:"ok"`
	Problem string `json:"problem"` // why not, or empty
}

// chatAction is an operation on a conversation: open, send, regenerate or edit.
type chatAction struct {
	Do string `json:"do"`

	System   string                     `json:"system"` // of open, as are the next five
	Messages []foretoken.Message        `json:"messages"`
	Template string                     `json:"template"`
	Tools    []json.RawMessage          `json:"tools"`
	Vars     map[string]json.RawMessage `json:"vars"`
	Reserve  int                        `json:"reserve"`

	Message foretoken.Message `json:"message"` // of send
	Index   int               `json:"index"`   // of edit, as is the next
	Content string            `json:"content"`

	Request json.RawMessage `json:"request"` // of all but open
}

// chatState is a conversation as the page sees it.
type chatState struct {
	Messages []foretoken.Message `json:"messages"`
	Unseen   int                 `json:"unseen"` // messages after the system's that the model no longer sees
	Note     string              `json:"note"`
}

type chatReply struct {
	chatState
	Result  *foretoken.Result `json:"result"`
	Dropped int               `json:"dropped"` // turns that this answer was the first not to see
}

func stateOf(c *foretoken.Chat) chatState {
	return chatState{Messages: append([]foretoken.Message{}, c.Messages()...), Unseen: c.Unseen(), Note: c.Note()}
}

// converse begins the session's conversation, in place of the one before, or has a message of it
// answered: (action JSON, onEvent) → state or reply JSON.
func (e *engine) converse(ctx context.Context, body []byte, args []safejs.Value) (any, error) {
	var a chatAction
	if err := strictjson.Decode(body, &a); err != nil {
		return nil, withCode("bad_option", fmt.Errorf("foretoken: chat: %w", err))
	}
	for i := range a.Messages {
		if m := &a.Messages[i]; m.Parts != nil {
			m.SetParts(m.Parts)
		}
	}
	if a.Do == "open" {
		conversation, err := e.session.NewChat(foretoken.ChatOptions{System: a.System, Messages: a.Messages,
			Template: a.Template, Tools: a.Tools, Vars: chat.Variables(a.Vars), Reserve: a.Reserve})
		if err != nil {
			return nil, err
		}
		e.chat = conversation
		return stateOf(conversation), nil
	}
	conversation := e.chat
	if conversation == nil {
		return nil, withCode("disposed", errors.New("foretoken: no conversation was begun"))
	}
	if len(a.Request) == 0 {
		a.Request = json.RawMessage("{}")
	}
	r, err := readRequest(a.Request)
	if err != nil {
		return nil, err
	}
	r.process(args)
	var reply *foretoken.Reply
	switch emit := e.eventsTo(args, "", r.Trace); a.Do {
	case "send":
		reply, err = conversation.Send(ctx, a.Message, r.Request, emit)
	case "regenerate":
		reply, err = conversation.Regenerate(ctx, r.Request, emit)
	case "edit":
		reply, err = conversation.Edit(ctx, a.Index, a.Content, r.Request, emit)
	default:
		err = withCode("bad_option",
			fmt.Errorf("foretoken: chat: field do is %.80q, want open, send, regenerate or edit", a.Do))
	}
	if err != nil {
		return nil, err
	}
	e.keepCosts()
	return chatReply{stateOf(conversation), reply.Result, reply.Dropped}, nil
}
