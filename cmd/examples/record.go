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
		// The first run is slower: its programs are new.
		if _, err := record(ctx, s, e.Prompt, small()); err != nil {
			return nil, err
		}
		b, err := record(ctx, s, e.Prompt, small())
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

// small returns a request that drafts trees small enough to be watched.
func small() foretoken.Request {
	r := request(method.DrafterEAGLE2)
	r.Depth, r.TopK, r.Nodes = 4, 4, 12
	return r
}

// temperatures are those of the playground.
func temperatures() []float64 { return []float64{0, 0.5, 1, 1.5} }

// large returns a request that drafts large trees. The playground shows what smaller ones of them would have kept.
func large(temperature float64) foretoken.Request {
	r := request(method.DrafterEAGLE2)
	r.Depth, r.TopK, r.Nodes, r.Temperature = 7, 8, 48, temperature
	return r
}

// playgroundFile returns the file with the playground's run at a temperature.
func playgroundFile(temperature float64) string {
	return fmt.Sprintf("web/src/playground/recorded/temperature-%v.trace", temperature)
}

// record returns the trace of a run.
func record(ctx context.Context, s *foretoken.Session, prompt string, r foretoken.Request) ([]byte, error) {
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
