//go:build !js

package serve

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"foretoken"
	"foretoken/spec"
	"foretoken/webgpu"
)

const shortText = `{"model": "demo", "prompt": "a", "max_tokens": 1, "user": %q}`

// held makes a server's engine wait in every text until release is called with the number that may go on. begun
// receives the length of each prompt.
func held(w *site) (begun chan int, release func(n int)) {
	begun, pass := make(chan int, 100), make(chan struct{})
	w.engine.OnGenerate = func(ctx context.Context, ids []int32, r foretoken.Request,
		_ func(*foretoken.Event) error) (*foretoken.Result, error) {
		begun <- len(ids)
		select {
		case <-pass:
			return &foretoken.Result{Text: "x", Finish: spec.FinishLength}, nil
		case <-ctx.Done():
			return &foretoken.Result{Finish: spec.FinishAborted}, nil
		}
	}
	return begun, func(n int) {
		for range n {
			pass <- struct{}{}
		}
	}
}

// waits polls until n requests wait: the queue offers no event for it.
func (w *site) waits(n int) {
	w.t.Helper()
	for end := time.Now().Add(5 * time.Minute); time.Now().Before(end); time.Sleep(time.Millisecond) {
		if _, waiting, _ := w.api.queue.state(); waiting == n {
			return
		}
	}
	w.t.Fatalf("%d requests never waited", n)
}

// tokens returns a prompt of n tokens: the tests tell requests apart by it.
func tokens(n int, user string) string {
	return fmt.Sprintf(`{"model": "demo", "prompt": [%s], "user": %q}`,
		strings.TrimSuffix(strings.Repeat("5,", n), ","), user)
}

func TestClientsTakeTurns(t *testing.T) {
	w := serve(t, nil)
	begun, release := held(w)
	var all sync.WaitGroup
	refused := make(chan answered, 1)
	send := func(n int, user string) {
		all.Go(func() {
			if a := w.do("POST", textPath, tokens(n, user)); a.status == 429 && n == 5 {
				refused <- a
			} else if a.status != 200 {
				t.Errorf("request %d: %d %s", n, a.status, a.body)
			}
		})
	}
	send(1, "ann")
	if got := <-begun; got != 1 {
		t.Fatal(got)
	}
	for i, r := range []struct {
		n    int
		user string
	}{{2, "ann"}, {3, "ann"}, {4, "ben"}, {5, "ben"}} {
		send(r.n, r.user)
		w.waits(i + 1)
	}
	// The queue is full: a third user gets a place of one who has two, and those who have one get none.
	send(6, "cid")
	a := <-refused
	code, _, _ := a.refusal(t)
	if seconds, err := strconv.Atoi(a.header.Get("Retry-After")); code != "queue_full" || err != nil || seconds < 1 {
		t.Errorf("%d %s, Retry-After %q", a.status, a.body, a.header.Get("Retry-After"))
	}
	if a := w.do("POST", textPath, tokens(7, "cid")); a.status != 429 {
		t.Errorf("beyond a user's share: %d %s", a.status, a.body)
	}
	if h := w.do("GET", "/health", ""); string(h.body) != `{"status":"ok","busy":true,"waiting":4}` {
		t.Errorf("%s", h.body)
	}
	for _, want := range []int{2, 4, 6, 3} {
		release(1)
		if got := <-begun; got != want {
			t.Errorf("request %d has its turn, want %d", got, want)
		}
	}
	release(1)
	all.Wait()
	if busy, waiting, _ := w.api.queue.state(); busy || waiting != 0 {
		t.Errorf("busy %v, %d waiting", busy, waiting)
	}
}

// TestWaitingClientLeaves gives up a place in the queue with its client.
func TestWaitingClientLeaves(t *testing.T) {
	w := serve(t, nil)
	begun, release := held(w)
	var all sync.WaitGroup
	all.Go(func() { w.do("POST", textPath, tokens(1, "")) })
	<-begun
	ctx, cancel := context.WithCancel(context.Background())
	all.Go(func() {
		if _, err := w.ask(ctx, "POST", textPath, tokens(2, "")); !errors.Is(err, context.Canceled) {
			t.Errorf("%v", err)
		}
	})
	w.waits(1)
	cancel()
	w.waits(0)
	if e := <-w.logged; e.Status != statusGone || e.Code != "client_gone" {
		t.Errorf("logged as %+v", e)
	}
	release(1)
	all.Wait()
}

