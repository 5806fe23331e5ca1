//go:build !js

package main

import (
	"cmp"
	"encoding/csv"
	"fmt"
	"io"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"unicode/utf8"

	"foretoken/bench"
	"foretoken/internal/quote"
)

// print writes the tables: one of all methods, or one for each group of a suite.
func (r *benchRun) print(report *bench.Report) error {
	p := &benchPrinter{out: r.c.out, report: report}
	p.line("%s · target %s · draft %s · %s", report.Device, quote.Name(report.Target),
		quote.Name(cmp.Or(report.Draft, "-")), report.Note)
	p.line("speedup: per prompt over plain decoding of the same run, then averaged · τ: tokens per target pass, " +
		"bonus included · ms per round; readback is part of draft and verify")
	if len(r.perMethod) > 0 || len(r.groups) == 0 {
		g := bench.Group{}
		for _, row := range report.Rows {
			if row.Category == "" && (len(r.groups) == 0 || row.Plain || r.own(row.Method)) {
				g.Methods = append(g.Methods, bench.Method{Name: row.Method})
			}
		}
		g.Against = map[string]string{}
		for _, m := range r.perMethod {
			g.Against[m.Name] = m.Against
		}
		for _, m := range r.perMethod {
			if report.Row(m.Name, "") == nil { // it is missing, and the group says why
				g.Methods = append(g.Methods, m)
			}
		}
		p.group(&g)
	}
	for i := range r.groups {
		p.group(&r.groups[i])
	}
	p.lost()
	for _, m := range report.Missing {
		if m.Method == "" {
			p.line("SKIPPED prompt %s: %s", quote.Name(m.Prompt), m.Reason)
		}
	}
	return p.err
}

func (r *benchRun) own(method string) bool {
	return slices.ContainsFunc(r.perMethod, func(m bench.Method) bool { return m.Name == method }) // bound: methods
}

// benchPrinter prints a report as text. err is the first error of a write.
type benchPrinter struct {
	out    io.Writer
	report *bench.Report
	err    error
}

func (p *benchPrinter) line(format string, args ...any) {
	if p.err == nil {
		_, p.err = fmt.Fprintf(p.out, format+"\n", args...)
	}
}

// rows returns the measured rows of methods over all prompts.
func (p *benchPrinter) rows(methods []string) (rows []*bench.Row) {
	for _, name := range methods {
		if r := p.report.Row(name, ""); r != nil {
			rows = append(rows, r)
		}
	}
	return rows
}

// grid writes a table, whose columns but the first are aligned to the right. Columns whose cells are all empty are left
// out.
func (p *benchPrinter) grid(header []string, rows [][]string) {
	var keep []int
	for col := range header {
		if slices.ContainsFunc(rows, func(r []string) bool { return r[col] != "" }) { // bound: each cell once
			keep = append(keep, col)
		}
	}
	longest := 0
	all := append([][]string{header}, rows...)
	for _, row := range all {
		longest = max(longest, utf8.RuneCountInString(row[0]))
	}
	var text strings.Builder
	w := tabwriter.NewWriter(&text, 0, 0, 2, ' ', tabwriter.AlignRight)
	for _, row := range all {
		for _, col := range keep {
			cell := row[col]
			if col == 0 {
				cell = fmt.Sprintf("%-*s", longest, cell)
			}
			fmt.Fprintf(w, "%s\t", cell)
		}
		fmt.Fprintln(w)
	}
	w.Flush()
	for line := range strings.Lines(text.String()) {
		p.line("%s", strings.TrimRight(line, " \n"))
	}
}

// rowName returns a row's name, marked when the method is lossy.
func rowName(r *bench.Row) string {
	if r.Lossy {
		return quote.Name(r.Method) + lossyMark
	}
	return quote.Name(r.Method)
}

// measure formats a mean and, if the repetitions differ, its standard deviation.
func measure(m bench.Measure, digits int) string {
	if m.N == 0 {
		return ""
	}
	s := strconv.FormatFloat(m.Mean, 'f', digits, 64)
	if m.SD > 0.5*math.Pow10(-digits) {
		s += " ±" + strconv.FormatFloat(m.SD, 'f', digits, 64)
	}
	return s
}

