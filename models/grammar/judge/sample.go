package main

import (
	"bufio"
	"cmp"
	"compress/gzip"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"

	"foretoken/internal/strictjson"
	"foretoken/models/grammar"
)

// sampled is a schema of MaskBench with its tests.
type sampled struct {
	Name   string          `json:"name"`
	Schema json.RawMessage `json:"schema"`
	Tests  []struct {
		Valid bool            `json:"valid"`
		Data  json.RawMessage `json:"data"`
	} `json:"tests"`
}

func readSample(path string) (all []sampled, err error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	lines, err := gzip.NewReader(file)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	scan := bufio.NewScanner(lines)
	scan.Buffer(nil, 64<<20)
	for scan.Scan() {
		var s sampled
		if err := strictjson.DecodeForeign(scan.Bytes(), &s); err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		all = append(all, s)
	}
	return all, scan.Err()
}

// counts of a sample. A schema is right where its verdicts are; without tests where it compiles.
type counts struct {
	Schemas  int            `json:"schemas"`
	Right    int            `json:"right"`
	Written  int            `json:"right_as_written"` // without other orders of members
	Failed   int            `json:"not_compiled"`
	Keywords map[string]int `json:"keywords"` // that were refused
	Refusing int            `json:"refusing"` // schemas that refuse a valid test
	Allowing int            `json:"allowing"` // schemas that allow an invalid one
	Valid    int            `json:"valid"`    // tests of compiled schemas
	Refused  int            `json:"valid_refused"`
	Order    int            `json:"valid_other_order"`
	Invalid  int            `json:"invalid"`
	Allowed  int            `json:"invalid_allowed"`
	Unproved int            `json:"not_judged"` // tests beyond a bound, or unreadable
	Median   float64        `json:"compile_median_us"`
	P99      float64        `json:"compile_p99_us"`
	Slowest  float64        `json:"compile_max_us"`
	Within   float64        `json:"compile_within_20ms"` // a share

	wrong []string
}

// measure judges the schemas. A schema is compiled several times, and the least time counts: others interrupt.
func measure(all []sampled, open bool) *counts {
	const times = 5
	c := &counts{Schemas: len(all), Keywords: map[string]int{}}
	var took []float64
	for _, s := range all {
		q := question{Schema: s.Schema, Open: open}
		for _, t := range s.Tests {
			q.Instances = append(q.Instances, t.Data)
		}
		a := q.answer(times, false)
		took = append(took, a.CompileUS)
		if a.Error != "" {
			c.Failed++
			c.Keywords[keyword(a.Error)]++
			c.wrong = append(c.wrong, s.Name+": "+a.Error)
			continue
		}
		right, written, before := true, true, *c
		for i, verdict := range a.Verdicts {
			ok := c.count(s.Tests[i].Valid, verdict)
			right, written = right && ok, written && ok && verdict != otherOrder
			if !ok {
				c.wrong = append(c.wrong, fmt.Sprintf("%q: instance %d, valid %v: %s %s", s.Name, i, s.Tests[i].Valid,
					verdict, q.stuck(i)))
			}
		}
		if right {
			c.Right++
		}
		if written {
			c.Written++
		}
		if c.Refused > before.Refused {
			c.Refusing++
		}
		if c.Allowed > before.Allowed {
			c.Allowing++
		}
	}
	slices.Sort(took)
	at := func(share float64) float64 { return took[int(share*float64(len(took)-1))] }
	c.Median, c.P99, c.Slowest = at(0.5), at(0.99), at(1)
	within, _ := slices.BinarySearch(took, 20e3)
	c.Within = float64(within) / float64(len(took))
	return c
}

// count adds a verdict and reports whether it is right.
func (c *counts) count(valid bool, verdict string) bool {
	if verdict == beyond || verdict == unreadable {
		c.Unproved++
		return false
	}
	if !valid {
		c.Invalid++
		if verdict != refused {
			c.Allowed++
		}
		return verdict == refused
	}
	c.Valid++
	switch verdict {
	case refused:
		c.Refused++
	case otherOrder:
		c.Order++
	}
	return verdict != refused
}

// keyword is the one that an error names, the last of its place in the schema, or the bound of work.
func keyword(message string) string {
	if strings.Contains(message, "compiling takes more than") {
		return "bound of work"
	}
	_, place, _ := strings.Cut(message, "schema at #")
	place, _, _ = strings.Cut(place, ": ")
	parts := strings.Split(place, "/")
	for _, name := range slices.Backward(parts) {
		for _, k := range grammar.Keywords {
			if k.Name == name { // bound: keywords written out
				return name
			}
		}
	}
	return "other"
}

func (c *counts) byKeyword() (names []string) {
	for name := range c.Keywords {
		names = append(names, name)
	}
	slices.SortFunc(names, func(a, b string) int {
		return cmp.Or(cmp.Compare(c.Keywords[b], c.Keywords[a]), cmp.Compare(a, b))
	})
	return names
}

func (c *counts) print(wrong bool) {
	fmt.Printf("%d schemas: %d right (%.1f %%), %d of them as written; %d not compiled\n", c.Schemas, c.Right,
		100*float64(c.Right)/float64(c.Schemas), c.Written, c.Failed)
	fmt.Printf("%d valid instances: %d refused (%.2f %%), %d in another order; %d invalid: %d allowed; %d not judged\n",
		c.Valid, c.Refused, 100*float64(c.Refused)/float64(max(c.Valid, 1)), c.Order, c.Invalid, c.Allowed, c.Unproved)
	fmt.Printf("compiling: median %.0f µs, 99 %%: %.0f, at most %.0f; %.1f %% within 20 ms\n", c.Median, c.P99,
		c.Slowest, 100*c.Within)
	fmt.Print("not compiled:")
	for _, name := range c.byKeyword() {
		fmt.Printf(" %s %d", name, c.Keywords[name])
	}
	fmt.Println()
	if wrong {
		fmt.Println(strings.Join(c.wrong, "\n"))
	}
}

// stuck shows where the text of an instance leaves the grammar, if it does so as it is written.
func (q *question) stuck(instance int) string {
	g, err := q.compile()
	if err != nil || strictjson.Check(q.Instances[instance]) != nil {
		return ""
	}
	text := read(q.Instances[instance]).text()
	m := grammar.NewMatcher(context.Background(), g, bytesVocab)
	state := m.Start()
	for i := range len(text) {
		var ok bool
		if state, ok = m.Commit(state, int32(text[i])); !ok {
			return text[max(0, i-80):i] + " ⟂ " + text[i:min(len(text), i+40)]
		}
	}
	return text[max(0, len(text)-120):]
}

func judgeSample(path string, open, wrong bool, report string) error {
	all, err := readSample(path)
	if err != nil {
		return err
	}
	c := measure(all, open)
	c.print(wrong)
	if report == "" {
		return nil
	}
	text, err := json.Marshal(c)
	if err != nil {
		return err
	}
	return os.WriteFile(report, text, 0o644)
}
