//go:build !js

package serve

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"foretoken"
	"foretoken/spec"
)

// soon bounds what has to happen at once, on a busy machine too; the limits that it stands against are longer.
const soon = 20 * time.Second

// dial connects from an address of the loopback range, with a small receive buffer.
func (w *site) dial(address string) net.Conn {
	w.t.Helper()
	d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(address)},
		Control: func(_, _ string, c syscall.RawConn) error {
			return c.Control(func(fd uintptr) {
				_ = syscall.SetsockoptInt(int(fd), syscall.SOL_SOCKET, syscall.SO_RCVBUF, 2048)
			})
		}}
	c, err := d.Dial("tcp", w.Listener.Addr().String())
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() { c.Close() })
	return c
}

// from asks from an address of the loopback range, over a connection of its own, and returns the status; 0: there was
// no answer soon.
func (w *site) from(address, method, path, body string) int {
	w.t.Helper()
	d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(address)}}
	c := http.Client{Timeout: soon, Transport: &http.Transport{DisableKeepAlives: true, DialContext: d.DialContext}}
	r, err := http.NewRequest(method, w.URL+path, strings.NewReader(body))
	if err != nil {
		w.t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	a, err := c.Do(r)
	if err != nil {
		return 0
	}
	defer a.Body.Close()
	_, _ = io.Copy(io.Discard, a.Body)
	return a.StatusCode
}

// post is a request as it is on the wire.
func post(path, body string) string {
	return fmt.Sprintf("POST %s HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"+
		"Content-Length: %d\r\n\r\n%s", path, len(body), body)
}

// TestUnreadAnswers asks for megabytes and reads none: the turn passes on, and the answer is dropped in time.
func TestUnreadAnswers(t *testing.T) {
	t.Attr("attack", "an answer that its client does not read, while others ask")
	t.Attr("bound", "it leaves the turn before it is taken: the others are answered")
	answered := 0
	for _, stream := range []bool{false, true} {
		l := defaultLimits
		l.answer = 50 * time.Second // longer than the others wait
		w := serveWithin(t, l, nil)
		w.engine.OnGenerate = func(ctx context.Context, ids []int32, _ foretoken.Request,
			emit func(*foretoken.Event) error) (*foretoken.Result, error) {
			if len(ids) == 1 {
				return &foretoken.Result{Text: "x", Finish: spec.FinishLength}, nil
			}
			text := strings.Repeat("x", 1<<16)
			for range 12 { // less than a stream may be behind
				if err := emit(&foretoken.Event{Text: text, Round: &spec.Event{}}); err != nil {
					return nil, err
				}
			}
			return &foretoken.Result{Text: strings.Repeat(text, 128), Finish: spec.FinishLength}, nil
		}
		for range 3 {
			fmt.Fprint(w.dial("127.0.0.2"), post(textPath,
				fmt.Sprintf(`{"model": "demo", "prompt": [5, 5], "stream": %v}`, stream)))
		}
		for range 3 {
			if got := w.from("127.0.0.1", "POST", textPath, tokens(1, "")); got != 200 {
				t.Errorf("stream %v: others get %d", stream, got)
			} else {
				answered++
			}
		}
		w.CloseClientConnections()
	}
	t.Attr("measured", fmt.Sprintf("%d of 6 others answered beside 6 that do not read", answered))
}

