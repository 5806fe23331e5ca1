package openai

import (
	"encoding/base64"
	"math"

	"foretoken/internal/strictjson"
	"foretoken/spec"
	"foretoken/webgpu"
)

// limitInputs is the API's bound of texts in a request.
var limitInputs = spec.Setting{Name: "input", Least: 1, Most: 2048}

// embeddings is the answer of /v1/embeddings.
type embeddings struct {
	Object string      `json:"object"`
	Data   []embedding `json:"data"`
	Model  string      `json:"model"`
	Usage  struct {
		Prompt int `json:"prompt_tokens"`
		Total  int `json:"total_tokens"`
	} `json:"usage"`
}

type embedding struct {
	Object string `json:"object"`
	Index  int    `json:"index"`
	Vector any    `json:"embedding"` // numbers, or the bytes of f32 values in base64, little-endian
}

// embedding reads what only /v1/embeddings takes.
func (a *Request) embedding(f *fields) {
	a.textList(f, "input", "the text to embed")
	if n := len(a.prompts); n > 0 && !limitInputs.Holds(float64(n)) {
		f.fail(invalid("input", "input has %d texts; want %s", n, limitInputs.Want()))
	}
	format := "float"
	f.into("encoding_format", &format, "float or base64")
	if a.base64 = format == "base64"; !a.base64 && format != "float" {
		f.fail(invalid("encoding_format", "encoding_format is %s; want float or base64", Brief([]byte(format))))
	}
	within(f, "dimensions", &a.width, spec.Setting{Name: "dimensions", Least: 1, Most: math.MaxInt32})
	if raw, ok := f.take("foretoken"); ok {
		if err := strictjson.Decode(raw, &a.pooling); err != nil {
			f.fail(wrongIn("foretoken", err, "foretoken is %s; want an object", Brief(raw)))
		}
	}
}

// textList reads the texts of a request: a string, a list of strings, a list of tokens or a list of such lists.
func (a *Request) textList(f *fields, name, what string) {
	raw, ok := f.take(name)
	if !ok {
		f.fail(missing(name, "%s is missing; give %s", name, what))
		return
	}
	var err error
	if a.prompts, err = prompts(raw); err != nil || a.prompts == nil {
		f.fail(wrongIn(name, err, "%s is %s; want a string, a list of strings, a list of tokens or a list of such "+
			"lists", name, Brief(raw)))
	}
	for i, p := range a.prompts {
		if p.text == "" && len(p.ids) == 0 && len(a.prompts) > 1 {
			f.fail(invalid(name, "%s %d is empty", name, i))
		}
	}
}

// embed embeds the texts one after the other. Others may have their turns between them.
func (g *generation) embed(ids [][]int32) (*Answer, error) {
	out := embeddings{Object: "list", Model: g.model.Model}
	for i, text := range ids {
		if i > 0 {
			if err := g.host.Yield(); err != nil {
				return nil, err
			}
		}
		e, err := g.model.engine.EmbedIDs(g.ctx, text, g.asked.pooling)
		if err != nil {
			return nil, err
		}
		v := embedding{Object: "embedding", Index: i, Vector: e.Vector}
		if g.asked.base64 {
			v.Vector = base64.StdEncoding.EncodeToString(webgpu.F32Bytes(e.Vector))
		}
		out.Data = append(out.Data, v)
		out.Usage.Prompt += e.Tokens
	}
	out.Usage.Total = out.Usage.Prompt
	body, err := Encode(&out)
	return &Answer{Rest: [][]byte{body}, Prompt: out.Usage.Prompt}, err
}
