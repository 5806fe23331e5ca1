//go:build !js

package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"foretoken/models/fuzztest"
)

// FuzzWorkFiles reads what other commands are given: a file of prompts, the journal of a long run. Both hold what they
// hold by a reading of their own and are read the same when they are written again; a journal that was cut anywhere
// has lost the line that the cut is in and nothing else.
func FuzzWorkFiles(f *testing.F) {
	for _, text := range []string{`{"id": "a", "prompt": "x"}`, `{"id": 1}`, `[]`, "null", "{\"settings\":{}}\n{\"id\":\"a\",\"data\":1}\n", "{\"settings\":{}}\n{\"id\":\"a\"}\n\n",
		"{\"settings\":{\"k\": 3, \"name\":\"a<b\"}}\r\n{\"id\":\"a\", \"data\":{\"b\": [1, 2.50]}}\n{\"id\":\"b \\u2028\",\"data\":null}\n{\"id\":\"a\",\"data\":2}\n{\"id\":\"c\",\"da", "{\"settings\":\"\u009b2J\\u001b\"}\n",
		"{\"settings\":1}\n{\"id\":\"a\",\"data\":\"\u2028<\"}\n{\"id\":3,\"data\":1}\n", "{\"settings\":1}", "{\"settings\":1}\nnonsense\n{}", "\n", "{}\n{\"data\":1,\"id\":\"\"}\n", "{\"settings\":{\r}}\n{\"id\":\"x\",\"data\":[]}\n",
		"{\"id\":\"a-b-c\",\"prompt\":\"\"}\r\n \n\n{\"id\":\"-\",\"prompt\":\"\\ud800\",\"category\":\"z\",\"more\":[]}", "{\"id\":\"x\"}", "{\"id\":\"x\",\"prompt\":null}", "{\"id\":\"x\",\"prompt\":\"y\",\"category\":{}}", "{\"id\":\"x\",\"prompt\":\"\x1b\"}", " \n", ""} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		fuzztest.Bound(t, 200*len(data), func() { // a journal is read after every one of some cuts
			promptsAreRead(t, data)
			journalIsRead(t, data)
		})
	})
}

