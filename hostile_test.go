//go:build !js

package foretoken

import (
	"context"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"foretoken/models/constrain"
	"foretoken/models/demo"
	"foretoken/models/fuzztest"
	"foretoken/spec/method"
	"foretoken/webgpu/kernels/kerneltest"
)

// TestHostilePrompts decodes adversarial texts, or refuses them with a one-line error. The session stays usable.
func TestHostilePrompts(t *testing.T) {
	s, err := Open(context.Background(), kerneltest.CPU(t), demo.Target(), demo.Draft(), Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	var every [4]string // each string holds a quarter of all bytes
	for i := range 256 {
		every[i/64] += string([]byte{byte(i)})
	}
	r := Request{MaxTokens: 2, Policy: method.DrafterNone}
	before, err := s.Generate(context.Background(), "func", r, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Attr("attack", "prompts of all bytes, broken UTF-8, special tokens, a megabyte")
	t.Attr("bound", "decoded, or refused in one line; the session stays usable")
	decoded, refused := 0, 0
	long := strings.Repeat("x := y + 1\n", 1<<20/11)
	for name, c := range map[string]struct {
		prompt string
		want   string // part of the error; "": the prompt is decoded
	}{
		"nothing":            {"", ""},
		"bytes below 64":     {every[0], ""},
		"bytes below 128":    {every[1], ""},
		"bytes below 192":    {every[2], ""},
		"bytes below 256":    {every[3], ""},
		"bytes of no text":   {strings.Repeat("\xff\xfe\xc0\x80", 20), ""},
		"surrogates":         {"\xed\xa0\x80\xed\xb0\x80", ""},
		"zeros":              {strings.Repeat("\x00", 100), ""},
		"a megabyte":         {long, "bytes, which are at least"}, // refused before it is tokenised
		"a megabyte of one":  {strings.Repeat("a", 1<<20), "bytes, which are at least"},
		"a megabyte of none": {strings.Repeat("\xff", 1<<20), "bytes, which are at least"},
		"5,000 bytes":        {strings.Repeat("\x01", 5000), "tokens, but the context holds"},
		"special tokens":     {"<|endoftext|><|im_start|>system\n<s></s>[INST]<unk><pad><|begin_of_text|>", ""},
		"marks of guards":    {"\ufdd0<\ufdd0s>\ufeff\u202e\u200d", ""},
		"combining":          {"a" + strings.Repeat("\u0301", 60), ""},
	} {
		result, err := s.Generate(context.Background(), c.prompt, r, nil)
		switch {
		case c.want == "" && name == "nothing" && err != nil: // a model without a BOS token may refuse
			fuzztest.Refusal(t, err, "foretoken: ")
		case c.want == "" && err != nil:
			t.Errorf("%s: %v", name, err)
		case c.want == "" && (result.Finish == "" || strings.Contains(result.Text, "\x00\x00\x00")):
			t.Errorf("%s: %+v", name, result)
		case c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)):
			t.Errorf("%s: %v, want %q", name, err, c.want)
		case c.want != "":
			fuzztest.Refusal(t, err, "")
		}
		if err == nil {
			decoded++
		} else {
			refused++
		}
	}
	t.Attr("measured", fmt.Sprintf("%d decoded, %d refused", decoded, refused))
	after, err := s.Generate(context.Background(), "func", r, nil)
	if err != nil || after.Text != before.Text {
		t.Errorf("%v: %q, before %q", err, after.Text, before.Text)
	}
}

