//go:build !js

package main

import (
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"foretoken"
	"foretoken/models/convert"
	"foretoken/spec/adapt"
)

// completions lists the values of flags by flag name, for all commands.
func completions() map[string][]string {
	all := map[string][]string{
		"device":          devices,
		"kv":              kvFormats,
		"quantise":        convert.Types(),
		"eagle3-quantise": convert.HeadTypes(),
		"type":            convert.Types(),
		"label":           adapt.Labels(),
		"start":           {},
		"system":          {},
		"prompt":          {},
		"stop":            {},
		"cors-origin":     {},
	}
	for _, s := range foretoken.Settings() {
		if s.Choices != nil {
			all[flagOf(&s)] = s.Choices
		}
	}
	return all
}

// completeFlags registers completions for the flags of all commands below root: names, files of a kind, or nothing
// for free text.
func completeFlags(root *cobra.Command) {
	names := completions()
	files := map[string][]string{
		"target": {"gguf", "safetensors"}, "draft": {"gguf", "safetensors"}, "eagle3": {"gguf", "safetensors"},
		"calibration": {"json"}, "prompt-file": {"jsonl"}, "prompts": {"jsonl"}, "chat-template": {"jinja", "txt"},
		"from": {"json"},
	}
	var walk func(cmd *cobra.Command)
	walk = func(cmd *cobra.Command) {
		cmd.LocalFlags().VisitAll(func(f *pflag.Flag) {
			if values, ok := names[f.Name]; ok {
				// The call fails only for an unknown flag.
				_ = cmd.RegisterFlagCompletionFunc(f.Name,
					cobra.FixedCompletions(values, cobra.ShellCompDirectiveNoFileComp))
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
