//go:build cgo && !js

// Command gpuaudit says what the compilers of GPUs make of the kernels: it compiles them for GPUs that need not be
// there and writes a report, or checks their text.
package main

import (
	"encoding/json"
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"foretoken/audit"
)

func main() {
	if audit.Worker() {
		return
	}
	if err := command().Execute(); err != nil {
		fmt.Fprintln(os.Stderr, "gpuaudit:", err)
		os.Exit(1)
	}
}

// command builds the command line.
func command() *cobra.Command {
	root := &cobra.Command{Use: "gpuaudit", Short: "Say what the compilers of GPUs make of the kernels",
		SilenceUsage: true, SilenceErrors: true}
	var radv string
	report := func(use, short string, of func(radv string) (*audit.Report, error)) *cobra.Command {
		cmd := &cobra.Command{Use: use + " FILE", Short: short, Args: cobra.ExactArgs(1),
			RunE: func(_ *cobra.Command, args []string) error {
				r, err := of(radv)
				if err != nil {
					return err
				}
				return write(args[0], r)
			}}
		cmd.Flags().StringVar(&radv, "radv", "", "library of Mesa's RADV; default: Debian's")
		return cmd
	}
	root.AddCommand(
		report("compile", "Compile every kernel by RADV and write a report", audit.Compile),
		report("tint", "Compare naga's kernels with Chrome's and write a report", audit.CompareTint),
		&cobra.Command{Use: "lint", Short: "Check the text of every kernel by the rules of docs/gpus-d3d12-metal.md",
			Args: cobra.NoArgs, RunE: func(*cobra.Command, []string) error { return audit.Lint() }})
	return root
}

// write writes a report.
func write(file string, r *audit.Report) error {
	text, err := json.Marshal(r)
	if err != nil {
		return err
	}
	return os.WriteFile(file, text, 0o644)
}
