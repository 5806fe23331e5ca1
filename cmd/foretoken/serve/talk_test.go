//go:build !js

package serve

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"foretoken/openai/openaitest"
)

// TestTalkUnderLoad has 16 clients hold conversations at once, with and without tools, streamed or not, and leave in
// the middle of every fourth answer: each answer is what its request gets alone, and nothing waits in the end.
func TestTalkUnderLoad(t *testing.T) {
	t.Attr("attack", "conversations, tools, streams and clients that leave, all at once")
	t.Attr("bound", "every text as alone, and nothing waits afterwards")
	length := 2 * time.Second
	if share, err := strconv.ParseFloat(os.Getenv("FORETOKEN_SOAK"), 64); err == nil && share > 0 {
		length = time.Duration(share * float64(time.Minute))
	}
	const clients = 16
	w := serve(t, func(c *Config) { c.Queue = clients })
	go func() {
		for range w.logged {
		}
	}()
	const kinds = 6
	ask := func(kind, client int, stream bool) string {
		more := []string{"", `, ` + openaitest.Tools, `, "tool_choice": "required", ` + openaitest.Tools,
			`, "n": 2, "foretoken": {"policy": "chain"}`,
			`, "response_format": {"type": "json_object"}`, `, "logprobs": true, "top_logprobs": 2`}[kind]
		heat := [kinds]float64{3: 0.8}[kind]
		return fmt.Sprintf(`{"model": "demo", "messages": [{"role": "user", "content": "open file %d"}], `+
			`"temperature": %v, "max_tokens": 6, "seed": 3, "stream": %v, "user": "%d"%s}`, kind, heat, stream, client,
			more)
	}
	read := func(stream bool, body []byte) string {
		var pieces []openaitest.Text
		if stream {
			var done bool
			if pieces, done = openaitest.Events(t, body); !done {
				return fmt.Sprintf("no end: %s", body)
			}
		} else {
			var one openaitest.Text
			if err := json.Unmarshal(body, &one); err != nil {
				return err.Error()
			}
			pieces = append(pieces, one)
		}
		texts := map[int]string{}
		for _, p := range pieces {
			for _, c := range p.Choices {
				for _, m := range []*openaitest.Said{c.Message, c.Delta} {
					if m == nil {
						continue
					}
					texts[c.Index] += m.Content
					for _, call := range m.Calls {
						texts[c.Index] += call.Function.Name + call.Function.Arguments
					}
				}
			}
		}
		return fmt.Sprint(texts)
	}
	var alone [kinds]string
	for kind := range kinds {
		a := w.do("POST", chatPath, ask(kind, 0, false))
		if alone[kind] = read(false, a.body); a.status != 200 {
			t.Fatalf("alone: %d %s", a.status, a.body)
		}
	}
	end := time.Now().Add(length)
	var same atomic.Int64
	var all sync.WaitGroup
	for client := range clients {
		all.Go(func() {
			for n := client; time.Now().Before(end); n++ {
				kind, stream, leaves := n%kinds, n%3 > 0, n%4 == 3
				ctx, cancel := context.WithCancel(context.Background())
				r, err := w.ask(ctx, "POST", chatPath, ask(kind, client, stream))
				if err == nil && leaves {
					_, _ = bufio.NewReader(r.Body).ReadString('\n')
				} else if err == nil {
					body, err := io.ReadAll(r.Body)
					if got := read(stream, body); err != nil || r.StatusCode != 200 || got != alone[kind] {
						t.Errorf("client %d, kind %d, stream %v: %d %s, %v, alone %s", client, kind, stream,
							r.StatusCode, got, err, alone[kind])
					} else {
						same.Add(1)
					}
				} else {
					t.Error(err)
				}
				cancel()
				if err == nil {
					r.Body.Close()
				}
			}
		})
	}
	all.Wait()
	for begun := time.Now(); ; time.Sleep(time.Millisecond) {
		if busy, waiting, _ := w.api.queue.state(); !busy && waiting == 0 {
			break
		} else if time.Since(begun) > time.Minute {
			t.Fatalf("busy %v, %d waiting after the last answer", busy, waiting)
		}
	}
	if rest := strings.TrimSpace(fmt.Sprint(w.api.bodies.held)); rest != "map[]" {
		t.Errorf("bodies are held: %s", rest)
	}
	t.Attr("measured", fmt.Sprintf("%d clients, %d answers the same", clients, same.Load()))
}