// TestClientLeavesWhileDecoding reads the beginning of a long text and goes away.
func TestClientLeavesWhileDecoding(t *testing.T) {
	w := serve(t, nil)
	rounds := make(chan int, 1)
	w.engine.OnGenerate = func(ctx context.Context, ids []int32, r foretoken.Request,
		emit func(*foretoken.Event) error) (*foretoken.Result, error) {
		n, after := 0, 0
		result, err := w.engine.Session.GenerateIDs(ctx, ids, r, func(e *foretoken.Event) error {
			if ctx.Err() != nil && e.Round.Finish == "" {
				after++
			}
			err := emit(e)
			if n++; n == 3 {
				<-ctx.Done() // a fast machine finishes the text before it sees the client's disconnect
			}
			return err
		})
		rounds <- after
		return result, err
	}
	ctx, cancel := context.WithCancel(context.Background())
	r, err := w.ask(ctx, "POST", textPath,
		`{"model": "demo", "prompt": "func", "max_tokens": 240, "stream": true, "foretoken": {"policy": "none"}}`)
	if err != nil {
		t.Fatal(err)
	}
	if line, err := bufio.NewReader(r.Body).ReadString('\n'); err != nil || !strings.HasPrefix(line, "data: {") {
		t.Fatalf("%q, %v", line, err)
	}
	cancel()
	r.Body.Close()
	if after := <-rounds; after > 1 {
		t.Errorf("%d rounds after the client left", after)
	}
	if e := <-w.logged; e.Code != "client_gone" {
		t.Errorf("logged as %+v", e)
	}
	w.engine.OnGenerate = nil
	w.complete(textPath, fmt.Sprintf(shortText, ""))
}

