package chat

import (
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"foretoken/internal/files"
	"foretoken/models/chat/jinja"
	"foretoken/models/fuzztest"
	"foretoken/models/gguf"
)

//go:embed testdata/*.jinja testdata/*.json
var testdata embed.FS

type conversation struct {
	Messages []apiMessage      `json:"messages"`
	Tools    []json.RawMessage `json:"tools"`
	Vars     map[string]any    `json:"vars"`
	Prompt   bool              `json:"add_generation_prompt"`
}

// apiMessage has its content in the forms of OpenAI's API: a text, a list of parts, or none.
type apiMessage struct {
	Message
	Content any `json:"content"`
}

func (c *conversation) messages() (all []Message) {
	for _, m := range c.Messages {
		m.Message.Content, _ = m.Content.(string)
		if list, ok := m.Content.([]any); ok {
			var parts []string
			for _, part := range list {
				parts = append(parts, part.(map[string]any)["text"].(string))
			}
			m.SetParts(parts)
		}
		all = append(all, m.Message)
	}
	return all
}

// published is one entry of expected.json.
type published struct {
	BOS, EOS string
	Texts    map[string]*string // by conversation; nil where it is refused
}

func read(t testing.TB, name string, into any) []byte {
	t.Helper()
	b, err := testdata.ReadFile("testdata/" + name)
	if err != nil {
		t.Fatal(err)
	}
	if into != nil {
		if err := json.Unmarshal(b, into); err != nil {
			t.Fatal(err)
		}
	}
	return b
}

func now() time.Time { return time.Date(2026, 3, 7, 0, 0, 0, 0, time.UTC) }

func checkError(t testing.TB, err error) {
	t.Helper()
	fuzztest.Refusal(t, err, "chat: ")
}

// TestPublishedTemplates renders conversations with the templates of published models and compares with what Python's
// jinja2 makes of them.
func TestPublishedTemplates(t *testing.T) {
	var conversations map[string]conversation
	read(t, "conversations.json", &conversations)
	var templates map[string]published
	read(t, "expected.json", &templates)
	for name, f := range templates {
		t.Run(name, func(t *testing.T) {
			tpl, err := New(string(read(t, name+".jinja", nil)), Options{BOS: f.BOS, EOS: f.EOS, Now: now})
			if err != nil {
				t.Fatal(err)
			}
			if len(f.Texts) != len(conversations) {
				t.Errorf("%d texts for %d conversations", len(f.Texts), len(conversations))
			}
			for _, name := range slices.Sorted(maps.Keys(f.Texts)) {
				c := conversations[name]
				got, err := tpl.Render(c.messages(),
					RenderOptions{AddGenerationPrompt: c.Prompt, Tools: c.Tools, Vars: c.Vars})
				want := f.Texts[name]
				switch {
				case err != nil && want != nil:
					t.Errorf("%s: %v", name, err)
				case err != nil:
					checkError(t, err)
				case want == nil:
					t.Errorf("%s: rendered as %q, jinja2 refuses it", name, got)
				case got != *want:
					t.Errorf("%s:\n got %q\nwant %q", name, got, *want)
				}
			}
		})
	}
}

// TestQwen3ByHand checks one text by eye, so that not everything rests on one
// program: a call of a tool, its answer, and an empty thought after it.
func TestQwen3ByHand(t *testing.T) {
	tpl, err := New(string(read(t, "qwen3.jinja", nil)), Options{EOS: "<|im_end|>"})
	if err != nil {
		t.Fatal(err)
	}
	got, err := tpl.Render([]Message{
		{Role: "user", Content: "Weather?"},
		{Role: "assistant", ToolCalls: []ToolCall{{Name: "weather", Arguments: json.RawMessage(`{"b":"ö","a":1}`)}}},
		{Role: "tool", Content: "sun"},
	}, RenderOptions{AddGenerationPrompt: true, Vars: map[string]any{"enable_thinking": false}})
	want := "<|im_start|>user\nWeather?<|im_end|>\n" +
		"<|im_start|>assistant\n<tool_call>\n{\"name\": \"weather\", \"arguments\": {\"b\": \"ö\", \"a\": 1}}\n" +
		"</tool_call><|im_end|>\n" +
		"<|im_start|>user\n<tool_response>\nsun\n</tool_response><|im_end|>\n" +
		"<|im_start|>assistant\n<think>\n\n</think>\n\n"
	if err != nil || got != want {
		t.Errorf("got %q, %v\nwant %q", got, err, want)
	}
}

