//go:build !js

package main

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"foretoken"
	"foretoken/internal/quote"
	"foretoken/models/gguf"
	"foretoken/spec"
)

type chatOptions struct {
	generateOptions
	system   string
	template string // file
}

const chatHelp = `/regen        answer the last message again (with the next seed above temperature 0)
/edit N TEXT  replace your message N, drop what came after it, and answer
/reset        begin a new conversation
/quit         leave, as the end of the input does
Anything else is a message; one that begins with / is written with two.`

func chatCommand(c *console) *cobra.Command {
	o := chatOptions{generateOptions: generateOptions{request: foretoken.DefaultRequest()}}
	o.request.MaxTokens = 512
	cmd := &cobra.Command{
		Use:   "chat",
		Short: "Talk to a model that has a chat template",
		Long: "Talk to a model that has a chat template. Each line of standard input is a message,\n" +
			"or one of these:\n\n" + chatHelp + "\n\n" +
			"The answers go to standard output, statistics to standard error. The KV cache of the\n" +
			"conversation is kept: an answer costs only the prefill of the new tokens.",
		Example: "  foretoken chat --target qwen2.5-1.5b.gguf --draft qwen2.5-0.5b.gguf\n" +
			"  foretoken chat --target model.gguf --system 'Answer in one sentence.' < questions.txt",
		Args: flagsOnly,
		RunE: checkedRun(func(given *pflag.FlagSet) error { return o.completeRequest(c, given) },
			func(ctx context.Context) error { return o.run(ctx, c) }),
	}
	f := cmd.Flags()
	o.flags(f)
	f.StringVar(&o.system, "system", "", "system message")
	f.StringVar(&o.template, "chat-template", "",
		"file with a chat template in Jinja (default the one in the target's file)")
	f.BoolVar(&o.json, "json", false,
		"print one JSON object an answer: message, dropped, unseen, prompt_ids, token_ids, text, finish, stats")
	return cmd
}

// readTemplate reads the file of --chat-template. A blank one is no template: the model's own stays in use.
func readTemplate(c *console, path string) (string, error) {
	if path == "" {
		return "", nil
	}
	text, err := readFile(path)
	if err != nil {
		return "", err // it names the file
	}
	if gguf.Blank(string(text)) {
		c.note("--chat-template: %s is blank and holds no template: conversations take the model's own, if it has one",
			quote.Name(path))
		return "", nil
	}
	return string(text), nil
}

func (o *chatOptions) run(ctx context.Context, c *console) error {
	options := foretoken.ChatOptions{System: o.system}
	var err error
	if options.Template, err = readTemplate(c, o.template); err != nil {
		return err
	}
	o.models.useHead, o.models.timed = o.request.NeedsHead(), o.request.Config().WeighsCosts()
	s, err := openSession(ctx, c, &o.models)
	if err != nil {
		return err
	}
	defer s.close()
	t := &conversation{options: options, request: o.request, json: o.json, s: s, c: c}
	if err := t.reset(); err != nil {
		if errors.Is(err, foretoken.ErrNoChatTemplate) {
			return fmt.Errorf("%w; give one with --chat-template, or continue texts with foretoken generate", err)
		}
		return err
	}
	if note := t.chat.Note(); note != "" {
		c.note("%s", note)
	}
	if c.inTerminal && c.errTerminal {
		fmt.Fprintln(c.err, chatHelp)
	}
	lines, failed := readLines(c.in)
	for {
		t.askForInput()
		select {
		case <-ctx.Done():
			return errInterrupted
		case line, ok := <-lines:
			if !ok {
				return <-failed
			}
			if line == "/quit" {
				return nil
			}
			if err := t.handle(ctx, line); errors.Is(err, errInterrupted) || err != nil && !c.inTerminal {
				return err
			} else if err != nil {
				fmt.Fprintln(c.err, "foretoken:", oneLine(err.Error()))
			}
		}
	}
}

