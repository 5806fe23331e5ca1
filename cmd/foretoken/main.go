//go:build !js

// Command foretoken decodes language models speculatively on this machine's GPU,
// or without one, and looks into model files and adapters.
//
// Its exit codes are in help.go. Every error is one line on standard error.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"golang.org/x/term"

	"foretoken/bench"
	"foretoken/internal/hint"
	"foretoken/internal/quote"
	"foretoken/spec"
	"foretoken/webgpu"
)

func main() {
	os.Exit(run(untilSignal(), system(), os.Args[1:]))
}

// untilSignal returns a context that ends with the first Ctrl-C, SIGTERM or SIGHUP. The second Ctrl-C or SIGTERM kills
// the program. A second SIGHUP does nothing, because a terminal that closes sends several.
func untilSignal() context.Context {
	ctx, cancel := context.WithCancelCause(context.Background())
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	if !signal.Ignored(syscall.SIGHUP) { // nohup ignores it, and Notify would undo that
		signal.Notify(signals, syscall.SIGHUP)
	}
	go func() {
		s := <-signals
		signal.Reset(os.Interrupt, syscall.SIGTERM)
		cancel(stopSignal{s})
	}()
	return ctx
}

// stopSignal is the cause of a context that a signal ended.
type stopSignal struct{ os.Signal }

func (s stopSignal) Error() string { return "signal: " + s.String() }

// exitCode returns 128 and the number of the signal, as shells count.
func (s stopSignal) exitCode() int { return 128 + int(s.Signal.(syscall.Signal)) }

// console holds the streams of a command; tests replace them with buffers.
type console struct {
	in       io.Reader
	out, err io.Writer
	// Whether each stream is a terminal.
	inTerminal, outTerminal, errTerminal bool
	colour                               bool   // on out
	tuning                               string // file of the tuning cache; empty for none
}

func system() *console {
	c := &console{in: os.Stdin, out: os.Stdout, err: os.Stderr, inTerminal: term.IsTerminal(int(os.Stdin.Fd())),
		outTerminal: term.IsTerminal(int(os.Stdout.Fd())), errTerminal: term.IsTerminal(int(os.Stderr.Fd()))}
	c.colour = c.outTerminal && os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb"
	if dir, err := os.UserCacheDir(); err == nil {
		c.tuning = filepath.Join(dir, "foretoken", "tuning.json")
	}
	return c
}

// note prints a message that is not an error.
func (c *console) note(format string, args ...any) {
	fmt.Fprintln(c.err, "foretoken: note:", oneLine(fmt.Sprintf(format, args...)))
}

// usageError is a wrong command line.
type usageError struct{ message string }

func (e usageError) Error() string { return e.message }

func usagef(format string, args ...any) error { return usageError{fmt.Sprintf(format, args...)} }

// asUsage turns an error of validation into a usage error, which names fields as flags.
func asUsage(err error) error {
	if err == nil {
		return nil
	}
	if field, ok := errors.AsType[*spec.FieldError](err); ok {
		return usagef("--%s %s", flagOfField(field.Field), field.Reason)
	}
	return usageError{err.Error()}
}

func flagsOnly(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	return usagef("%s takes flags only, and %s is none: see %s --help", cmd.Name(), quote.Text(args[0]),
		cmd.CommandPath())
}

// modelArguments asks for one to most model files or folders.
func modelArguments(most int) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) == 0 {
			return usagef("%s needs a model, a file or a folder: %s", cmd.Name(), cmd.UseLine())
		}
		if len(args) > most {
			return usagef("%s takes %d model, not %d: %s", cmd.Name(), most, len(args), cmd.UseLine())
		}
		return nil
	}
}

var errInterrupted = errors.New("interrupted")

func run(ctx context.Context, c *console, args []string) int {
	began := false
	root := rootCommand(c, &began)
	root.SetArgs(append([]string{}, args...)) // nil would select the program's own arguments
	err := unknownCommand(root, args)
	if err == nil {
		err = root.ExecuteContext(ctx)
	}
	if err == nil {
		return exitOK
	}
	err = inWords(root, args, err)
	fmt.Fprintln(c.err, "foretoken:", oneLine(err.Error()))
	if _, usage := errors.AsType[usageError](err); usage || !began {
		return exitUsage
	}
	if !errors.Is(err, errInterrupted) {
		return exitError
	}
	if stopped, ok := errors.AsType[stopSignal](context.Cause(ctx)); ok {
		return stopped.exitCode()
	}
	return exitInterrupted
}

