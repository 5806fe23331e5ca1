//go:build !js

package main

import (
	"cmp"
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/pflag"

	"foretoken/bench"
	"foretoken/internal/quote"
	"foretoken/webgpu"
)

// completeProfile refuses flags that do not apply to a profile, and flags that apply only to one.
func (o *benchOptions) completeProfile(given *pflag.FlagSet) error {
	for _, name := range []string{"suite", "csv", "resume", "compare", "repeat", "per-category", "limit", "artefacts"} {
		if o.profiled && given.Changed(name) {
			return usagef("--%s and --profile exclude each other", name)
		}
	}
	for _, name := range []string{"rows", "beams"} {
		if !o.profiled && given.Changed(name) {
			return usagef("--%s needs --profile", name)
		}
	}
	if !o.profiled || given.Changed("methods") {
		return nil
	}
	o.methods = []string{"none:name=plain,auto"}
	if !o.models.hasDraft() {
		o.methods = []string{"none:name=plain,ngram"}
	}
	return nil
}

// profile prints where time goes instead of comparing methods.
func (o *benchOptions) profile(ctx context.Context, c *console) error {
	prompts, err := promptsFor(o.prompts, 1, o.models.target == "")
	if err != nil {
		return err
	}
	report, err := measureSession(ctx, c, &o.models, "parts",
		func(s *session, progress func(done, total int)) (*bench.ProfileReport, error) {
			return bench.Profile(ctx, s.Session, bench.ProfileOptions{Rows: o.rows, Beams: o.beams,
				Methods: o.perMethod, Prompt: prompts[0].Prompt, Progress: progress})
		})
	if err != nil {
		return err
	}
	if err := printProfile(c, report); err != nil {
		return err
	}
	return writeJSON(o.json, report)
}

// clocks describes how kernels were timed.
var clocks = map[string]string{
	webgpu.ClockTimestamps: "each kernel alone, many times over, by the device's timestamps",
	webgpu.ClockReplays: "each kernel alone, by how long submits of many of it take; " +
		"this device has no timestamps to read",
	webgpu.ClockHost: "each kernel alone, on the host",
}

func printProfile(c *console, r *bench.ProfileReport) error {
	p := &benchPrinter{out: c.out}
	p.line("%s · target %s · draft %s · %d tokens in the cache", r.Device, quote.Name(r.Target),
		quote.Name(cmp.Or(r.Draft, "-")), r.Length)
	p.line("timed %s", clocks[r.Clock])
	var rows [][]string
	ms := func(x float64) string { return fmt.Sprintf("%.2f", x) }
	for _, x := range r.Rounds {
		rows = append(rows, append([]string{quote.Name(x.Method), strconv.Itoa(x.Rounds), ms(x.Tokens), ms(x.MS),
			ms(x.DraftMS), ms(x.VerifyMS), ms(x.ReadbackMS), ms(x.HostMS), ms(x.CPUMS)},
			append(trafficCells(&x.Traffic), fmt.Sprintf("%.0f", x.Allocs), fmt.Sprintf("%.0f", x.AllocBytes))...))
	}
	p.line("")
	p.line("Rounds, ms each. readback is the part of draft and verify spent waiting; cpu is the round less the wait.")
	p.grid(append([]string{"method", "rounds", "tokens", "round", "draft", "verify", "readback", "host", "cpu"},
		append(trafficHeader, "allocs", "bytes allocated")...), rows)
	for _, x := range r.Passes {
		p.line("")
		p.line("%s: %.2f ms, of which %.2f waiting; %d dispatches that take %.2f by themselves", x.Name, x.MS, x.WaitMS,
			x.Dispatches, x.KernelMS)
		t := trafficCells(&x.Traffic)
		p.line("submits %s, readbacks %s, bytes written %s and read %s, created %s", t[0], t[1], t[2], t[3], t[4])
		rows = nil
		for _, k := range x.Kernels {
			rows = append(rows, []string{kernelName(k.Kernel),
				fmt.Sprintf("%d×%d×%d", k.Groups[0], k.Groups[1], k.Groups[2]), strconv.Itoa(k.Calls),
				fmt.Sprintf("%.3f", k.MS), fmt.Sprintf("%.1f %%", 100*k.Share), fmt.Sprintf("%.4f", k.MeanMS)})
		}
		p.grid([]string{"kernel", "workgroups", "calls", "ms", "share", "ms a call"}, rows)
	}
	return p.err
}

// kernelName shortens a kernel's key to its last source, the weight format and its constants.
func kernelName(name string) string {
	last, format := name, ""
	var constants []string
	for word := range strings.FieldsSeq(name) {
		switch unpack, ok := strings.CutPrefix(word, "unpack_"); {
		case strings.Contains(word, "="):
			constants = append(constants, word)
		case ok:
			format = unpack
		case !strings.HasSuffix(word, "params"):
			last = word
		}
	}
	if format != "" {
		constants = append([]string{format}, constants...)
	}
	return strings.Join(append([]string{last}, constants...), " ")
}

var trafficHeader = []string{"submits", "readbacks", "B written", "B read", "created"}

func trafficCells(t *bench.Traffic) []string {
	var cells []string
	for _, x := range []float64{t.Submits, t.Readbacks, t.BytesWritten, t.BytesRead, t.Creations} {
		cells = append(cells, strconv.FormatFloat(x, 'f', digitsOf(x), 64))
	}
	return cells
}

// digitsOf returns the decimals to print: none for integers and for numbers from 1000 on.
func digitsOf(x float64) int {
	if x == float64(int64(x)) || x >= 1000 {
		return 0
	}
	return 2
}
