//go:build !js

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// everyCommand calls a function with each command of the program.
func everyCommand(t *testing.T, visit func(cmd *cobra.Command)) {
	t.Helper()
	var walk func(cmd *cobra.Command)
	walk = func(cmd *cobra.Command) {
		visit(cmd)
		for _, sub := range cmd.Commands() {
			if sub.IsAvailableCommand() && sub.Name() != "completion" && sub.Name() != "help" {
				walk(sub)
			}
		}
	}
	walk(rootCommand(&console{in: strings.NewReader(""), out: io.Discard, err: io.Discard}, new(bool)))
}

func TestHelpTellsAll(t *testing.T) {
	everyCommand(t, func(cmd *cobra.Command) {
		path := strings.Fields(cmd.CommandPath())[1:]
		help := call(t, "", append([]string{"help"}, path...)...)
		flag := call(t, "", append(path, "--help")...)
		if help.code != exitOK || help.out != flag.out || help.err != "" {
			t.Errorf("%v: help and --help differ: %q, %q", path, help.err, flag.err)
		}
		wants := []string{"NAME\n  " + cmd.CommandPath() + " - " + cmd.Short, "\nSYNOPSIS\n", "\nEXIT STATUS\n"}
		cmd.LocalFlags().VisitAll(func(f *pflag.Flag) {
			if !f.Hidden {
				wants = append(wants, "--"+f.Name)
			}
		})
		for _, sub := range cmd.Commands() {
			if sub.IsAvailableCommand() {
				wants = append(wants, "\n  "+sub.Name())
			}
		}
		for _, e := range exitCodes {
			wants = append(wants, fmt.Sprintf("\n  %d ", e.code))
		}
		for _, want := range wants {
			if !strings.Contains("\n"+help.out, want) {
				t.Errorf("%v: no %q in\n%s", path, want, help.out)
			}
		}
		if cmd.Runnable() && cmd.HasParent() && cmd.Flags().Lookup("json") == nil {
			t.Errorf("%v has no --json", path)
		}
	})
	o, last := call(t, ""), 0
	order := []string{"foretoken generate --prompt", "COMMANDS", "\n  generate ", "\n  serve ", "\n  calibrate "}
	for _, want := range order {
		at := strings.Index(o.out, want)
		if o.code != exitOK || at < last {
			t.Errorf("without a command: no %q behind the last in %+v", want, o)
		}
		last = at
	}
}

func TestManualPages(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "new", "man1")
	o := call(t, "", "man", "--out", dir, "--json")
	var made struct{ Files []string }
	if err := json.Unmarshal([]byte(o.out), &made); err != nil || o.code != exitOK {
		t.Fatalf("%v, %+v", err, o)
	}
	n := 0
	everyCommand(t, func(cmd *cobra.Command) {
		n++
		path := filepath.Join(dir, strings.ReplaceAll(cmd.CommandPath(), " ", "-")+".1")
		b, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		page := string(b)
		for _, want := range []string{".TH ", ".SH NAME", ".SH SYNOPSIS", ".SH DESCRIPTION",
			".SH EXIT STATUS\n.TP\n\\fB0\\fP\n", "\\fB130\\fP", ".SH ENVIRONMENT"} {
			if strings.Count(page, want) != 1 {
				t.Errorf("%s: %d times %q", path, strings.Count(page, want), want)
			}
		}
		// A line that begins with a dot or a quote and is no request would be lost.
		for line := range strings.Lines(page) {
			if strings.HasPrefix(line, "'") || strings.HasPrefix(line, ".") && !strings.Contains(
				" .TH .SH .PP .TP .RS .RE .EX .EE .nf .fi .nh .ta .IP ", " "+strings.Fields(line)[0]+" ") {
				t.Errorf("%s: the line %q is no request", path, line)
			}
		}
	})
	if n < 15 || len(made.Files) < n {
		t.Errorf("%d pages for %d commands", len(made.Files), n)
	}
	if b, err := os.ReadFile(filepath.Join(dir, "foretoken-chat.1")); err != nil ||
		!strings.Contains(string(b), "\n/regen        answer") {
		t.Errorf("the commands of a conversation are not in columns: %v", err)
	}
	if o := call(t, "", "man"); o.code != exitUsage {
		t.Errorf("without a folder: %+v", o)
	}
}