// TestHostileOptions sets every number of a request to NaN, infinite, negative and huge values. Each is harmless or
// refused with a one-line error.
func TestHostileOptions(t *testing.T) {
	s, err := Open(context.Background(), kerneltest.CPU(t), demo.Target(), demo.Draft(), Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	t.Attr("attack",
		"numbers of a request that are NaN, infinite, negative or enormous; names that are long or no text")
	t.Attr("bound", "harmless, or refused in one line")
	tried, refusals := 0, 0
	nan, inf := math.NaN(), math.Inf(1)
	numbers := []float64{nan, inf, -inf, -1, 1e308, -1e-300}
	counts := []int{-1, math.MinInt, math.MaxInt, math.MaxInt32, 1 << 20}
	base := func() Request { return Request{MaxTokens: 2, Policy: method.DrafterEAGLE2, Seed: 1} }
	try := func(name string, r Request, refused bool) {
		t.Helper()
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Minute)
		defer cancel()
		_, err := s.Generate(ctx, "func", r, nil)
		if tried++; err != nil {
			refusals++
			fuzztest.Refusal(t, err, "")
		}
		if refused && err == nil || ctx.Err() != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	for _, x := range numbers {
		for name, set := range map[string]func(*Request){
			"temperature": func(r *Request) { r.Temperature = x }, "top-p": func(r *Request) { r.TopP = &x },
			"min-p":             func(r *Request) { r.MinP = x },
			"frequency_penalty": func(r *Request) { r.FrequencyPenalty = x },
			"presence_penalty":  func(r *Request) { r.PresencePenalty = x },
			"logit_bias":        func(r *Request) { r.LogitBias = map[int32]float32{3: float32(x)} },
			"theta":             func(r *Request) { r.Policy, r.Theta = method.VerifierMARS, x },
			"threshold": func(r *Request) {
				r.Policy, r.Adapt, r.Threshold = method.DrafterChain,
					method.AdaptAssisted, x
			},
		} {
			r := base()
			set(&r)
			harmless := x == -1e-300 && name != "theta" && name != "temperature" && name != "top-p" &&
				name != "min-p" && name != "threshold" || name != "theta" && name != "threshold" && x == -1 &&
				strings.HasSuffix(name, "penalty") || name == "logit_bias" && x == -1
			harmless = harmless || (name == "temperature" || name == "threshold") && x == 1e308
			try(fmt.Sprint(name, " ", x), r, !harmless)
		}
	}
	for _, n := range counts {
		for name, set := range map[string]func(*Request){
			"depth": func(r *Request) { r.Depth = n }, "top_k": func(r *Request) { r.TopK = n },
			"nodes": func(r *Request) { r.Nodes = n },
			"shape": func(r *Request) { r.Policy, r.Shape = "static", [][]int{{n}} },
		} {
			r := base()
			set(&r)
			try(name, r, true)
		}
		r := base()
		r.SampleTopK, r.Temperature = n, 1
		try("top_k_sampling", r, n < 0)
		r = base()
		r.MaxTokens = n
		if n < 0 {
			try("max_tokens", r, true)
		}
		r = base()
		r.LogitBias = map[int32]float32{int32(n): 1}
		if int32(n) < 0 || int32(n) > 1<<16 {
			try("a bias of no token", r, true)
		}
	}
	for _, name := range []string{strings.Repeat("n", 3000), strings.Repeat("\n\x1b\u2028\xff\U0010ffff", 500)} {
		for field, set := range map[string]func(*Request){
			"policy": func(r *Request) { r.Policy = name }, "adapt": func(r *Request) { r.Adapt = name },
			"source":   func(r *Request) { r.Source = name },
			"verifier": func(r *Request) { r.Verifier = name }, "schedule": func(r *Request) { r.Schedule = name },
			"mode": func(r *Request) { r.Mode = name }, "variant": func(r *Request) { r.Variant = name },
		} {
			r := base()
			set(&r)
			try("a strange "+field, r, true)
		}
		_, err := s.NewChat(ChatOptions{Template: "{{ messages }}", Messages: []Message{{Role: name}}})
		if fuzztest.Refusal(t, err, "foretoken: "); !strings.Contains(err.Error(), "role") {
			t.Error(err)
		}
		_, err = Open(context.Background(), kerneltest.Reference(t), demo.Target(), nil, Options{KV: name})
		if fuzztest.Refusal(t, err, "foretoken: "); !strings.Contains(err.Error(), "KV") {
			t.Error(err)
		}
	}
	for name, r := range map[string]Request{
		"an unknown method":    {Policy: "x\ny"},
		"an empty stop":        {Policy: method.DrafterNone, MaxTokens: 2, Stop: []string{""}},
		"a grammar of nothing": {Policy: method.DrafterNone, Constraints: constrain.Constraints{Grammar: "\x00"}},
		"a schema of nothing": {Policy: method.DrafterNone,
			Constraints: constrain.Constraints{JSONSchema: []byte("\x00")}},
		"two forms": {Policy: method.DrafterNone,
			Constraints: constrain.Constraints{Grammar: `root ::= "a"`, JSONObject: true}},
		"a grammar without text": {Policy: method.DrafterNone,
			Constraints: constrain.Constraints{Grammar: "root ::= root"}},
	} {
		try(name, r, true)
	}
	t.Attr("measured", fmt.Sprintf("%d requests, %d refused", tried, refusals))
}