// rootCommand builds the command line. It sets began when a command runs: an error before that is a usage error.
func rootCommand(c *console, began *bool) *cobra.Command {
	cobra.EnableCommandSorting = false // what people do first comes first
	root := &cobra.Command{
		Use:   "foretoken",
		Short: "Speculative decoding of language models, exact to the token",
		Long: `To begin with:

  foretoken generate --prompt 'func Close() {'  continue a prompt
  foretoken chat --target MODEL.gguf            talk to a model
  foretoken serve                               answer programs written for OpenAI's API
  foretoken bench --prompts prompts.jsonl       measure what speculation gains here

Without --target, generate, serve and bench run the built-in pair of models, which write Go.`,
		SilenceUsage:       true,
		SilenceErrors:      true,
		DisableSuggestions: true, // cobra's take several lines: see inWords
		PersistentPreRun:   func(*cobra.Command, []string) { *began = true },
	}
	root.AddCommand(generateCommand(c), chatCommand(c), serveCommand(c), benchCommand(c), methodsCommand(c),
		devicesCommand(c), doctorCommand(c), inspectCommand(c), convertCommand(c), catalogCommand(c),
		samplePromptsCommand(c),
		calibrateCommand(c), trainCommand(c), manCommand(c), versionCommand(c))
	root.SetHelpFunc(func(cmd *cobra.Command, _ []string) {
		if err := showManual(c.out, cmd); err != nil {
			c.note("help was cut off: %v", err)
		}
	})
	root.SetHelpCommand(helpCommand(c))
	completeFlags(root)
	root.SetIn(c.in)
	root.SetOut(c.out)
	root.SetErr(c.err)
	return root
}

// unknownCommand refuses a wrong command of a group, such as train, for which cobra shows the group's manual.
func unknownCommand(root *cobra.Command, args []string) error {
	cmd, rest, err := root.Find(args)
	if err != nil || !cmd.HasParent() || !cmd.HasSubCommands() || len(rest) == 0 || strings.HasPrefix(rest[0], "-") {
		return nil
	}
	return usagef("unknown command %s for %q", quote.Text(rest[0]), cmd.CommandPath())
}

// inWords says what cobra and pflag found wrong without words of Go, and which command or flag was probably meant.
func inWords(root *cobra.Command, args []string, err error) error {
	if value, ok := errors.AsType[*pflag.InvalidValueError](err); ok {
		flag := value.GetFlag()
		return usagef("--%s is %s, want %s", flag.Name, quote.Text(value.GetValue()), kindOf(flag.Value.Type()))
	}
	cmd, rest, _ := root.Find(args)
	if errors.Is(err, webgpu.ErrTimeout) && cmd.Flags().Lookup("device-timeout") != nil {
		return fmt.Errorf("%w; give a slow device a longer --device-timeout", err)
	}
	var names []string
	if flag, ok := errors.AsType[*pflag.NotExistError](err); ok {
		wrong := flag.GetSpecifiedName()
		if short := flag.GetSpecifiedShortnames(); short != "" { // -prompt
			wrong = short
		}
		cmd.Flags().VisitAll(func(f *pflag.Flag) { names = append(names, "--"+f.Name) })
		return fmt.Errorf("%w%s", err, hint.DidYouMean(wrong, names))
	}
	if len(rest) == 0 || !cmd.HasSubCommands() {
		return err
	}
	for _, sub := range cmd.Commands() {
		names = append(names, sub.Name())
	}
	return fmt.Errorf("%w%s", err, hint.DidYouMean(rest[0], names))
}

// kindOf describes the values of a flag by its type in pflag.
func kindOf(flag string) string {
	switch flag {
	case "float64":
		return "a number"
	case "int":
		return "a whole number"
	case "uint64":
		return "a whole number of 0 or more"
	case "bool":
		return "true or false"
	case "int32Slice":
		return "whole numbers with commas between them"
	case "bias":
		return "ID=ADD, such as 15=-100"
	case "JSON":
		return "JSON such as [[4],[2,1]]"
	case "duration":
		return "a time such as 30s or 2m"
	}
	return "a " + flag
}

// printObject prints a command's result as one line of JSON.
func printObject(c *console, v any) error { return printIndented(c, "", v) }

func printIndented(c *console, indent string, v any) error {
	enc := json.NewEncoder(c.out)
	enc.SetEscapeHTML(false) // code is full of <, > and &
	enc.SetIndent("", indent)
	return enc.Encode(v)
}

// mostShown bounds the bytes of a message. No message of this program is as long: a longer one quotes a file or a
// server.
const mostShown = 2000

// oneLine joins the lines of a message (a shader error shows its source on a second line), drops the prefixes of
// this program's own packages, and escapes what could steer a terminal, since messages name files and devices.
func oneLine(message string) string {
	for _, prefix := range []string{"foretoken: ", "spec: "} {
		message = strings.TrimPrefix(message, prefix)
	}
	var lines []string
	for line := range strings.Lines(message) {
		if line = strings.TrimSpace(line); line != "" {
			lines = append(lines, line)
		}
	}
	return quote.Escape(strings.Join(lines, ": "), mostShown)
}

func versionCommand(c *console) *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "version",
		Short: "Print the versions that this program was built from",
		Args:  flagsOnly,
		RunE: func(*cobra.Command, []string) error {
			v := bench.ThisProgram()
			if asJSON {
				return printObject(c, v)
			}
			_, err := fmt.Fprintf(c.out, "foretoken %s, %s, %s/%s\n", strings.TrimSpace(v.Version+" "+v.Revision),
				v.Go, v.OS, v.Arch)
			return err
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print one JSON object: version, revision, go, os, arch")
	return cmd
}
