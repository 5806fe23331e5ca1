//go:build !js

package main

import (
	"bytes"
	"cmp"
	"encoding/json"
	"io"
	"strings"
	"testing"
	"unicode"

	"foretoken/bench"
	"foretoken/internal/strictjson"
	"foretoken/models/fuzztest"
)

// shown fails if a printed text could steer a terminal.
func shown(t *testing.T, text string) {
	t.Helper()
	if i := strings.IndexFunc(text,
		func(r rune) bool { return r != '\n' && r != '\t' && unicode.IsControl(r) }); i >= 0 {
		t.Fatalf("%.200q is printed", text[i:])
	}
}

// added fails if the summary of valid cells is invalid: of non-negative counts, speeds and times none may be
// negative.
func added(t *testing.T, cells []bench.Cell, r *bench.Report) {
	t.Helper()
	negative := false // a coarse clock may make a cell's times negative
	for i := range cells {
		s := &cells[i].Stats
		negative = negative || min(s.Draft, s.Verify, s.Readback, s.Host) < 0
	}
	for i := range r.Rows {
		row := &r.Rows[i]
		sums := []bench.Measure{row.Speedup, row.SpeedRatio, row.TokS, row.AcceptanceLength, row.Calls, row.Tokens,
			row.Output, row.Drafted, row.Accepted, row.Relaxed, row.SamePrefix, row.SamePlace}
		if !negative {
			sums = append(sums, row.DraftMS, row.VerifyMS, row.ReadbackMS, row.HostMS)
		}
		for _, m := range sums {
			if !(m.Mean >= 0 && m.SD >= 0) || row.Median < 0 {
				t.Fatalf("%+v of %+v", *row, cells)
			}
		}
	}
}

// FuzzBenchCells reads cells as --resume keeps them. Valid ones can be summarised and written in every form.
func FuzzBenchCells(f *testing.F) {
	cell := bench.Cell{Key: "k", Method: "eagle2", Prompt: "a-1", Category: "a", TokS: 3, PlainTokS: 2, Length: 4,
		Figures: &bench.Figures{
			Entropy: bench.Histogram{Width: 0.5, Most: 3, N: []int{2, 1}, Hits: []int{1, 0}},
			Bins: []bench.BinFigures{
				{Bin: 1, Phi: bench.Histogram{Width: 1, Most: 2, N: []int{1}, Hits: []int{1}}}}}}
	cell.Stats.Calls, cell.Stats.OutputTokens, cell.Stats.DepthDrafted, cell.Stats.DepthAccepted = 2, 5,
		[]int{2}, []int{1}
	line, err := json.Marshal(&cell)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(append(line, '\n'))
	for _, text := range []string{`{"key":"k","rep":-1}`, `{"key":"k","rep":2000000000}`,
		`{"key":"k","figures":{"entropy":{"width":1,"most":4,"n":[1]}}}`,
		`{"key":"k","figures":{"entropy":{"most":-1}}}`, `{"key":"k","stats":{"depth_drafted":[1]}}`,
		`{"key":"k","decode_tok_s":1e308,"plain_decode_tok_s":1e-300}`,
		`{"key":"a","decode_tok_s":-1,"plain_decode_tok_s":1}`,
		`{"key":"a","stats":{"calls":1,"rounds":1,"draft_ns":9000000000000000000}}` + "\n" +
			`{"key":"b","stats":{"calls":1,"rounds":1,"draft_ns":9000000000000000000}}`} {
		f.Add([]byte(text + "\n"))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		fuzztest.Bound(t, 16*len(data), func() {
			var cells []bench.Cell
			for line := range bytes.Lines(data) {
				var c bench.Cell
				if err := cmp.Or(strictjson.DecodeForeign(line, &c), c.Validate()); err == nil {
					cells = append(cells, c)
				}
			}
			summary := bench.Summarise(cells)
			if _, err := json.Marshal(summary); err != nil {
				t.Fatal(err)
			}
			added(t, cells, &summary)
			if err := writeCSV(io.Discard, &summary); err != nil {
				t.Fatal(err)
			}
		})
	})
}