// TestUnreadAnswersAreDropped waits for the end of an answer that its client does not take, or not fast enough.
func TestUnreadAnswersAreDropped(t *testing.T) {
	t.Attr("attack", "an answer that its client never reads")
	t.Attr("bound", fmt.Sprintf("dropped after %v of pauses, all together, or %d MiB behind in a stream",
		defaultLimits.answer, maxBehind>>20))
	dropped := 0
	for _, events := range []int{0, 12, 100} {
		l := defaultLimits
		if events < 100 {
			l.answer = 100 * time.Millisecond
		}
		w := serveWithin(t, l, nil)
		w.engine.OnGenerate = func(ctx context.Context, ids []int32, _ foretoken.Request,
			emit func(*foretoken.Event) error) (*foretoken.Result, error) {
			text := strings.Repeat("x", 1<<16)
			for range events {
				if err := emit(&foretoken.Event{Text: text, Round: &spec.Event{}}); err != nil {
					return nil, err
				}
			}
			return &foretoken.Result{Text: strings.Repeat(text, 128), Finish: spec.FinishLength}, nil
		}
		c := w.dial("127.0.0.2")
		fmt.Fprint(c, post(textPath, fmt.Sprintf(`{"model": "demo", "prompt": [5], "stream": %v}`, events > 0)))
		select {
		case e := <-w.logged:
			if e.Code != "client_gone" {
				t.Errorf("%d events: logged as %+v", events, e)
			} else {
				dropped++
			}
		case <-time.After(soon):
			t.Errorf("%d events: the answer is kept", events)
		}
		_ = c.SetReadDeadline(time.Now().Add(soon))
		if all, err := io.ReadAll(c); strings.HasSuffix(string(all), "\r\n0\r\n\r\n") {
			t.Errorf("%d events: a part of an answer ends as if it were all, %v", events, err)
		}
	}
	t.Attr("measured", fmt.Sprintf("%d of 3 dropped: a whole answer, a stream that pauses, one far behind", dropped))
}

// TestRefusedBeforeTheBody sends requests whose bodies never come: each is answered at once, and its connection closes.
func TestRefusedBeforeTheBody(t *testing.T) {
	t.Attr("attack", "a refused request whose body never comes, or more of it than is read")
	t.Attr("bound", "answered before its body, and its connection closes")
	refused := 0
	l := defaultLimits
	l.body = 10 * time.Minute
	w := serveWithin(t, l, func(c *Config) { c.MaxBody = 1 << 20 })
	const json, body = "Content-Type: application/json\r\n", "Content-Length: 1000\r\n"
	for _, head := range []string{
		"POST /v1/edits HTTP/1.1\r\nHost: localhost\r\n" + json + body,
		"POST " + textPath + " HTTP/1.1\r\nHost: evil.example\r\n" + json + body,
		"POST " + textPath + " HTTP/1.1\r\nHost: localhost\r\nOrigin: http://evil.example\r\n" + json + body,
		"POST " + textPath + " HTTP/1.1\r\nHost: localhost\r\nContent-Type: text/plain\r\n" + body,
		"POST " + textPath + " HTTP/1.1\r\nHost: localhost\r\nContent-Encoding: gzip\r\n" + json + body,
		"POST " + textPath + " HTTP/1.1\r\nHost: localhost\r\n" + json + "Content-Length: 1048577\r\n",
		"POST /v1/edits HTTP/1.1\r\nHost: localhost\r\n" + json + "Content-Length: 300000\r\n",
		"POST /v1/edits HTTP/1.1\r\nHost: localhost\r\n" + json + "Transfer-Encoding: chunked\r\n",
		"GET /health HTTP/1.1\r\nHost: localhost\r\n" + body,
		"GET /v1/models HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n",
		"DELETE /v1/models HTTP/1.1\r\nHost: localhost\r\n" + body,
		"OPTIONS * HTTP/1.1\r\nHost: localhost\r\n" + body,
		"OPTIONS * HTTP/1.1\r\nHost: evil.example\r\n" + body,
		"POST /v1/edits HTTP/1.1\r\nHost: localhost\r\nExpect: 100-continue\r\n" + json + body,
	} {
		refused++
		c := w.dial("127.0.0.1")
		fmt.Fprint(c, head+"\r\n")
		_ = c.SetReadDeadline(time.Now().Add(soon))
		answer, err := io.ReadAll(c)
		if err != nil || !strings.HasPrefix(string(answer), "HTTP/1.1 ") ||
			!strings.Contains(string(answer), "Connection: close") {
			t.Errorf("%q: %q, %v", head, answer, err)
		}
		if evil := strings.Contains(head, "evil"); evil != strings.Contains(string(answer), "403 Forbidden") {
			t.Errorf("%q: %q", head, answer)
		}
	}
	if c := w.dial("127.0.0.1"); true { // what comes before the answer may be much, and the answer arrives
		_ = c.SetDeadline(time.Now().Add(soon))
		fmt.Fprint(c, "POST /v1/edits HTTP/1.1\r\nHost: localhost\r\nContent-Length: 200000\r\n\r\n"+
			strings.Repeat(" ", 100000))
		if line, err := bufio.NewReader(c).ReadString('\n'); !strings.Contains(line, "404") {
			t.Errorf("%q, %v", line, err)
		}
	}
	t.Attr("measured", fmt.Sprintf("%d kinds of requests", refused))
}

