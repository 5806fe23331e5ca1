//go:build !js

package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"foretoken"
)

// answered is the JSON of an answer as a client reads it.
type answered struct {
	Message   foretoken.Message `json:"message"`
	Dropped   int               `json:"dropped"`
	Unseen    int               `json:"unseen"`
	PromptIDs []int32           `json:"prompt_ids"`
	Text      string            `json:"text"`
	Stats     struct {
		Reused    int `json:"reused"`
		Prefilled int `json:"prefilled"`
	} `json:"stats"`
}

// talk talks to the built-in pair with the test's own template.
func talk(t *testing.T, stdin string, args ...string) outcome {
	t.Helper()
	file := filepath.Join(t.TempDir(), "template.jinja")
	if err := os.WriteFile(file, []byte("{% for m in messages %}// {{ m.role }}: {{ m.content }}\n{% endfor %}"),
		0o600); err != nil {
		t.Fatal(err)
	}
	return call(t, stdin,
		append([]string{"chat", "--device", "cpu", "--chat-template", file, "--max-tokens", "6"}, args...)...)
}

func TestChatAnswersEachLine(t *testing.T) {
	lines := "how to close a file\n\n//go:build\n/regen\n/edit 1 how to open a file\n/reset\nhow to open a file\n" +
		"/quit\nnever read\n"
	o := talk(t, lines, "--json")
	if o.code != exitOK {
		t.Fatalf("code %d: %s", o.code, o.err)
	}
	var all []answered
	for line := range strings.Lines(o.out) {
		var a answered
		if err := json.Unmarshal([]byte(line), &a); err != nil {
			t.Fatalf("%v in %q", err, line)
		}
		if a.Message.Role != foretoken.RoleAssistant || a.Message.Content != a.Text || len(a.PromptIDs) == 0 {
			t.Errorf("%+v", a)
		}
		all = append(all, a)
	}
	if len(all) != 5 {
		t.Fatalf("%d answers, want 5: %s", len(all), o.out)
	}
	if all[1].Stats.Reused < len(all[0].PromptIDs)-1 {
		t.Errorf("the second answer reused %d tokens of a first prompt of %d", all[1].Stats.Reused,
			len(all[0].PromptIDs))
	}
	if !slices.Equal(all[2].PromptIDs, all[1].PromptIDs) || all[2].Text != all[1].Text || all[2].Stats.Prefilled != 0 {
		t.Errorf("/regen gave %+v after %+v", all[2], all[1])
	}
	if !slices.Equal(all[3].PromptIDs, all[4].PromptIDs) || all[3].Text != all[4].Text || all[3].Text == all[0].Text &&
		slices.Equal(all[3].PromptIDs, all[0].PromptIDs) {
		t.Errorf("an edit to the first message gave %+v, asking so at once %+v", all[3], all[4])
	}

	o = talk(t, "how to close a file\n", "--no-reuse")
	if o.code != exitOK || strings.TrimRight(o.out, "\n") != strings.TrimRight(all[0].Text, "\n") ||
		!strings.Contains(o.err, "tokens in") || !strings.Contains(o.err, "not by the file's own") {
		t.Errorf("code %d, %q, %q; want %q", o.code, o.out, o.err, all[0].Text)
	}
}

func TestChatRefusals(t *testing.T) {
	for lines, want := range map[string]string{"/edit 1 x\n": "/edit takes the number", "/sing\n": "no command /sing",
		"/regen\n": "no message to answer"} {
		if o := talk(t, lines); o.code != exitError || !strings.Contains(o.err, want) {
			t.Errorf("%q: code %d, %q", lines, o.code, o.err)
		}
	}
	bare := write(t, "bare.gguf", demoBytes(t, "draft")) // has no template
	o := call(t, "hello\n", "chat", "--device", "cpu", "--target", bare, "--draft", "none")
	if o.code != exitError || !strings.Contains(o.err, "--chat-template") ||
		!strings.Contains(o.err, "foretoken generate") || strings.Count(o.err, "\n") != 1 {
		t.Errorf("a model without a template: code %d, %q", o.code, o.err)
	}
	if o := call(t, "hello\n", "chat", "--device", "cpu", "--chat-template", "/nowhere"); o.code != exitError ||
		!strings.Contains(o.err, "/nowhere") {
		t.Errorf("a template that is not there: code %d, %q", o.code, o.err)
	}
	for _, blank := range []string{"", " \r\n"} {
		o := call(t, "hello\n", "chat", "--device", "cpu", "--target", bare, "--draft", "none", "--chat-template",
			write(t, "blank.jinja", []byte(blank)))
		if o.code != exitError || !strings.Contains(o.err, "blank.jinja is blank") ||
			!strings.Contains(o.err, "continues texts only") {
			t.Errorf("a blank template: code %d, %q", o.code, o.err)
		}
	}
}
