package chat

import (
	"bytes"
	"encoding/json"
	"fmt"
	"unicode"

	"foretoken/models/gguf"
)

// tool describes a function to a model.
type tool struct {
	Type     string `json:"type"`
	Function struct {
		Name       string          `json:"name"`
		Parameters json.RawMessage `json:"parameters"`
	} `json:"function"`
}

// call is the schema of an object that calls one function: name and arguments, as most templates teach calls.
type call struct {
	Type       string `json:"type"`
	Properties struct {
		Name struct {
			Const string `json:"const"`
		} `json:"name"`
		Arguments json.RawMessage `json:"arguments"`
	} `json:"properties"`
	Required []string `json:"required"`
	More     bool     `json:"additionalProperties"`
}

// ToolChoice reads the tool_choice of OpenAI's API. "auto" or nothing leaves the choice to the model; "none" hides the
// tools from it; "required" or {"type": "function", "function": {"name": …}} makes its answer one call. schema then is
// the JSON Schema of that call: an object with the function's name and its arguments, under the key parameters.
func ToolChoice(choice json.RawMessage, tools []json.RawMessage) (schema json.RawMessage, told bool, err error) {
	var one tool
	switch string(choice) {
	case "", "null", `"auto"`:
		return nil, true, nil
	case `"none"`:
		return nil, false, nil
	case `"required"`:
	default:
		if json.Unmarshal(choice, &one) != nil || one.Type != "function" || one.Function.Name == "" {
			return nil, false, fmt.Errorf(`chat: tool_choice is %s; want "auto", "none", "required" or {"type": `+
				`"function", "function": {"name": …}}`, quoted(choice))
		}
	}
	schema, err = callSchema(tools, one.Function.Name)
	return schema, true, err
}

// callSchema returns the schema of a call of any of the tools, or of the tool named only.
func callSchema(tools []json.RawMessage, only string) (json.RawMessage, error) {
	var root struct {
		Defs        map[string]json.RawMessage `json:"$defs,omitempty"`
		Definitions map[string]json.RawMessage `json:"definitions,omitempty"`
		AnyOf       []call                     `json:"anyOf"`
	}
	for i, raw := range tools {
		var t tool
		if err := json.Unmarshal(raw, &t); err != nil {
			return nil, fmt.Errorf("chat: tools[%d]: %w", i, err)
		}
		if only != "" && t.Function.Name != only {
			continue
		}
		c := call{Type: "object", Required: []string{"name", "arguments"}}
		c.Properties.Name.Const = t.Function.Name
		if c.Properties.Arguments = t.Function.Parameters; len(c.Properties.Arguments) == 0 ||
			string(c.Properties.Arguments) == "null" {
			c.Properties.Arguments = json.RawMessage(`{"type": "object", "additionalProperties": false}`)
		}
		// A reference begins at the root, so its target must exist there.
		var inner struct {
			Defs        map[string]json.RawMessage `json:"$defs"`
			Definitions map[string]json.RawMessage `json:"definitions"`
		}
		if err := json.Unmarshal(c.Properties.Arguments, &inner); err != nil {
			return nil, fmt.Errorf("chat: tools[%d].function.parameters: want a JSON Schema: %w", i, err)
		}
		for _, from := range []struct{ to, defs *map[string]json.RawMessage }{{&root.Defs, &inner.Defs},
			{&root.Definitions, &inner.Definitions}} {
			for name, def := range *from.defs {
				if other, ok := (*from.to)[name]; ok && !bytes.Equal(other, def) {
					return nil, fmt.Errorf("chat: tools[%d].function.parameters: two tools define %s in different "+
						"ways; give one of them another name", i, gguf.Quote(name))
				}
				if *from.to == nil {
					*from.to = map[string]json.RawMessage{}
				}
				(*from.to)[name] = def
			}
		}
		root.AnyOf = append(root.AnyOf, c)
	}
	switch {
	case len(tools) == 0:
		return nil, fmt.Errorf("chat: tool_choice requires a call, but there are no tools")
	case len(root.AnyOf) == 0:
		return nil, fmt.Errorf("chat: tool_choice names %s, which is none of the tools", gguf.Quote(only))
	}
	return json.Marshal(&root)
}

// quoted shows a value of a request on one line and within reason.
func quoted(raw json.RawMessage) string {
	var b bytes.Buffer
	if json.Compact(&b, raw) != nil || b.Len() > 80 ||
		bytes.ContainsFunc(b.Bytes(), func(r rune) bool { return !unicode.IsPrint(r) }) {
		return gguf.Quote(string(raw))
	}
	return b.String()
}

// ReadCall reads the call from a text that the schema of a call constrained. ok is false where the text ended
// before the call did.
func ReadCall(text string) (name, arguments string, ok bool) {
	var c struct {
		Name      string          `json:"name"`
		Arguments json.RawMessage `json:"arguments"`
	}
	if json.Unmarshal([]byte(text), &c) != nil || c.Name == "" {
		return "", "", false
	}
	var b bytes.Buffer
	if json.Compact(&b, c.Arguments) != nil {
		return "", "", false
	}
	return c.Name, b.String(), true
}
