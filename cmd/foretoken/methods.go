//go:build !js

package main

import (
	"fmt"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"foretoken/spec/method"
)

func methodsCommand(c *console) *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "methods",
		Short: "List the names that --policy takes, with their settings",
		Args:  flagsOnly,
		RunE: func(*cobra.Command, []string) error {
			if asJSON {
				return printObject(c, struct {
					Methods []method.Method `json:"methods"`
				}{method.All()})
			}
			w := tabwriter.NewWriter(c.out, 0, 0, 2, ' ', 0)
			fmt.Fprintln(w, "POLICY\tDRAFTER\tADAPT\tVERIFIER\tDEPTH\tTOP-K\tNODES\tWHAT")
			for _, m := range method.All() {
				k, title := m.Config, m.Title
				if m.Lossy {
					title += " (lossy)"
				}
				if k.Source == method.SourceEAGLE3 {
					k.Drafter += "/eagle3"
				}
				cells := []string{m.Name, k.Drafter, k.Adapt, k.Verifier, fmt.Sprint(k.Depth), fmt.Sprint(k.TopK),
					fmt.Sprint(k.Nodes), title}
				for i, cell := range cells {
					if cell == "" || cell == "0" {
						cells[i] = "-"
					}
				}
				fmt.Fprintln(w, strings.Join(cells, "\t"))
			}
			return w.Flush()
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false,
		"print one JSON object: methods, each with name, title, lossy, config, uses_draft and settings")
	return cmd
}