func file(t testing.TB, kv ...gguf.KV) *gguf.File {
	t.Helper()
	b, err := gguf.Bytes(kv, nil)
	if err != nil {
		t.Fatal(err)
	}
	f, err := gguf.Open(files.FromBytes("small.gguf", b))
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func TestForFile(t *testing.T) {
	kv := []gguf.KV{
		{Key: keyTemplate, Value: "{{ bos_token }}{% for m in messages %}{{ m.content }}{{ eos_token }}{% endfor %}"},
		{Key: keyTemplate + ".tool_use", Value: "{{ bos_token }}tools: {{ tools | length }}"},
		{Key: keyTemplate + ".broken", Value: "{% include 'x' %}"},
	}
	o := Options{BOS: "<s>", EOS: "</s>"}
	tpl, err := ForFile(file(t, kv...), o)
	if err != nil {
		t.Fatal(err)
	}
	messages := []Message{{Role: "user", Content: "x"}}
	if got, err := tpl.Render(messages, RenderOptions{}); err != nil || got != "<s>x</s>" {
		t.Errorf("%q, %v", got, err)
	}
	tools := []json.RawMessage{json.RawMessage(`{"name": "f"}`)}
	if got, err := tpl.Render(messages, RenderOptions{Tools: tools}); err != nil || got != "<s>tools: 1" {
		t.Errorf("%q, %v", got, err)
	}
	if len(tpl.texts) != 2 || tpl.texts["tool_use"] == nil {
		t.Error(tpl.texts)
	}
	if _, err := ForFile(file(t, kv[1]), o); !errors.Is(err, ErrNoTemplate) ||
		!strings.Contains(err.Error(), "small.gguf") {
		t.Error(err)
	}
	for _, blank := range []string{"", " \n", "\ufeff\t\u00a0", "\r\n\r\n"} {
		if _, err := New(blank, o); !errors.Is(err, ErrNoTemplate) {
			t.Errorf("%q: %v", blank, err)
		}
		only := file(t, gguf.KV{Key: keyTemplate, Value: blank}, kv[1])
		if _, err := ForFile(only, o); !errors.Is(err, ErrNoTemplate) {
			t.Errorf("%q: %v", blank, err)
		}
		tpl, err := ForFile(file(t, kv[0], gguf.KV{Key: keyTemplate + ".tool_use", Value: blank}), o)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := tpl.Render(messages, RenderOptions{Tools: tools}); err != nil || got != "<s>x</s>" {
			t.Errorf("a blank template for tools: %q, %v", got, err)
		}
	}
	var many []gguf.KV
	for i := range gguf.MaxTemplates {
		many = append(many, gguf.KV{Key: fmt.Sprintf("%s.n%d", keyTemplate, i), Value: "a"})
	}
	for want, kv := range map[string][]gguf.KV{"there are 65 templates": append(many, kv[0]),
		"1048577 bytes": {{Key: keyTemplate, Value: strings.Repeat("a", gguf.MaxTemplateBytes+1)}}} {
		if _, err := ForFile(file(t, kv...), o); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
	for _, bad := range []gguf.KV{{Key: keyTemplate, Value: uint32(1)}, {Key: keyTemplate, Value: "{% nosuch %}"}} {
		_, err := ForFile(file(t, bad), o)
		if err == nil || !strings.Contains(err.Error(), "small.gguf") {
			t.Error(err)
			continue
		}
		checkError(t, err)
	}
}

func TestRenderErrors(t *testing.T) {
	tpl, err := New("{{ messages[0].content }}{{ x | tojson if x is defined }}", Options{})
	if err != nil {
		t.Fatal(err)
	}
	user := []Message{{Role: "user", Content: "a"}}
	for name, c := range map[string]struct {
		messages []Message
		o        RenderOptions
		want     string
	}{
		"no role": {[]Message{{Content: "a"}}, RenderOptions{}, "message 1: the role is missing"},
		"no call name": {[]Message{{Role: "assistant", ToolCalls: []ToolCall{{}}}}, RenderOptions{},
			"tool call 1 has no name"},
		"tool": {user, RenderOptions{Tools: []json.RawMessage{json.RawMessage("[1]")}},
			"tool 1: want a JSON object"},
		"tool JSON": {user, RenderOptions{Tools: []json.RawMessage{json.RawMessage("{")}}, "tool 1: "},
		"tool name": {user, RenderOptions{Tools: []json.RawMessage{json.RawMessage("{}")}}, "tool 1: neither"},
		"variable":  {user, RenderOptions{Vars: map[string]any{"x": func() {}}}, `the variable "x"`},
		"nothing":   {nil, RenderOptions{}, "line 1"},
	} {
		_, err := tpl.Render(c.messages, c.o)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
			continue
		}
		checkError(t, err)
	}
}

func TestToolCallJSON(t *testing.T) {
	for text, want := range map[string]string{
		`{"id":"1","type":"function","function":{"name":"f",` +
			`"arguments":"{\"a\": 1}"}}`: `{"function":{"arguments":{"a":1},"name":"f"},"id":"1","type":"function"}`,
		`{"name":"f","arguments":{"a": 1}}`: `{"function":{"arguments":{"a":1},` +
			`"name":"f"},"id":"","type":"function"}`,
		`{"name":"f","arguments":"\"a\""}`: `{"function":{"arguments":"\"a\"",` +
			`"name":"f"},"id":"","type":"function"}`,
		`{"name":"f","arguments":"null"}`: `{"function":{"arguments":"null",` +
			`"name":"f"},"id":"","type":"function"}`,
		`{"function":{"name":"f","arguments":"no ` +
			`JSON"}}`: `{"function":{"arguments":"no ` +
			`JSON","name":"f"},"id":"","type":"function"}`,
	} {
		var c ToolCall
		if err := json.Unmarshal([]byte(text), &c); err != nil {
			t.Error(err)
			continue
		}
		got, err := json.Marshal(c)
		if err != nil || string(got) != want {
			t.Errorf("%s becomes %s, %v, want %s", text, got, err, want)
		}
	}
	if err := json.Unmarshal([]byte(`{"function": 5}`), &ToolCall{}); err == nil {
		t.Error("no error")
	}
}

// TestLongConversation bounds the time of conversations that fill the largest contexts, and refuses none for its
// length.
func TestLongConversation(t *testing.T) {
	var messages []Message
	size := 0
	turns := 1000
	if testing.Short() {
		turns = 100
	}
	for i := range turns {
		m := Message{Role: []string{"user", "assistant"}[i%2], Content: strings.Repeat("word ", 400)}
		messages = append(messages, m)
		size += len(m.Content)
	}
	var templates map[string]published
	read(t, "expected.json", &templates)
	for name, f := range templates {
		tpl, err := New(string(read(t, name+".jinja", nil)), Options{BOS: f.BOS, EOS: f.EOS})
		if err != nil {
			t.Fatal(err)
		}
		begin := time.Now()
		text, err := tpl.Render(messages, RenderOptions{AddGenerationPrompt: true})
		took := time.Since(begin)
		if err != nil || len(text) < size*9/10 || took > 2*time.Minute {
			t.Errorf("%s: %d bytes in %v, %v", name, len(text), took, err)
		}
		if testing.Verbose() {
			t.Logf("%s: %d bytes in %v", name, len(text), took)
		}
	}
}

func FuzzTemplate(f *testing.F) {
	var templates map[string]published
	read(f, "expected.json", &templates)
	const tool = `{"type": "function", "function": {"name": "f", "description": "é", "parameters": {"type": ` +
		`"object", ` +
		`"properties": {"a": {"type": "string"}}, "required": ["a"]}}}`
	for name := range templates {
		text := string(read(f, name+".jinja", nil))
		f.Add(text, "user", "hi", `{"a": 1}`) // arguments, and no tool
		f.Add(text, "user", "hi", tool)
		f.Add(text, "user", "<think>a</think>b", `{"name": "f", "parameters": {}}`)
	}
	f.Add("{{ messages | tojson(indent=2) }}{{ tools }}", "tool", "</think>", "no JSON")
	f.Add("{% for m in messages %}{{ m.reasoning_content }}{{ m.name }}{{ m.tool_call_id }}{% for c in m.tool_calls "+
		"%}{{ c.function.arguments | tojson }}{% endfor %}{% endfor %}{{ tools | length }}{{ strftime_now('%Y') }}",
		"user", "", tool)
	long := strings.Repeat("\u2028n", 400) // which a refusal would quote
	for _, template := range []string{"{{ raise_exception(messages[1].role) }}", "{{ messages[1].role | int + {} }}",
		"{{ messages[1][messages[1].role]() }}", "{{ " + strings.Repeat("n", 3000) + "() }}",
		"{{ '' | " + strings.Repeat("n", 3000) + " }}", "{% " + strings.Repeat("n", 3000) + " %}"} {
		f.Add(template, long, "hi", `{"name": "f", "parameters": "`+long+`"}`)
	}
	f.Fuzz(func(t *testing.T, template, role, content, args string) {
		if len(template) > 20_000 || len(content) > 2000 {
			return
		}
		fuzztest.Bound(t, len(template)+len(content)+len(args), func() {
			tpl, err := New(template, Options{BOS: "<s>", EOS: "</s>", Now: now})
			if err != nil {
				checkError(t, err)
				return
			}
			messages := []Message{
				{Role: "system", Content: content}, {Role: role, Content: content, Name: args},
				{Role: "assistant", Reasoning: content,
					ToolCalls: []ToolCall{{ID: "123456789", Name: "f", Arguments: json.RawMessage(args)}}},
				{Role: "tool", Content: content, Name: "f", ToolCallID: "123456789"},
			}
			o := RenderOptions{AddGenerationPrompt: true,
				Limits: jinja.Limits{Work: 400_000, Memory: 16 << 20}} // so that an input is tried in milliseconds
			if tool := json.RawMessage(args); json.Valid(tool) {
				// what is no tool would be refused before the template is run
				if _, err := toolValue(tool, new(jinja.MaxValues)); err == nil {
					o.Tools, o.Vars = []json.RawMessage{tool},
						map[string]any{"enable_thinking": len(content)%2 == 0, "custom": tool}
				}
			}
			if _, err = tpl.Render(messages, o); err != nil {
				checkError(t, err)
			}
		})
	})
}
