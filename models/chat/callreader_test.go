package chat

import (
	"slices"
	"testing"
)

// answerCase is a row of answers.json. A row without content and calls is text.
type answerCase struct {
	What, Text, Content string
	Single              bool
	Calls               [][2]string // name and arguments
	Pieces              [][2]string // pieces of the text, and the content that each brings
}

var answerNames = []string{"f", "g", "ff", "größe🚀"}

// TestCallReader reads every answer of the table as a whole, byte by byte, and cut in two at each place.
func TestCallReader(t *testing.T) {
	var answers []answerCase
	read(t, "answers.json", &answers)
	for _, a := range answers {
		if a.Calls == nil {
			a.Content = a.Text
		}
		check := func(pieces ...string) {
			t.Helper()
			r := NewCallReader(answerNames, a.Single)
			var content string
			var calls [][2]string
			take := func(text string, found []ToolCall) {
				content += text
				for _, c := range found {
					calls = append(calls, [2]string{c.Name, string(c.Arguments)})
					if len(c.ID) != 9 {
						t.Errorf("%s: id %q", a.What, c.ID)
					}
				}
			}
			for _, piece := range pieces {
				take(r.Push(piece))
			}
			if take(r.End()); content != a.Content || !slices.Equal(calls, a.Calls) {
				t.Fatalf("%s: %q gave %q and the calls %q, want %q and %q", a.What, pieces, content, calls, a.Content,
					a.Calls)
			}
		}
		for i := range a.Text {
			check(a.Text[:i], a.Text[i:])
		}
		check(a.Text)
		check(split(a.Text)...)
		r := NewCallReader(answerNames, a.Single)
		for _, p := range a.Pieces {
			if content, _ := r.Push(p[0]); content != p[1] {
				t.Errorf("%s: after %q came %q, want %q", a.What, p[0], content, p[1])
			}
		}
	}
}

// split returns the bytes of a text.
func split(text string) (all []string) {
	for i := range len(text) {
		all = append(all, text[i:i+1])
	}
	return all
}
