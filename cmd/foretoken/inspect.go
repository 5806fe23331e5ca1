//go:build !js

package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"foretoken"
	"foretoken/internal/quote"
	"foretoken/models/arch"
	"foretoken/models/chat"
	"foretoken/models/convert"
	"foretoken/models/gguf"
	"foretoken/models/graph"
	"foretoken/models/tokenizer"
	"foretoken/webgpu"
)

// inspection is the output of inspect; --json prints it as it is.
type inspection struct {
	File       string            `json:"file"`
	Bytes      int64             `json:"bytes"`
	Version    uint32            `json:"version"`
	Metadata   map[string]any    `json:"metadata"` // arrays as arraySummary
	Tensors    []tensorEntry     `json:"tensors"`
	Parameters uint64            `json:"parameters"`
	DataBytes  int64             `json:"data_bytes"`
	Types      map[string]uint64 `json:"types"` // elements by storage type
	Tokenizer  tokenizerEntry    `json:"tokenizer"`
	Chat       chatEntry         `json:"chat"`
	Memory     *graph.Memory     `json:"memory,omitempty"` // device memory of decoding with it
	Runnable   bool              `json:"runnable"`
	Reason     string            `json:"reason,omitempty"` // why it cannot be run
}

type tensorEntry struct {
	Name   string   `json:"name"`
	Type   string   `json:"type"`
	Shape  []uint64 `json:"shape"` // GGUF's order: the length of a row first
	Bytes  int64    `json:"bytes"`
	Offset int64    `json:"offset"`
}

type tokenizerEntry struct {
	Kind   string `json:"kind,omitempty"` // tokenizer.ggml.model
	Pre    string `json:"pre,omitempty"`  // tokenizer.ggml.pre
	Tokens int    `json:"tokens"`         // 0 where it cannot be used
	Note   string `json:"note,omitempty"`
	Reason string `json:"reason,omitempty"`
}

// chatEntry says whether the file brings a chat template. Without one a model continues texts only.
type chatEntry struct {
	Template bool   `json:"template"`
	Reason   string `json:"reason,omitempty"` // why there is none that can be used
}

// arraySummary stands for an array of the metadata.
type arraySummary struct {
	Is    string `json:"array"` // such as "2048 × string"
	First []any  `json:"first"`
}

// shownElements limits the printed elements of an array.
const shownElements = 4

