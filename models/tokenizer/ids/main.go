// Command ids reads lines of JSON, each with a GGUF file and texts, and writes a line for each: the ids of the texts
// and the tokens that end one, or why the file is refused. scripts/tokenizers.mjs compares them with llama.cpp's.
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"

	"foretoken/internal/files"
	"foretoken/internal/strictjson"
	"foretoken/models/gguf"
	"foretoken/models/tokenizer"
)

type question struct {
	File  string   `json:"file"`
	Texts []string `json:"texts"`
}

type answer struct {
	IDs    [][]int32 `json:"ids"`
	Tokens int       `json:"tokens"`
	Ends   []int32   `json:"ends"`
	Note   string    `json:"note"`
	Error  string    `json:"error"`
}

func main() {
	if err := run(os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "ids:", err)
		os.Exit(1)
	}
}

func run(in io.Reader, out io.Writer) error {
	scan := bufio.NewScanner(in)
	scan.Buffer(nil, 64<<20)
	write := json.NewEncoder(out)
	for scan.Scan() {
		var q question
		if err := strictjson.Decode(scan.Bytes(), &q); err != nil {
			return err
		}
		a, err := encode(q)
		if err != nil {
			a.Error = err.Error()
		}
		if err := write.Encode(a); err != nil {
			return err
		}
	}
	return scan.Err()
}

func encode(q question) (a answer, err error) {
	src, err := files.Open(q.File)
	if err != nil {
		return a, err
	}
	defer src.Close()
	f, err := gguf.Open(src)
	if err != nil {
		return a, err
	}
	tok, err := tokenizer.New(f)
	if err != nil {
		return a, err
	}
	a.Tokens, a.Ends, a.Note = tok.VocabSize(), tok.EndIDs(), tok.Note()
	for _, text := range q.Texts {
		a.IDs = append(a.IDs, tok.Encode(text, false))
	}
	return a, nil
}
