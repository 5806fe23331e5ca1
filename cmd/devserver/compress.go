package main

import (
	"io/fs"
	"os"
	"slices"
	"strconv"
	"strings"
)

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

// encoded opens the file that the build compressed in an encoding, or returns nil where there is none. One older than
// its original is left over from an earlier build.
func encoded(root *os.Root, name string, original fs.FileInfo, encoding string) (*os.File, fs.FileInfo) {
	name += map[string]string{"br": ".br", "gzip": ".gz"}[encoding]
	info, err := root.Stat(name)
	if err != nil || !info.Mode().IsRegular() || info.ModTime().Before(original.ModTime()) {
		return nil, nil
	}
	file, err := root.Open(name)
	if err != nil {
		return nil, nil
	}
	return file, info
}
