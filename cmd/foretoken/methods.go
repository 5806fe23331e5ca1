//go:build !js

package main

import (
	"fmt"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"foretoken"
	"foretoken/spec"
)

var (
	adapts    = []string{spec.AdaptFixed, spec.AdaptHetero, spec.AdaptC2T, spec.AdaptAcceptance, spec.AdaptAdaEDL, spec.AdaptAssisted, spec.AdaptAdaSD}
	sources   = []string{spec.SourceModel, spec.SourceEAGLE3}
	verifiers = []string{spec.VerifierMatch, spec.VerifierRejection, spec.VerifierWithoutReplacement, spec.VerifierMARS, spec.VerifierAdaSD}
)

// policies are the names that --policy takes.
func policies() []string {
	var names []string
	for _, m := range foretoken.Methods() {
		names = append(names, m.Name)
	}
	return names
}

// methodFlags are the flags of how to draft, adapt and verify.
func methodFlags(f *pflag.FlagSet, r *foretoken.Request) {
	f.StringVar(&r.Policy, "policy", r.Policy, "what to draft; foretoken methods lists the names")
	f.StringVar(&r.Adapt, "adapt", "", "what adapts the draft, "+orList(adapts)+" (default the policy's own)")
	f.StringVar(&r.Source, "source", "", "where drafted tokens come from, model or eagle3 (default the policy's own)")
	f.StringVar(&r.Verifier, "verifier", "", "match (exactly the tokens of plain decoding), rejection or without-replacement (the same distribution), mars or adasd (LOSSY) (default the policy's own)")
	// The defaults of these three depend on the policy: complete puts them in.
	f.IntVar(&r.Depth, "depth", 0, "tokens drafted a round, or for trees levels after the first (default the policy's own)")
	f.IntVar(&r.TopK, "top-k", 0, "trees: candidates of a node and nodes of a level (default the policy's own)")
	f.IntVar(&r.Nodes, "nodes", 0, "trees: nodes verified a round, the root included (default the policy's own)")
	f.Float64Var(&r.Threshold, "threshold", 0, "assisted: confidence; adaedl: bound; c2t: β; acceptance: h (default the method's; acceptance works it out of measured costs)")
	f.Float64Var(&r.Lambda, "lambda", 0, "adaedl: λ (default the method's)")
	f.StringVar(&r.Schedule, "schedule", "", "assisted: heuristic or constant (default heuristic)")
	f.BoolVar(&r.Any, "any", false, "acceptance: stop as soon as one branch is hopeless, not when all are")
	f.BoolVar(&r.OnePruning, "one-pruning", false, "c2t: leave out the second pruning")
	f.Float64Var(&r.Theta, "theta", 0, "mars: accept the second token when its logit is over this part of the first's (default 0.9)")
	f.Float64Var(&r.Gap, "gap", 0, "mars: and at most so many nats below it; 0: no cap")
	f.StringVar(&r.Mode, "mode", "", "mars: alg1 or sampled (default alg1)")
	f.StringVar(&r.Variant, "variant", "", "adasd: midpoint, A, B or C (default midpoint)")
	f.BoolVar(&r.Carry, "carry", false, "adasd: keep the thresholds from prompt to prompt")
}

// checkNames refuses unknown names of the flags above.
func checkNames(r *foretoken.Request) error {
	for _, choice := range []struct {
		flag, value string
		of          []string
	}{
		{"policy", r.Policy, policies()},
		{"adapt", r.Adapt, append([]string{""}, adapts...)},
		{"source", r.Source, append([]string{""}, sources...)},
		{"verifier", r.Verifier, append([]string{""}, verifiers...)},
	} {
		if err := oneOfFlag(choice.flag, choice.value, choice.of); err != nil {
			return err
		}
	}
	return nil
}

// oneOfFlag refuses a value that a flag does not take.
func oneOfFlag(flag, value string, of []string) error {
	for _, known := range of {
		if value == known {
			return nil
		}
	}
	if of[0] == "" {
		of = of[1:]
	}
	return usagef("--%s is %q, want %s", flag, value, orList(of))
}

func orList(names []string) string {
	last := len(names) - 1
	return strings.Join(names[:last], ", ") + " or " + names[last]
}

func methodsCommand(c *console) *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "methods",
		Short: "List the names that --policy takes, with their settings",
		Args:  cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			if asJSON {
				return printObject(c, struct {
					Methods []foretoken.Method `json:"methods"`
				}{foretoken.Methods()})
			}
			w := tabwriter.NewWriter(c.out, 0, 0, 2, ' ', 0)
			fmt.Fprintln(w, "POLICY\tDRAFTER\tADAPT\tVERIFIER\tDEPTH\tTOP-K\tNODES\tWHAT")
			for _, m := range foretoken.Methods() {
				k, title := m.Config, m.Title
				if m.Lossy {
					title += " (lossy)"
				}
				if k.Source == spec.SourceEAGLE3 {
					k.Drafter += "/eagle3"
				}
				fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\n", m.Name, k.Drafter, orDash(k.Adapt), orDash(k.Verifier),
					count(k.Depth), count(k.TopK), count(k.Nodes), title)
			}
			return w.Flush()
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print one JSON object: methods, each with name, title, lossy and config")
	return cmd
}

func orDash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}

func count(n int) string {
	if n == 0 {
		return "-"
	}
	return fmt.Sprint(n)
}
