//go:build !js

package main

import (
	"bytes"
	"fmt"
	"io"
	"regexp"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"
)

// Exit codes, on which scripts rely. Help, the manual pages and docs/cli.md describe them with exitCodes.
const (
	exitOK          = 0
	exitError       = 1
	exitUsage       = 2
	exitHangup      = 129 // this and the next ones: see stopSignal.exitCode
	exitInterrupted = 130
	exitBrokenPipe  = 141
	exitTerminated  = 143
)

var exitCodes = []struct {
	code    int
	meaning string
}{
	{exitOK, "success; for serve also a stop by a signal"},
	{exitError, "an error, described by one line on standard error"},
	{exitUsage, "the command line was wrong; nothing was done"},
	{exitHangup, "the terminal closed (SIGHUP); what was printed until then is complete"},
	{exitInterrupted, "interrupted by Ctrl-C (SIGINT); what was printed until then is complete"},
	{exitBrokenPipe, "the reader of standard output went away (SIGPIPE), as head does; what it read is complete"},
	{exitTerminated, "ended by SIGTERM; what was printed until then is complete"},
}

// environment lists the environment variables and files that commands read.
var environment = []struct{ name, meaning string }{
	{keyVariable, "key that requests to foretoken serve must send"},
	{"NO_COLOR", "where it is set, nothing is coloured; TERM=dumb does the same"},
	{"XDG_CACHE_HOME", "folder of foretoken/tuning.json, the cache of kernel choices (default ~/.cache; " +
		"other systems have their own folder)"},
}

// helpCommand replaces cobra's, which exits with 0 for an unknown command.
func helpCommand(c *console) *cobra.Command {
	// find returns the command with these names.
	find := func(cmd *cobra.Command, names []string) (*cobra.Command, error) {
		at := cmd.Root()
		for i, name := range names {
			next := at
			for _, sub := range at.Commands() {
				if sub.Name() == name {
					next = sub
				}
			}
			if next == at {
				return nil, usagef("there is no command %s; foretoken help lists them",
					printable(strings.Join(names[:i+1], " ")))
			}
			at = next
		}
		return at, nil
	}
	return &cobra.Command{
		Use:   "help [COMMAND]",
		Short: "Show the manual of a command",
		RunE: func(cmd *cobra.Command, args []string) error {
			about, err := find(cmd, args)
			if err != nil {
				return err
			}
			return showManual(c.out, about)
		},
		ValidArgsFunction: func(cmd *cobra.Command, args []string, begun string) ([]string, cobra.ShellCompDirective) {
			var names []string
			if at, err := find(cmd, args); err == nil {
				for _, sub := range at.Commands() {
					if sub.IsAvailableCommand() && strings.HasPrefix(sub.Name(), begun) {
						names = append(names, sub.Name()+"\t"+sub.Short)
					}
				}
			}
			return names, cobra.ShellCompDirectiveNoFileComp
		},
	}
}

// manualWidth is the line width of flag descriptions.
const manualWidth = 100

// showManual prints a command's manual in the order of a manual page.
func showManual(w io.Writer, cmd *cobra.Command) error {
	cmd.InitDefaultHelpFlag()
	var b bytes.Buffer
	section := func(title, text string) {
		if text = strings.TrimRight(text, "\n"); text != "" {
			fmt.Fprintf(&b, "%s\n%s\n\n", title, indent(text, "  "))
		}
	}
	section("NAME", cmd.CommandPath()+" - "+cmd.Short)
	uses := []string{}
	if cmd.Runnable() {
		uses = append(uses, cmd.UseLine())
	}
	if cmd.HasAvailableSubCommands() {
		uses = append(uses, cmd.CommandPath()+" COMMAND [flags]")
	}
	section("SYNOPSIS", strings.Join(uses, "\n"))
	section("DESCRIPTION", cmd.Long)
	var commands, codes, variables string
	for _, sub := range cmd.Commands() {
		if sub.IsAvailableCommand() {
			commands += sub.Name() + "\t" + sub.Short + "\n"
		}
	}
	section("COMMANDS", columns(commands))
	section("OPTIONS", dedent(cmd.LocalFlags().FlagUsagesWrapped(manualWidth)))
	section("EXAMPLES", dedent(cmd.Example))
	for _, e := range exitCodes {
		codes += fmt.Sprintf("%d\t%s\n", e.code, e.meaning)
	}
	section("EXIT STATUS", columns(codes))
	if !cmd.HasParent() || cmd.Runnable() {
		for _, s := range environment {
			variables += s.name + "\t" + s.meaning + "\n"
		}
		section("ENVIRONMENT", columns(variables))
	}
	section("SEE ALSO", strings.Join(related(cmd), ", "))
	_, err := w.Write(bytes.TrimSuffix(b.Bytes(), []byte("\n")))
	return err
}

// columns aligns what tabs separate.
func columns(text string) string {
	var b bytes.Buffer
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	fmt.Fprint(w, text)
	w.Flush() // a bytes.Buffer never fails
	return b.String()
}

// related returns the help commands of a command's parent and subcommands.
func related(cmd *cobra.Command) []string {
	var all []string
	for _, c := range append([]*cobra.Command{cmd.Parent()}, cmd.Commands()...) {
		if c != nil && (c == cmd.Parent() || c.IsAvailableCommand()) {
			all = append(all, strings.Replace(c.CommandPath(), "foretoken", "foretoken help", 1))
		}
	}
	return all
}

var (
	lineBegin  = regexp.MustCompile(`(?m)^.`)
	lineIndent = regexp.MustCompile(`(?m)^  `)
)

// indent prefixes every line that is not empty.
func indent(text, by string) string { return lineBegin.ReplaceAllString(text, by+"$0") }

// dedent removes two leading spaces from every line.
func dedent(text string) string { return lineIndent.ReplaceAllString(text, "") }