// counted formats a proportion with its interval in percent.
func counted(p bench.Proportion) string {
	if p.N == 0 {
		return ""
	}
	return fmt.Sprintf("%d/%d (%.0f-%.0f)", p.K, p.N, 100*p.Low, 100*p.High)
}

func percent(m bench.Measure) string {
	m.Mean, m.SD = 100*m.Mean, 100*m.SD
	return measure(m, 1)
}

// change formats the relative difference of two means, in percent.
func change(now, base bench.Measure) string {
	if now.N == 0 || base.N == 0 || base.Mean == 0 {
		return ""
	}
	return fmt.Sprintf("%+.1f", 100*(now.Mean/base.Mean-1))
}

// group writes the tables of a group.
func (p *benchPrinter) group(g *bench.Group) {
	var names []string
	for _, m := range g.Methods {
		names = append(names, m.Name)
	}
	rows := p.rows(names)
	p.line("")
	if g.Name != "" {
		p.line("%s: %s", g.Name, g.Title)
	}
	if g.Note != "" {
		p.line("  %s", g.Note)
	}
	defer p.missing(func(method string) bool { return slices.Contains(names, method) }) // bound: methods
	if len(rows) == 0 {
		p.line("  none of its rows was measured")
		return
	}
	p.means(g, rows)
	p.ratios(g, rows)
	if categories := p.report.Categories(); len(categories) > 1 {
		p.byCategory("speedup", rows, categories, func(r, _ *bench.Row) string { return measure(r.Speedup, 2) }, nil)
		p.byCategory("τ", rows, categories, func(r, _ *bench.Row) string { return measure(r.AcceptanceLength, 2) }, nil)
		if len(g.Against) > 0 {
			p.byCategory("Calls, % against", rows, categories,
				func(r, b *bench.Row) string { return change(r.Calls, b.Calls) }, g.Against)
			p.byCategory("Tokens, % against", rows, categories,
				func(r, b *bench.Row) string { return change(r.Tokens, b.Tokens) }, g.Against)
		}
	}
	p.curve(g)
	p.best(rows)
	for _, f := range g.Figures {
		p.figure(f, rows)
	}
}

// means prints the table over all prompts.
func (p *benchPrinter) means(g *bench.Group, rows []*bench.Row) {
	header := []string{"all prompts", "speedup", "median", "tok/s", "τ", "Calls", "Tokens", "draft ms", "verify ms",
		"readback ms", "host ms", "relaxed", "same prefix %", "same place %", "edits %", "exact", "loss", "parses",
		"type-checks", "worst prompt"}
	var lines [][]string
	for _, r := range rows {
		line := []string{rowName(r), measure(r.Speedup, 2), "", measure(r.TokS, 1), measure(r.AcceptanceLength, 2),
			measure(r.Calls, 0), measure(r.Tokens, 0),
			measure(r.DraftMS, 2), measure(r.VerifyMS, 2), measure(r.ReadbackMS, 2), measure(r.HostMS, 2), "",
			percent(r.SamePrefix), percent(r.SamePlace), percent(r.Edits), counted(r.Exact), measure(r.Loss, 3),
			counted(r.Parses), counted(r.TypeChecks), ""}
		if r.Speedup.N > 1 {
			line[2] = fmt.Sprintf("%.2f", r.Median)
		}
		if r.Lossy {
			line[11] = measure(r.Relaxed, 0)
		}
		if r.Worst != nil && !r.Plain {
			line[19] = fmt.Sprintf("%.2f %s", r.Worst.Speedup, quote.Name(r.Worst.Prompt))
		}
		lines = append(lines, line)
	}
	p.grid(header, lines)
}

// interval formats a ratio with its interval, marked where the interval holds 1.
func interval(i bench.Interval) string {
	if i.N == 0 {
		return ""
	}
	s := fmt.Sprintf("%.3f (%.3f-%.3f)", i.Ratio, i.Low, i.High)
	if i.Low <= 1 && i.High >= 1 {
		s += " ="
	}
	return s
}