func inspectCommand(c *console) *cobra.Command {
	var asJSON bool
	var planned foretoken.Options
	cmd := &cobra.Command{
		Use:   "inspect MODEL",
		Short: "Show the contents of a model file, and whether it can run",
		Long: "Show the contents of a model file, whether it can run, and how much memory it takes.\n\n" +
			"MODEL is a GGUF file, one part of a split one, or a folder with safetensors, config.json\n" +
			"and tokenizer.json, shown as the GGUF file that convert would write.",
		Args: modelArguments(1),
		RunE: func(_ *cobra.Command, args []string) error {
			if err := oneOfFlag("kv", planned.KV, kvFormats); err != nil {
				return err
			}
			src, closeFiles, err := convert.OpenPaths(args, convert.Options{Note: func(s string) { c.note("%s", s) }})
			if err != nil {
				return err
			}
			defer closeFiles()
			f, refused := gguf.Open(src)
			if refused != nil {
				if f = gguf.Survey(src); f == nil {
					return refused
				}
			}
			i := inspect(f, refused, planned)
			if asJSON {
				return printIndented(c, "  ", i)
			}
			return i.print(c, f.Keys())
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	cmd.Flags().IntVar(&planned.Context, "context", 0,
		"positions to plan the memory for (default the model's own, at most 4096)")
	cmd.Flags().StringVar(&planned.KV, "kv", "f32", "KV cache to plan the memory for: f32, f16 or q8")
	return cmd
}

// inspect describes a file, which was only surveyed where it is refused.
func inspect(f *gguf.File, refused error, planned foretoken.Options) *inspection {
	i := &inspection{File: f.Name(), Bytes: f.Size(), Version: f.Version, Metadata: map[string]any{},
		Tensors: []tensorEntry{}, Types: map[string]uint64{}}
	for _, key := range f.Keys() {
		i.Metadata[key] = metadataValue(f, key)
	}
	for n := range f.Tensors {
		t := &f.Tensors[n]
		i.Tensors = append(i.Tensors, tensorEntry{t.Name, t.Type.String(), t.Dims, t.Size, t.Offset})
		i.Parameters += t.Elements()
		i.DataBytes += t.Size
		i.Types[t.Type.String()] += t.Elements()
	}
	i.Tokenizer.Kind, _ = f.StringOr("tokenizer.ggml.model", "")
	i.Tokenizer.Pre, _ = f.StringOr("tokenizer.ggml.pre", "")
	var tok *tokenizer.Tokenizer
	var memory *foretoken.Memory
	err := refused
	if refused == nil {
		tok, memory, err = foretoken.Inspect(f, planned, webgpu.DefaultLimits())
	} else if kind := arch.Unlike(f); kind != "" && len(f.Tensors) > 0 {
		err = fmt.Errorf("%s: %s", f.Name(), kind)
	}
	if i.Runnable = err == nil; err != nil {
		i.Reason = oneLine(err.Error())
	} else {
		i.Memory = &memory.Target
	}
	if tok == nil && !strings.HasPrefix(i.Reason, "tokenizer: ") { // refused before its tokenizer was read
		tok, err = tokenizer.New(f)
	}
	if tok != nil {
		i.Tokenizer.Tokens, i.Tokenizer.Note = tok.VocabSize(), tok.Note()
	} else {
		i.Tokenizer.Reason = err.Error()
	}
	_, chatErr := chat.ForFile(f, chat.Options{})
	if i.Chat.Template = chatErr == nil; chatErr != nil {
		i.Chat.Reason = oneLine(chatErr.Error())
	}
	return i
}

// metadataValue converts a value for JSON.
func metadataValue(f *gguf.File, key string) any {
	shown := f.Describe(key)
	if f.IsArray(key) {
		return arraySummary{shown, firstElements(f, key)}
	}
	if s, err := f.String(key); err == nil {
		return cutBytes(s, longestShown)
	}
	if json.Valid([]byte(shown)) { // numbers in full, and booleans
		return json.RawMessage(shown)
	}
	return shown // not a finite number
}

// firstElements reads the beginning of an array.
func firstElements(f *gguf.File, key string) []any {
	out := f.Elements(key, shownElements)
	for i, e := range out {
		switch x := e.(type) {
		case string:
			out[i] = cutBytes(x, longestShown)
		case float32:
			if y := float64(x); math.IsNaN(y) || math.IsInf(y, 0) {
				out[i] = fmt.Sprint(x) // JSON has no such number
			}
		case float64:
			if math.IsNaN(x) || math.IsInf(x, 0) {
				out[i] = fmt.Sprint(x)
			}
		}
	}
	return out
}

// longestShown bounds the bytes of a text of the metadata in JSON: no template that is read is longer.
const longestShown = gguf.MaxTemplateBytes

// cutBytes shortens a text to most bytes and an ellipsis.
func cutBytes(s string, most int) string {
	if len(s) <= most {
		return s
	}
	return strings.ToValidUTF8(s[:most], "") + "…"
}

// print writes the listing; keys are in the file's order.
func (i *inspection) print(c *console, keys []string) error {
	w := tabwriter.NewWriter(c.out, 0, 0, 2, ' ', 0)
	fmt.Fprintf(w, "%s: GGUF version %d, %s\n", quote.Name(i.File), i.Version, graph.Size(i.Bytes))
	fmt.Fprintf(w, "\nmetadata: %d entries\n", len(keys))
	for _, key := range keys {
		fmt.Fprintf(w, "  %s\t%s\n", quote.Name(key), valueText(i.Metadata[key]))
	}
	fmt.Fprintf(w, "\ntensors: %d, %d parameters, %s\n", len(i.Tensors), i.Parameters, graph.Size(i.DataBytes))
	for _, t := range i.Tensors {
		shape := make([]string, len(t.Shape))
		for d, n := range t.Shape {
			shape[d] = fmt.Sprint(n)
		}
		fmt.Fprintf(w, "  %s\t%s\t%s\t%s\n", quote.Name(t.Name), t.Type, strings.Join(shape, " × "),
			graph.Size(t.Bytes))
	}
	fmt.Fprintf(w, "\nstored as: %s\n", typesText(i.Types, i.Parameters))
	fmt.Fprintf(w, "tokenizer: %s\n", i.Tokenizer.text())
	if i.Chat.Template {
		fmt.Fprintf(w, "conversations: yes, by its chat template\n")
	} else {
		fmt.Fprintf(w, "conversations: no: %s\n", i.Chat.Reason)
	}
	if i.Runnable {
		fmt.Fprintf(w, "memory: %s: %s\n", graph.Size(i.Memory.Total()), i.Memory)
		fmt.Fprintf(w, "can be run: yes, by its configuration, tokenizer, tensors and storage types\n")
	} else {
		fmt.Fprintf(w, "can be run: no: %s\n", i.Reason)
	}
	return w.Flush()
}

func (t *tokenizerEntry) text() string {
	s := "none"
	if t.Kind != "" {
		s = quote.Name(t.Kind)
	}
	if t.Pre != "" {
		s += ", pre-tokenizer " + quote.Name(t.Pre)
	}
	if t.Reason != "" {
		return s + ", cannot be used: " + oneLine(t.Reason)
	}
	s = fmt.Sprintf("%s, %d tokens", s, t.Tokens)
	if t.Note != "" {
		s += ": " + t.Note
	}
	return s
}

// valueText shows a metadata value on one line.
func valueText(v any) string {
	const most = 100
	switch x := v.(type) {
	case string:
		return quoted(x, most)
	case json.RawMessage:
		return string(x)
	case arraySummary:
		var words []string
		for _, e := range x.First {
			if s, ok := e.(string); ok {
				e = quoted(s, most/shownElements)
			}
			words = append(words, fmt.Sprint(e))
		}
		if len(words) == shownElements {
			words = append(words, "…")
		}
		return fmt.Sprintf("%s: %s", x.Is, strings.Join(words, ", "))
	}
	return fmt.Sprint(v)
}

// quoted shows a text within quotation marks, about n characters of it.
func quoted(text string, n int) string {
	r := []rune(fmt.Sprintf("%q", cutBytes(text, 4*n)))
	if len(r) <= n {
		return string(r)
	}
	return string(r[:n]) + `…"`
}

// typesText lists storage types with their share of the parameters, largest first.
func typesText(types map[string]uint64, total uint64) string {
	names := slices.SortedFunc(maps.Keys(types), func(a, b string) int {
		return cmp.Or(cmp.Compare(types[b], types[a]), strings.Compare(a, b))
	})
	words := make([]string, len(names))
	for i, name := range names {
		words[i] = fmt.Sprintf("%s %.1f %%", name, 100*float64(types[name])/float64(total))
	}
	if len(words) == 0 {
		return "nothing"
	}
	return strings.Join(words, ", ")
}
