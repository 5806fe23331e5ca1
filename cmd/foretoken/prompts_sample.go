//go:build !js

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"foretoken"
	"foretoken/fit"
	"foretoken/spec"
	"foretoken/spec/method"
)

type sampleOptions struct {
	models      modelOptions
	count       int
	temperature float64
	seed        uint64
	least, most int
	starts      []string
	out         string
	json        bool
}

// defaultStarts are the beginnings of sampled texts: the empty one and the keywords of Go declarations.
var defaultStarts = []string{"", "// ", "package ", "import (\n", "func ", "type ", "const (\n", "var ("}

func samplePromptsCommand(c *console) *cobra.Command {
	o := sampleOptions{}
	cmd := &cobra.Command{
		Use:   "sample-prompts",
		Short: "Have the target write prompts to calibrate with",
		Long: `Have the target write prompts to calibrate with. None is part of an evaluation.

It samples texts of random length, with no beginning and with short beginnings of Go declarations in turn, and cuts
each at the end of a line: in turn a comment, a line about errors, the head of a function, the beginning of a struct
or of a table, or another statement, if the text has one. Each line of the file records its origin.`,
		Example: "  foretoken sample-prompts --count 200 --temperature 1 --seed 1 --out prompts.jsonl",
		Args:    flagsOnly,
		RunE:    checkedRun(o.check, func(ctx context.Context) error { return o.run(ctx, c) }),
	}
	f := cmd.Flags()
	o.models.flags(f)
	f.IntVar(&o.count, "count", 200, "prompts to write")
	f.Float64Var(&o.temperature, "temperature", 1, "temperature of the target's draws")
	f.Uint64Var(&o.seed, "seed", 1, "seed of the first text; each further text adds 1")
	f.IntVar(&o.least, "min-tokens", 12, "shortest prompt, in tokens, BOS included")
	f.IntVar(&o.most, "max-tokens", 80, "longest prompt, in tokens")
	f.StringArrayVar(&o.starts, "start", nil,
		"beginning of a text; may be given several times (default nothing and the beginnings of Go declarations)")
	f.StringVar(&o.out, "out", "", "file to write, one JSON object a line")
	f.BoolVar(&o.json, "json", false, "print one JSON object: file, prompts, categories")
	return cmd
}

func (o *sampleOptions) check(given *pflag.FlagSet) error {
	if err := o.models.check(); err != nil {
		return err
	}
	switch {
	case o.out == "":
		return usagef("--out is missing, want a file to write the prompts to")
	case o.count < 1:
		return usagef("--count is %d, want 1 or more", o.count)
	case o.least < 1 || o.most < o.least:
		return usagef("--min-tokens is %d and --max-tokens %d, want 1 or more and no less than that", o.least, o.most)
	}
	if !given.Changed("start") {
		o.starts = defaultStarts
	}
	return asUsage((&spec.Sampling{Temperature: o.temperature}).Validate())
}

type sampled struct {
	ID       string `json:"id"`
	Category string `json:"category"`
	Prompt   string `json:"prompt"`
	From     origin `json:"from"`
}

// origin records how a prompt was sampled.
type origin struct {
	Target      string  `json:"target"`
	Start       string  `json:"start"`
	Temperature float64 `json:"temperature"`
	Seed        uint64  `json:"seed"`
	Tokens      int     `json:"tokens"` // of the prompt, BOS included
}

func (o *sampleOptions) run(ctx context.Context, c *console) error {
	s, err := openSession(ctx, c, &o.models)
	if err != nil {
		return err
	}
	defer s.close()
	settings := map[string]any{"pair": s.Fingerprint(), "temperature": o.temperature, "seed": o.seed, "min": o.least,
		"max": o.most, "starts": o.starts}
	j, err := fit.OpenJournal(o.out+".partial", settings)
	if err != nil {
		return err
	}
	defer j.Close()
	bar := newBar(c, "prompts", o.count)
	defer bar.clear()
	var out bytes.Buffer
	enc := json.NewEncoder(&out)
	enc.SetEscapeHTML(false)
	counts := map[string]int{}
	for i := range o.count {
		p := sampled{ID: fmt.Sprintf("sampled-%03d", i)}
		if ok, err := j.Get(p.ID, &p); err != nil {
			return err
		} else if !ok {
			if p, err = o.samplePrompt(ctx, s, i); err != nil {
				return interruptedOr(ctx, fmt.Errorf("prompt %d: %w", i, err))
			}
			if err := j.Add(p.ID, p); err != nil {
				return err
			}
		}
		counts[p.Category]++
		if err := enc.Encode(p); err != nil {
			return err
		}
		bar.set(i + 1)
	}
	bar.clear()
	if err := replaceFile(o.out, out.Bytes()); err != nil {
		return err
	}
	if o.json {
		err = printObject(c, struct {
			File       string         `json:"file"`
			Prompts    int            `json:"prompts"`
			Categories map[string]int `json:"categories"`
		}{o.out, o.count, counts})
	} else {
		fmt.Fprintf(c.err, "%d prompts in %s: %s\n", o.count, o.out, tally(counts))
	}
	return errors.Join(err, j.Remove())
}

