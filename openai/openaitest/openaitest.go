//go:build !js

// Package openaitest has what tests of OpenAI's API share: an engine, and answers as clients read them.
package openaitest

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"regexp"
	"strings"
	"sync"
	"testing"
	"unicode"

	"foretoken"
	"foretoken/internal/files"
	"foretoken/internal/public"
	"foretoken/models/demo"
	"foretoken/models/fuzztest"
	"foretoken/spec"
	"foretoken/webgpu/simd"
)

// Pair opens the built-in pair on the cpu device, once.
var Pair = sync.OnceValues(func() (*foretoken.Session, error) { return Open(demo.Target(), demo.Draft()) })

// Open opens models on the cpu device.
func Open(target, draft files.Source) (*foretoken.Session, error) {
	dev, err := simd.Open(simd.Options{})
	if err != nil {
		return nil, err
	}
	return foretoken.Open(context.Background(), dev, target, draft,
		foretoken.Options{Candidates: int(spec.Named(foretoken.Settings(), "top_logprobs").Most)})
}

// Template is a chat template that shows whether there are tools.
const Template = "{% if tools %}tools {{ tools | length }}\n{% endif %}{% for m in messages %}// {{ m.role }}: " +
	"{{ m.content }}\n{% endfor %}"

// Engine is the built-in pair, or a test's replacement for decoding and embedding.
type Engine struct {
	*foretoken.Session
	OnGenerate func(ctx context.Context, ids []int32, r foretoken.Request,
		emit func(*foretoken.Event) error) (*foretoken.Result, error)
	OnEmbed func(ctx context.Context, ids []int32) (*foretoken.Embedding, error)
}

func (e *Engine) EmbedIDs(ctx context.Context, ids []int32, o foretoken.EmbedOptions) (*foretoken.Embedding, error) {
	if e.OnEmbed != nil {
		return e.OnEmbed(ctx, ids)
	}
	return e.Session.EmbedIDs(ctx, ids, o)
}

func (e *Engine) GenerateIDs(ctx context.Context, ids []int32, r foretoken.Request,
	emit func(*foretoken.Event) error) (*foretoken.Result, error) {
	if e.OnGenerate != nil {
		return e.OnGenerate(ctx, ids, r, emit)
	}
	return e.Session.GenerateIDs(ctx, ids, r, emit)
}

// Tools is a member of a request with two functions.
const Tools = `"tools": [
	{"type": "function", "function": {"name": "open", "parameters": {"type": "object", "properties":
		{"path": {"type": "string", "maxLength": 6}, "mode": {"enum": ["r", "w"]}}, "required": ["path", "mode"],
		"additionalProperties": false}}},
	{"type": "function", "function": {"name": "close"}}]`

// Bodies are seeds of fuzzers.
var Bodies = []string{`{"model": "m", "messages": [{"role": "user", "content": [{"type": "text", "text": "a"}]}], ` +
	`"stop": ["a"], "seed": 18446744073709551615}`,
	`{"model": "m", "prompt": [[1, 2]], "n": 2, "logprobs": 3, "foretoken": {"policy": "none"}}`, `{"model": null}`,
	`{"": {}}`, `[`,
	`{"model": "m", "prompt": "a", "temperature": 1e400}`, `{"model": "m", "prompt": "\ud800", "logit_bias": ` +
		`{"-1": 3}}`, `{"model": "m", "prompt": "a", "max_tokens": 99999999999999999999}`}

// Told fails for a refusal that is longer than a line or that steers a terminal.
func Told(t *testing.T, message string) {
	t.Helper()
	fuzztest.Refusal(t, errors.New(message), "")
	if message == "" || strings.ContainsFunc(message, func(r rune) bool { return !unicode.IsPrint(r) }) {
		t.Fatalf("%q", message)
	}
}

// Inside finds what only the log may say: Go's types and packages, and files.
var Inside = regexp.MustCompile(`json:|\bGo \w+|unmarshal|strconv|RawMessage|map\[|\bu?int(32|64)\b|float(32|64)|` +
	`struct|interface|\*[a-z]+\.|\.gguf|\.go\b|/(tmp|home|root|usr|etc)/|goroutine|nil\b`)

// Error is an error as a client reads it.
type Error struct {
	Error *struct {
		Message, Type, Code string
		Param               *string
	}
}

// Refusal reads an error, and fails for one of another form or with words that clients are not told.
func Refusal(t *testing.T, status int, body []byte) (code, param, message string) {
	t.Helper()
	var e Error
	if err := json.Unmarshal(body, &e); err != nil || e.Error == nil {
		t.Fatalf("status %d, not an error: %s", status, body)
	}
	if e.Error.Type == "" || e.Error.Message == "" || strings.Contains(e.Error.Message, "\n") ||
		!bytes.Contains(body, []byte(`"param":`)) {
		t.Errorf("an error of another shape: %s", body)
	}
	if e.Error.Param != nil {
		param = *e.Error.Param
	}
	if word := Inside.FindString(e.Error.Message); word != "" || public.Plain(e.Error.Message) != e.Error.Message {
		t.Errorf("a client is told %q: %s", word, e.Error.Message)
	}
	return e.Error.Code, param, e.Error.Message
}

// ToolCall is a call that an answer makes.
type ToolCall struct {
	Index    *int
	ID, Type string
	Function struct{ Name, Arguments string }
}

// Said is a message of an answer, or a piece of it.
type Said struct {
	Role, Content string
	Calls         []ToolCall `json:"tool_calls"`
}

// Text is an answer, or a piece of one, as a client reads it.
type Text struct {
	ID, Object, Model string
	Choices           []struct {
		Index    int
		Message  *Said
		Delta    *Said
		Text     *string
		Finish   *string `json:"finish_reason"`
		Logprobs *struct {
			Content []struct {
				Token   string
				Logprob float64
				Bytes   []int
				Top     []struct {
					Token   string
					Logprob float64
				} `json:"top_logprobs"`
			}
			Tokens []string
			Own    []float64            `json:"token_logprobs"`
			Top    []map[string]float64 `json:"top_logprobs"`
			Offset []int                `json:"text_offset"`
		}
	}
	Usage *struct {
		Prompt  int `json:"prompt_tokens"`
		Output  int `json:"completion_tokens"`
		Total   int `json:"total_tokens"`
		Details struct {
			Cached int `json:"cached_tokens"`
		} `json:"prompt_tokens_details"`
		Foretoken struct {
			Policy    string
			Seed      uint64
			Unchecked []string
			Stats     struct {
				Accepted float64 `json:"acceptance_length"`
			}
		}
	}
}

// Events reads the lines of a stream; done reports a proper end.
func Events(t *testing.T, body []byte) (pieces []Text, done bool) {
	t.Helper()
	for line := range strings.SplitSeq(strings.TrimSuffix(string(body), "\n\n"), "\n\n") {
		data, ok := strings.CutPrefix(line, "data: ")
		if !ok || done {
			t.Fatalf("an event %q after %d", line, len(pieces))
		}
		if data == "[DONE]" {
			done = true
			continue
		}
		var v Text
		if err := json.Unmarshal([]byte(data), &v); err != nil {
			t.Fatalf("%v in %q", err, data)
		}
		pieces = append(pieces, v)
	}
	return pieces, done
}
