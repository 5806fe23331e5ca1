package openai

import (
	"bytes"
	"encoding/json"
	"strings"
	"unicode/utf8"

	"foretoken"
	"foretoken/models/chat"
	"foretoken/models/tokenizer"
	"foretoken/spec"
)

// The objects of the API. Members that are null where there is nothing are written all the same: clients read them.

// completion is an answer, or a piece of a streamed one.
type completion struct {
	ID          string          `json:"id"`
	Object      string          `json:"object"`
	Created     int64           `json:"created"`
	Model       string          `json:"model"`
	Fingerprint string          `json:"system_fingerprint"` // of what decides the bits: model, types, device
	Choices     []choice        `json:"choices"`
	Usage       json.RawMessage `json:"usage,omitempty"` // "null" in the chunks before the one that carries it
}

// choice is one of the texts, or a piece of it. A conversation's is in Message or Delta, another's in Text.
type choice struct {
	Index    int     `json:"index"`
	Message  *reply  `json:"message,omitempty"`
	Delta    *delta  `json:"delta,omitempty"`
	Text     *string `json:"text,omitempty"`
	Logprobs any     `json:"logprobs"` // *chatLogprobs or *textLogprobs
	Finish   *string `json:"finish_reason"`
}

type reply struct {
	Role    string     `json:"role"`
	Content *string    `json:"content"` // null where there are only calls
	Refusal *string    `json:"refusal"` // a model here has no channel for one
	Calls   []toolCall `json:"tool_calls,omitempty"`
}

type delta struct {
	Role    string     `json:"role,omitempty"`
	Content *string    `json:"content,omitempty"`
	Calls   []toolCall `json:"tool_calls,omitempty"`
}

// toolCall is a call that an answer makes.
type toolCall struct {
	Index    *int   `json:"index,omitempty"` // in a piece
	ID       string `json:"id"`
	Type     string `json:"type"`
	Function struct {
		Name      string `json:"name"`
		Arguments string `json:"arguments"` // JSON text
	} `json:"function"`
}

// utterance reads an answer: its content, and the calls in it.
type utterance struct {
	calls *chat.CallReader // nil where there is nothing to call
	found int              // calls so far
}

// read reads a piece of the text, the last one with end.
func (u *utterance) read(text string, end bool) (content string, calls []toolCall) {
	if u.calls == nil {
		return text, nil
	}
	content, found := u.calls.Push(text)
	if end {
		rest, more := u.calls.End()
		content, found = content+rest, append(found, more...)
	}
	for _, c := range found {
		index := u.found
		call := toolCall{Index: &index, ID: c.ID, Type: "function"}
		call.Function.Name, call.Function.Arguments = c.Name, string(c.Arguments)
		calls, u.found = append(calls, call), u.found+1
	}
	return content, calls
}

// finishOf returns the API's word for why a text ended.
func finishOf(f spec.Finish) string {
	if f == spec.FinishEOS || f == spec.FinishStop {
		return "stop"
	}
	return "length"
}

// usage counts a request's tokens.
type usage struct {
	Prompt  int `json:"prompt_tokens"`
	Output  int `json:"completion_tokens"`
	Total   int `json:"total_tokens"`
	Details struct {
		Cached int `json:"cached_tokens"` // held in the KV cache from an earlier request
	} `json:"prompt_tokens_details"`
	Foretoken account `json:"foretoken"`
}

// account reports a request's speculation; stats are those of foretoken generate --json, summed over the request's
// texts.
type account struct {
	Policy  string     `json:"policy"`
	Seed    uint64     `json:"seed"` // of the first text; the next ones have the numbers after it
	Device  string     `json:"device"`
	QueueMS float64    `json:"queue_ms"`
	Stats   spec.Stats `json:"stats"`
	// Unchecked has the keywords that the texts are not held to, as JSON Pointers into their schema.
	Unchecked []string `json:"unchecked,omitempty"`
}

type chatLogprobs struct {
	Content []tokenLogprob `json:"content"`
	Refusal []tokenLogprob `json:"refusal"` // null
}

type tokenLogprob struct {
	topLogprob
	Top []topLogprob `json:"top_logprobs"`
}

type topLogprob struct {
	Token   string  `json:"token"`
	Logprob float64 `json:"logprob"`
	Bytes   []int   `json:"bytes"` // null for tokens that show no text
}

type textLogprobs struct {
	Tokens []string             `json:"tokens"`
	Own    []float64            `json:"token_logprobs"`
	Top    []map[string]float64 `json:"top_logprobs"` // null where none were asked for
	Offset []int                `json:"text_offset"`  // in characters, from the beginning of the prompt
}

// likelihoods collects the log-probabilities of a text's tokens.
type likelihoods struct {
	tok    *tokenizer.Tokenizer
	top    int // -1: nothing
	chat   bool
	offset int // characters before the next token
	// of the tokens since take
	talk chatLogprobs
	text textLogprobs
}

// note adds the log-probabilities of an event's tokens, if they were requested.
func (l *likelihoods) note(e *foretoken.Event) {
	if l.top < 0 {
		return
	}
	talk, text := &l.talk, &l.text
	for i, t := range e.Tokens {
		if l.tok.EOG(t.ID) && e.Round.Finish == spec.FinishEOS && i == len(e.Tokens)-1 {
			break // it ends the text and is no part of it
		}
		own := float64(*t.LogProb)
		if l.chat {
			one := tokenLogprob{l.topLogprobOf(t.ID, own), []topLogprob{}}
			for _, c := range t.Top {
				one.Top = append(one.Top, l.topLogprobOf(c.ID, float64(c.LogProb)))
			}
			talk.Content = append(talk.Content, one)
			continue
		}
		text.Tokens, text.Own = append(text.Tokens, l.topLogprobOf(t.ID, 0).Token), append(text.Own, own)
		text.Offset = append(text.Offset, l.offset)
		l.offset += utf8.RuneCountInString(t.Text)
		if l.top > 0 {
			best := map[string]float64{}
			for _, c := range t.Top {
				best[l.topLogprobOf(c.ID, 0).Token] = float64(c.LogProb)
			}
			text.Top = append(text.Top, best)
		}
	}
}

// take returns the log-probabilities noted since the last call, or nil if there are none.
func (l *likelihoods) take() any {
	talk, text := l.talk, l.text
	l.talk, l.text = chatLogprobs{}, textLogprobs{}
	switch {
	case len(talk.Content) > 0:
		return &talk
	case len(text.Tokens) > 0:
		return &text
	}
	return nil
}

func (l *likelihoods) topLogprobOf(id int32, logprob float64) topLogprob {
	piece := l.tok.Piece(id)
	if len(piece) == 0 {
		return topLogprob{Token: l.tok.TokenText(id), Logprob: logprob}
	}
	t := topLogprob{Token: strings.ToValidUTF8(string(piece), "\ufffd"), Logprob: logprob}
	for _, b := range piece {
		t.Bytes = append(t.Bytes, int(b))
	}
	return t
}

// Encode writes JSON without escaping <, > and &, which code is full of.
func Encode(v any) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), nil
}
