package fuzztest

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"
)

// Fields reads the fields of a line that has each of names once; else ok is false.
func Fields(line []byte, names ...string) (fields map[string]any, ok bool) {
	if json.Unmarshal(line, &fields) != nil || fields == nil || bytes.ContainsRune(line, '\\') {
		return nil, false
	}
	for name := range fields {
		if !slices.Contains(names, name) {
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