// TestConnectionsAreShared holds many connections from one address, each in a phase of its own.
func TestConnectionsAreShared(t *testing.T) {
	t.Attr("attack", "many connections of one address, in any phase")
	t.Attr("bound", fmt.Sprintf("%d in all; a newcomer gets a place of the address that holds most", maxConnections))
	answered := 0
	l := defaultLimits
	l.header, l.body, l.idle = 10*time.Minute, 10*time.Minute, 10*time.Minute
	for name, head := range map[string]string{
		"nothing": "", "headers": "GET /health HTTP/1.1\r\nHost: loc",
		"bodies": strings.TrimSuffix(post(textPath, "{}"), "}"),
		"idle":   "GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n",
	} {
		w := serveWithin(t, l, nil)
		w.api.conns.mu.Lock()
		w.api.conns.limit = 8
		w.api.conns.mu.Unlock()
		for range 20 {
			fmt.Fprint(w.dial("127.0.0.2"), head)
		}
		for i := range 3 {
			if got := w.from("127.0.0.1", "GET", "/health", ""); got != 200 {
				t.Errorf("%s: another address gets %d for request %d", name, got, i)
			} else {
				answered++
			}
		}
		if name == "bodies" {
			continue // these hold their share
		}
		w.api.conns.mu.Lock()
		w.api.conns.timeout = 0
		w.api.conns.mu.Unlock()
		if got := w.from("127.0.0.2", "GET", "/health", ""); got != 200 {
			t.Errorf("%s: the same address gets %d", name, got)
		}
	}
	t.Attr("measured", fmt.Sprintf("with 8 places and 20 connections: %d of 12 newcomers answered", answered))
}

// TestLargeBodiesAreShared begins many large bodies from one address.
func TestLargeBodiesAreShared(t *testing.T) {
	t.Attr("attack", "many slow bodies of one address")
	t.Attr("bound", fmt.Sprintf("%d of more than %d KiB, each within %v; a newcomer gets a place of the address that "+
		"holds most", maxBodies, smallBody>>10, defaultLimits.body))
	answered := 0
	l := defaultLimits
	l.body = 10 * time.Minute
	w := serveWithin(t, l, nil)
	w.engine.OnGenerate = func(context.Context, []int32, foretoken.Request,
		func(*foretoken.Event) error) (*foretoken.Result, error) {
		return &foretoken.Result{Text: "x", Finish: spec.FinishLength}, nil
	}
	w.api.bodies.limit, w.api.bodies.timeout = 4, time.Hour
	large := post(textPath, `{"model": "demo", "prompt": "`+strings.Repeat(" ", 1<<20))
	for range 12 {
		c := w.dial("127.0.0.2")
		go fmt.Fprint(c, large[:smallBody+10000])
	}
	for end := time.Now().Add(soon); time.Now().Before(end); time.Sleep(time.Millisecond) {
		w.api.bodies.mu.Lock()
		full := w.api.bodies.places == 4
		w.api.bodies.mu.Unlock()
		if full {
			break
		}
	}
	quick := `{"model": "demo", "prompt": "a", "max_tokens": 1` + strings.Repeat(" ", 1<<17) + `}`
	if got := w.from("127.0.0.2", "POST", textPath, quick); got != 429 {
		t.Errorf("a large body of the same address gets %d", got)
	}
	for range 3 {
		if got := w.from("127.0.0.1", "POST", textPath, quick); got != 200 {
			t.Errorf("a large body of another address gets %d", got)
		} else {
			answered++
		}
	}
	if got := w.from("127.0.0.2", "POST", textPath, fmt.Sprintf(shortText, "")); got != 200 {
		t.Errorf("a small body of the same address gets %d", got)
	}
	t.Attr("measured", fmt.Sprintf("with 4 places and 12 bodies: %d of 3 newcomers answered", answered))
}

