package main

import (
	"bytes"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/andybalholm/brotli"
	"github.com/klauspost/compress/gzip"
)

// encodeLimit is the largest file that is compressed while serving.
const encodeLimit = 64 << 20

// codec holds encoded bodies: the .br and .gz files that the build wrote, and the encodings made here where it did not.
type codec struct {
	mu     sync.Mutex
	bodies map[string]*body // by root, name and encoding
}

type body struct {
	once  sync.Once
	etag  string // of the file it was made from
	bytes []byte
	err   error
}

// compressible reports whether compressing files of this kind is worth it.
// Models are not: quantised weights do not shrink, and they are read by ranges.
func compressible(ext string) bool {
	kinds := []string{".html", ".js", ".mjs", ".css", ".json", ".jsonl", ".map", ".txt", ".svg", ".wasm"}
	return slices.Contains(kinds, ext)
}

// negotiate picks the encoding for an Accept-Encoding header: "br", "gzip", or
// "" for the file as it is. Brotli wins among equals, being smaller.
func negotiate(accept string) string {
	quality := map[string]float64{}
	for part := range strings.SplitSeq(accept, ",") {
		name, params, _ := strings.Cut(strings.TrimSpace(part), ";")
		q := 1.0
		if value, ok := strings.CutPrefix(strings.ReplaceAll(params, " ", ""), "q="); ok {
			parsed, err := strconv.ParseFloat(value, 64)
			if err != nil {
				continue
			}
			q = parsed
		}
		quality[strings.ToLower(strings.TrimSpace(name))] = q
	}
	best, bestQ := "", 0.0
	for _, name := range []string{"br", "gzip"} {
		q, ok := quality[name]
		if !ok {
			q = quality["*"]
		}
		if q > bestQ {
			best, bestQ = name, q
		}
	}
	if bestQ < quality["identity"] {
		return ""
	}
	return best
}

// encoded returns the file's bytes in an encoding. A second request for the
// same body waits for the first instead of compressing again.
func (c *codec) encoded(root *os.Root, name string, info fs.FileInfo, etag, encoding string) (*body, error) {
	key := root.Name() + "\x00" + name + "\x00" + encoding
	c.mu.Lock()
	b := c.bodies[key]
	if b == nil || b.etag != etag {
		b = &body{etag: etag}
		c.bodies[key] = b
	}
	c.mu.Unlock()
	b.once.Do(func() { b.bytes, b.err = encode(root, name, info, encoding) })
	return b, b.err
}

func encode(root *os.Root, name string, info fs.FileInfo, encoding string) ([]byte, error) {
	suffix := map[string]string{"br": ".br", "gzip": ".gz"}[encoding]
	// A sibling older than its file is left over from an earlier build.
	if sibling, err := root.Stat(name + suffix); err == nil && sibling.Mode().IsRegular() &&
		!sibling.ModTime().Before(info.ModTime()) {
		return root.ReadFile(name + suffix)
	}
	if info.Size() > encodeLimit {
		return nil, fmt.Errorf("devserver: %s is too large to compress while serving", name)
	}
	data, err := root.ReadFile(name)
	if err != nil {
		return nil, err
	}
	var out bytes.Buffer
	var w io.WriteCloser
	if encoding == "br" {
		w = brotli.NewWriterLevel(&out, 5)
	} else if w, err = gzip.NewWriterLevel(&out, 6); err != nil {
		return nil, err
	}
	if _, err := w.Write(data); err != nil {
		return nil, err
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	return out.Bytes(), nil
}
