//go:build !js

package main

import (
	"encoding/csv"
	"io"
	"strconv"

	"foretoken"
)

// csvMeasures are the columns that are a mean and a deviation.
var csvMeasures = []struct {
	name string
	of   func(*foretoken.BenchRow) foretoken.Measure
}{
	{"speedup", func(r *foretoken.BenchRow) foretoken.Measure { return r.Speedup }},
	{"speed_ratio", func(r *foretoken.BenchRow) foretoken.Measure { return r.SpeedRatio }},
	{"tok_s", func(r *foretoken.BenchRow) foretoken.Measure { return r.TokS }},
	{"acceptance_length", func(r *foretoken.BenchRow) foretoken.Measure { return r.AcceptanceLength }},
	{"calls", func(r *foretoken.BenchRow) foretoken.Measure { return r.Calls }},
	{"tokens", func(r *foretoken.BenchRow) foretoken.Measure { return r.Tokens }},
	{"output_tokens", func(r *foretoken.BenchRow) foretoken.Measure { return r.Output }},
	{"drafted", func(r *foretoken.BenchRow) foretoken.Measure { return r.Drafted }},
	{"accepted", func(r *foretoken.BenchRow) foretoken.Measure { return r.Accepted }},
	{"relaxed", func(r *foretoken.BenchRow) foretoken.Measure { return r.Relaxed }},
	{"draft_ms", func(r *foretoken.BenchRow) foretoken.Measure { return r.DraftMS }},
	{"verify_ms", func(r *foretoken.BenchRow) foretoken.Measure { return r.VerifyMS }},
	{"readback_ms", func(r *foretoken.BenchRow) foretoken.Measure { return r.ReadbackMS }},
	{"host_ms", func(r *foretoken.BenchRow) foretoken.Measure { return r.HostMS }},
	{"same_prefix", func(r *foretoken.BenchRow) foretoken.Measure { return r.SamePrefix }},
	{"same_place", func(r *foretoken.BenchRow) foretoken.Measure { return r.SamePlace }},
	{"loss", func(r *foretoken.BenchRow) foretoken.Measure { return r.Loss }},
	{"parses", func(r *foretoken.BenchRow) foretoken.Measure { return r.Parses }},
}

// writeCSV writes a line for each method and category, "all" for all prompts. What was not
// measured is empty, as are deviations of fewer than two repetitions.
func writeCSV(w io.Writer, report *foretoken.BenchReport) error {
	out := csv.NewWriter(w)
	header := []string{"device", "target", "draft", "method", "lossy", "temperature", "category", "prompts", "repetitions"}
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
		line := []string{report.Device, report.Target, report.Draft, r.Method, strconv.FormatBool(r.Lossy), number(r.Temperature), category,
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
