package tokenizer

import (
	"fmt"
	"slices"

	"foretoken/internal/strictjson"
	"foretoken/models/gguf"
)

// tokenizerConfig holds the fields read from tokenizer_config.json.
type tokenizerConfig struct {
	BOS      configToken    `json:"bos_token"`
	EOS      configToken    `json:"eos_token"`
	UNK      configToken    `json:"unk_token"`
	PAD      configToken    `json:"pad_token"`
	AddBOS   *bool          `json:"add_bos_token"`
	AddEOS   *bool          `json:"add_eos_token"`
	Template configTemplate `json:"chat_template"`
}

// configToken is a text, an object with a content, or null.
type configToken struct{ text string }

func (t *configToken) UnmarshalJSON(b []byte) error {
	if len(b) > 0 && b[0] == '{' {
		var v struct {
			Content string `json:"content"`
		}
		err := strictjson.DecodeForeign(b, &v)
		t.text = v.Content
		return err
	}
	return strictjson.DecodeForeign(b, &t.text)
}

// configTemplate is one chat template, or a list of named ones.
type configTemplate []namedTemplate

type namedTemplate struct {
	Name     string `json:"name"`
	Template string `json:"template"`
}

func (t *configTemplate) UnmarshalJSON(b []byte) error {
	if len(b) > 0 && b[0] == '[' {
		n := 0
		for range strictjson.Elements(b) {
			if n++; n > gguf.MaxTemplates {
				return fmt.Errorf("chat_template: more than %d templates", gguf.MaxTemplates)
			}
		}
		type plain configTemplate
		if err := strictjson.DecodeForeign(b, (*plain)(t)); err != nil {
			return fmt.Errorf("chat_template: %w", err)
		}
		return nil
	}
	var text string
	if err := strictjson.DecodeForeign(b, &text); err != nil {
		return fmt.Errorf("chat_template: %w", err)
	}
	if text != "" {
		*t = configTemplate{{"default", text}}
	}
	return nil
}

// maxTemplateName bounds the bytes of a template's name; templates of longer names are left out.
const maxTemplateName = 200

// templates gives the entries for the chat templates: the default one, or the first where none is called so, and the
// others by their names. Blank ones are none.
func (c *tokenizerConfig) templates() []gguf.KV {
	all := slices.DeleteFunc(c.Template, func(t namedTemplate) bool { return gguf.Blank(t.Template) })
	if len(all) == 0 {
		return nil
	}
	first := max(0, slices.IndexFunc(all, func(t namedTemplate) bool { return t.Name == "default" }))
	kv := []gguf.KV{{Key: keyTemplate, Value: all[first].Template}}
	var names []string
	seen := map[string]bool{"": true, "default": true, all[first].Name: true}
	for _, t := range all {
		if seen[t.Name] || len(t.Name) >= maxTemplateName {
			continue
		}
		seen[t.Name] = true
		names = append(names, t.Name)
		kv = append(kv, gguf.KV{Key: keyTemplate + "." + t.Name, Value: t.Template})
	}
	if names != nil {
		kv = append(kv, gguf.KV{Key: keyTemplates, Value: names})
	}
	return kv
}
