package chat

import (
	"strings"

	"foretoken/models/chat/jinja"
)

// forms is how a template takes the values that the API has in two forms. Published templates differ: some write a
// message's content as a text, some go over a list of its parts, some do either; most write a call's arguments as an
// object, some as the text of one.
type forms struct {
	content   map[string]contentForm // by role
	arguments bool                   // as a text
}

// contentForm says which forms of content a template takes in messages of one role. Text also stands for a role whose
// content the template never writes.
type contentForm struct{ text, parts bool }

// Values that a template writes only if it was given them.
const (
	trialContent = "8f41content"
	trialSecond  = "8f41second"
	trialKey     = "8f41key"
	trialValue   = "8f41value"
)

// trial renders a template with a few short messages; "" if it refuses them.
type trial func(messages []jinja.Value, tools bool) string

// formsOf tries the forms out: a template takes the one whose value its text shows, and not in Python's notation of
// lists and objects. Without the word text there are no parts, without arguments no calls.
func formsOf(source string, t trial) forms {
	f := forms{content: map[string]contentForm{}}
	if strings.Contains(source, "text") {
		for _, role := range []string{"system", "user", "assistant", "tool"} {
			form := contentForm{text: t.showsContent(role, false, false), parts: t.showsContent(role, true, false)}
			if !form.text && !form.parts {
				form.parts = t.showsContent(role, true, true)
			}
			f.content[role] = form
		}
	}
	if strings.Contains(source, "arguments") {
		object := jinja.NewDict().Set(trialKey, trialValue)
		text := `{"` + trialKey + `": "` + trialValue + `"}`
		f.arguments = !t.showsArguments(object) && t.showsArguments(text)
	}
	return f
}

// showsContent tries a conversation that ends with a message of the role. asParts says whether its content is a list of
// parts, others whether all other messages' is.
func (t trial) showsContent(role string, asParts, others bool) bool {
	content := func(text string, asParts bool) jinja.Value {
		if asParts {
			return partsValue([]string{text})
		}
		return text
	}
	message := func(role string) *jinja.Dict {
		return jinja.NewDict().Set("role", role).Set("content", content("x", others))
	}
	tried := message(role).Set("content", trialContent+trialSecond)
	if asParts { // a template that writes the first part only would lose text
		tried.Set("content", partsValue([]string{trialContent, trialSecond}))
	}
	var all []jinja.Value
	switch role {
	case "system":
		all = append(all, tried, message("user"))
	case "user":
		all = append(all, tried)
	case "assistant":
		all = append(all, message("user"), tried, message("user"))
	case "tool":
		all = append(all, message("user"), trialCall(jinja.NewDict(), content("", others)), answering(tried))
	}
	out := t(all, role == "tool")
	before, after, _ := strings.Cut(out, trialContent)
	return strings.Contains(after, trialSecond) && !strings.HasSuffix(strings.TrimRight(before, `'": `), "text")
}

// showsArguments tries a conversation with a call.
func (t trial) showsArguments(arguments jinja.Value) bool {
	tool := func() *jinja.Dict { return answering(jinja.NewDict().Set("role", "tool").Set("content", "x")) }
	user := jinja.NewDict().Set("role", "user").Set("content", "x")
	out := t([]jinja.Value{user, trialCall(arguments, ""), tool()}, true)
	if _, ok := arguments.(string); ok {
		return strings.Contains(out, `"`+trialKey+`": "`+trialValue+`"`)
	}
	return strings.Contains(out, trialKey) && strings.Contains(out, trialValue) &&
		!strings.Contains(out, `'`+trialKey+`': '`+trialValue)
}

// trialCall is an assistant's message with a call, answering the tool message that follows it.
func trialCall(arguments, content jinja.Value) *jinja.Dict {
	function := jinja.NewDict().Set("name", "f").Set("arguments", arguments)
	call := jinja.NewDict().Set("id", "call00001").Set("type", "function").Set("function", function)
	return jinja.NewDict().Set("role", "assistant").Set("content", content).Set("tool_calls", jinja.NewList(call))
}

// trialTools are the tools of a conversation with a call.
func trialTools() jinja.Value {
	parameters := jinja.NewDict().Set("type", "object").Set("properties", jinja.NewDict())
	function := jinja.NewDict().Set("name", "f").Set("description", "").Set("parameters", parameters)
	return jinja.NewList(jinja.NewDict().Set("type", "function").Set("function", function))
}

func answering(tool *jinja.Dict) *jinja.Dict {
	return tool.Set("name", "f").Set("tool_call_id", "call00001")
}

// partsValue is a content as a list of texts.
func partsValue(texts []string) jinja.Value {
	l := jinja.NewList()
	for _, text := range texts {
		l.Items = append(l.Items, jinja.NewDict().Set("type", "text").Set("text", text))
	}
	return l
}
