//go:build !js

package serve

import (
	"context"
	"fmt"
	"io"
	"log"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"foretoken"
	"foretoken/openai"
	"foretoken/openai/openaitest"
	"foretoken/spec"
)

// pipes is a listener of connections within the process: their deadlines follow the clock of a synctest bubble.
type pipes chan net.Conn

func (p pipes) Accept() (net.Conn, error) {
	if c, ok := <-p; ok {
		return c, nil
	}
	return nil, net.ErrClosed
}

func (pipes) Close() error   { return nil }
func (pipes) Addr() net.Addr { return &net.TCPAddr{} }

// heads are the beginnings of requests, with and without what they announce.
var heads = []string{"", "G", "GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n",
	"GET /health HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9\r\n\r\n",
	"POST /v1/x HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nab",
	"POST /v1/x HTTP/1.1\r\nHost: evil.example\r\nContent-Length: 300000\r\n\r\n", "GARBAGE\r\n\r\n",
	"OPTIONS * HTTP/1.1\r\nHost: evil.example\r\nContent-Length: 9\r\n\r\n",
	post(textPath, `{"model": "m", "prompt": "a"}`),
	post(textPath, `{"model": "m", "prompt": "a", "stream": true}`) + "G",
	post(textPath, `{"model": "m"}`) +
		strings.Repeat("GET /v1/models HTTP/1.1\r\nHost: localhost\r\n\r\n", 3),
	strings.TrimSuffix(post(textPath, "{}"), "}"), "POST " + textPath + " HTTP/1.1\r\nHost: localhost\r\nExpect: " +
		"100-continue\r\nContent-Type: application/json\r\nContent-Length: 9\r\n\r\n",
	"GET / HTTP/1.1\r\nHost: localhost\r\nX: " + strings.Repeat("x", 70000)}

// FuzzPhases lets a client send anything and then nothing more, whether it reads the answers or not: the connection
// ends within the times of its phases, and nothing of it stays.
func FuzzPhases(f *testing.F) {
	f.Attr("attack", "a connection that sends anything and then stops, in any phase, and reads or not")
	f.Attr("bound",
		fmt.Sprintf("headers within %v, a body %v more, other answers %v; of a text all pauses together %v; "+
			"between requests %v", defaultLimits.header, defaultLimits.body, defaultLimits.small, defaultLimits.answer,
			defaultLimits.idle))
	s, err := openaitest.Pair()
	if err != nil {
		f.Fatal(err)
	}
	for _, head := range heads {
		f.Add([]byte(head), true)
		f.Add([]byte(head), false)
	}
	f.Fuzz(func(t *testing.T, sent []byte, reads bool) {
		synctest.Test(t, func(t *testing.T) {
			e := &openaitest.Engine{Session: s, OnGenerate: func(_ context.Context, _ []int32, _ foretoken.Request,
				emit func(*foretoken.Event) error) (*foretoken.Result, error) {
				if err := emit(&foretoken.Event{Text: "x", Round: &spec.Event{}}); err != nil {
					return nil, err
				}
				return &foretoken.Result{Text: "x", Finish: spec.FinishLength}, nil
			}}
			api := New(Config{Options: openai.Options{Model: "m", Template: openaitest.Template,
				Defaults: foretoken.DefaultRequest()}, Queue: 1})
			api.Open(e)
			web, l := api.HTTP(log.New(io.Discard, "", 0)), make(pipes)
			ended := make(chan error, 1)
			go func() { ended <- web.Serve(api.Listen(l)) }()
			client, server := net.Pipe()
			l <- server
			go func() { _, _ = client.Write(sent) }()
			if reads {
				go func() { _, _ = io.Copy(io.Discard, client) }()
			}
			begun := time.Now()
			requests := 1 + strings.Count(string(sent), "HTTP/1")
			longest := api.limits.idle + time.Duration(requests)*(api.limits.header+api.limits.body+api.limits.small+
				2*api.limits.answer)
			places := func() int {
				api.conns.mu.Lock()
				defer api.conns.mu.Unlock()
				return api.conns.places
			}
			for places() > 0 {
				if time.Since(begun) > longest {
					t.Errorf("after %v the connection is open still", longest)
					break
				}
				time.Sleep(time.Second)
			}
			if busy, waiting, _ := api.queue.state(); busy || waiting > 0 {
				t.Errorf("busy %v, %d waiting", busy, waiting)
			}
			close(l)
			client.Close()
			_ = web.Close()
			<-ended
		})
	})
}

