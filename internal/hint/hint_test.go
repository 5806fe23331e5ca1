package hint

import (
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
}
