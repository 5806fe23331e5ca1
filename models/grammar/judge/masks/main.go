// Masks times the masks of grammars over the vocabulary of a model file. It reads lines of {"id", "schema", "open",
// "texts"}, each text canonical JSON, and writes {"id", "us"} for each schema that compiles: the time of the mask at
// each token of each text, in µs. Each text has its matcher, as a request has.
//
//	masks VOCABULARY.gguf <lines
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"runtime"
	"time"

	"foretoken/internal/files"
	"foretoken/internal/strictjson"
	"foretoken/models/gguf"
	"foretoken/models/grammar"
	"foretoken/models/tokenizer"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: masks VOCABULARY.gguf <lines")
		os.Exit(2)
	}
	runtime.GOMAXPROCS(1) // the times are of one core
	if err := run(os.Args[1], os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "masks:", err)
		os.Exit(1)
	}
}

func open(path string) (*tokenizer.Tokenizer, error) {
	src, err := files.Open(path)
	if err != nil {
		return nil, err
	}
	defer src.Close()
	f, err := gguf.Open(src)
	if err != nil {
		return nil, err
	}
	return tokenizer.New(f)
}

func run(path string, in io.Reader, out io.Writer) error {
	tok, err := open(path)
	if err != nil {
		return err
	}
	vocab := grammar.NewVocab(tok.VocabSize(), tok.Piece, tok.EOG)
	scan := bufio.NewScanner(in)
	scan.Buffer(nil, 64<<20)
	write := json.NewEncoder(out)
	for scan.Scan() {
		var q struct {
			ID     string          `json:"id"`
			Schema json.RawMessage `json:"schema"`
			Open   bool            `json:"open"`
			Texts  []string        `json:"texts"`
		}
		if err := strictjson.Decode(scan.Bytes(), &q); err != nil {
			return err
		}
		g, err := compile(q.Schema, q.Open)
		if err != nil {
			continue
		}
		us := []float64{}
		for _, text := range q.Texts {
			if us, err = times(us, g, vocab, tok.Encode(text, false)); err != nil {
				return fmt.Errorf("%q: %q: %w", q.ID, text, err)
			}
		}
		if err := write.Encode(map[string]any{"id": q.ID, "us": us}); err != nil {
			return err
		}
	}
	return scan.Err()
}

// times adds the time in µs of the mask before each token of a text, and of the one at its end.
func times(us []float64, g *grammar.Grammar, vocab *grammar.Vocab, tokens []int32) ([]float64, error) {
	m := grammar.NewMatcher(context.Background(), g, vocab)
	state := m.Start()
	for i := range len(tokens) + 1 {
		begin := time.Now()
		mask := m.Mask(state)
		us = append(us, float64(time.Since(begin).Nanoseconds())/1e3)
		if i == len(tokens) {
			break
		}
		next, ok := m.Commit(state, tokens[i])
		if !ok || mask[tokens[i]/32]>>(tokens[i]%32)&1 == 0 {
			return nil, fmt.Errorf("token %d is not allowed", i)
		}
		state = next
	}
	return us, m.Err()
}
