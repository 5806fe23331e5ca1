package grammar

import (
	"encoding/json"
	"fmt"
	"strconv"

	"foretoken/internal/strictjson"
)

// A schema's properties are written in the order in which the schema names them, which Go's maps would lose.
type node struct {
	keys   []string
	values map[string]any // bool, string, json.Number, nil, []any or *node
	base   any            // of a schema that was read: where its references begin
}

// rebase sets the base of a schema and of those within it. A schema with an $id is the base of what it holds (JSON
// Schema 2020-12, core, 8.2.1); an $id that is only a fragment names a place, as it did before 2019.
func rebase(v, base any) {
	switch v := v.(type) {
	case []any:
		for _, e := range v {
			rebase(e, base)
		}
	case *node:
		if id, _ := v.values["$id"].(string); id != "" && id[0] != '#' {
			base = v
		}
		v.base = base
		for _, e := range v.values {
			rebase(e, base)
		}
	}
}

func (n *node) get(key string) (any, bool) {
	v, ok := n.values[key]
	return v, ok
}

func (n *node) set(key string, v any) {
	if _, ok := n.values[key]; !ok {
		n.keys = append(n.keys, key)
	}
	n.values[key] = v
}

func newNode() *node { return &node{values: map[string]any{}} }

// deepestSchema bounds recursion over a schema.
const deepestSchema = 200

// readValue reads the bytes as exactly one JSON value.
func (b *builder) readValue(text []byte) (any, error) {
	dec, err := strictjson.Tokens(text)
	if err != nil {
		return nil, fmt.Errorf("grammar: the schema cannot be read: %w", err)
	}
	v, err := b.readNext(dec, 0)
	if b.err != nil {
		return nil, b.err
	}
	if err != nil {
		return nil, fmt.Errorf("grammar: the schema cannot be read: %w", err)
	}
	return v, nil
}

func (b *builder) readNext(dec *json.Decoder, depth int) (any, error) {
	if depth > deepestSchema {
		return nil, fmt.Errorf("nested deeper than %d", deepestSchema)
	}
	t, err := dec.Token()
	if err != nil {
		return nil, err
	}
	if !b.spend(16) {
		return nil, b.err
	}
	switch t {
	case json.Delim('{'):
		b.spend(48)
		n := newNode()
		for dec.More() {
			key, err := dec.Token()
			if err != nil {
				return nil, err
			}
			v, err := b.readNext(dec, depth+1)
			if err != nil {
				return nil, err
			}
			n.set(key.(string), v)
		}
		_, err := dec.Token()
		return n, err
	case json.Delim('['):
		all := []any{}
		for dec.More() {
			v, err := b.readNext(dec, depth+1)
			if err != nil {
				return nil, err
			}
			all = append(all, v)
		}
		_, err := dec.Token()
		return all, err
	}
	return t, nil
}

// literal matches a JSON value without blanks, its keys in their original order.
func (s *schemaReader) literal(v any) sequence { return s.b.text(s.written(v)) }

// written is a JSON value without blanks. The work counts.
func (s *schemaReader) written(v any) string {
	text := string(appendValue(nil, v, 16*s.b.budget.left))
	s.b.spend(8 + len(text)/16)
	return text
}

// brief is the beginning of a JSON value, for messages.
func brief(v any) string { return rest(string(appendValue(nil, v, 24))) }

// appendValue writes a JSON value as far as there is room for it.
func appendValue(out []byte, v any, room int) []byte {
	if len(out) > room {
		return out
	}
	switch v := v.(type) {
	case nil:
		out = append(out, "null"...)
	case bool:
		out = strconv.AppendBool(out, v)
	case json.Number:
		out = append(out, v...)
	case string:
		out = append(out, `"`+escaped(v)+`"`...)
	case []any:
		out = append(out, '[')
		for i, e := range v {
			if i > 0 {
				out = append(out, ',')
			}
			out = appendValue(out, e, room)
		}
		out = append(out, ']')
	case *node:
		out = append(out, '{')
		for i, k := range v.keys {
			if i > 0 {
				out = append(out, ',')
			}
			out = append(appendValue(out, k, room), ':')
			out = appendValue(out, v.values[k], room)
		}
		out = append(out, '}')
	default:
		panic(fmt.Sprintf("grammar: %T is no JSON value", v))
	}
	return out
}
