//go:build !js

package serve

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"foretoken"
	"foretoken/openai"
	"foretoken/openai/openaitest"
	"foretoken/spec"
)

// bubble is a server in a synctest bubble whose texts take as many seconds as their prompts have tokens, and whose
// embeddings take 20 ms a token.
type bubble struct {
	t        *testing.T
	api      *Server
	listener pipes
}

func newBubble(t *testing.T, s *foretoken.Session) *bubble {
	e := &openaitest.Engine{Session: s,
		OnGenerate: func(ctx context.Context, ids []int32, _ foretoken.Request,
			_ func(*foretoken.Event) error) (*foretoken.Result, error) {
			select {
			case <-time.After(time.Duration(len(ids)) * time.Second):
				return &foretoken.Result{Text: "x", Finish: spec.FinishLength}, nil
			case <-ctx.Done():
				return &foretoken.Result{Finish: spec.FinishAborted}, nil
			}
		},
		OnEmbed: func(ctx context.Context, ids []int32) (*foretoken.Embedding, error) {
			time.Sleep(time.Duration(len(ids)) * 20 * time.Millisecond)
			return &foretoken.Embedding{Vector: []float32{1}, Tokens: len(ids)}, ctx.Err()
		}}
	b := &bubble{t, New(Config{Options: openai.Options{Model: "m", Template: openaitest.Template,
		Defaults: foretoken.DefaultRequest()}, Queue: 64}),
		make(pipes)}
	b.api.Open(e)
	web, ended := b.api.HTTP(log.New(io.Discard, "", 0)), make(chan error, 1)
	go func() { ended <- web.Serve(b.api.Listen(b.listener)) }()
	t.Cleanup(func() {
		close(b.listener)
		_ = web.Close()
		<-ended
	})
	return b
}

// connect opens a connection; the function that it returns asks over it and waits for the status.
func (b *bubble) connect() (ask func(path, body string) int) {
	c, server := net.Pipe()
	b.listener <- server
	b.t.Cleanup(func() { c.Close() })
	r := bufio.NewReader(c)
	return func(path, body string) int {
		if _, err := io.WriteString(c, post(path, body)); err != nil {
			return 0
		}
		a, err := http.ReadResponse(r, nil)
		if err != nil {
			return 0
		}
		_, _ = io.Copy(io.Discard, a.Body)
		return a.StatusCode
	}
}

// TestBesideOneClient asks for a text of one second beside a client of the same address that asks for all it can get.
func TestBesideOneClient(t *testing.T) {
	t.Attr("attack", "a client that asks for all it can get, beside another one of its address")
	t.Attr("bound", "the other one waits for one text and "+turnTime.String()+"; beside n connections that each ask "+
		"for a text, for n texts")
	s, err := openaitest.Pair()
	if err != nil {
		t.Fatal(err)
	}
	large := strings.Repeat(" ", 2*smallBody)
	longest := map[bool]time.Duration{} // whether the others are several clients
	for _, c := range []struct {
		name, path, body string
		connections      int
		renews           bool          // a connection for each request
		pause            time.Duration // between its requests
		waits            time.Duration
	}{
		{"large bodies that are refused", textPath, `{"model": "m", "prompt": 1` + large + `}`, 6, true, time.Second,
			0},
		{"embeddings of many texts", embedPath, `{"model": "m", "input": ["a"` + strings.Repeat(`, "a"`, 2000) + `]}`,
			1, false, 0, turnTime + 20*time.Millisecond},
		{"many long texts", textPath, `{"model": "m", "prompt": [5, 5, 5], "n": 16}`, 1, false, 0, 3 * time.Second},
		{"a user with many texts", textPath, `{"model": "m", "prompt": [5, 5, 5], "n": 16, "user": "ann"}`, 6, true, 0,
			3 * time.Second},
		{"connections", textPath, `{"model": "m", "prompt": [5]}`, 6, false, 0, time.Second},
		{"connections with many texts", textPath, `{"model": "m", "prompt": [5, 5, 5], "n": 16}`, 6, false, 0,
			6 * 3 * time.Second},
		{"new connections", textPath, `{"model": "m", "prompt": [5, 5]}`, 6, true, 0, 6 * 2 * time.Second},
	} {
		for _, user := range []string{"", `, "user": "ben"`} {
			synctest.Test(t, func(t *testing.T) {
				b := newBubble(t, s)
				var stop atomic.Bool
				var all sync.WaitGroup
				for range c.connections {
					all.Go(func() {
						for ask := b.connect(); !stop.Load(); {
							ask(c.path, c.body)
							if time.Sleep(c.pause); c.renews {
								ask = b.connect()
							}
						}
					})
				}
				time.Sleep(15*time.Second + 500*time.Millisecond)
				ask := b.connect()
				for i := range 2 {
					begun := time.Now()
					status := ask(textPath, `{"model": "m", "prompt": [5]`+user+`}`)
					waited := time.Since(begun) - time.Second
					several := c.connections > 1 && !strings.Contains(c.body, "user")
					longest[several] = max(longest[several], waited)
					if status != 200 || waited > c.waits {
						t.Errorf("%s%s: status %d, request %d waited %v, want at most %v", c.name, user, status, i,
							waited, c.waits)
					}
					time.Sleep(11 * time.Second)
				}
				stop.Store(true)
				all.Wait()
			})
		}
	}
	t.Attr("measured", fmt.Sprintf("beside texts of 3s it waited for %v at most, beside 6 connections for %v",
		longest[false], longest[true]))
}