// FuzzShares takes and leaves places in any order: they are never more than the limit, and an address that holds fewer
// than another by two or more always gets one.
func FuzzShares(f *testing.F) {
	f.Attr("attack", "connections and bodies that come and go in any order")
	f.Attr("bound", "never more than the places; whoever holds fewer than another by two gets one")
	f.Add([]byte{0, 0, 0, 0, 0, 1, 1, 1, 2, 3, 4})
	f.Add([]byte{0, 1, 2, 3, 0x80, 0x81, 0, 0, 1, 1, 0x40, 0x41})
	f.Fuzz(func(t *testing.T, steps []byte) {
		const limit = 4
		s := newShares(limit)
		s.timeout = time.Hour
		alive := map[*place]bool{}
		count := map[string]int{}
		for _, step := range steps {
			address := fmt.Sprint(step & 7)
			if step >= 0x40 { // one of the address's places leaves, or begins to work
				for p := range alive {
					if p.address != address {
						continue
					}
					if step >= 0x80 {
						s.leave(p)
						delete(alive, p)
						count[address]--
					} else {
						s.waiting(p, false)
					}
					break
				}
				continue
			}
			most := 0
			for _, n := range count {
				most = max(most, n)
			}
			var p *place
			had, lost := len(alive), 0
			for q := range alive {
				q.lose = func() { delete(alive, q); count[q.address]--; lost++ }
			}
			p = s.take(address, nil)
			if due := had < limit || most > count[address]+1; due != (p != nil) || lost > 1 || had < limit && lost > 0 {
				t.Fatalf("of %v address %s gets %v, and %d are lost", count, address, p, lost)
			}
			if p != nil {
				alive[p] = true
				count[address]++
			}
			if len(alive) != s.places || s.places > limit {
				t.Fatalf("%d places, %d known", s.places, len(alive))
			}
		}
	})
}

// FuzzQueue asks, leaves and gives up in any order: at most limit wait besides one that gave its turn back, whoever has
// fewer requests than another by two or more gets a place, and every turn passes on.
func FuzzQueue(f *testing.F) {
	f.Attr("attack", "requests that ask, give up and take turns in any order")
	f.Attr("bound", "--max-queue; whoever has fewer than another by two gets a place, and every turn passes on")
	f.Add([]byte{0, 0, 0, 0, 0, 0, 0x10, 1, 2, 0x80, 0x80, 0xc0, 0x80})
	f.Add([]byte{0, 1, 2, 3, 0x11, 0x12, 0xc0, 0xc0, 0x40, 0x80, 0xc0, 0x80, 0x80})
	f.Fuzz(func(t *testing.T, steps []byte) {
		const limit = 4
		ctx := context.Background()
		q := newQueue(limit, 0)
		gone, cancel := context.WithCancel(ctx)
		cancel()
		var waits []*ticket
		var now *client // whose turn it is
		settle := func() {
			for i := len(waits) - 1; i >= 0; i-- {
				select {
				case <-waits[i].granted:
					if waits[i].err == nil {
						if now != nil {
							t.Fatal("two turns at once")
						}
						now = &waits[i].client
					}
					waits = append(waits[:i:i], waits[i+1:]...)
				default:
				}
			}
			if busy, waiting, _ := q.state(); waiting != len(waits) || busy != (now != nil) || !busy && waiting > 0 {
				t.Fatalf("busy %v, %d waiting; want %v, %d", busy, waiting, now != nil, len(waits))
			}
			if len(waits) > limit+1 {
				t.Fatalf("%d wait", len(waits))
			}
		}
		for _, step := range steps {
			c := client{fmt.Sprint(step & 3), fmt.Sprint(step >> 4 & 3), 0}
			switch {
			case step < 0x40:
				addresses, users := map[string]int{}, map[client]int{}
				most, mostOfOwn := 0, 0
				for _, w := range waits {
					addresses[w.address]++
					users[w.client]++
				}
				for _, n := range addresses {
					most = max(most, n)
				}
				for u, n := range users {
					if u.address == c.address {
						mostOfOwn = max(mostOfOwn, n)
					}
				}
				due := now == nil || len(waits) < limit || most > addresses[c.address]+1 || mostOfOwn > users[c]+1
				ticket, err := q.ask(c)
				if due != (err == nil) {
					t.Fatalf("of %v client %v gets %v", users, c, err)
				}
				if ticket != nil {
					waits = append(waits, ticket)
				} else if err == nil {
					now = &c
				}
			case step < 0x80 && len(waits) > 0: // gives up
				w := waits[int(step)%len(waits)]
				if err := q.await(gone, w); err == nil {
					t.Fatal("a ticket of one who left is good")
				}
				w.err = errStopping() // it is out of the queue
				close(w.granted)
			case step < 0xc0 && now != nil: // ends its turn
				now = nil
				(&turn{queue: q, held: true, begun: time.Now()}).leave()
			case now != nil: // passes it on
				c, had := *now, len(waits)
				now = nil
				if ticket := (&turn{queue: q, client: c, held: true, begun: time.Now()}).cede(); ticket != nil {
					waits = append(waits, ticket)
				} else if now = &c; had > 0 {
					t.Fatal("others wait, and the turn does not pass on")
				}
			}
			settle()
		}
	})
}
