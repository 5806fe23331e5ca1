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

// chatAction is an operation on a conversation: open, send, regenerate or edit; complete answers the last of
// Messages and leaves the session's conversation unchanged.
type chatAction struct {
	Do string `json:"do"`

	System   string                     `json:"system"` // of open and complete, as are the next six
	Messages []foretoken.Message        `json:"messages"`
	Template string                     `json:"template"`
	Tools    []json.RawMessage          `json:"tools"`
	Choice   json.RawMessage            `json:"tool_choice"`         // of complete, see chat.ToolChoice
	Several  bool                       `json:"parallel_tool_calls"` // of complete
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
	var err error
	var call json.RawMessage
	conversation := e.chat
	if a.Do == "complete" {
		if len(a.Messages) == 0 {
			return nil, withCode("bad_option",
				errors.New("foretoken: chat: field messages is empty; give at least one message"))
		}
		last := len(a.Messages) - 1
		a.Message, a.Messages = a.Messages[last], a.Messages[:last]
		var told bool
		if call, told, err = chat.ToolChoice(a.Choice, a.Tools, a.Several); err != nil {
			return nil, withCode("bad_option", err)
		}
		if !told {
			a.Tools = nil
		}
	}
	if a.Do == "open" || a.Do == "complete" {
		if conversation, err = e.session.NewChat(foretoken.ChatOptions{System: a.System, Messages: a.Messages,
			Template: a.Template, Tools: a.Tools, Vars: chat.Variables(a.Vars), Reserve: a.Reserve}); err != nil {
			return nil, err
		}
	}
	if a.Do == "open" {
		e.chat = conversation
		return stateOf(conversation), nil
	}
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
	if call != nil {
		if err := r.Constraints.Call(call); err != nil {
			return nil, withCode("bad_option", err)
		}
		var layout struct {
			Compact *bool `json:"json_compact"`
		}
		if strictjson.DecodeForeign(a.Request, &layout) == nil && layout.Compact != nil {
			r.JSONCompact = *layout.Compact
		}
	}
	r.process(args)
	var reply *foretoken.Reply
	switch emit := e.eventsTo(args, "", r.Trace); a.Do {
	case "send", "complete":
		reply, err = conversation.Send(ctx, a.Message, r.Request, emit)
	case "regenerate":
		reply, err = conversation.Regenerate(ctx, r.Request, emit)
	case "edit":
		reply, err = conversation.Edit(ctx, a.Index, a.Content, r.Request, emit)
	default:
		err = withCode("bad_option",
			fmt.Errorf("foretoken: chat: field do is %.80q, want open, send, regenerate, edit or complete", a.Do))
	}
	if err != nil {
		return nil, err
	}
	e.keepCosts()
	return chatReply{stateOf(conversation), reply.Result, reply.Dropped}, nil
}
