//go:build !js

package main

import (
	"cmp"
	"encoding/csv"
	"io"
	"reflect"
	"slices"
	"strconv"

	"foretoken/bench"
)

// csvMeasures lists the fields of a row that are a mean and a standard deviation. Columns have their JSON names.
var csvMeasures = slices.DeleteFunc(reflect.VisibleFields(reflect.TypeFor[bench.Row]()),
	func(f reflect.StructField) bool { return f.Type != reflect.TypeFor[bench.Measure]() })

// writeCSV writes a line for each method and category, "all" for all prompts. Values that were not measured are
// empty, and so are deviations of fewer than two repetitions.
func writeCSV(w io.Writer, report *bench.Report) error {
	out := csv.NewWriter(w)
	header := []string{"device", "target", "draft", "method", "lossy", "temperature", "category", "prompts",
		"repetitions"}
	for _, m := range csvMeasures {
		name := m.Tag.Get("json")
		header = append(header, name, name+"_sd")
	}
	if err := out.Write(append(header, "judged")); err != nil {
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
		if err := out.Write(append(line, strconv.Itoa(r.Judged))); err != nil {
			return err
		}
	}
	out.Flush()
	return out.Error()
}
