package serve

import (
	"context"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"os"
	"time"

	"foretoken/openai"
)

// Bodies of more than smallBody bytes take one of maxBodies places until they are tokenised, so that they fit into
// memory.
const (
	smallBody = 64 << 10
	maxBodies = 64
)

// body reads a request that has to be JSON. Other types are refused, too, because a browser sends those to any address
// without asking first. leave gives up the body's place; end cancels the request if another takes it before.
func (s *Server) body(a *answer, r *http.Request, end context.CancelCauseFunc) (b []byte, leave func(),
	_ *openai.Error) {
	leave = func() {}
	kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	if err != nil || kind != "application/json" {
		return nil, leave, openai.Refused(http.StatusUnsupportedMediaType, "unsupported_media_type",
			"the request is of type %s; want application/json", openai.Brief([]byte(r.Header.Get("Content-Type"))))
	}
	if coding := r.Header.Get("Content-Encoding"); coding != "" && coding != "identity" {
		return nil, leave, openai.Refused(http.StatusUnsupportedMediaType, "unsupported_media_type",
			"the request is encoded as %s; send it as it is", openai.Brief([]byte(coding)))
	}
	if r.ContentLength > s.config.MaxBody {
		return nil, leave, tooLarge(s.config.MaxBody)
	}
	control := http.NewResponseController(a)
	_ = control.SetReadDeadline(time.Now().Add(s.limits.body)) // where there is none, the server's own holds
	reader := http.MaxBytesReader(a.ResponseWriter, r.Body, s.config.MaxBody)
	b, err = io.ReadAll(io.LimitReader(reader, smallBody+1))
	if err == nil && len(b) > smallBody {
		busy := &openai.Error{Status: http.StatusTooManyRequests, Type: openai.TypeLimit, Code: "too_many_requests",
			Retry: s.limits.small, Message: "too many large requests are being sent at once; try again later"}
		p := s.bodies.take(addressOf(r.RemoteAddr), func() {
			end(busy)
			_ = control.SetReadDeadline(past)
		})
		if p == nil {
			return nil, leave, busy
		}
		leave = func() { s.bodies.leave(p) }
		var rest []byte
		rest, err = io.ReadAll(reader)
		b = append(b, rest...)
		s.bodies.waiting(p, false)
	}
	if large, ok := errors.AsType[*http.MaxBytesError](err); ok {
		return nil, leave, tooLarge(large.Limit)
	}
	if err != nil {
		why := "the connection ended before its body did"
		if errors.Is(err, os.ErrDeadlineExceeded) {
			why = fmt.Sprintf("its body took more than %v", s.limits.body)
		}
		return nil, leave, openai.Refused(http.StatusRequestTimeout, "incomplete_request",
			"the request did not arrive: %s", why)
	}
	a.unread = false
	_ = control.SetReadDeadline(time.Time{})
	return b, leave, nil
}

func tooLarge(most int64) *openai.Error {
	return openai.Refused(http.StatusRequestEntityTooLarge, "request_too_large", "the request has more than %d bytes",
		most)
}