// TestTurnsOfTheDesk has others busy with reading: a small request waits for no large one, and for no other if it is
// quick to read.
func TestTurnsOfTheDesk(t *testing.T) {
	t.Attr("attack", "requests that take long to read")
	t.Attr("bound", fmt.Sprintf("they take turns of %v, those of up to %d KiB among themselves; quick ones need none",
		deskTime, smallBody>>10))
	s, err := openaitest.Pair()
	if err != nil {
		t.Fatal(err)
	}
	texts := strings.Repeat(`"a",`, 100) + `"a"`
	for _, c := range []struct {
		body  string
		size  int
		waits [2]bool // for a large request, and for a small one
	}{
		{`{"model": "m", "prompt": [5]}`, 100, [2]bool{false, false}},
		{`{"model": "m", "prompt": [5]}`, smallBody, [2]bool{false, false}},
		{`{"model": "m", "prompt": [5]}`, smallBody + 1, [2]bool{true, false}},
		{`{"model": "m", "input": [` + texts + `]}`, smallBody, [2]bool{false, false}},
		{`{"model": "m", "input": ["` + strings.Repeat("a ", 900) + `"]}`, smallBody, [2]bool{false, false}},
		{`{"model": "m", "input": [` + strings.Repeat(`"`+strings.Repeat("a ", 900)+`",`, 30) + `"a"]}`, smallBody,
			[2]bool{false, true}},
		{`{"model": "m", "input": [` + strings.Repeat(`"`+strings.Repeat("a ", 900)+`",`, 30) + `"a"]}`, smallBody + 1,
			[2]bool{true, false}},
	} {
		for i, other := range []string{"large", "small"} {
			synctest.Test(t, func(t *testing.T) {
				b := newBubble(t, s)
				queue := []*queue{b.api.large, b.api.small}[i]
				turn, err := queue.enter(t.Context(), client{"pipe", "", 1000})
				if err != nil {
					t.Fatal(err)
				}
				path := textPath
				if strings.Contains(c.body, "input") {
					path = embedPath
				}
				answered := make(chan int)
				go func() { answered <- b.connect()(path, c.body+strings.Repeat(" ", c.size-len(c.body))) }()
				synctest.Wait()
				if _, waiting, _ := queue.state(); (waiting == 1) != c.waits[i] {
					t.Errorf("%.40s of %d bytes: %d wait for a %s one", c.body, c.size, waiting, other)
				}
				time.Sleep(deskTime)
				if err := turn.yield(t.Context()); err != nil {
					t.Error(err)
				}
				if status := <-answered; status != 200 {
					t.Errorf("%.40s of %d bytes: status %d", c.body, c.size, status)
				}
				turn.leave()
			})
		}
	}
}

