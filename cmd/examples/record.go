//go:build !js

package main

import (
	"bytes"
	"compress/gzip"
	"context"
	"fmt"
	"time"

	"foretoken"
	"foretoken/spec/method"
	"foretoken/trace"
)

const maximum = 8192 // bytes of the recording, gzipped

// recording returns the trace of the example whose run takes the most rounds, by a tree small enough to be watched.
func recording(ctx context.Context, s *foretoken.Session, all []Example) (longest []byte, err error) {
	most := 0
	for _, e := range all {
		if _, err := record(ctx, s, e.Prompt); err != nil { // the first run is slower: its programs are new
			return nil, err
		}
		b, err := record(ctx, s, e.Prompt)
		if err != nil {
			return nil, err
		}
		t, err := trace.Read(b)
		if err != nil {
			return nil, err
		}
		if t.Run > most {
			most, longest = t.Run, b
		}
	}
	if n := zipped(longest); n > maximum {
		return nil, fmt.Errorf("the recording takes %d bytes gzipped, want at most %d", n, maximum)
	}
	return longest, nil
}

// record returns the trace of a run.
func record(ctx context.Context, s *foretoken.Session, prompt string) ([]byte, error) {
	r := request(method.DrafterEAGLE2)
	r.Depth, r.TopK, r.Nodes = 4, 4, 12
	recorder := trace.NewRecorder(s.Tokenizer().Piece)
	recorder.Begin(prompt)
	begin := time.Now()
	_, err := s.Generate(ctx, prompt, r, func(e *foretoken.Event) error {
		recorder.Add(e, time.Since(begin))
		return nil
	})
	return recorder.Bytes(), err
}

// zipped is the size of a file as servers send it.
func zipped(b []byte) int {
	var out bytes.Buffer
	w, _ := gzip.NewWriterLevel(&out, gzip.BestCompression) // the level is a valid one
	_, _ = w.Write(b)                                       // to memory
	_ = w.Close()
	return out.Len()
}