// ratios prints the ratios of rows to what they are compared with, with intervals.
func (p *benchPrinter) ratios(g *bench.Group, rows []*bench.Row) {
	var lines [][]string
	for _, r := range rows {
		for _, to := range r.Ratios {
			if base := g.Against[r.Method]; base == to.Against || base == "" && !r.Plain && len(r.Ratios) == 1 {
				lines = append(lines, []string{rowName(r), interval(to.Calls), interval(to.Tokens),
					interval(to.AcceptanceLength), interval(to.Speed), fmt.Sprintf("%d × %d", to.Calls.N, to.Seeds),
					quote.Name(to.Against)})
			}
		}
	}
	if len(lines) == 0 {
		return
	}
	p.line("")
	p.grid([]string{"ratios (95 %; = holds 1)", "Calls", "Tokens", "τ", "speed", "prompts × seeds", "against"}, lines)
}

// byCategory prints a table of one figure with a column per category. With against, it prints only rows that have a
// baseline.
func (p *benchPrinter) byCategory(what string, rows []*bench.Row, categories []string,
	cell func(r, base *bench.Row) string, against map[string]string) {
	var lines [][]string
	for _, r := range rows {
		if against != nil && against[r.Method] == "" {
			continue
		}
		line := []string{rowName(r)}
		for _, c := range append(slices.Clone(categories), "") {
			row, base := p.report.Row(r.Method, c), p.report.Row(against[r.Method], c)
			if row == nil || against != nil && base == nil {
				line = append(line, "-")
				continue
			}
			line = append(line, cell(row, base))
		}
		lines = append(lines, line)
	}
	if len(lines) == 0 {
		return
	}
	p.line("")
	p.grid(append(append([]string{what}, categories...), "all"), lines)
}

// curve compares rows with the curve of Tokens over acceptance length, at their own acceptance length.
func (p *benchPrinter) curve(g *bench.Group) {
	curve := p.rows(g.Curve)
	if len(curve) < 2 {
		return
	}
	var lines [][]string
	for _, r := range p.rows(g.OnCurve) {
		if r.Calls.Mean == 0 {
			continue
		}
		tokens := r.Tokens.Mean / r.Calls.Mean
		line := []string{rowName(r), fmt.Sprintf("%.2f", r.AcceptanceLength.Mean), fmt.Sprintf("%.2f", tokens),
			"beyond", "-", ""}
		if at, ok := bench.TokensAt(curve, r.AcceptanceLength.Mean); ok {
			line[3], line[4] = fmt.Sprintf("%.2f", at), fmt.Sprintf("%+.1f", 100*(tokens/at-1))
		}
		if i := g.AtEqualLength[r.Method]; i.N > 0 {
			line[5] = fmt.Sprintf("%+.1f to %+.1f", 100*(i.Low-1), 100*(i.High-1))
		}
		lines = append(lines, line)
	}
	if len(lines) > 0 {
		p.line("")
		p.grid([]string{"at equal acceptance length", "τ", "Tokens a pass",
			"those of " + curve[0].Method + " … " + curve[len(curve)-1].Method, "Δ %", "95 %"}, lines)
	}
}

// best compares auto with the best of the other exact methods.
func (p *benchPrinter) best(rows []*bench.Row) {
	var auto, best *bench.Row
	for _, r := range rows {
		switch {
		case r.Method == "auto":
			auto = r
		case !r.Lossy && r.Temperature == 0 && (best == nil || r.Speedup.Mean > best.Speedup.Mean):
			best = r
		}
	}
	if auto == nil || best == nil || auto.Worst == nil || best.Speedup.Mean == 0 {
		return
	}
	p.line("auto: %.3f of the speedup of the best other row, %s; all prompts %.2f (median of the repetitions %.2f); "+
		"worst prompt %.2f (%s); %.0f %% of the prompts below 0.95",
		auto.Speedup.Mean/best.Speedup.Mean, quote.Name(best.Method), auto.Speedup.Mean, auto.Median,
		auto.Worst.Speedup, quote.Name(auto.Worst.Prompt), 100*auto.Slow)
}

