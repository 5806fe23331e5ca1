package openai

import (
	"context"
	"encoding/json"
	"strings"
	"time"
	"unicode/utf8"

	"foretoken"
	"foretoken/models/chat"
	"foretoken/spec"
)

// Host is the program that answers a request.
type Host struct {
	// Owner names the user whose later requests may reuse this one's KV cache; see foretoken.Request.
	Owner string
	// Yield lets others have their turns; it is called between two texts, and its error ends the request.
	Yield func() error
	// Waited returns how long the request has waited for its turns.
	Waited func() time.Duration
	// Send sends a line of a streamed answer.
	Send func(line []byte) error
}

// Answer holds the outcome of a request.
type Answer struct {
	// Rest remains to be sent: the last lines of a stream, or the body of an answer that is not streamed.
	Rest   [][]byte
	Policy string     // how it was drafted
	Prompt int        // tokens of the prompts, each counted once however many texts follow it
	Stats  spec.Stats // summed over the texts; of embeddings nothing
}

// Answer decodes or embeds the texts of a request, one after the other. Cancelling ctx ends it within a round.
func (m *Model) Answer(ctx context.Context, q *Request, ids [][]int32, h Host) (*Answer, error) {
	g := &generation{model: m, asked: q, host: &h, ctx: ctx}
	if q.Endpoint == Embeddings {
		return g.embed(ids)
	}
	if err := q.compile(ctx); err != nil {
		return nil, err
	}
	return g.decode(ids)
}

// Streams reports whether the answer is sent line by line.
func (q *Request) Streams() bool { return q.stream }

// generation is a request that is being answered.
type generation struct {
	model *Model
	asked *Request
	host  *Host
	ctx   context.Context

	head   completion // of the answer and of each piece
	stats  spec.Stats
	prompt int // tokens of the prompts
	cached int // prompt tokens reused from an earlier request
	all    []choice

	unchecked []string // keywords of the form that the texts are not held to
}

// decode decodes the texts.
func (g *generation) decode(ids [][]int32) (*Answer, error) {
	q := g.asked
	g.head = completion{ID: NewID("cmpl-"), Object: "text_completion", Created: time.Now().Unix(),
		Model: g.model.Model, Fingerprint: g.model.fingerprint}
	if q.Endpoint == ChatCompletions {
		g.head.ID, g.head.Object = NewID("chatcmpl-"), "chat.completion"
		if q.stream {
			g.head.Object += ".chunk"
		}
	}
	for i, prompt := range ids {
		for j := range q.n {
			index := i*q.n + j
			if index > 0 {
				if err := g.host.Yield(); err != nil {
					return nil, err
				}
			}
			settings := q.settings
			settings.Seed += uint64(j)
			settings.Owner = g.host.Owner
			if err := g.generateOne(prompt, settings, index, j == 0); err != nil {
				return nil, q.blame(err)
			}
		}
	}
	rest, err := g.rest()
	return &Answer{Rest: rest, Policy: q.settings.Policy, Prompt: g.prompt, Stats: g.stats}, err
}

// rest returns what is left to send once all texts are decoded.
func (g *generation) rest() ([][]byte, error) {
	q := g.asked
	usage, err := g.usage()
	if err != nil {
		return nil, err
	}
	last := g.head
	last.Choices, last.Usage = g.all, usage
	if q.stream {
		if !q.usage && len(g.unchecked) == 0 {
			return [][]byte{done}, nil
		}
		last.Choices = []choice{}
	}
	b, err := Encode(&last)
	if !q.stream {
		return [][]byte{b}, err
	}
	return [][]byte{b, done}, err
}

// done ends a stream.
var done = []byte("[DONE]")