// TestNewcomersHaveTurns has one user of one address ask for all it can get: neither another user nor another address
// is refused, and each waits for one text at most.
func TestNewcomersHaveTurns(t *testing.T) {
	t.Attr("attack", "a user that keeps more requests under way than may wait, of many texts each")
	t.Attr("bound", "--max-queue; a newcomer gets a place of the address and the user that have most")
	answered := 0
	w := serve(t, nil)
	w.api.queue.slice = 0
	w.engine.OnGenerate = func(ctx context.Context, ids []int32, _ foretoken.Request,
		_ func(*foretoken.Event) error) (*foretoken.Result, error) {
		time.Sleep(time.Millisecond)
		return &foretoken.Result{Text: "x", Finish: spec.FinishLength}, ctx.Err()
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	var all sync.WaitGroup
	defer all.Wait()
	defer cancel()
	go func() {
		for range w.logged {
		}
	}()
	for range 24 {
		all.Go(func() {
			for ctx.Err() == nil {
				w.from("127.0.0.2", "POST", textPath, `{"model": "demo", "prompt": "a", "n": 16, "user": "ann"}`)
			}
		})
	}
	w.waits(4)
	for _, c := range []client{{"127.0.0.1", "ben", 0}, {"127.0.0.1", "ann", 0}, {"127.0.0.2", "ben", 0}} {
		for i := range 5 {
			if got := w.from(c.address, "POST", textPath, fmt.Sprintf(shortText, c.user)); got != 200 {
				t.Errorf("%s of %s gets %d for request %d", c.user, c.address, got, i)
			} else {
				answered++
			}
		}
	}
	t.Attr("measured",
		fmt.Sprintf("with a queue of 4 and 24 requests of 16 texts: %d of 15 newcomers answered", answered))
}

// TestOneTextIsATurn has a request of many texts wait for another between two of them, and both survive a drain.
func TestOneTextIsATurn(t *testing.T) {
	t.Attr("attack", "a request of many texts that others wait for")
	t.Attr("bound", fmt.Sprintf("the turn passes on between two texts after %v", turnTime))
	w := serve(t, nil)
	w.api.queue.slice = 0
	begun, release := held(w)
	first, second := make(chan answered, 1), make(chan answered, 1)
	go func() { first <- w.do("POST", textPath, `{"model": "demo", "prompt": [5, 5], "n": 3}`) }()
	if got := <-begun; got != 2 {
		t.Fatal(got)
	}
	go func() { second <- w.do("POST", textPath, tokens(1, "ben")) }()
	w.waits(1)
	release(1)
	if got := <-begun; got != 1 {
		t.Errorf("after the first text a prompt of %d tokens has its turn, want the other one's", got)
	}
	w.api.Drain() // what had a turn goes on
	release(1)
	for range 2 {
		if got := <-begun; got != 2 {
			t.Errorf("then a prompt of %d tokens", got)
		}
		release(1)
	}
	if a, b := <-first, <-second; a.status != 200 || b.status != 200 {
		t.Errorf("%d %s, %d %s", a.status, a.body, b.status, b.body)
	}
}