// lost prints the rows that miss cells in their times because the device was lost.
func (p *benchPrinter) lost() {
	for i := range p.report.Rows {
		if r := &p.report.Rows[i]; r.Category == "" && r.Lost > 0 {
			p.line("LOST %s: the device was lost during %d of its cells, which count in no time or speed; "+
				"--resume measures them again", rowName(r), r.Lost)
		}
	}
}

// why returns the reason why a method was not measured, with the prompt that showed it.
func why(m bench.Missing) string {
	if m.Prompt == "" {
		return m.Reason
	}
	return "on prompt " + quote.Name(m.Prompt) + ": " + m.Reason
}

// missing lists the methods that were not measured, grouped by reason.
func (p *benchPrinter) missing(of func(method string) bool) {
	var reasons []string
	methods := map[string][]string{}
	for _, m := range p.report.Missing {
		if m.Method == "" || !of(m.Method) {
			continue
		}
		reason := why(m)
		if methods[reason] == nil {
			reasons = append(reasons, reason)
		}
		methods[reason] = append(methods[reason], quote.Name(m.Method))
	}
	for _, reason := range reasons {
		p.line("MISSING %s: %s", strings.Join(methods[reason], ", "), reason)
	}
}

// csvMeasures and csvCounts list the fields of a row that are a mean and a standard deviation, and a proportion.
// Columns have their JSON names.
var csvMeasures, csvCounts = fieldsOf[bench.Measure](), fieldsOf[bench.Proportion]()

// fieldsOf returns the fields of a row that have a type.
func fieldsOf[T any]() []reflect.StructField {
	return slices.DeleteFunc(reflect.VisibleFields(reflect.TypeFor[bench.Row]()),
		func(f reflect.StructField) bool { return f.Type != reflect.TypeFor[T]() })
}

// writeCSV writes a line for each method and category, "all" for all prompts. Values that were not measured are
// empty, and so are deviations of fewer than two repetitions. A proportion has four columns: the count, the number of
// outputs that it is among, and the bounds of its interval.
func writeCSV(w io.Writer, report *bench.Report) error {
	out := csv.NewWriter(w)
	header := []string{"device", "target", "draft", "method", "lossy", "temperature", "category", "prompts",
		"repetitions"}
	for _, m := range csvMeasures {
		name := m.Tag.Get("json")
		header = append(header, name, name+"_sd")
	}
	for _, p := range csvCounts {
		name := p.Tag.Get("json")
		header = append(header, name, name+"_of", name+"_low", name+"_high")
	}
	if err := out.Write(header); err != nil {
		return err
	}
	number := func(x float64) string { return strconv.FormatFloat(x, 'g', -1, 64) }
	for i := range report.Rows {
		r := &report.Rows[i]
		line := []string{report.Device, report.Target, report.Draft, r.Method, strconv.FormatBool(r.Lossy),
			number(r.Temperature), cmp.Or(r.Category, "all"), strconv.Itoa(r.Prompts), strconv.Itoa(r.Calls.N)}
		for _, m := range csvMeasures {
			value, sd := "", ""
			if v := reflect.ValueOf(r).Elem().FieldByIndex(m.Index).Interface().(bench.Measure); v.N > 0 {
				value = number(v.Mean)
				if v.N > 1 {
					sd = number(v.SD)
				}
			}
			line = append(line, value, sd)
		}
		for _, f := range csvCounts {
			p := reflect.ValueOf(r).Elem().FieldByIndex(f.Index).Interface().(bench.Proportion)
			values := []string{"", "", "", ""}
			if p.N > 0 {
				values = []string{strconv.Itoa(p.K), strconv.Itoa(p.N), number(p.Low), number(p.High)}
			}
			line = append(line, values...)
		}
		if err := out.Write(line); err != nil {
			return err
		}
	}
	out.Flush()
	return out.Error()
}
