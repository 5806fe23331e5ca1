//go:build !js

package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"
)

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
	if err := os.WriteFile(path, page, 0o666); err != nil {
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

// roff escapes text for roff.
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
