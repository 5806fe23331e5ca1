//go:build !js

package main

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"

	"foretoken/internal/quote"
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
		at, rest, _ := cmd.Root().Find(names)
		if len(rest) > 0 {
			return nil, usagef("there is no command %s; foretoken help lists them",
				quote.Name(strings.Join(names[:len(names)-len(rest)+1], " ")))
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

func manCommand(c *console) *cobra.Command {
	var dir string
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "man",
		Short: "Write manual pages",
		Long: `Write a manual page for this program and each of its commands, foretoken.1, foretoken-chat.1 and so on,
in the format that man reads.`,
		Example: "  foretoken man --out ~/.local/share/man/man1\n" +
			"  man foretoken-serve",
		Args: flagsOnly,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if dir == "" {
				return usagef("--out is missing, want a folder to write the pages to")
			}
			if err := os.MkdirAll(dir, 0o777); err != nil {
				return err
			}
			files, err := writePages(dir, cmd.Root())
			if err != nil {
				return err
			}
			if asJSON {
				return printObject(c, struct {
					Files []string `json:"files"`
				}{files})
			}
			c.note("%d pages in %s", len(files), dir)
			return nil
		},
	}
	cmd.Flags().StringVar(&dir, "out", "", "folder to write to, created if missing")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print one JSON object: files")
	return cmd
}

// writePages writes the pages of a command and its subcommands, and returns their files.
func writePages(dir string, cmd *cobra.Command) ([]string, error) {
	page, err := manualPage(cmd)
	if err != nil {
		return nil, err
	}
	path := filepath.Join(dir, strings.ReplaceAll(cmd.CommandPath(), " ", "-")+".1")
	if err := replaceFile(path, page); err != nil {
		return nil, err
	}
	files := []string{path}
	for _, sub := range cmd.Commands() {
		if !sub.IsAvailableCommand() || sub.IsAdditionalHelpTopicCommand() {
			continue
		}
		more, err := writePages(dir, sub)
		if err != nil {
			return nil, err
		}
		files = append(files, more...)
	}
	return files, nil
}

// manualPage renders a command's page with the sections that cobra's generator lacks.
func manualPage(cmd *cobra.Command) ([]byte, error) {
	long, tag := cmd.Long, cmd.DisableAutoGenTag
	defer func() { cmd.Long, cmd.DisableAutoGenTag = long, tag }()
	cmd.Long, cmd.DisableAutoGenTag = fenceTables(long), true
	var b bytes.Buffer
	if err := doc.GenMan(cmd, &doc.GenManHeader{Source: "foretoken", Manual: "Foretoken's commands"}, &b); err != nil {
		return nil, err
	}
	var more strings.Builder
	more.WriteString(".SH EXIT STATUS\n")
	for _, e := range exitCodes {
		fmt.Fprintf(&more, ".TP\n\\fB%d\\fP\n%s\n", e.code, roff(e.meaning))
	}
	more.WriteString(".SH ENVIRONMENT\n")
	for _, s := range environment {
		fmt.Fprintf(&more, ".TP\n\\fB%s\\fP\n%s\n", s.name, roff(s.meaning))
	}
	before, after, found := strings.Cut(b.String(), "\n.SH SEE ALSO")
	if found {
		after = "\n.SH SEE ALSO" + after
	}
	return []byte(strings.TrimRight(before, "\n") + "\n" + more.String() + strings.TrimPrefix(after, "\n")), nil
}

func roff(text string) string { return strings.NewReplacer(`\`, `\e`, "-", `\-`).Replace(text) }

// fenceTables fences paragraphs with columns, so that their lines stay apart.
func fenceTables(text string) string {
	paragraphs := strings.Split(text, "\n\n")
	for i, p := range paragraphs {
		if strings.Contains(p, "  ") {
			paragraphs[i] = "```\n" + p + "\n```"
		}
	}
	return strings.Join(paragraphs, "\n\n")
}
