package chat

import (
	"encoding/json"
	"strings"
	"testing"
)

// TestForms renders a system message in two parts, a user's in two parts, a user's as a text and a call with templates
// that take these in different forms.
func TestForms(t *testing.T) {
	each := func(content string) string {
		return `{% for m in messages %}{% if m.tool_calls %}{{ m.content is string }}{{ m.content | length }}` +
			`{% else %}` + content + `{% endif %}{% endfor %}`
	}
	calls := func(arguments string) string {
		return `{% for m in messages %}{% for c in m.tool_calls %}` + arguments + `{% endfor %}{% endfor %}`
	}
	const object = `{{ c.function.arguments | tojson }}`
	const list = `{% for p in m.content %}{{ p.text }},{% endfor %};`
	for template, want := range map[string]string{
		each(`{{ m.content }};`): "S1\nS2;U1\nU2;T;True0",
		each(list):               "S1,S2,;U1,U2,;T,;False0",
		each(`{% if m.content is string %}<{{ m.content }}>{% else %}` + list + `{% endif %}`): "S1,S2,;" +
			"U1,U2,;<T>True0",
		each(`{{ m.content[0]['text'] if m.content is not string else m.content }};`):        "S1\nS2;U1\nU2;T;True0",
		each(`{% if m.role == 'system' %}{{ m.content }};{% else %}` + list + `{% endif %}`): "S1\nS2;U1,U2,;T,;False0",

		each(`{{ m.content | tojson }};`): `"S1\nS2";"U1\nU2";"T";True0`,
		each(`{{ m.content }};{% if m.content is not string %}{{ raise_exception('text') }}{% endif %}`): "S1\nS2;" +
			"U1\nU2;T;True0",
		`{% if messages | length > 5 %}text{% endif %}` + each(``): "True0",
		calls(object):                                       `{"b": "x", "a": 1.5}`,
		calls(`{{ c.function.arguments }}`):                 `{"b":"x", "a": 1.50}`,
		calls(`{{ 'arguments: ' + c.function.arguments }}`): `arguments: {"b":"x", "a": 1.50}`,
		calls(`{% if c.function.arguments is string %}text{% else %}` + object + `{% endif %}`): `{"b": "x", "a": 1.5}`,
		calls(`f({% for k, v in c.function.arguments | items %}{{ k }}={{ v }};{% endfor %})`):  "f(b=x;a=1.5;)",
		calls(`{{ c.function.name }}{# arguments #}`):                                           "f",
		calls(`{% for i in range(10 ** 9) %}arguments text{% endfor %}`):                        "",
	} {
		tpl, err := New(template, Options{})
		if err != nil {
			t.Fatal(err)
		}
		messages := []Message{{Role: "system"}, {Role: "user"}, {Role: "user", Content: "T"},
			{Role: "assistant", ToolCalls: []ToolCall{{Name: "f", Arguments: json.RawMessage(`{"b":"x", "a": 1.50}`)}}}}
		messages[0].SetParts([]string{"S1", "S2"})
		messages[1].SetParts([]string{"U1", "U2"})
		got, err := tpl.Render(messages, RenderOptions{})
		if got != want || err != nil && !strings.Contains(err.Error(), "more than") {
			t.Errorf("%s\nwrites %q, want %q (%v)", template, got, want, err)
		}
	}
}