const (
	maxAttempts  = 64 // texts sampled for one prompt, at most
	goalAttempts = 1  // the first of them must end in a line of the wanted category
)

// samplePrompt samples prompt i. Further attempts take seeds far from other prompts'.
func (o *sampleOptions) samplePrompt(ctx context.Context, s *session, i int) (sampled, error) {
	start, goal := o.starts[i%len(o.starts)], categories[i/len(o.starts)%len(categories)]
	for attempt := range uint64(maxAttempts) {
		seed := o.seed + uint64(i) + attempt<<32
		rng := rand.New(rand.NewPCG(seed, 0))
		r := foretoken.DefaultRequest()
		if s.Info().Draft == nil {
			r = foretoken.Request{Policy: method.DrafterNone}
		}
		r.Temperature, r.Seed, r.MaxTokens = o.temperature, seed, o.least+rng.IntN(o.most-o.least+1)
		text, err := s.Generate(ctx, start, r, nil)
		if err != nil {
			return sampled{}, err
		}
		if text.Finish == spec.FinishAborted {
			return sampled{}, errInterrupted
		}
		prompt, found := o.cut(s, start+text.Text, goal)
		if prompt == "" || !found && attempt < goalAttempts {
			continue
		}
		tokens := len(s.Tokenizer().Encode(prompt, true))
		return sampled{fmt.Sprintf("sampled-%03d", i), categoryOf(prompt), prompt,
			origin{s.Fingerprint().Target.Name, start, o.temperature, seed, tokens}}, nil
	}
	return sampled{}, fmt.Errorf("%d texts after %q ended before %d tokens; lower --min-tokens, "+
		"or leave that --start out", maxAttempts, start, o.least)
}

// cut shortens a text to its last line of the wanted category, or else to its last line end. It returns "" if no
// such prefix is long enough.
func (o *sampleOptions) cut(s *session, text, goal string) (prompt string, found bool) {
	if strings.ContainsRune(text, utf8.RuneError) {
		return "", false
	}
	for end := len(text); end > 0; end = strings.LastIndexByte(text[:end-1], '\n') + 1 {
		if text[end-1] != '\n' {
			continue
		}
		if len(s.Tokenizer().Encode(text[:end], true)) < o.least {
			break
		}
		if categoryOf(text[:end]) == goal {
			return text[:end], true
		}
		if prompt == "" {
			prompt = text[:end]
		}
	}
	return prompt, false
}

// categories are the kinds of a prompt's last line.
var categories = []string{"comment", "error", "function", "struct", "table", "statement"}

// categoryOf classifies the last line of a Go text. Code that mentions errors is of the category error.
func categoryOf(prompt string) string {
	lines := strings.Split(strings.TrimRight(prompt, "\n \t"), "\n")
	last := strings.TrimSpace(lines[len(lines)-1])
	switch {
	case strings.HasPrefix(last, "//"):
		return "comment"
	case strings.Contains(last, "err") || strings.Contains(last, "panic("):
		return "error"
	case strings.HasPrefix(last, "func "):
		return "function"
	case strings.HasPrefix(last, "type ") || strings.Contains(last, "struct {"):
		return "struct"
	case strings.HasSuffix(last, "(") || strings.HasSuffix(last, ",") || strings.HasPrefix(last, "const") ||
		strings.HasPrefix(last, "var"):
		return "table"
	}
	return "statement"
}

// tally formats counts sorted by name.
func tally(counts map[string]int) string {
	var words []string
	for _, name := range slices.Sorted(maps.Keys(counts)) {
		words = append(words, fmt.Sprintf("%s %d", name, counts[name]))
	}
	return strings.Join(words, ", ")
}

func interruptedOr(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return errInterrupted
	}
	return err
}
