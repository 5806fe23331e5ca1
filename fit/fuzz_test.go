//go:build !js

package fit

import (
	"bytes"
	"encoding/json"
	"reflect"
	"slices"
	"strings"
	"testing"
	"unicode"

	"foretoken/models/fuzztest"
)

// FuzzJournal reads the journal of a long run. The result must equal an independent reading, and reading a
// rewritten journal must give the same; a truncated journal must lose only the line of the cut.
func FuzzJournal(f *testing.F) {
	for _, text := range fuzztest.Lines {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		fuzztest.Bound(t, 200*len(data), func() { journalIsRead(t, data) }) // it is read after each of several cuts
	})
}

// shownPlain fails if a printed text could steer a terminal.
func shownPlain(t *testing.T, text string) {
	t.Helper()
	if i := strings.IndexFunc(text,
		func(r rune) bool { return r != '\n' && r != '\t' && unicode.IsControl(r) }); i >= 0 {
		t.Fatalf("%.200q is printed", text[i:])
	}
}

func readJournal(text, settings []byte) (*Journal, int, error) {
	j := &Journal{path: "j", done: map[string]json.RawMessage{}}
	whole, err := j.read(text, settings)
	return j, whole, err
}

// finished returns the work in complete lines, and whether this independent reading is sure of it.
func finished(data []byte) (done map[string]any, sure bool) {
	done = map[string]any{}
	lines := bytes.Split(data, []byte("\n"))
	for i, line := range lines[:len(lines)-1] {
		if i == 0 {
			continue
		}
		fields, ok := fuzztest.Fields(line, "id", "data")
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
	_ = json.Unmarshal(first, &head) // read refuses the same errors
	j, whole, err := readJournal(data, head.Settings)
	if err != nil {
		shownPlain(t, err.Error())
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
	if _, _, err := readJournal(data, []byte(`{"others":true, "":0}`)); err == nil ||
		!strings.Contains(err.Error(), "other settings") {
		t.Fatalf("%q goes on with other settings: %v", data, err)
	} else {
		shownPlain(t, err.Error())
	}
	ids := journalHolds(t, data, j)
	for i := range 16 {
		cut := len(data) * i / 16
		if i < 8 {
			cut = max(len(data)-i, 0)
		}
		kept, n, err := readJournal(data[:cut], head.Settings)
		if err != nil && cut <= len(first) && !bytes.HasPrefix(bytes.TrimSpace(first), []byte("{")) {
			continue
		}
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
	again, n, err := readJournal(text, settings)
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

// journalHolds fails unless a journal holds the work of its complete lines. It returns their ids in order.
func journalHolds(t *testing.T, text []byte, j *Journal) (ids []string) {
	want, sure := finished(text)
	if sure && len(want) != len(j.done) {
		t.Fatalf("%q has %q done", text, j.done)
	}
	for id, data := range j.done {
		var got any
		if ok, err := j.Get(id, &got); err == nil && !ok || err != nil && sure {
			t.Fatalf("%q is %s: %v, %v", id, data, ok, err)
		} else if err != nil { // the number does not fit 64 bits, which the other reading refuses too
			shownPlain(t, err.Error())
		}
		if sure {
			if other, ok := want[id]; !ok || !reflect.DeepEqual(got, other) {
				t.Fatalf("%q is %v in %q, want %v", id, got, text, other)
			}
		}
		ids = append(ids, id)
	}
	var got any
	if ok, err := j.Get(strings.Join(ids, "")+"-", &got); ok || err != nil {
		t.Fatalf("drafts that no pass verified are %v: %v", got, err)
	}
	slices.Sort(ids)
	return ids
}
