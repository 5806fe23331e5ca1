//go:build !js

package main

import (
	"encoding/csv"
	"io"
	"strconv"

	"foretoken/bench"
)

// csvMeasures lists the columns with a mean and a standard deviation.
var csvMeasures = []struct {
	name string
	of   func(*bench.Row) bench.Measure
}{
	{"speedup", func(r *bench.Row) bench.Measure { return r.Speedup }},
	{"speed_ratio", func(r *bench.Row) bench.Measure { return r.SpeedRatio }},
	{"tok_s", func(r *bench.Row) bench.Measure { return r.TokS }},
	{"acceptance_length", func(r *bench.Row) bench.Measure { return r.AcceptanceLength }},
	{"calls", func(r *bench.Row) bench.Measure { return r.Calls }},
	{"tokens", func(r *bench.Row) bench.Measure { return r.Tokens }},
	{"output_tokens", func(r *bench.Row) bench.Measure { return r.Output }},
	{"drafted", func(r *bench.Row) bench.Measure { return r.Drafted }},
	{"accepted", func(r *bench.Row) bench.Measure { return r.Accepted }},
	{"relaxed", func(r *bench.Row) bench.Measure { return r.Relaxed }},
	{"draft_ms", func(r *bench.Row) bench.Measure { return r.DraftMS }},
	{"verify_ms", func(r *bench.Row) bench.Measure { return r.VerifyMS }},
	{"readback_ms", func(r *bench.Row) bench.Measure { return r.ReadbackMS }},
	{"host_ms", func(r *bench.Row) bench.Measure { return r.HostMS }},
	{"same_prefix", func(r *bench.Row) bench.Measure { return r.SamePrefix }},
	{"same_place", func(r *bench.Row) bench.Measure { return r.SamePlace }},
	{"loss", func(r *bench.Row) bench.Measure { return r.Loss }},
	{"parses", func(r *bench.Row) bench.Measure { return r.Parses }},
}

// writeCSV writes a line for each method and category, "all" for all prompts. Values that were not measured are
// empty, and so are deviations of fewer than two repetitions.
func writeCSV(w io.Writer, report *bench.Report) error {
	out := csv.NewWriter(w)
	header := []string{"device", "target", "draft", "method", "lossy", "temperature", "category", "prompts",
		"repetitions"}
	for _, m := range csvMeasures {
		header = append(header, m.name, m.name+"_sd")
	}
	if err := out.Write(append(header, "judged")); err != nil {
		return err
	}
	number := func(x float64) string { return strconv.FormatFloat(x, 'g', -1, 64) }
	for i := range report.Rows {
		r := &report.Rows[i]
		category := r.Category
		if category == "" {
			category = "all"
		}
		line := []string{report.Device, report.Target, report.Draft, r.Method, strconv.FormatBool(r.Lossy),
			number(r.Temperature), category,
			strconv.Itoa(r.Prompts), strconv.Itoa(r.Calls.N)}
		for _, m := range csvMeasures {
			value, sd := "", ""
			if v := m.of(r); v.N > 0 {
				value = number(v.Mean)
				if v.N > 1 {
					sd = number(v.SD)
				}
			}
			line = append(line, value, sd)
		}
		if err := out.Write(append(line, strconv.Itoa(r.Judged))); err != nil {
			return err
		}
	}
	out.Flush()
	return out.Error()
}