func TestCompletion(t *testing.T) {
	for _, shell := range []string{"bash", "zsh", "fish", "powershell"} {
		if o := call(t, "", "completion", shell); o.code != exitOK || !strings.Contains(o.out, "foretoken") ||
			len(o.out) < 1000 {
			t.Errorf("%s: %d, %d bytes, %q", shell, o.code, len(o.out), o.err)
		}
	}
	for _, c := range []struct {
		line []string
		want string
	}{
		{[]string{"se"}, "serve\t"},
		{[]string{"help", "train", ""}, "c2t\t"},
		{[]string{"generate", "--policy", "ea"}, "eagle2\n"},
		{[]string{"serve", "--device", ""}, "cpu\n"},
		{[]string{"bench", "--kv", "f"}, "f16\n"},
		{[]string{"train", "c2t", "--quantise", "q8"}, "q8_0\n"},
		{[]string{"chat", "--target", ""}, "gguf\n"},
		{[]string{"chat", "--target", ""}, ":8"}, // files of these kinds
	} {
		if o := call(t, "", append([]string{"__complete"}, c.line...)...); !strings.Contains(o.out, c.want) {
			t.Errorf("%v: no %q in %q", c.line, c.want, o.out)
		}
	}
	// Only existing flags have values, and they accept them.
	known := map[string]bool{}
	everyCommand(t, func(cmd *cobra.Command) {
		cmd.Flags().VisitAll(func(f *pflag.Flag) { known[f.Name] = true })
	})
	for name := range completions() {
		if !known[name] {
			t.Errorf("no command has a flag --%s", name)
		}
	}
}

func TestJSONOfSmallCommands(t *testing.T) {
	for args, want := range map[string]string{
		"version --json": `"go":"go1.`,
		"methods --json": `{"name":"none","title":"plain decoding","lossy":false,"config":`,
	} {
		o := call(t, "", strings.Fields(args)...)
		if o.code != exitOK || !json.Valid([]byte(o.out)) || strings.Count(o.out, "\n") != 1 ||
			!strings.Contains(o.out, want) {
			t.Errorf("%s: %+v", args, o)
		}
	}
}

// TestExitCodes runs commands that end in each way.
func TestExitCodes(t *testing.T) {
	ended := func(why error) context.Context {
		ctx, cancel := context.WithCancelCause(context.Background())
		cancel(why)
		return ctx
	}
	background := context.Background()
	for _, c := range []struct {
		ctx  context.Context
		args []string
		want int
	}{
		{background, []string{"version"}, exitOK},
		{background, []string{"inspect", "/nowhere.gguf"}, exitError},
		{background, []string{"sing"}, exitUsage},
		{background, []string{"help", "sing"}, exitUsage},
		{background, []string{"version", "--loud"}, exitUsage},
		{background, []string{"inspect"}, exitUsage},
		{background, []string{"generate", "--policy", "magic"}, exitUsage},
		{ended(errors.New("for no reason")), []string{"generate", "--device", "cpu", "--prompt", "a"}, exitInterrupted},
		{ended(stopSignal{os.Interrupt}), []string{"generate", "--device", "cpu", "--prompt", "a"}, exitInterrupted},
		{ended(stopSignal{syscall.SIGHUP}), []string{"generate", "--device", "cpu", "--prompt", "a"}, exitHangup},
		{ended(stopSignal{syscall.SIGTERM}), []string{"generate", "--device", "cpu", "--prompt", "a"}, exitTerminated},
	} {
		var errs strings.Builder
		code := run(c.ctx, &console{in: strings.NewReader(""), out: io.Discard, err: &errs}, c.args)
		if code != c.want || strings.Count(errs.String(), "\n") != min(1, c.want) {
			t.Errorf("%v: code %d, want %d; %q", c.args, code, c.want, errs.String())
		}
	}
	guide, err := os.ReadFile(filepath.Join("..", "..", "docs", "cli.md"))
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range exitCodes {
		if row := fmt.Sprintf("| %d | %s |", e.code, e.meaning); !strings.Contains(string(guide), row) {
			t.Errorf("docs/cli.md has no row %q", row)
		}
	}
	everyCommand(t, func(cmd *cobra.Command) {
		if !strings.Contains(string(guide), cmd.CommandPath()) {
			t.Errorf("docs/cli.md does not speak of %s", cmd.CommandPath())
		}
	})
}
