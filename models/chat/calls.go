package chat

import (
	"bytes"
	"encoding/json"
	"fmt"
	"unicode"

	"foretoken/internal/quote"
	"foretoken/internal/strictjson"
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
// tools from it; "required" or {"type": "function", "function": {"name": …}} makes its answer a call. schema then is
// the JSON Schema of that call: an object with the function's name and its arguments. With several, "required" also
// allows a list of such calls.
func ToolChoice(choice json.RawMessage, tools []json.RawMessage, several bool) (schema json.RawMessage, told bool,
	err error) {
	var one struct {
		Type     string `json:"type"`
		Function struct {
			Name string `json:"name"`
		} `json:"function"`
	}
	switch string(choice) {
	case "", "null", `"auto"`:
		return nil, true, nil
	case `"none"`:
		return nil, false, nil
	case `"required"`:
	default:
		if strictjson.Decode(choice, &one) != nil || one.Type != "function" || one.Function.Name == "" {
			return nil, false, fmt.Errorf(`chat: tool_choice is %s; want "auto", "none", "required" or {"type": `+
				`"function", "function": {"name": …}}`, quoted(choice))
		}
		several = false
	}
	schema, err = callSchema(tools, one.Function.Name, several)
	return schema, true, err
}

// callSchema returns the schema of a call of any of the tools, or of the tool named only.
func callSchema(tools []json.RawMessage, only string, several bool) (json.RawMessage, error) {
	var calls []call
	for i, raw := range tools {
		var t tool
		if strictjson.DecodeForeign(raw, &t) != nil {
			return nil, fmt.Errorf(`chat: tools[%d] is %s; want {"type": "function", "function": {"name": …}}`, i,
				quoted(raw))
		}
		if only != "" && t.Function.Name != only {
			continue
		}
		c := call{Type: "object", Required: []string{"name", "arguments"}}
		c.Properties.Name.Const = t.Function.Name
		var ok bool
		if c.Properties.Arguments, ok = resource(t.Function.Parameters, i); !ok {
			return nil, fmt.Errorf("chat: tools[%d].function.parameters is %s; want a JSON Schema, an object", i,
				quoted(t.Function.Parameters))
		}
		calls = append(calls, c)
	}
	switch {
	case len(tools) == 0:
		return nil, fmt.Errorf("chat: tool_choice requires a call, but there are no tools")
	case len(calls) == 0:
		return nil, fmt.Errorf("chat: tool_choice names %s, which is none of the tools", quote.Text(only))
	}
	one := map[string]any{"anyOf": calls}
	if !several {
		return json.Marshal(one)
	}
	call := map[string]string{"$ref": "#/$defs/call"}
	return json.Marshal(map[string]any{"$defs": map[string]any{"call": one},
		"anyOf": []any{call, map[string]any{"type": "array", "items": call, "minItems": 1}}})
}

// resource returns the parameters of a tool as a schema within a larger one, with an $id, so that its references begin
// there. ok is false where they are no object.
func resource(parameters json.RawMessage, i int) (_ json.RawMessage, ok bool) {
	if len(parameters) == 0 || string(parameters) == "null" {
		return json.RawMessage(`{"type": "object", "additionalProperties": false}`), true
	}
	var members map[string]json.RawMessage
	if strictjson.Decode(parameters, &members) != nil {
		return nil, false
	}
	var id string
	if strictjson.Decode(members["$id"], &id) == nil && id != "" && id[0] != '#' {
		return parameters, true
	}
	own := fmt.Appendf(nil, `"tool:%d"`, i)
	if members["$id"] != nil { // a name is given once
		members["$id"] = own
		replaced, err := json.Marshal(members)
		return replaced, err == nil
	}
	rest := bytes.TrimSuffix(bytes.TrimSpace(parameters), []byte("}"))
	comma := ""
	if len(members) > 0 {
		comma = ","
	}
	return fmt.Appendf(rest[:len(rest):len(rest)], `%s"$id":%s}`, comma, own), true
}

// quoted shows a value of a request on one line and within reason.
func quoted(raw json.RawMessage) string {
	var b bytes.Buffer
	if json.Compact(&b, raw) != nil || b.Len() > 80 ||
		bytes.ContainsFunc(b.Bytes(), func(r rune) bool { return !unicode.IsPrint(r) }) {
		return quote.Text(string(raw))
	}
	return b.String()
}
