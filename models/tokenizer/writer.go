package tokenizer

import "strings"

// Bounds of what a Writer searches its text for after every token. Callers refuse more.
const (
	MaxStops     = 16
	MaxStopBytes = 1024 // of one stop string
)

// Writer turns committed tokens into text: complete characters only, and nothing beyond the first stop string. It holds
// text back that may still become a stop string.
type Writer struct {
	stream *stream
	ends   Ends
	held   string   // may still become a stop string
	pieces []string // of the tokens since Take
}

// Ends lists the conditions that end a text.
type Ends struct {
	Stops   []string // the text ends before the first of these: at most MaxStops, each of 1 to MaxStopBytes bytes
	Include bool     // the text ends after that stop string, not before it
	// Until, if not nil, gets the text of each token and ends the text after the token for which it returns true. It
	// gets no text that may still become a stop string.
	Until func(text string) bool
}

// NewWriter begins a text that continues after the ids of a prompt.
func (t *Tokenizer) NewWriter(prompt []int32, ends Ends) *Writer {
	return &Writer{stream: t.newStream(prompt), ends: ends}
}

// Write adds tokens up to the one that ends the text. It returns how many it added and whether the text ended.
func (w *Writer) Write(tokens []int32) (n int, ended bool) {
	w.pieces = w.pieces[:0]
	for i, id := range tokens {
		w.held += w.stream.push(id)
		safe := w.find()
		if ended = safe >= 0; !ended {
			safe = len(w.held) - w.partial()
		}
		w.pieces = append(w.pieces, w.held[:safe])
		w.held = w.held[safe:]
		if ended || w.ends.Until != nil && w.ends.Until(w.pieces[i]) {
			w.held = ""
			w.stream.flush() // drops the beginning of a character
			return i + 1, true
		}
	}
	return len(tokens), false
}

// find returns where the first stop string in the held text ends the text, or -1. Of two that begin at one place, the
// shorter is first.
func (w *Writer) find() int {
	first, stop := -1, ""
	for _, s := range w.ends.Stops {
		at := strings.Index(w.held, s)
		if at >= 0 && (first < 0 || at < first || at == first && len(s) < len(stop)) {
			first, stop = at, s
		}
	}
	if first >= 0 && w.ends.Include {
		return first + len(stop)
	}
	return first
}

// partial returns the length of the longest suffix of the held text that begins a stop string.
func (w *Writer) partial() int {
	longest := 0
	for _, s := range w.ends.Stops {
		for n := min(len(s)-1, len(w.held)); n > longest; n-- {
			if strings.HasSuffix(w.held, s[:n]) {
				longest = n
			}
		}
	}
	return longest
}

// Take returns the text of each token of the last Write. At the end of the text the held text joins the last one, or is
// alone where there is none.
func (w *Writer) Take(end bool) []string {
	pieces := w.pieces
	w.pieces = w.pieces[len(w.pieces):]
	if end {
		if len(pieces) == 0 {
			pieces = append(pieces, "")
		}
		pieces[len(pieces)-1] += w.held + w.stream.flush()
		w.held = ""
	}
	return pieces
}