// TestOrderOfTurns scripts who asks when, and checks whose turn is next.
func TestOrderOfTurns(t *testing.T) {
	ann, ben, cid := client{"1", "ann", 0}, client{"1", "ben", 0}, client{"1", "cid", 0}
	dan := client{"2", "dan", 0}
	one, two := client{"1", "", 1}, client{"1", "", 2}
	for _, c := range []struct {
		name string
		had  map[client]time.Duration // turns before
		ago  time.Duration            // since then
		asks []client
		want []client
	}{
		{"users take turns", nil, 0, []client{ann, ann, ben, cid, ben}, []client{ann, ben, cid, ann, ben}},
		{"addresses take turns", nil, 0, []client{ann, ben, cid, dan, dan}, []client{ann, dan, ben, dan, cid}},
		{"connections are users", nil, 0, []client{one, one, one, two}, []client{one, two, one, one}},
		{"less goes first", map[client]time.Duration{ann: 3 * time.Second, ben: 1500 * time.Millisecond}, 0,
			[]client{ann, ben, cid}, []client{cid, ben, ann}},
		{"less than a second is little", map[client]time.Duration{ann: 900 * time.Millisecond}, 0,
			[]client{ann, ben}, []client{ann, ben}},
		{"ten seconds later all are equal", map[client]time.Duration{ann: 3 * time.Second, ben: time.Minute},
			11 * time.Second, []client{ben, ann, cid}, []client{ben, ann, cid}},
		{"of addresses, too", map[client]time.Duration{ann: 3 * time.Second}, 0,
			[]client{ben, dan}, []client{dan, ben}},
	} {
		synctest.Test(t, func(t *testing.T) {
			q := newQueue(100, turnTime)
			for c, took := range c.had {
				turn, err := q.enter(t.Context(), c)
				if err != nil {
					t.Fatal(err)
				}
				turn.begun = time.Now().Add(-took)
				turn.leave()
			}
			time.Sleep(c.ago)
			turn, err := q.enter(t.Context(), client{"3", "", 0})
			if err != nil {
				t.Fatal(err)
			}
			var got []client
			for _, who := range c.asks {
				go func() {
					turn, err := q.enter(t.Context(), who)
					if err != nil {
						t.Error(err)
						return
					}
					got = append(got, who)
					turn.leave()
				}()
				synctest.Wait()
			}
			turn.leave()
			synctest.Wait()
			if fmt.Sprint(got) != fmt.Sprint(c.want) {
				t.Errorf("%s: turns of %v, want %v", c.name, got, c.want)
			}
		})
	}
}

// TestResumedWorkWaits has a request of many texts come back behind the ones that waited, of its own user, too.
func TestResumedWorkWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue(100, turnTime)
		ann := client{"1", "ann", 0}
		var got []string
		texts := func(name string, n int) {
			turn, err := q.enter(t.Context(), ann)
			if err != nil {
				t.Error(err)
				return
			}
			for i := range n {
				if i > 0 {
					if err := turn.yield(t.Context()); err != nil {
						t.Error(err)
					}
				}
				time.Sleep(600 * time.Millisecond)
				got = append(got, name)
			}
			turn.leave()
		}
		go texts("many", 5)
		time.Sleep(time.Millisecond)
		go texts("first", 1)
		go func() { time.Sleep(time.Millisecond); texts("second", 1) }()
		time.Sleep(time.Minute)
		if got := strings.Join(got, " "); got != "many many first second many many many" {
			t.Error(got)
		}
	})
}

// TestServedIsBounded has more users than are accounted for ask, with names of a megabyte.
func TestServedIsBounded(t *testing.T) {
	var s served
	now := time.Now()
	for i := range 2 * mostServed {
		s.add(now, client{"1", short(strings.Repeat("u", 1<<10) + fmt.Sprint(i)), 0}, time.Second)
	}
	for c := range s.sum {
		if len(c.user) > 64 || len(s.sum) > mostServed {
			t.Fatalf("%d clients, names of %d bytes", len(s.sum), len(c.user))
		}
	}
	if s.forget(now.Add(time.Hour)); len(s.sum) > 0 {
		t.Errorf("%d clients after an hour", len(s.sum))
	}
}