// TestHalfClosed sends a request and closes the connection for sending. What needs no wait is answered; a text is not,
// because a client that left does the same, and its answer says why.
func TestHalfClosed(t *testing.T) {
	w := serve(t, nil)
	w.engine.OnGenerate = func(ctx context.Context, _ []int32, _ foretoken.Request,
		emit func(*foretoken.Event) error) (*foretoken.Result, error) {
		if err := emit(&foretoken.Event{Text: "x", Round: &spec.Event{}}); err != nil {
			return nil, err
		}
		<-ctx.Done()
		return &foretoken.Result{Finish: spec.FinishAborted}, nil
	}
	w.engine.OnEmbed = func(ctx context.Context, _ []int32) (*foretoken.Embedding, error) {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	waits := `{"model": "demo", "prompt": [5, 5]}`
	turn, err := w.api.queue.enter(t.Context(), client{})
	if err != nil {
		t.Fatal(err)
	}
	for i, c := range []struct {
		sent, begins, says string
		logged             int
		begun              bool // when its answer has begun
	}{
		{post(textPath, waits), "HTTP/1.1 400 ", `"code":"client_gone"`, 499, false}, // for its turn
		{post(textPath, waits), "HTTP/1.1 400 ", `"code":"client_gone"`, 499, false},
		{post(embedPath, `{"model": "demo", "input": "a"}`), "HTTP/1.1 400 ", `"code":"client_gone"`, 499,
			false},
		{post(textPath, `{"model": "demo", "prompt": [5, 5], "stream": true}`), "HTTP/1.1 200 ",
			`data: {"error":{"message":"the client closed its side`, 499, true},
		{"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n", "HTTP/1.1 200 ", `"status":"ok"`, 200, false},
		{"GET /v1/models HTTP/1.0\r\nHost: localhost\r\n\r\n", "HTTP/1.0 200 ", `"id":"demo"`, 200, false},
	} {
		conn := w.dial("127.0.0.1")
		fmt.Fprint(conn, c.sent)
		_ = conn.SetReadDeadline(time.Now().Add(soon))
		first := make([]byte, len("HTTP/1.1 200 "))
		if !c.begun {
			first = nil
		}
		_, _ = io.ReadFull(conn, first)
		if err := conn.(*net.TCPConn).CloseWrite(); err != nil {
			t.Fatal(err)
		}
		if all, err := io.ReadAll(conn); err != nil || !strings.HasPrefix(string(first)+string(all), c.begins) ||
			!strings.Contains(string(all), c.says) {
			t.Errorf("%.80q: %q, %v", c.sent, all, err)
		}
		if e := <-w.logged; e.Status != c.logged {
			t.Errorf("%.80q: logged as %+v", c.sent, e)
		}
		if i == 0 {
			turn.leave()
		}
	}
}

func TestTimeout(t *testing.T) {
	w := serve(t, func(c *Config) { c.Timeout = 50 * time.Millisecond })
	held(w)
	a := w.do("POST", textPath, tokens(1, ""))
	if code, _, _ := a.refusal(t); a.status != 504 || code != "timeout" {
		t.Errorf("%d %s", a.status, a.body)
	}
	// until it is enough for a first token, as on a busy machine a second may not be
	for limit := time.Second; ; limit *= 4 {
		w = serve(t, func(c *Config) { c.Timeout = limit })
		w.engine.OnGenerate = func(ctx context.Context, _ []int32, _ foretoken.Request,
			emit func(*foretoken.Event) error) (*foretoken.Result, error) {
			if err := emit(&foretoken.Event{Text: "a", Round: &spec.Event{}}); err != nil {
				return nil, err
			}
			<-ctx.Done()
			return &foretoken.Result{Finish: spec.FinishAborted}, nil
		}
		if a = w.do("POST", textPath, `{"model": "demo", "prompt": "a", "stream": true}`); a.status != 504 ||
			limit > time.Minute {
			break
		}
	}
	if text := string(a.body); a.status != 200 || !strings.HasSuffix(text, "\"code\":\"timeout\"}}\n\n") ||
		strings.Contains(text, "DONE") {
		t.Errorf("%d %s", a.status, a.body)
	}
}

func TestDrainAndAbort(t *testing.T) {
	w := serve(t, nil)
	begun, _ := held(w)
	first, second := make(chan answered, 1), make(chan answered, 1)
	go func() { first <- w.do("POST", textPath, tokens(1, "")) }()
	<-begun
	go func() { second <- w.do("POST", textPath, tokens(2, "")) }()
	w.waits(1)
	w.api.Drain()
	for _, a := range []answered{<-second, w.do("POST", textPath, tokens(3, ""))} {
		if code, _, _ := a.refusal(t); a.status != 503 || code != "shutting_down" || a.header.Get("Retry-After") == "" {
			t.Errorf("%d %s", a.status, a.body)
		}
	}
	if h := w.do("GET", "/health", ""); h.status != 503 || !strings.Contains(string(h.body), "shutting_down") {
		t.Errorf("%d %s", h.status, h.body)
	}
	select {
	case a := <-first:
		t.Fatalf("what was decoding ended with %d %s", a.status, a.body)
	default:
	}
	w.api.Abort()
	a := <-first
	if code, _, _ := a.refusal(t); a.status != 503 || code != "shutting_down" {
		t.Errorf("%d %s", a.status, a.body)
	}
	w.api.Wait()
}

func TestEngineErrors(t *testing.T) {
	w := serve(t, nil)
	fails := errors.New("foretoken: it\nbroke")
	w.engine.OnGenerate = func(context.Context, []int32, foretoken.Request,
		func(*foretoken.Event) error) (*foretoken.Result, error) {
		return nil, fails
	}
	a := w.do("POST", textPath, tokens(1, ""))
	code, _, message := a.refusal(t)
	if a.status != 500 || code != "engine_error" || strings.Contains(message, "broke") {
		t.Errorf("%d %s", a.status, a.body)
	}
	if e := <-w.logged; e.Error != "it broke" {
		t.Errorf("%+v", e)
	}
	fails = fmt.Errorf("run: %w", webgpu.ErrDeviceLost)
	for range 2 {
		a := w.do("POST", textPath, `{"model": "demo", "prompt": "a", "stream": true}`)
		if code, _, _ := a.refusal(t); a.status != 503 || code != "device_lost" {
			t.Errorf("%d %s", a.status, a.body)
		}
	}
	if h := w.do("GET", "/health", ""); h.status != 503 {
		t.Errorf("%d %s", h.status, h.body)
	}
}

// TestBodyThatEnds sends less than it promised.
func TestBodyThatEnds(t *testing.T) {
	w := serve(t, nil)
	conn, err := net.Dial("tcp", w.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	fmt.Fprintf(conn, "POST %s HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"+
		"Content-Length: 100\r\n\r\n{", textPath)
	conn.Close()
	if e := <-w.logged; e.Code != "incomplete_request" && e.Code != "client_gone" {
		t.Errorf("logged as %+v", e)
	}
}
