//go:build !js

package main

import (
	"cmp"
	"fmt"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"foretoken"
	"foretoken/spec/method"
)

var (
	adapts    = method.AdapterNames()
	sources   = method.Sources()
	verifiers = method.VerifierNames()
)

func methodFlags(f *pflag.FlagSet, r *foretoken.Request) {
	own := " (default the policy's own)"
	choice := func(names []string) string { return orList(names) + " (default " + names[0] + ")" }
	of := map[method.Exactness]string{}
	for _, v := range method.Verifiers() {
		of[v.Exactness] = strings.TrimPrefix(of[v.Exactness]+" or "+v.Name, " or ")
	}
	f.StringVar(&r.Policy, "policy", r.Policy, "drafting method; foretoken methods lists the names")
	f.StringVar(&r.Adapt, "adapt", "", "how the draft adapts: "+orList(adapts)+own)
	f.StringVar(&r.Source, "source", "", "where drafted tokens come from, "+orList(sources)+own)
	f.StringVar(&r.Verifier, "verifier", "", of[method.ExactTokens]+" (exactly the tokens of plain decoding), "+
		of[method.ExactDistribution]+" (the same distribution), "+of[method.Lossy]+" (LOSSY)"+own)
	f.IntVar(&r.Depth, method.Depth.Name, 0, method.Depth.Help+own)
	f.IntVar(&r.TopK, method.TopK.Name, 0, method.TopK.Help+own)
	f.IntVar(&r.Nodes, method.Nodes.Name, 0, method.Nodes.Help+own)
	f.Float64Var(&r.Threshold, "threshold", 0, "assisted: confidence; adaedl: bound; c2t: β; acceptance: "+
		"h (default the method's; acceptance derives it from measured costs)")
	f.Float64Var(&r.Lambda, "lambda", 0, "adaedl: λ (default the method's)")
	f.StringVar(&r.Schedule, "schedule", "", "assisted: "+choice(method.Schedules()))
	f.BoolVar(&r.Any, "any", false, "acceptance: stop as soon as one branch is likely lost, not when all are")
	f.BoolVar(&r.OnePruning, "one-pruning", false, "c2t: leave out the second pruning")
	f.Float64Var(&r.Theta, "theta", 0,
		"mars: accept the second token when its logit is over this part of the first's (default 0.9)")
	f.Float64Var(&r.Gap, "gap", 0, "mars: and at most this many nats below it; 0: no cap")
	f.StringVar(&r.Mode, "mode", "", "mars: "+choice(method.Modes()))
	f.StringVar(&r.Variant, "variant", "", "adasd: "+choice(method.Variants()))
	f.BoolVar(&r.Carry, "carry", false, "adasd: keep the thresholds from prompt to prompt")
}

// checkNames refuses unknown names of the flags above.
func checkNames(r *foretoken.Request) error {
	return cmp.Or(oneOfFlag("policy", r.Policy, method.Names()), oneOfFlagOrNone("adapt", r.Adapt, adapts),
		oneOfFlagOrNone("source", r.Source, sources), oneOfFlagOrNone("verifier", r.Verifier, verifiers))
}

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
