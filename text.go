package foretoken

import (
	"strings"

	"foretoken/models/tokenizer"
)

// writer turns committed tokens into text: whole characters only, and nothing
// from where a stop string begins. Text that may still become a stop string is
// held back until the next tokens decide.
type writer struct {
	stream *tokenizer.Stream
	stops  []string
	guide  *guide // nil without constraints
	whole  bool   // the text ended because its grammar lets nothing follow
	held   string
	pieces []string // of the tokens cut has seen since take
}

func newWriter(stream *tokenizer.Stream, stops []string) *writer {
	return &writer{stream: stream, stops: stops}
}

// cut is spec.Options.Cut: it writes the tokens up to the one that completes a stop string or
// after which a grammar lets nothing follow.
func (w *writer) cut(tokens []int32) (n int, stop bool) {
	whole := w.guide.whole(tokens)
	if whole > 0 {
		tokens = tokens[:whole]
	}
	n, stop = w.write(tokens)
	if w.whole = whole > 0 && !stop; w.whole {
		return whole, true
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

// find is where the first stop string begins in the held text, or -1.
func (w *writer) find() int {
	first := -1
	for _, s := range w.stops {
		if at := strings.Index(w.held, s); at >= 0 && (first < 0 || at < first) {
			first = at
		}
	}
	return first
}

// partial is the length of the longest end of the held text that begins a stop string.
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

// take returns the pieces of the tokens last written. At the end of the text what is held
// back joins the last one.
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
