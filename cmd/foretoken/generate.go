//go:build !js

package main

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"foretoken"
	"foretoken/internal/quote"
	"foretoken/models/constrain"
	"foretoken/spec"
	"foretoken/spec/method"
	"foretoken/trace"
)

type generateOptions struct {
	models     modelOptions
	request    foretoken.Request
	noCoupling bool
	constraint constraintOptions
	prompts    promptOptions
	json       bool
	trace      string // file to record the rounds in
}

func generateCommand(c *console) *cobra.Command {
	o := generateOptions{request: foretoken.DefaultRequest()}
	cmd := &cobra.Command{
		Use:   "generate",
		Short: "Continue prompts",
		Long: "Continue prompts, with the built-in pair of Go-code models or with GGUF files.\n\n" +
			"The prompt is --prompt, or all of standard input, or each line of --prompt-file.\n" +
			"The text goes to standard output as it is decoded, statistics to standard error.\n" +
			"On a terminal, tokens that were drafted and accepted are coloured.",
		Example: "  foretoken generate --prompt 'func (s *Server) Close() error {'\n" +
			"  foretoken generate --target big.gguf --draft small.gguf --temperature 0.8 --seed 7 < prompt.txt\n" +
			"  foretoken generate --policy none --prompt-file prompts.jsonl --json > plain.jsonl",
		Args: flagsOnly,
		RunE: checkedRun(func(given *pflag.FlagSet) error { return o.complete(c, given) },
			func(ctx context.Context) error { return o.run(ctx, c) }),
	}
	f := cmd.Flags()
	o.flags(f)
	f.StringVar(&o.prompts.text, "prompt", "", "text to continue")
	f.StringVar(&o.prompts.file, "prompt-file", "", "file with one JSON object per line: {\"id\": …, \"prompt\": …}")
	settingFlag(f, spec.Named(foretoken.Settings(), "echo"), &o.request)
	f.BoolVar(&o.json, "json", false, "print one JSON object a prompt: id, prompt_ids, token_ids, text, finish, stats")
	f.StringVar(&o.trace, "trace", "", "record the rounds in this file: what was drafted, what was kept, and the times")
	return cmd
}

func (o *generateOptions) flags(f *pflag.FlagSet) {
	r := &o.request
	o.models.flags(f)
	settingFlags(f, r)
	o.constraint.flags(f)
	f.BoolVar(&o.noCoupling, "no-coupling", false, "above temperature 0, draft without the target's sampling noise")
}

// complete checks the flags and fills in defaults before anything large is opened.
func (o *generateOptions) complete(c *console, given *pflag.FlagSet) error {
	if o.trace != "" && o.prompts.file != "" {
		return usagef("--trace records one prompt: give it by --prompt, not by --prompt-file")
	}
	return cmp.Or(o.completeRequest(c, given), o.prompts.check(c, given), checkFileNames(given, "trace"),
		checkFolders(o.trace))
}

// completeRequest is complete without the prompts.
func (o *generateOptions) completeRequest(c *console, given *pflag.FlagSet) error {
	r := &o.request
	if err := cmp.Or(o.models.check(), o.constraint.complete(&r.Constraints)); err != nil {
		return err
	}
	if !o.models.hasDraft() {
		switch {
		case !given.Changed("policy"):
			r.Policy = method.DrafterNone
			if o.models.draft == "" {
				c.note("--target was given without --draft: decoding without speculation")
			}
		case r.NeedsDraft():
			return usagef("--policy %s needs a draft model: give one with --draft, or use none, "+
				"auto or an n-gram policy", r.Policy)
		}
	}
	if err := cmp.Or(checkMinimums(given, []minimum{{"depth", r.Depth, 1}, {"top-k", r.TopK, 1}, {"nodes", r.Nodes, 2},
		{"context", o.models.context, 1}}), asUsage(r.Validate())); err != nil {
		return err
	}
	o.models.useHead = r.NeedsHead()
	if o.noCoupling {
		r.Coupled = new(false)
	}
	return nil
}

