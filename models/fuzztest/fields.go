package fuzztest

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"
)

// Lines are seeds for targets that read files of one JSON object a line: prompts and journals.
var Lines = []string{
	`{"id": "a", "prompt": "x"}`, `{"id": 1}`, `[]`, "null",
	"{\"settings\":{}}\n{\"id\":\"a\",\"data\":1}\n", "{\"settings\":{}}\n{\"id\":\"a\"}\n\n",
	"{\"settings\":{\"k\": 3, \"name\":\"a<b\"}}\r\n{\"id\":\"a\", \"data\":{\"b\": [1, 2.50]}}\n" +
		"{\"id\":\"b \\u2028\",\"data\":null}\n{\"id\":\"a\",\"data\":2}\n{\"id\":\"c\",\"da",
	"{\"settings\":\"\u009b2J\\u001b\"}\n",
	"{\"settings\":1}\n{\"id\":\"a\",\"data\":\"\u2028<\"}\n{\"id\":3,\"data\":1}\n",
	"{\"settings\":1}", "{\"settings\":1}\nnonsense\n{}", "\n", "{}\n{\"data\":1,\"id\":\"\"}\n",
	"{\"settings\":{\r}}\n{\"id\":\"x\",\"data\":[]}\n",
	"{\"id\":\"a-b-c\",\"prompt\":\"\"}\r\n \n" +
		"\n{\"id\":\"-\",\"prompt\":\"\\ud800\",\"category\":\"z\",\"more\":[]}",
	"{\"id\":\"x\"}", "{\"id\":\"x\",\"prompt\":null}", "{\"id\":\"x\",\"prompt\":\"y\",\"category\":{}}",
	"{\"id\":\"x\",\"prompt\":\"\x1b\"}", " \n", "",
}

// Fields reads the fields of a line that has each of names once; else ok is false.
func Fields(line []byte, names ...string) (fields map[string]any, ok bool) {
	if json.Unmarshal(line, &fields) != nil || fields == nil || bytes.ContainsRune(line, '\\') {
		return nil, false
	}
	for name := range fields {
		if !slices.Contains(names, name) { // bound: the names of a test
			for _, n := range names {
				if strings.EqualFold(n, name) {
					return nil, false
				}
			}
		}
	}
	for _, n := range names {
		if bytes.Count(line, []byte(`"`+n+`"`)) > 1 {
			return nil, false
		}
	}
	return fields, true
}
