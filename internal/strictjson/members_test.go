package strictjson

import (
	"bytes"
	"encoding/json"
	"testing"
)

// TestMembersAreWhatEncodingJSONReads compares the members and elements of a text with encoding/json's.
func TestMembersAreWhatEncodingJSONReads(t *testing.T) {
	for _, text := range []string{`{}`, `[]`,
		` { "a" : 1 , "b\n\u00e9":[1,{"x":"]}\"\\"}] ,"": null } `,
		`[1,-2.5e3,true,"a,b",[],{}]`, `[ "a" , [ [ ] , "\\" ] ,null]`, `"text"`, `12`,
		`{"a":{"b":{"c":[[["}"]]]}},"d":"\ud83d\ude00"}`,
	} {
		if err := Check([]byte(text)); err != nil {
			t.Fatal(err)
		}
		var object map[string]json.RawMessage
		_ = json.Unmarshal([]byte(text), &object)
		n := 0
		for name, value := range Members([]byte(text)) {
			if want, ok := object[name]; !ok || !bytes.Equal(want, value) {
				t.Errorf("%s: %q is %s, want %s", text, name, value, want)
			}
			n++
		}
		if n != len(object) {
			t.Errorf("%s: %d members, want %d", text, n, len(object))
		}
		var list []json.RawMessage
		_ = json.Unmarshal([]byte(text), &list)
		n = 0
		for value := range Elements([]byte(text)) {
			if n >= len(list) || !bytes.Equal(list[n], value) {
				t.Errorf("%s: element %d is %s", text, n, value)
			}
			n++
		}
		if n != len(list) {
			t.Errorf("%s: %d elements, want %d", text, n, len(list))
		}
	}
	for range Members([]byte(`{"a":1,"b":2}`)) {
		break
	}
	for range Elements([]byte(`[1,2]`)) {
		break
	}
}
