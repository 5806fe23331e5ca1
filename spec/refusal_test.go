package spec

import (
	"encoding/json"
	"math"
	"strings"
	"testing"
)

func TestNearest(t *testing.T) {
	known := []string{"target", "draft", "max_tokens", "temperature", "top_p", "top_k", "generate", "n"}
	for name, want := range map[string]string{
		"targt": "target", "tagret": "target", "Target": "target", "maxTokens": "max_tokens", "max-token": "max_tokens",
		"temprature": "temperature", "temp": "temperature", "topp": "top_p", "genrate": "generate", "top-q": "top_p",
		"": "", "x": "", "colour": "", "t": "", "m": "", strings.Repeat("target", 1000): "",
	} {
		if got := Nearest(name, known); got != want {
			t.Errorf("%.20q: %q, want %q", name, got, want)
		}
	}
	for pair, want := range map[[2]string]int{{"", ""}: 0, {"ab", "ba"}: 1, {"abc", ""}: 3, {"kitten", "sitting"}: 3,
		{"targt", "target"}: 1, {"ca", "abc"}: 3} {
		if got := editDistance(pair[0], pair[1]); got != want {
			t.Errorf("from %q to %q: %d, want %d", pair[0], pair[1], got, want)
		}
	}
}

func TestLimits(t *testing.T) {
	for _, l := range RequestLimits() {
		for _, v := range []float64{l.Least, l.Most, (l.Least + l.Most) / 2} {
			if err := l.Check(v); err != nil {
				t.Errorf("%s: %v is refused: %v", l.Field, v, err)
			}
		}
		for _, v := range []float64{l.Least - 1, l.Most + 1, math.NaN(), math.Inf(1), math.Inf(-1)} {
			if v == 0 && l.Zero != "" {
				continue
			}
			if err := l.Check(v); err == nil || !strings.Contains(err.Error(), l.Field+" is ") {
				t.Errorf("%s: %v: %v", l.Field, v, err)
			}
		}
		if (l.Check(0) == nil) != (l.Zero != "" || l.Least <= 0) {
			t.Errorf("%s: 0: %v", l.Field, l.Check(0))
		}
	}
	if got, want := LimitTemperature.Check(99).Error(), "spec: temperature is 99, want 0 (greedy) or 0.001 to 2"; got !=
		want {
		t.Errorf("%s, want %s", got, want)
	}
}

// TestDecodeSpeaksNoGo decodes texts that are wrong in every way that encoding/json knows.
func TestDecodeSpeaksNoGo(t *testing.T) {
	type Inner struct {
		Depth int `json:"depth"`
	}
	type value struct {
		Name   string             `json:"name"`
		Heat   *float64           `json:"heat"`
		Count  uint               `json:"count"`
		On     bool               `json:"on"`
		Biases map[string]float32 `json:"biases"`
		Parts  []Inner            `json:"parts"`
		Inner
	}
	for text, want := range map[string]string{
		`{"name": 7}`:                "name is a number, want a string",
		`{"heat": "hot"}`:            "heat is a string, want a number",
		`{"heat": 1e999}`:            "heat is 1e999, want a number",
		`{"count": -1}`:              "count is -1, want a whole number of 0 or more",
		`{"depth": 1.5}`:             "depth is 1.5, want a whole number",
		`{"on": {}}`:                 "on is an object, want true or false",
		`{"biases": []}`:             "biases is a list, want an object",
		`{"parts": [{"depth": ""}]}`: "parts.depth is a string, want a whole number",
		`{"parts": true}`:            "parts is true or false, want a list",
		`[]`:                         "the JSON value is a list, want an object",
		`{"nmae": ""}`:               "nmae is unknown; did you mean name?",
		`{"parts": [{"detph": 1}]}`:  "detph is unknown; did you mean depth?",
		`{"blue": 1}`:                "blue is unknown",
		`{"a\u0007b\n": 1}`:          `"a\ab\n" is unknown`,
		`{"` + strings.Repeat("x", 1<<16) + `": 1}`: "is unknown",
		`{} {}`:       "there is more after the JSON value",
		`{"name": "`:  "not JSON",
		``:            "not JSON",
		`{"name": x}`: "not JSON at byte 10",
	} {
		err := Decode([]byte(text), &value{})
		if err == nil || !strings.Contains(err.Error(), want) || len(err.Error()) > 300 {
			t.Errorf("%.40s: %v, want %q", text, err, want)
		}
		for _, word := range []string{"json:", "Go ", "unmarshal", "struct", "float64", "Inner", "uint"} {
			if err != nil && strings.Contains(err.Error(), word) {
				t.Errorf("%.40s: %v says %q", text, err, word)
			}
		}
	}
	var v value
	if err := Decode([]byte(`{"name": "a", "depth": 3} `), &v); err != nil || v.Name != "a" || v.Depth != 3 {
		t.Errorf("%+v, %v", v, err)
	}
	if err := JSONError(json.Unmarshal([]byte(`{"Name": [1]}`), &v), &v); err == nil || err.Error() !=
		"name is a list, want a string" {
		t.Error(err)
	}
}
