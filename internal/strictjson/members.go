package strictjson

import (
	"encoding/json"
	"iter"
	"unsafe"
)

// Members goes over the members of an object without building anything: a value is its part of data, and a name shares
// its memory where nothing in it is escaped, so data must not change. data has passed Check; of what is no object there
// are none.
func Members(data []byte) iter.Seq2[string, []byte] {
	return func(yield func(string, []byte) bool) {
		w := walker{data: data}
		for w.enter('{'); w.at() == '"'; w.skip(',') {
			name := Text(w.value())
			w.skip(':')
			if !yield(name, w.value()) {
				return
			}
		}
	}
}

// Elements goes over the values of a list, as Members does.
func Elements(data []byte) iter.Seq[[]byte] {
	return func(yield func([]byte) bool) {
		w := walker{data: data}
		for w.enter('['); w.at() != ']' && w.at() != 0; w.skip(',') {
			if !yield(w.value()) {
				return
			}
		}
	}
}

// Text returns the text of a string as it stands in checked JSON. It shares the memory where nothing is escaped.
func Text(raw []byte) string {
	inner := raw[1 : len(raw)-1]
	for _, c := range inner {
		if c == '\\' {
			var text string
			_ = json.Unmarshal(raw, &text)
			return text
		}
	}
	return unsafe.String(unsafe.SliceData(inner), len(inner))
}

// walker goes over JSON that was checked.
type walker struct {
	data []byte
	i    int
}

// at returns the next byte that is no white space, 0 at the end.
func (w *walker) at() byte {
	for ; w.i < len(w.data); w.i++ {
		if c := w.data[w.i]; c != ' ' && c != '\n' && c != '\t' && c != '\r' {
			return c
		}
	}
	return 0
}

func (w *walker) skip(c byte) {
	if w.at() == c {
		w.i++
	}
}

// enter goes into an object or list, or to the end where there is none.
func (w *walker) enter(c byte) {
	if w.at() == c {
		w.i++
	} else {
		w.i = len(w.data)
	}
}

// value returns the value that begins here and goes behind it.
func (w *walker) value() []byte {
	w.at()
	from, depth := w.i, 0
	for w.i < len(w.data) {
		switch c := w.data[w.i]; c {
		case '"':
			for w.i++; w.i < len(w.data) && w.data[w.i] != '"'; w.i++ {
				if w.data[w.i] == '\\' {
					w.i++
				}
			}
			w.i++
			if depth == 0 {
				return w.data[from:min(w.i, len(w.data))]
			}
			continue
		case '{', '[':
			depth++
		case '}', ']', ',', ' ', '\n', '\t', '\r':
			if depth == 0 {
				return w.data[from:w.i]
			}
			if c == '}' || c == ']' {
				if depth--; depth == 0 {
					w.i++
					return w.data[from:w.i]
				}
			}
		}
		w.i++
	}
	return w.data[from:]
}
