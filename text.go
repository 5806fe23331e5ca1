package foretoken

import (
	"strings"

	"foretoken/models/tokenizer"
)

// writer turns committed tokens into text: complete characters only, and no text from the start of a stop string on. It
// holds text back that may still become a stop string.
type writer struct {
	stream   *tokenizer.Stream
	stops    []string
	guide    *guide   // nil without constraints
	complete bool     // the text ended because its grammar allows no continuation
	held     string   // may still become a stop string
	pieces   []string // of the tokens since take
}

func newWriter(stream *tokenizer.Stream, stops []string) *writer {
	return &writer{stream: stream, stops: stops}
}

// cut is the callback for spec.Options.Cut: it writes the tokens up to the one that completes a stop string or after
// which the grammar allows no continuation.
func (w *writer) cut(tokens []int32) (n int, stop bool) {
	end := w.guide.complete(tokens)
	if end > 0 {
		tokens = tokens[:end]
	}
	n, stop = w.write(tokens)
	if w.complete = end > 0 && !stop; w.complete {
		return end, true
	}
	return n, stop
}

func (w *writer) write(tokens []int32) (n int, stop bool) {
	w.pieces = w.pieces[:0]
	for i, id := range tokens {
		w.held += w.stream.Push(id)
		if at := w.find(); at >= 0 {
			w.pieces = append(w.pieces, w.held[:at])
			w.held = ""
			return i + 1, true
		}
		safe := len(w.held) - w.partial()
		w.pieces = append(w.pieces, w.held[:safe])
		w.held = w.held[safe:]
	}
	return len(tokens), false
}

// find returns the position of the first stop string in the held text, or -1.
func (w *writer) find() int {
	first := -1
	for _, s := range w.stops {
		if at := strings.Index(w.held, s); at >= 0 && (first < 0 || at < first) {
			first = at
		}
	}
	return first
}

// partial returns the length of the longest suffix of the held text that begins a stop string.
func (w *writer) partial() int {
	longest := 0
	for _, s := range w.stops {
		for n := min(len(s)-1, len(w.held)); n > longest; n-- {
			if strings.HasSuffix(w.held, s[:n]) {
				longest = n
			}
		}
	}
	return longest
}

// take returns the pieces of the tokens last written. At the end of the text the held text joins the last one.
func (w *writer) take(end bool) []string {
	pieces := w.pieces
	w.pieces = w.pieces[len(w.pieces):]
	if end {
		if len(pieces) == 0 {
			pieces = append(pieces, "")
		}
		pieces[len(pieces)-1] += w.held + w.stream.Flush()
		w.held = ""
	}
	return pieces
}
