//go:build !js

package main

import (
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"foretoken/models/convert"
	"foretoken/spec"
	"foretoken/webgpu/open"
)

// completions tell a shell what flags of these names take, in whatever command they are.
func completions() map[string][]string {
	return map[string][]string{
		"policy":      policies(),
		"adapt":       adapts,
		"source":      sources,
		"verifier":    verifiers,
		"schedule":    {spec.ScheduleHeuristic, spec.ScheduleConstant},
		"mode":        {spec.MARSAlg1, spec.MARSSampled},
		"variant":     {spec.AdaSDMidpoint, spec.AdaSDA, spec.AdaSDB, spec.AdaSDC},
		"device":      {"auto", open.Accelerator, "cpu"},
		"kv":          kvFormats,
		"quantise":    convert.Types(),
		"type":        convert.Types(),
		"label":       headLabels,
		"start":       {},
		"system":      {},
		"prompt":      {},
		"stop":        {},
		"cors-origin": {},
	}
}

// completeFlags has every command below root complete the values of its flags: names, files of a kind, or
// nothing where people write texts.
func completeFlags(root *cobra.Command) {
	names := completions()
	files := map[string][]string{
		"target": {"gguf", "safetensors"}, "draft": {"gguf", "safetensors"}, "eagle3": {"safetensors"},
		"calibration": {"json"}, "prompt-file": {"jsonl"}, "prompts": {"jsonl"}, "chat-template": {"jinja", "txt"}, "from": {"json"},
	}
	var walk func(cmd *cobra.Command)
	walk = func(cmd *cobra.Command) {
		cmd.LocalFlags().VisitAll(func(f *pflag.Flag) {
			if values, ok := names[f.Name]; ok {
				// It fails only for flags that are not there.
				_ = cmd.RegisterFlagCompletionFunc(f.Name, cobra.FixedCompletions(values, cobra.ShellCompDirectiveNoFileComp))
			} else if extensions, ok := files[f.Name]; ok {
				_ = cmd.MarkFlagFilename(f.Name, extensions...)
			}
		})
		for _, sub := range cmd.Commands() {
			walk(sub)
		}
	}
	walk(root)
}