// exactly reads the fields of a line that has these and others, each by its name and once; ok is false otherwise.
func exactly(line []byte, names ...string) (fields map[string]any, ok bool) {
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

func promptsAreRead(t *testing.T, data []byte) {
	var want []prompt
	var refused string
	for i, line := range strings.Split(string(data), "\n") {
		if line = strings.TrimSpace(line); line == "" {
			continue
		}
		p, err := parsePrompt([]byte(line))
		fields, sure := exactly([]byte(line), "id", "prompt", "category")
		if sure {
			id, a := fields["id"].(string)
			text, b := fields["prompt"].(string)
			category, c := fields["category"].(string)
			if (a && b && (c || fields["category"] == nil)) != (err == nil) {
				t.Fatalf("%q: %v", line, err)
			}
			if category == "" {
				category = id
				if dash := strings.LastIndex(id, "-"); dash > 0 {
					category = id[:dash]
				}
			}
			if err == nil && p != (prompt{id, text, category}) {
				t.Fatalf("%q is read as %+v", line, p)
			}
		}
		if err != nil {
			refused = fmt.Sprintf("p.jsonl: line %d: %s", i+1, err)
			shown(t, refused)
			if strings.Contains(refused, "\n") {
				t.Fatalf("%q", refused)
			}
			break
		}
		want = append(want, p)
	}
	if refused == "" && len(want) == 0 {
		refused = "p.jsonl: no prompts in it, want one JSON object a line"
	}
	got, err := parsePrompts("p.jsonl", bytes.NewReader(data))
	if err != nil {
		if err.Error() != refused {
			t.Fatalf("%q, want %q", err, refused)
		}
		return
	}
	if refused != "" || !slices.Equal(got, want) {
		t.Fatalf("%q is read as %+v, want %+v or %q", data, got, want, refused)
	}
	var text []byte
	for _, p := range got {
		b, err := journalText(map[string]string{"id": p.ID, "prompt": p.Prompt, "category": p.Category})
		if err != nil {
			t.Fatal(err)
		}
		text = append(text, b...)
	}
	if again, err := parsePrompts("p.jsonl", bytes.NewReader(text)); err != nil || !slices.Equal(again, got) {
		t.Fatalf("%s is read as %+v and was %+v: %v", text, again, got, err)
	}
}

func read(text, settings []byte) (*journal, int, error) {
	j := &journal{path: "j", done: map[string]json.RawMessage{}}
	whole, err := j.read(text, settings)
	return j, whole, err
}

// finished is the work that whole lines tell of, and whether another reading than the journal's can tell.
func finished(data []byte) (done map[string]any, sure bool) {
	done = map[string]any{}
	lines := bytes.Split(data, []byte("\n"))
	for i, line := range lines[:len(lines)-1] {
		if i == 0 {
			continue
		}
		fields, ok := exactly(line, "id", "data")
		id, named := fields["id"].(string)
		if !ok || !named {
			return nil, false
		}
		done[id] = fields["data"]
	}
	return done, true
}

func journalIsRead(t *testing.T, data []byte) {
	first, _, _ := bytes.Cut(data, []byte("\n"))
	var head journalHead
	_ = json.Unmarshal(first, &head) // what it is refused for, read refuses too
	j, whole, err := read(data, head.Settings)
	if err != nil {
		shown(t, err.Error())
		return
	}
	end := bytes.LastIndexByte(data, '\n') + 1
	if whole != end {
		t.Fatalf("%d bytes of %q are whole", whole, data)
	}
	if end == 0 {
		if len(j.done) > 0 {
			t.Fatalf("%q is work that was done: %q", data, j.done)
		}
		return
	}
	if _, _, err := read(data, []byte(`{"others":true, "":0}`)); err == nil || !strings.Contains(err.Error(), "other settings") {
		t.Fatalf("%q goes on with other settings: %v", data, err)
	} else {
		shown(t, err.Error())
	}
	ids := journalHolds(t, data, j)
	for i := range 16 {
		cut := len(data) * i / 16
		if i < 8 {
			cut = max(len(data)-i, 0)
		}
		kept, n, err := read(data[:cut], head.Settings)
		if err != nil || n != bytes.LastIndexByte(data[:cut], '\n')+1 {
			t.Fatalf("%q is cut to %q: %d are whole, %v", data, data[:cut], n, err)
		}
		journalHolds(t, data[:cut], kept)
	}
	text, err := journalText(journalHead{head.Settings})
	if err != nil {
		t.Fatal(err)
	}
	settings := slices.Clone(text[len(`{"settings":`) : len(text)-len("}\n")])
	for _, id := range ids {
		line, err := journalText(journalLine{id, j.done[id]})
		if err != nil {
			t.Fatal(err)
		}
		text = append(text, line...)
	}
	again, n, err := read(text, settings)
	if err != nil || n != len(text) || len(again.done) != len(j.done) {
		t.Fatalf("%q is written of %q and read to %d: %v", text, data, n, err)
	}
	for id, was := range j.done {
		var tight bytes.Buffer
		if err := json.Compact(&tight, was); err != nil || !bytes.Equal(again.done[id], tight.Bytes()) {
			t.Fatalf("%q has %s, and %s when it is written again: %v", id, was, again.done[id], err)
		}
	}
}

// journalHolds fails unless a journal holds what its whole lines tell of, and gives the names of that in order.
func journalHolds(t *testing.T, text []byte, j *journal) (ids []string) {
	want, sure := finished(text)
	if sure && len(want) != len(j.done) {
		t.Fatalf("%q has %q done", text, j.done)
	}
	for id, data := range j.done {
		var got any
		if ok, err := j.get(id, &got); err == nil && !ok || err != nil && sure {
			t.Fatalf("%q is %s: %v, %v", id, data, ok, err)
		} else if err != nil { // a number that is none of 64 bits, which the other reading does not take either
			shown(t, err.Error())
		}
		if sure {
			if other, ok := want[id]; !ok || !reflect.DeepEqual(got, other) {
				t.Fatalf("%q is %v in %q, want %v", id, got, text, other)
			}
		}
		ids = append(ids, id)
	}
	var got any
	if ok, err := j.get(strings.Join(ids, "")+"-", &got); ok || err != nil {
		t.Fatalf("what nobody did is %v: %v", got, err)
	}
	slices.Sort(ids)
	return ids
}