func (o *generateOptions) run(ctx context.Context, c *console) error {
	prompts, err := o.prompts.read(ctx, c)
	if err != nil {
		return err
	}
	s, err := openSession(ctx, c, &o.models)
	if err != nil {
		return err
	}
	defer s.close()
	many := o.prompts.file != ""
	// A bar below text that streams to the same screen would break its lines.
	bar := &bar{}
	if many && (o.json || !c.outTerminal) {
		bar = newBar(c, "prompts", len(prompts))
	}
	defer bar.clear()
	var total spec.Stats
	var unchecked []string
	var stopped error
	for i, p := range prompts {
		if ctx.Err() != nil {
			return fmt.Errorf("%w after %d of %d prompts", errInterrupted, i, len(prompts))
		}
		if many && !o.json {
			bar.clear()
			if i > 0 {
				fmt.Fprintln(c.out)
			}
			fmt.Fprintf(c.out, "==> %s <==\n", quote.Name(p.ID))
		}
		result, err := o.generateOne(ctx, c, s, p.Prompt)
		if err != nil {
			if many {
				return fmt.Errorf("%s: prompt %s: %s", o.prompts.file, quote.Name(p.ID), oneLine(err.Error()))
			}
			return err
		}
		total.Add(&result.Stats)
		unchecked = result.Unchecked // the same of every prompt
		bar.clear()
		if o.json {
			if err := printObject(c, record{p.ID, result}); err != nil {
				return err
			}
		}
		if result.Finish == spec.FinishAborted {
			if stopped = errInterrupted; many {
				stopped = fmt.Errorf("%w in prompt %d of %d, %s", errInterrupted, i+1, len(prompts), quote.Name(p.ID))
			}
			break
		}
		bar.set(i + 1)
	}
	bar.clear()
	if !o.json {
		noteUnchecked(c, unchecked)
		fmt.Fprintln(c.err, summary(&total, o.request.Policy, s.Info().Device))
	}
	return stopped
}

// noteUnchecked names the keywords of --json-schema that a text was not held to.
func noteUnchecked(c *console, pointers []string) {
	if len(pointers) > 0 {
		c.note("unchecked in the schema: %s", strings.Join(pointers, ", "))
	}
}

// generateOne continues one prompt and prints the text as it is decoded unless JSON is wanted. It writes the trace, if
// there is a file for it.
func (o *generateOptions) generateOne(ctx context.Context, c *console, s *session,
	prompt string) (*foretoken.Result, error) {
	p := textPrinter{out: c.out, terminal: c.outTerminal, colour: c.colour}
	rounds := trace.NewRecorder(s.Tokenizer().Piece)
	rounds.Begin(prompt)
	begin := time.Now()
	result, err := s.Generate(ctx, prompt, o.request, func(e *foretoken.Event) error {
		if o.trace != "" {
			rounds.Add(e, time.Since(begin))
		}
		if o.json {
			return nil
		}
		return p.event(e)
	})
	if err = cmp.Or(err, p.end()); err == nil && o.trace != "" {
		err = replaceFile(o.trace, rounds.Bytes())
	}
	return result, err
}

// record is the JSON of a finished prompt.
type record struct {
	ID string `json:"id"`
	*foretoken.Result
}

// constraintOptions are the files that may hold the text of a flag, as in llama.cpp.
type constraintOptions struct{ grammarFile, schemaFile string }

func (o *constraintOptions) flags(f *pflag.FlagSet) {
	f.StringVar(&o.grammarFile, "grammar-file", "", "file with a grammar for --grammar")
	f.StringVar(&o.schemaFile, "json-schema-file", "", "file with a schema for --json-schema")
}

// complete reads the files into c, validates it and compiles its grammar.
func (o *constraintOptions) complete(c *constrain.Constraints) error {
	schema := string(c.JSONSchema)
	if err := cmp.Or(readFlag("grammar", &c.Grammar, o.grammarFile),
		readFlag("json-schema", &schema, o.schemaFile)); err != nil {
		return err
	}
	c.JSONSchema = []byte(schema)
	return asUsage(c.Compile(context.Background()))
}

// readFlag reads the text of a flag from the file of its second form, --NAME-file, if that was given.
func readFlag(name string, text *string, file string) error {
	if file == "" {
		return nil
	}
	if *text != "" {
		return usagef("--%[1]s and --%[1]s-file were given; give one of them", name)
	}
	b, err := readFile(file)
	if err != nil {
		return err
	}
	if *text = string(b); *text == "" {
		return usagef("--%s-file %s is empty", name, file)
	}
	return nil
}