// generateOne decodes one text and, if the request streams, sends it as it grows. first marks a prompt's first text.
func (g *generation) generateOne(prompt []int32, settings foretoken.Request, index int, first bool) error {
	q := g.asked
	told := &likelihoods{tok: g.model.engine.Tokenizer(), top: q.top, chat: q.Endpoint == ChatCompletions}
	settings.LogProbs, settings.TopLogProbs = q.top >= 0, max(q.top, 0)
	if q.Endpoint == Completions && q.top >= 0 {
		told.offset = utf8.RuneCountInString(told.tok.Decode(prompt))
	}
	var said utterance
	if len(q.callable) > 0 {
		said.calls = chat.NewCallReader(q.callable, q.single)
	}
	if said.calls != nil && q.single {
		reader := chat.NewCallReader(q.callable, true)
		settings.Until = func(text string) bool {
			_, calls := reader.Push(text)
			return len(calls) > 0
		}
	}
	begun := false
	result, err := g.model.engine.GenerateIDs(g.ctx, prompt, settings, func(e *foretoken.Event) error {
		if e.Round.Finish == spec.FinishAborted {
			return nil
		}
		told.note(e)
		if !q.stream {
			return nil
		}
		if !begun && q.Endpoint == ChatCompletions {
			begun = true
			start := &delta{Role: foretoken.RoleAssistant}
			if q.call == nil {
				start.Content = new(string)
			}
			if err := g.piece(choice{Index: index, Delta: start}); err != nil {
				return err
			}
		}
		return g.grow(&said, e.Text, false, told.take(), index)
	})
	if err != nil {
		return err
	}
	g.stats.Add(&result.Stats)
	g.unchecked = result.Unchecked
	if first {
		g.prompt += result.Stats.PromptTokens
		g.cached += result.Stats.Reused
	}
	if result.Finish == spec.FinishAborted {
		return context.Cause(g.ctx)
	}
	finish := finishOf(result.Finish)
	c := choice{Index: index, Finish: &finish}
	switch {
	case q.stream:
		if err := g.grow(&said, "", true, nil, index); err != nil {
			return err
		}
		if c.Delta = new(delta); q.Endpoint != ChatCompletions {
			c.Delta, c.Text = nil, new(string)
		}
	case q.Endpoint == ChatCompletions:
		content, calls := said.read(result.Text, true)
		for i := range calls {
			calls[i].Index = nil
		}
		c.Message, c.Logprobs = &reply{Role: foretoken.RoleAssistant, Calls: calls}, told.take()
		if content != "" || calls == nil {
			c.Message.Content = &content
		}
	default:
		c.Text, c.Logprobs = &result.Text, told.take()
	}
	if said.found > 0 && finish == "stop" {
		finish = "tool_calls"
	}
	if q.stream {
		return g.piece(c)
	}
	g.all = append(g.all, c)
	return nil
}

// grow streams what a piece of a text adds to the answer, if anything.
func (g *generation) grow(said *utterance, text string, end bool, logprobs any, index int) error {
	text, calls := said.read(text, end)
	if text == "" && calls == nil && logprobs == nil {
		return nil
	}
	c := choice{Index: index, Logprobs: logprobs, Text: &text}
	if g.asked.Endpoint == ChatCompletions {
		c.Text, c.Delta = nil, &delta{Calls: calls}
		if text != "" || said.calls == nil {
			c.Delta.Content = &text
		}
	}
	return g.piece(c)
}

func (g *generation) usage() (json.RawMessage, error) {
	s := &g.stats
	u := usage{Prompt: g.prompt, Output: s.OutputTokens, Total: g.prompt + s.OutputTokens}
	u.Details.Cached = g.cached
	device := g.model.Info.Device
	u.Foretoken = account{g.asked.settings.Policy, g.asked.settings.Seed,
		strings.TrimSpace(device.Backend + " " + device.Adapter), g.host.Waited().Seconds() * 1e3, g.stats, g.unchecked}
	return Encode(&u)
}

func (g *generation) piece(c choice) error {
	p := g.head
	p.Choices = []choice{c}
	if g.asked.usage {
		p.Usage = json.RawMessage("null")
	}
	b, err := Encode(&p)
	if err != nil {
		return err
	}
	return g.host.Send(b)
}
