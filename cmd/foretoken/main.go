//go:build !js

// Command foretoken decodes language models speculatively on this machine's GPU,
// or without one, and looks into model files and adapters.
//
// It exits with 0 when all went well, 1 on an error and 2 when it was called
// wrongly. Every error is one line on standard error.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"strings"
	"syscall"

	"github.com/spf13/cobra"
	"golang.org/x/term"
)

const (
	exitOK    = 0
	exitError = 1
	exitUsage = 2
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	// After the first Ctrl-C has asked for an orderly end, the second one kills.
	context.AfterFunc(ctx, stop)
	code := run(ctx, system(), os.Args[1:])
	stop()
	os.Exit(code)
}

// console is the world around a command; tests replace it with buffers.
type console struct {
	in       io.Reader
	out, err io.Writer
	// Whether each is a terminal: a person watches, and drawing is welcome.
	inTerminal, outTerminal, errTerminal bool
	colour                               bool   // on out
	tuning                               string // file of the tuning cache; empty for none
}

func system() *console {
	c := &console{in: os.Stdin, out: os.Stdout, err: os.Stderr,
		inTerminal:  term.IsTerminal(int(os.Stdin.Fd())),
		outTerminal: term.IsTerminal(int(os.Stdout.Fd())),
		errTerminal: term.IsTerminal(int(os.Stderr.Fd()))}
	c.colour = c.outTerminal && os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb"
	if dir, err := os.UserCacheDir(); err == nil {
		c.tuning = filepath.Join(dir, "foretoken", "tuning.json")
	}
	return c
}

// note tells something that is no error.
func (c *console) note(format string, args ...any) {
	fmt.Fprintln(c.err, "foretoken: note:", oneLine(fmt.Sprintf(format, args...)))
}

// usageError is a mistake in how the command was called.
type usageError struct{ message string }

func (e usageError) Error() string { return e.message }

func usagef(format string, args ...any) error { return usageError{fmt.Sprintf(format, args...)} }

// asUsage makes the error of a check of settings one of usage.
func asUsage(err error) error {
	if err == nil {
		return nil
	}
	return usageError{err.Error()}
}

var errInterrupted = errors.New("interrupted")

// run runs one command line and returns the exit code.
func run(ctx context.Context, c *console, args []string) int {
	// What fails before a command runs is a mistake in its arguments.
	began := false
	root := &cobra.Command{
		Use:                "foretoken",
		Short:              "Speculative decoding of language models, exact to the token",
		SilenceUsage:       true,
		SilenceErrors:      true,
		DisableSuggestions: true, // they take several lines
		PersistentPreRun:   func(*cobra.Command, []string) { began = true },
	}
	root.CompletionOptions.HiddenDefaultCmd = true
	root.AddCommand(generateCommand(c), inspectCommand(c), devicesCommand(c), versionCommand(c))
	root.SetArgs(append([]string{}, args...)) // for nil it would take the program's own
	root.SetIn(c.in)
	root.SetOut(c.out)
	root.SetErr(c.err)
	err := root.ExecuteContext(ctx)
	if err == nil {
		return exitOK
	}
	fmt.Fprintln(c.err, "foretoken:", oneLine(err.Error()))
	if usage := (usageError{}); !began || errors.As(err, &usage) {
		return exitUsage
	}
	return exitError
}

// oneLine joins the lines of a message (a shader error shows its source on a
// second one) and drops the prefixes that name this program's own rooms.
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
	return strings.Join(lines, ": ")
}

func versionCommand(c *console) *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print what this program was built from",
		Args:  cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			version, revision := "unknown", ""
			if info, ok := debug.ReadBuildInfo(); ok {
				version = info.Main.Version
				for _, s := range info.Settings {
					if s.Key == "vcs.revision" {
						revision = " " + s.Value[:min(12, len(s.Value))]
					}
				}
			}
			_, err := fmt.Fprintf(c.out, "foretoken %s%s, %s, %s/%s\n", version, revision, runtime.Version(), runtime.GOOS, runtime.GOARCH)
			return err
		},
	}
}
