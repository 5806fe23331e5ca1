//go:build !js

package openai

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"slices"
	"testing"

	"foretoken"
	"foretoken/webgpu"
)

import ()

// TestEmbeddings asks in every form and compares with the session's own vectors.
func TestEmbeddings(t *testing.T) {
	w := open(t, nil)
	want := func(text string, o foretoken.EmbedOptions) ([]float32, int) {
		e, err := w.engine.Session.Embed(t.Context(), text, o)
		if err != nil {
			t.Fatal(err)
		}
		return e.Vector, e.Tokens
	}
	a, na := want("func a", foretoken.EmbedOptions{})
	b, nb := want("func b", foretoken.EmbedOptions{})
	last, _ := want("func a", foretoken.EmbedOptions{Pooling: "last", Raw: true})
	ids, err := json.Marshal(w.engine.Tokenizer().Encode("func a", true))
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		body   string
		want   [][]float32
		tokens int
	}{
		{`"input": "func a"`, [][]float32{a}, na},
		{`"input": ["func a", "func b"], "user": "u", "encoding_format": "float"`, [][]float32{a, b}, na + nb},
		{`"input": ` + string(ids), [][]float32{a}, na},
		{fmt.Sprintf(`"input": [%s], "dimensions": %d`, ids, len(a)), [][]float32{a}, na},
		{`"input": "func a", "foretoken": {"pooling": "last", "raw": true}`, [][]float32{last}, na},
		{`"input": ["func b", "func a"], "encoding_format": "base64"`, [][]float32{b, a}, na + nb},
	} {
		answer := w.do(embedPath, `{"model": "demo", `+c.body+`}`)
		var got struct {
			Object, Model string
			Data          []struct {
				Object    string
				Index     int
				Embedding json.RawMessage
			}
			Usage struct {
				Prompt int `json:"prompt_tokens"`
				Total  int `json:"total_tokens"`
			}
		}
		if err := json.Unmarshal(answer.body, &got); err != nil || answer.status != 200 || got.Object != "list" ||
			got.Model != "demo" || len(got.Data) != len(c.want) || got.Usage.Prompt != c.tokens ||
			got.Usage.Total != c.tokens {
			t.Fatalf("%s: %d %.300s (%v)", c.body, answer.status, answer.body, err)
		}
		for i, e := range got.Data {
			var vector []float32
			var coded string
			if json.Unmarshal(e.Embedding, &coded) == nil {
				raw, err := base64.StdEncoding.DecodeString(coded)
				if err != nil || len(raw) != 4*len(c.want[i]) {
					t.Fatalf("%s: %d bytes: %v", c.body, len(raw), err)
				}
				vector = make([]float32, len(c.want[i]))
				copy(webgpu.F32Bytes(vector), raw)
			} else if err := json.Unmarshal(e.Embedding, &vector); err != nil {
				t.Fatal(err)
			}
			if e.Object != "embedding" || e.Index != i || !slices.Equal(vector, c.want[i]) {
				t.Errorf("%s: the vector of text %d is not the session's", c.body, i)
			}
		}
	}
}