// readLines sends the lines of a reader as they come, and then the error that ended it. A blocked read cannot be
// cancelled: the goroutine ends with its input.
func readLines(in io.Reader) (<-chan string, <-chan error) {
	lines, failed := make(chan string), make(chan error, 1)
	go func() {
		scan := bufio.NewScanner(in)
		scan.Buffer(nil, maxInput)
		for scan.Scan() {
			lines <- scan.Text()
		}
		err := scan.Err()
		if errors.Is(err, bufio.ErrTooLong) {
			err = fmt.Errorf("a message of more than %d bytes", maxInput)
		}
		failed <- err
		close(lines)
	}()
	return lines, failed
}

// conversation is an open chat with its settings.
type conversation struct {
	options foretoken.ChatOptions
	request foretoken.Request
	json    bool
	s       *session
	c       *console
	chat    *foretoken.Chat
}

func (t *conversation) reset() error {
	var err error
	t.chat, err = t.s.NewChat(t.options)
	return err
}

func (t *conversation) userMessages() []int {
	var at []int
	for i, m := range t.chat.Messages() {
		if m.Role == foretoken.RoleUser {
			at = append(at, i)
		}
	}
	return at
}

// askForInput prompts for the next message by its number.
func (t *conversation) askForInput() {
	if t.c.inTerminal && t.c.errTerminal {
		fmt.Fprintf(t.c.err, "[%d] > ", len(t.userMessages())+1)
	}
}

func (t *conversation) handle(ctx context.Context, line string) error {
	word, rest, _ := strings.Cut(line, " ")
	switch {
	case strings.TrimSpace(line) == "":
		return nil
	case strings.HasPrefix(line, "//"):
		line = line[1:]
	case word == "/reset":
		return t.reset()
	case word == "/regen":
		if t.request.Temperature > 0 {
			t.request.Seed++
		}
		return t.answer(ctx, func(emit emitter) (*foretoken.Reply, error) {
			return t.chat.Regenerate(ctx, t.request, emit)
		})
	case word == "/edit":
		number, text, _ := strings.Cut(rest, " ")
		mine := t.userMessages()
		n, err := strconv.Atoi(number)
		if err != nil || n < 1 || n > len(mine) || text == "" {
			return fmt.Errorf("/edit takes the number of one of your messages, 1 to %d, and its new text", len(mine))
		}
		return t.answer(ctx, func(emit emitter) (*foretoken.Reply, error) {
			return t.chat.Edit(ctx, mine[n-1], text, t.request, emit)
		})
	case strings.HasPrefix(line, "/"):
		return fmt.Errorf("there is no command %s; the commands are /regen, /edit, /reset and /quit, "+
			"and a message that begins with / is written with two", quote.Name(word))
	}
	return t.answer(ctx, func(emit emitter) (*foretoken.Reply, error) {
		return t.chat.Send(ctx, foretoken.Message{Content: line}, t.request, emit)
	})
}

// emitter receives the rounds of an answer.
type emitter = func(*foretoken.Event) error

// answer prints an answer as it is decoded, or its JSON.
func (t *conversation) answer(ctx context.Context, ask func(emitter) (*foretoken.Reply, error)) error {
	p := textPrinter{out: t.c.out, terminal: t.c.outTerminal, colour: t.c.colour}
	emit := p.event
	if t.json {
		emit = nil
	}
	reply, err := ask(emit)
	if err = cmp.Or(err, p.end()); err != nil {
		return err
	}
	if reply.Dropped > 0 {
		t.c.note("the context is full: the %d oldest of your messages and their answers are no longer seen",
			reply.Unseen)
	}
	if t.json {
		if err := printObject(t.c, reply); err != nil {
			return err
		}
	} else {
		noteUnchecked(t.c, reply.Unchecked)
		fmt.Fprintln(t.c.err, summary(&reply.Stats, t.request.Policy, t.s.Info().Device))
	}
	if reply.Finish == spec.FinishAborted && ctx.Err() != nil {
		return errInterrupted
	}
	return nil
}
