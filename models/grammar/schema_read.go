package grammar

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
)

// A schema's properties are written in the order in which the schema names them, which Go's maps would lose.
type node struct {
	keys   []string
	values map[string]any // bool, string, json.Number, nil, []any or *node
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
func readValue(text []byte) (any, error) {
	dec := json.NewDecoder(bytes.NewReader(text))
	dec.UseNumber()
	v, err := readNext(dec, 0)
	if err != nil {
		if errors.Is(err, io.EOF) {
			err = io.ErrUnexpectedEOF
		}
		return nil, fmt.Errorf("grammar: the schema is not JSON at byte %d: %w", dec.InputOffset(), err)
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("grammar: the schema is followed by something at byte %d", dec.InputOffset())
	}
	return v, nil
}

func readNext(dec *json.Decoder, depth int) (any, error) {
	if depth > deepestSchema {
		return nil, fmt.Errorf("nested deeper than %d", deepestSchema)
	}
	t, err := dec.Token()
	if err != nil {
		return nil, err
	}
	switch t {
	case json.Delim('{'):
		n := newNode()
		for dec.More() {
			key, err := dec.Token()
			if err != nil {
				return nil, err
			}
			v, err := readNext(dec, depth+1)
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
			v, err := readNext(dec, depth+1)
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

// literal writes a JSON value without blanks, its keys in their original order.
func literal(v any) string {
	switch v := v.(type) {
	case nil:
		return "null"
	case bool:
		return strconv.FormatBool(v)
	case json.Number:
		return v.String()
	case string:
		return `"` + escaped(v) + `"`
	case []any:
		var each []string
		for _, e := range v {
			each = append(each, literal(e))
		}
		return "[" + strings.Join(each, ",") + "]"
	case *node:
		var each []string
		for _, k := range v.keys {
			each = append(each, literal(k)+":"+literal(v.values[k]))
		}
		return "{" + strings.Join(each, ",") + "}"
	}
	panic(fmt.Sprintf("grammar: %T is no JSON value", v))
}
