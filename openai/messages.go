package openai

import (
	"encoding/json"

	"foretoken"
	"foretoken/internal/public"
	"foretoken/internal/strictjson"
	"foretoken/models/chat"
)

// conversation reads what only /v1/chat/completions takes.
func (a *Request) conversation(f *fields) {
	a.length(f, "max_completion_tokens", "max_tokens")
	var messages []json.RawMessage
	switch {
	case !f.into("messages", &messages, "a list of messages"):
		f.fail(missing("messages", "messages is missing; give the conversation"))
	case len(messages) == 0:
		f.fail(invalid("messages", "messages is empty; give at least one message"))
	case len(messages) > maxMessages:
		f.fail(invalid("messages", "there are %d messages; want at most %d", len(messages), maxMessages))
	}
	for i, raw := range messages {
		a.messages = append(a.messages, foretoken.Message{})
		if err := message(&a.messages[i], raw, at("messages", i)); err != nil {
			f.fail(err)
			break
		}
	}
	a.functions(f)
	var vars map[string]json.RawMessage
	if f.into("chat_template_kwargs", &vars, "an object of the chat template's variables") {
		a.vars = chat.Variables(vars)
		if err := chat.CheckVariables(a.vars); err != nil {
			f.fail(invalid("chat_template_kwargs", "%s", public.Message(err)))
		}
	}
	f.neutral("only text is produced", onlyText)
	// Hints for a service with many machines and customers, and for a drafter of another kind.
	f.ignore("metadata", "store", "service_tier", "safety_identifier", "prompt_cache_key", "prompt_cache_retention",
		"prompt_cache_options", "prediction")
}

var onlyText = []neutral{{"audio", nil}, {"function_call", []string{`"none"`, `"auto"`}}, {"functions", []string{"[]"}},
	{"modalities", []string{`["text"]`}}, {"moderation", nil}, {"reasoning_effort", []string{`"none"`}},
	{"verbosity", []string{`"medium"`}}, {"web_search_options", nil}}

// message reads one of a conversation into m; param names it.
func message(m *foretoken.Message, raw json.RawMessage, param string) *Error {
	var v struct {
		Role       *string           `json:"role"`
		Content    json.RawMessage   `json:"content"`
		Refusal    *string           `json:"refusal"`
		Reasoning  string            `json:"reasoning_content"`
		Name       string            `json:"name"`
		ToolCalls  []json.RawMessage `json:"tool_calls"`
		ToolCallID string            `json:"tool_call_id"`
	}
	if err := strictjson.DecodeForeign(raw, &v); err != nil {
		return wrongIn(param, err, "%s is %s; want an object", param, Brief(raw))
	}
	if v.Role == nil {
		return missing(param+".role", "%s has no role", param)
	}
	switch *v.Role {
	case foretoken.RoleSystem, foretoken.RoleUser, foretoken.RoleAssistant, foretoken.RoleTool:
		m.Role = *v.Role
	case "developer": // the later name of system
		m.Role = foretoken.RoleSystem
	default:
		return invalid(param+".role", "%s has the role %s; want system, developer, user, assistant or tool", param,
			Brief([]byte(*v.Role)))
	}
	if err := content(m, v.Content, param+".content"); err != nil {
		return err
	}
	absent := !given(v.Content)
	if absent && v.Refusal != nil {
		m.Content, absent = *v.Refusal, false
	}
	switch {
	case absent && (m.Role != foretoken.RoleAssistant || len(v.ToolCalls) == 0):
		return missing(param+".content", "%s has no content", param)
	case m.Role != foretoken.RoleAssistant && len(v.ToolCalls) > 0:
		return invalid(param+".tool_calls", "%s has tool calls, which only the assistant makes", param)
	case m.Role == foretoken.RoleTool && v.ToolCallID == "":
		return missing(param+".tool_call_id", "%s is a tool's and does not say which call it answers", param)
	}
	for i, raw := range v.ToolCalls {
		var c chat.ToolCall
		at := at(param+".tool_calls", i)
		if err := strictjson.DecodeForeign(raw, &c); err != nil {
			return wrongIn(at, err, `%s is %s; want {"id": …, "type": "function", "function": {"name": …}}`, at,
				Brief(raw))
		}
		if c.Name == "" {
			return missing(at+".function.name", "%s has no name of a function", at)
		}
		m.ToolCalls = append(m.ToolCalls, c)
	}
	m.Reasoning, m.Name, m.ToolCallID = v.Reasoning, v.Name, v.ToolCallID
	return nil
}

// content reads the content of m: a text, or a list of parts that are texts.
func content(m *foretoken.Message, raw json.RawMessage, param string) *Error {
	if !given(raw) {
		return nil
	}
	if raw[0] != '[' {
		if err := strictjson.Decode(raw, &m.Content); err != nil {
			return wrongType(param, "%s is %s; want a string or a list of parts", param, Brief(raw))
		}
		return nil
	}
	var parts []struct {
		Type    string  `json:"type"`
		Text    *string `json:"text"`
		Refusal *string `json:"refusal"`
	}
	if err := strictjson.DecodeForeign(raw, &parts); err != nil {
		return wrongIn(param, err, "%s is %s; want a string or a list of parts", param, Brief(raw))
	}
	var texts []string
	for i := range parts {
		switch p := &parts[i]; {
		case p.Type == "text" && p.Text != nil:
			texts = append(texts, *p.Text)
		case p.Type == "refusal" && p.Refusal != nil:
			texts = append(texts, *p.Refusal)
		case p.Type == "text" || p.Type == "refusal":
			return missing(at(param, i)+"."+p.Type, "%s has no %s", at(param, i), p.Type)
		default:
			return unsupported(at(param, i)+".type", "%s is of type %s; the model takes text only", at(param, i),
				Brief([]byte(p.Type)))
		}
	}
	m.SetParts(texts)
	return nil
}

// functions reads the tools that the template describes to the model.
func (a *Request) functions(f *fields) {
	f.into("tools", &a.tools, "a list of tools")
	if len(a.tools) > maxTools {
		f.fail(invalid("tools", "there are %d tools; want at most %d", len(a.tools), maxTools))
	}
	for i, raw := range a.tools {
		var t struct {
			Type     string `json:"type"`
			Function struct {
				Name        string          `json:"name"`
				Description string          `json:"description"`
				Parameters  json.RawMessage `json:"parameters"`
				Strict      bool            `json:"strict"` // ignored: calls are always held to their parameters
			} `json:"function"`
		}
		param := at("tools", i)
		const want = `%s is %s; want {"type": "function", "function": {"name": …}}`
		if err := strictjson.Decode(raw, &t); err != nil {
			f.fail(wrongIn(param, err, want, param, Brief(raw)))
			return
		}
		if t.Type != "function" || t.Function.Name == "" {
			f.fail(invalid(param, want, param, Brief(raw)))
			return
		}
		a.callable = append(a.callable, t.Function.Name)
	}
	parallel := false // a model that may make several calls at once makes one unless it was asked for more
	if f.into("parallel_tool_calls", &parallel, "true or false") {
		a.single = !parallel
	}
	raw, _ := f.take("tool_choice")
	call, told, err := chat.ToolChoice(raw, a.tools, parallel)
	if err != nil {
		f.fail(invalid("tool_choice", "%s", public.Message(err)))
	}
	if a.call = call; !told {
		a.tools, a.callable = nil, nil
	}
}
