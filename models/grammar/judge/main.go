// Judge says what the grammar of a JSON Schema allows. It reads lines of {"id", "schema", "open", "unchecked",
// "instances"} and writes one for each: {"id", "error", "unchecked", "compile_us", "verdicts"}, a verdict an instance.
//
//	judge [--texts] <lines                          adds the text of each instance that is allowed as it is written
//	judge --sample FILE [--open] [--wrong]          the schemas of MaskBench in FILE, and those that are not right
//	judge --sample FILE [--open] --json OUT         their counts
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"runtime"
	"slices"
	"time"

	"foretoken/internal/strictjson"
	"foretoken/models/grammar"
)

func main() {
	texts := flag.Bool("texts", false, "write the text of each instance that is allowed as it is written")
	sample := flag.String("sample", "", "judge the schemas of this file, MaskBench's as lines in gzip")
	open := flag.Bool("open", false, "read what a schema leaves out as the standard does")
	wrong := flag.Bool("wrong", false, "list the schemas that are not right")
	report := flag.String("json", "", "write the counts to this file")
	flag.Parse()
	runtime.GOMAXPROCS(1) // the times are of one core
	err := errors.New("judge: unexpected arguments; see --help")
	switch {
	case flag.NArg() > 0:
	case *sample == "":
		err = lines(os.Stdin, os.Stdout, *texts)
	default:
		err = judgeSample(*sample, *open, *wrong, *report)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// question is a line to judge.
type question struct {
	ID        json.RawMessage   `json:"id"`
	Schema    json.RawMessage   `json:"schema"`
	Open      bool              `json:"open"`
	Unchecked []string          `json:"unchecked"`
	Instances []json.RawMessage `json:"instances"`
}

type answer struct {
	ID        json.RawMessage `json:"id,omitempty"`
	Error     string          `json:"error,omitempty"`
	Unchecked []string        `json:"unchecked,omitempty"`
	CompileUS float64         `json:"compile_us"`
	Verdicts  []string        `json:"verdicts,omitempty"`
	Texts     []string        `json:"texts,omitempty"` // empty where the verdict is not "allowed"
}

// lines answers the lines of in.
func lines(in io.Reader, out io.Writer, texts bool) error {
	scan := bufio.NewScanner(in)
	scan.Buffer(nil, 64<<20)
	write := json.NewEncoder(out)
	write.SetEscapeHTML(false)
	for scan.Scan() {
		var q question
		a := answer{}
		if err := strictjson.Decode(scan.Bytes(), &q); err != nil {
			a.Error = "judge: the line cannot be read: " + err.Error()
		} else {
			a = q.answer(1, texts)
		}
		if err := write.Encode(a); err != nil {
			return err
		}
	}
	return scan.Err()
}

func (q *question) compile() (*grammar.Grammar, error) {
	return grammar.FromSchema(context.Background(), q.Schema,
		grammar.SchemaOptions{Layout: grammar.Compact, Open: q.Open, Unchecked: q.Unchecked})
}

// answer compiles the schema so many times, for the least of the times, and judges the instances.
func (q *question) answer(times int, texts bool) answer {
	a := answer{ID: q.ID}
	var took []float64
	var g *grammar.Grammar
	for range times {
		begin := time.Now()
		var err error
		g, err = q.compile()
		took = append(took, float64(time.Since(begin).Nanoseconds())/1e3)
		if err != nil {
			a.Error = err.Error()
			break
		}
	}
	a.CompileUS = slices.Min(took)
	if a.Error != "" {
		return a
	}
	a.Unchecked = g.Unchecked()
	for _, raw := range q.Instances {
		verdict, text := unreadable, ""
		if strictjson.Check(raw) == nil {
			v := read(raw)
			if verdict = judge(g, v); verdict == allowed && texts {
				text = v.text()
			}
		}
		a.Verdicts = append(a.Verdicts, verdict)
		if texts {
			a.Texts = append(a.Texts, text)
		}
	}
	return a
}
