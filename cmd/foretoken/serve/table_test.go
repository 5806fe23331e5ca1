//go:build !js

package serve

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"foretoken/models/demo"
	"foretoken/openai"
	"foretoken/openai/openaitest"
)

var update = flag.Bool("update", false, "write the answers in testdata/openai")

const table = "../../../testdata/openai/requests.json"

// TestTable sends the requests of a table one after the other to a new server. web/test/completions.mjs sends them to
// the page: both answer byte for byte what the table says, apart from what its masks hide.
func TestTable(t *testing.T) {
	text, err := os.ReadFile(table)
	if err != nil {
		t.Fatal(err)
	}
	var all struct {
		Masks    [][2]string `json:"masks"` // regular expressions, and what hides their matches
		Requests []struct {
			Path    string          `json:"path"`
			Request json.RawMessage `json:"request"`
			Status  int             `json:"status"`
			Answer  string          `json:"answer,omitempty"`
			Lines   []string        `json:"lines,omitempty"` // of a stream
		} `json:"requests"`
	}
	if err := json.Unmarshal(text, &all); err != nil {
		t.Fatal(err)
	}
	masked := func(b []byte) string {
		for _, m := range all.Masks {
			b = regexp.MustCompile(m[0]).ReplaceAll(b, []byte(m[1]))
		}
		return string(b)
	}
	s, err := openaitest.Open(demo.Target(), demo.Draft())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	w := serve(t, func(c *Config) {
		c.Model, c.Template, c.Defaults, c.Seeded = s.Info().Target.Name, "", openai.DefaultRequest(), false
	})
	w.api.Open(s)
	for i := range all.Requests {
		r := &all.Requests[i]
		var body bytes.Buffer
		if err := json.Compact(&body, r.Request); err != nil {
			t.Fatal(err)
		}
		a := w.do("POST", r.Path, body.String())
		kind, answer, lines := "application/json", masked(a.body), []string(nil)
		if text, ok := strings.CutPrefix(answer, "data: "); ok {
			kind, answer = "text/event-stream; charset=utf-8", ""
			lines = strings.Split(strings.TrimSuffix(text, "\n\n"), "\n\ndata: ")
		}
		if got := a.header.Get("Content-Type"); got != kind {
			t.Errorf("%s: the type is %s", &body, got)
		}
		if e := <-w.logged; e.Status != a.status || a.status == 200 && e.Prompt == 0 ||
			a.status == 200 && r.Path != embedPath && (e.Output == 0 || e.Finish == "") {
			t.Errorf("%s: logged as %+v", &body, e)
		}
		if *update {
			r.Request, r.Status, r.Answer, r.Lines = body.Bytes(), a.status, answer, lines
		} else if a.status != r.Status || answer != r.Answer || !slices.Equal(lines, r.Lines) {
			t.Errorf("%s %s: %d %s\n%s\nwant %d %s\n%s", r.Path, &body, a.status, answer, strings.Join(lines, "\n"),
				r.Status, r.Answer, strings.Join(r.Lines, "\n"))
		}
	}
	if *update {
		var b bytes.Buffer
		e := json.NewEncoder(&b)
		e.SetEscapeHTML(false)
		e.SetIndent("", " ")
		if err := e.Encode(&all); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(table, b.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}
