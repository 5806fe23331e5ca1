package grammar

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"foretoken/internal/strictjson"
)

// node is an object of the schema's text, with its members in order, which Go's maps would lose: a schema, or what
// holds schemas by name.
type node struct {
	keys   []string
	values map[string]any // bool, string, json.Number, nil, []any or *node
	id     int32          // in the order of the text
	up     *node          // that holds it
	key    string         // where: "anyOf/2"
	base   string         // URI that its references are relative to
	draft  Draft
	dated  bool // the draft is known
	loose  bool // within a member that is no keyword
}

func (n *node) set(key string, v any) *node {
	if _, ok := n.values[key]; !ok {
		n.keys = append(n.keys, key)
	}
	n.values[key] = v
	return n
}

// inherit puts a node at a place of another.
func (n *node) inherit(up *node, key string) {
	n.up, n.key, n.base, n.draft, n.dated = up, key, up.base, up.draft, up.dated
}

func newNode() *node { return &node{values: map[string]any{}} }

var toPointer = strings.NewReplacer("~", "~0", "/", "~1")

// path is the JSON Pointer (RFC 6901) of a node, as a fragment.
func (n *node) path() string {
	var parts []string
	for ; n.up != nil; n = n.up {
		parts = append(parts, n.key)
	}
	parts = append(parts, "#")
	slices.Reverse(parts)
	return strings.Join(parts, "/")
}

// has returns the value of a keyword. One that the schema's draft lacks is an annotation. Some programs write null for
// a keyword that is left out.
func (n *node) has(key string) (any, bool) {
	v, ok := n.values[key]
	if !ok || v == nil && key != "const" {
		return nil, false
	}
	if k, listed := keywordNames[key]; listed && n.dated && (n.draft < k.First || n.draft > k.Last) {
		return nil, false
	}
	return v, true
}

// onlyRefers reports whether a schema with a $ref asks for nothing else.
func (n *node) onlyRefers() bool {
	if n.dated && n.draft <= Draft7 { // other keywords do not count
		return true
	}
	for _, key := range n.keys {
		if k, ok := keywordNames[key]; ok && k.Role != Structure && key != "$ref" {
			return false
		}
	}
	return true
}

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

// Members whose value is data, and those whose members are schemas by any name.
var (
	dataOf  = words("enum const default examples example")
	namedIn = words("properties patternProperties $defs definitions dependentSchemas dependencies")
)

func words(s string) []string { return strings.Fields(s) }

// place gives a node, and those within it, their place in the text. named says that its members' names are no keywords.
// Schemas under members that are no keywords cannot be referred to, as the standard has it.
func (r *keywordReader) place(n *node, named bool) {
	n.id = r.count
	if r.count++; named {
		r.placeIn(n, named)
		return
	}
	if name, ok := n.values["$schema"].(string); ok {
		if d, known := draftOf(name); known {
			n.draft, n.dated = d, true
		}
	}
	if !n.loose {
		r.name(n)
	}
	r.placeIn(n, named)
}

func (r *keywordReader) placeIn(n *node, named bool) {
	within := func(v any, key string, named, loose bool) {
		if child, ok := v.(*node); ok {
			child.inherit(n, key)
			child.loose = n.loose || loose
			r.place(child, named)
		}
	}
	for _, key := range n.keys {
		if !named && slices.Contains(dataOf, key) {
			continue
		}
		at := toPointer.Replace(key)
		_, keyword := keywordNames[key]
		loose := !named && !keyword
		if list, ok := n.values[key].([]any); ok {
			for i, e := range list {
				if _, ok := e.(*node); ok {
					within(e, at+"/"+strconv.Itoa(i), false, loose)
				}
			}
			continue
		}
		within(n.values[key], at, !named && slices.Contains(namedIn, key), loose)
	}
}

// name notes the names that a schema gives itself: an $id, which is the base of what it holds (2020-12, core, 8.2.1),
// and anchors. In drafts up to 7 an $id that is a fragment is an anchor, and none counts next to a $ref.
func (r *keywordReader) name(n *node) {
	old := n.dated && n.draft <= Draft7
	id, _ := n.has("$id")
	if older, ok := n.has("id"); ok && n.dated {
		id = older
	}
	_, refers := n.values["$ref"]
	if id, ok := id.(string); ok && !(old && refers) && id != "" {
		if id[0] == '#' {
			r.called(n, n.base+id)
		} else {
			n.base = strings.TrimSuffix(resolve(n.base, id), "#")
			r.called(n, n.base)
		}
	}
	for _, key := range []string{"$anchor", "$dynamicAnchor"} {
		if v, ok := n.has(key); ok {
			if anchor, ok := v.(string); ok {
				r.called(n, n.base+"#"+anchor)
			}
		}
	}
}

// twice stands for schemas that have one name.
var twice = newNode()

func (r *keywordReader) called(n *node, uri string) {
	if !r.b.spend(8 + len(uri)/8) {
		return
	}
	if _, ok := r.places[uri]; ok {
		n = twice
	}
	r.places[uri] = n
}

var fromPointer = strings.NewReplacer("~1", "/", "~0", "~")

// find returns the schema that a reference of n names: true, false or a node.
func (r *keywordReader) find(n *node, ref string) (any, bool) {
	if !r.b.spend(8 + len(ref)) {
		return nil, false
	}
	uri, fragment, _ := strings.Cut(resolve(n.base, ref), "#")
	schema, ok := r.places[uri]
	if uri == "" && !ok {
		schema, ok = r.root, true
	}
	if schema == twice {
		r.fail(n, "$ref", "is the name of two schemas; give each another $id")
		return nil, false
	}
	if !ok {
		r.fail(n, "$ref", "leads out of the schema, and nothing is fetched; put what it names under $defs")
		return nil, false
	}
	fragment = decoded(fragment)
	if fragment == "" {
		return schema, true
	}
	if fragment[0] != '/' {
		if schema, ok = r.places[uri+"#"+fragment]; schema == twice {
			r.fail(n, "$ref", "is the name of two schemas; give each another $anchor")
		}
		return schema, ok
	}
	var at any = schema
	for key := range strings.SplitSeq(fragment[1:], "/") {
		key, ok = fromPointer.Replace(key), false
		switch v := at.(type) {
		case *node:
			at, ok = v.values[key]
		case []any:
			i, err := strconv.Atoi(key)
			if ok = err == nil && i >= 0 && i < len(v) && strconv.Itoa(i) == key; ok {
				at = v[i]
			}
		}
		if !ok {
			return nil, false
		}
	}
	return at, true
}

// written is a JSON value without blanks. The work counts.
func (r *keywordReader) written(v any) string {
	text := string(appendValue(nil, v, 16*r.b.budget.left))
	r.b.spend(8 + len(text)/16)
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
		out = append(out, plainNumber(v)...)
	case string:
		out = append(out, Quoted(v)...)
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
