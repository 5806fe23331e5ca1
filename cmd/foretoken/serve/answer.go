package serve

import (
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"foretoken/openai"
)

// answer is a response in progress, with the fields of its log entry and headers.
type answer struct {
	http.ResponseWriter
	entry  Entry
	pause  time.Duration // that a client may take to read it
	unread bool          // the request's body was not read to its end
}

// WriteHeader begins the answer. A body that was not read by then is never read: the connection closes after the
// answer, and the client cannot hold it by sending slowly.
func (a *answer) WriteHeader(status int) {
	if a.entry.Status == 0 {
		a.entry.Status = status
	}
	control := http.NewResponseController(a.ResponseWriter)
	_ = control.SetWriteDeadline(time.Now().Add(a.pause)) // writers without deadlines need none
	if a.unread {
		a.Header().Set("Connection", "close")
		_ = control.SetReadDeadline(past)
		// A body beyond its bound has the server end its side first, and wait a moment: a connection that is closed
		// with bytes unread may take the answer with it.
		_, _ = http.MaxBytesReader(a.ResponseWriter, io.NopCloser(strings.NewReader("x")), 0).Read(make([]byte, 1))
	}
	a.ResponseWriter.WriteHeader(status)
}

// past is a deadline that ends what waits for it.
var past = time.Unix(1, 0)

// Unwrap lets http.ResponseController reach the connection.
func (a *answer) Unwrap() http.ResponseWriter { return a.ResponseWriter }

// refuse answers with an error.
func (a *answer) refuse(e *openai.Error) {
	a.entry.Code = e.Code
	h := a.Header()
	if e.Retry > 0 {
		h.Set("Retry-After", strconv.Itoa(int((e.Retry+time.Second-1)/time.Second)))
	}
	if e.Status == http.StatusUnauthorized {
		h.Set("WWW-Authenticate", "Bearer")
	}
	_ = a.writeBody(e.Status, e.Body())
}

// writeJSON answers with strings and numbers.
func (a *answer) writeJSON(status int, v any) {
	b, err := openai.Encode(v)
	if err != nil {
		panic(err)
	}
	_ = a.writeBody(status, b)
}

// writeBody answers with JSON.
func (a *answer) writeBody(status int, b []byte) error {
	a.Header().Set("Content-Type", "application/json")
	a.WriteHeader(status)
	if _, err := a.Write(b); err != nil {
		return errGone
	}
	return nil
}

// maxBehind bounds the bytes of a stream that its client has not taken yet.
const maxBehind = 1 << 20

// stream sends events while the next ones are decoded, so a slow reader does not delay other clients. A client that
// falls too far behind, or pauses for too long, loses its answer.
type stream struct {
	to   *answer
	gone func() // ends the request of a client that left

	mu     sync.Mutex
	behind []byte // not written yet
	ended  bool
	failed bool
	more   chan struct{} // holds one when there is something to do
	done   chan struct{}
}

// startStream writes the headers. The caller ends the stream.
func startStream(to *answer, gone func()) *stream {
	h := to.Header()
	h.Set("Content-Type", "text/event-stream; charset=utf-8")
	h.Set("X-Accel-Buffering", "no") // proxies would hold it back
	to.WriteHeader(http.StatusOK)
	s := &stream{to: to, gone: gone, more: make(chan struct{}, 1), done: make(chan struct{})}
	go s.write()
	return s
}

// send adds an event of one line.
func (s *stream) send(line []byte) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.behind)+len(line) > maxBehind {
		s.failed = true
		s.drop()
	}
	if s.failed {
		return errGone
	}
	s.behind = append(append(append(s.behind, "data: "...), line...), "\n\n"...)
	s.wake()
	return nil
}

// end returns when the client has taken everything, or has lost its answer.
func (s *stream) end() error {
	s.mu.Lock()
	s.ended = true
	s.wake()
	s.mu.Unlock()
	<-s.done
	if s.failed {
		return errGone
	}
	return nil
}

// drop has the connection close, and not end as if the answer were complete.
func (s *stream) drop() {
	_ = http.NewResponseController(s.to).SetWriteDeadline(past)
}

func (s *stream) wake() {
	select {
	case s.more <- struct{}{}:
	default:
	}
}

// write takes turns with send.
func (s *stream) write() {
	defer close(s.done)
	control := http.NewResponseController(s.to)
	left := s.to.pause
	for range s.more {
		s.mu.Lock()
		b, ended, failed := s.behind, s.ended, s.failed
		s.behind = nil
		s.mu.Unlock()
		if failed {
			s.drop()
			return
		}
		if len(b) > 0 {
			begun := time.Now()
			_ = control.SetWriteDeadline(begun.Add(max(left, 0)))
			_, err := s.to.Write(b)
			if err == nil {
				err = control.Flush()
			}
			if left -= time.Since(begun); err != nil {
				s.mu.Lock()
				s.failed = true
				s.mu.Unlock()
				s.gone()
				return
			}
		}
		if ended {
			return
		}
	}
}
