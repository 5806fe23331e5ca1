//go:build !js

package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"runtime"
	"runtime/pprof"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// loaded is a server under load: the command itself, in this process.
type loaded struct {
	t      *testing.T
	url    string
	client *http.Client
	stop   func() // SIGTERM
	code   chan int
	errs   *strings.Builder
}

// startLoaded runs serve with the built-in pair, on a native device if the tests ask for it.
func startLoaded(t *testing.T, args ...string) *loaded {
	t.Helper()
	device := "cpu"
	if os.Getenv("FORETOKEN_REQUIRE_GPU") != "" && os.Getenv("FORETOKEN_SOAK") != "" {
		device = "native"
	}
	ctx, cancel := context.WithCancelCause(context.Background())
	t.Cleanup(func() { cancel(nil) })
	r, w := io.Pipe()
	l := &loaded{t: t, stop: func() { cancel(stopSignal{syscall.SIGTERM}) }, code: make(chan int, 1),
		errs:   &strings.Builder{},
		client: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 1000}}}
	go func() {
		l.code <- run(ctx, &console{in: strings.NewReader(""), out: w, err: l.errs}, append([]string{"serve",
			"--device", device, "--addr", "127.0.0.1:0", "--json", "--quiet", "--model-name", "m"}, args...))
		w.Close()
	}()
	lines := bufio.NewScanner(r)
	for lines.Scan() {
		var e struct{ Event, URL string }
		if err := json.Unmarshal(lines.Bytes(), &e); err != nil {
			t.Fatal(err)
		}
		if e.Event == "ready" {
			l.url = e.URL
			go func() { // drain its further output, so that it never blocks
				for lines.Scan() {
				}
			}()
			return l
		}
	}
	t.Fatalf("serve ended: code %d, %s", <-l.code, l.errs)
	return nil
}

// wish is a text that a client asks for; it determines the tokens.
type wish struct {
	prompt      string
	temperature float64
	seed        int
	tokens      int
}

// reply is a client's view of an answer.
type reply struct {
	status int
	text   string
	retry  string // Retry-After
	code   string // of the error
	done   bool   // the answer is complete
}

// ask sends a wish with a method, streamed or not, for a user. With most > 0 it disconnects after so many pieces.
func (l *loaded) ask(w wish, policy, user string, stream bool, most int) (reply, error) {
	body, err := json.Marshal(map[string]any{"model": "m", "prompt": w.prompt, "temperature": w.temperature,
		"seed": w.seed, "max_tokens": w.tokens, "user": user, "stream": stream,
		"foretoken": map[string]any{"policy": policy}})
	if err != nil {
		return reply{}, err
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, "POST", l.url+"/completions", bytes.NewReader(body))
	if err != nil {
		return reply{}, err
	}
	r.Header.Set("Content-Type", "application/json")
	a, err := l.client.Do(r)
	if err != nil {
		return reply{}, err
	}
	defer a.Body.Close()
	got := reply{status: a.StatusCode, retry: a.Header.Get("Retry-After")}
	type piece struct {
		Choices []struct{ Text string }
		Error   *struct{ Code string }
	}
	take := func(data []byte) error {
		var p piece
		if err := json.Unmarshal(data, &p); err != nil {
			return fmt.Errorf("%w in %q", err, data)
		}
		if p.Error != nil {
			got.code = p.Error.Code
		}
		for _, c := range p.Choices {
			got.text += c.Text
		}
		return nil
	}
	if got.status != http.StatusOK || !stream {
		data, err := io.ReadAll(a.Body)
		if err != nil {
			return got, err
		}
		got.done = got.status == http.StatusOK
		return got, take(data)
	}
	lines := bufio.NewScanner(a.Body)
	lines.Buffer(nil, 1<<20)
	for n := 0; lines.Scan(); {
		data, ok := bytes.CutPrefix(lines.Bytes(), []byte("data: "))
		switch {
		case !ok:
		case string(data) == "[DONE]":
			got.done = true
		default:
			if err := take(data); err != nil {
				return got, err
			}
			if n++; n == most {
				return got, nil
			}
		}
	}
	return got, lines.Err()
}

// TestLoad puts 64 clients on the server, for seconds or, with FORETOKEN_SOAK=1, for five minutes: all get a turn,
// every answer is the same as alone, excess requests get Retry-After, clients that disconnect leave no work behind, and
// SIGTERM ends or finishes every stream.
func TestLoad(t *testing.T) {
	length := 4 * time.Second
	if s := os.Getenv("FORETOKEN_SOAK"); s != "" {
		share, err := strconv.ParseFloat(s, 64)
		if err != nil || share <= 0 {
			t.Fatalf("FORETOKEN_SOAK is %q, want a share of the long form: 1 is all of it", s)
		}
		length = time.Duration(share * float64(5*time.Minute))
	} else if testing.Short() {
		length = 2 * time.Second
	}
	const clients, waiting = 64, 80
	before := runtime.NumGoroutine()
	l := startLoaded(t, "--max-queue", strconv.Itoa(waiting), "--grace", "1s", "--top-logprobs", "0")
	var wishes []wish
	for i, prompt := range []string{"func main() {", "package", "// é世 ", "if err != nil {\n"} {
		wishes = append(wishes, wish{prompt, 0, 1, 2}, wish{prompt, 0.8, i + 2, 3})
	}
	alone := map[wish]string{}
	solo := func(w wish) {
		got, err := l.ask(w, "none", "", false, 0)
		if err != nil || !got.done {
			t.Fatalf("alone: %+v, %v", got, err)
		}
		alone[w] = got.text
	}
	for _, w := range wishes {
		solo(w)
	}
	long := wish{"func main() {", 0, 1, 120}
	solo(long)

	policies := []string{"none", "eagle2", "chain", "ngram"}
	counts, took := l.rotate(clients, length, wishes, policies, alone)
	greedy, patient := counts[clients], patientOnes(counts[:clients])
	least, most := slices.Min(patient), slices.Max(patient)
	slices.Sort(took)
	t.Logf("%v: %d to %d answers a client, %d for the one that asks eight times at once; %d answers, half within "+
		"%v, 95 %% within %v",
		length, least, most, greedy, len(took), took[len(took)/2].Round(time.Millisecond),
		took[len(took)*95/100].Round(time.Millisecond))
	t.Attr("seconds", strconv.FormatFloat(length.Seconds(), 'f', 0, 64))
	t.Attr("answers", strconv.Itoa(len(took)))
	t.Attr("fewest", strconv.Itoa(least))
	t.Attr("most", strconv.Itoa(most))
	t.Attr("greedy", strconv.Itoa(greedy))
	if slack := 2 + least/8; most-least > slack || greedy > most+slack {
		t.Errorf("answers a client: %d to %d, %d for the one that asks eight times at once; want equal turns",
			least, most, greedy)
	}

	l.flood(250, waiting, wishes, alone)
	l.end(clients, long, alone[long])
	l.client.CloseIdleConnections()
	for end := time.Now().Add(5 * time.Minute); ; time.Sleep(10 * time.Millisecond) {
		if now := runtime.NumGoroutine(); now <= before {
			break
		} else if time.Now().After(end) {
			var b bytes.Buffer
			_ = pprof.Lookup("goroutine").WriteTo(&b, 1)
			t.Fatalf("%d goroutines before, %d after:\n%s", before, now, b.String())
		}
	}
}

// patientOnes returns the counts of the clients that wait for their answers: every eighth does not.
func patientOnes(counts []int) (patient []int) {
	for i, n := range counts {
		if i%8 != 7 {
			patient = append(patient, n)
		}
	}
	return patient
}

// rotate runs clients that ask again as soon as they are answered; every eighth disconnects during some answers,
// and one more has eight requests in flight. It returns how often each was answered. It goes on after length until each
// patient one has five answers: of fewer, on a slow machine, the end of the time cuts off a large share.
func (l *loaded) rotate(clients int, length time.Duration, wishes []wish, policies []string,
	alone map[wish]string) (counts []int, took []time.Duration) {
	counts = make([]int, clients+1)
	var mu sync.Mutex
	var all sync.WaitGroup
	end := time.Now().Add(length)
	ended := func() bool {
		return l.t.Failed() || time.Now().After(end) && slices.Min(patientOnes(counts[:clients])) >= 5
	}
	client := func(id int, name string, offset int) {
		for n := offset; ; n++ {
			w, leave := wishes[n%len(wishes)], 0
			if id%8 == 7 && n%2 == 0 && id < clients {
				leave = 1
			}
			begun := time.Now()
			got, err := l.ask(w, policies[(n/len(wishes)+id)%len(policies)], name, leave > 0 || n%3 > 0, leave)
			if err != nil {
				l.t.Errorf("client %d, request %d: %v", id, n, err)
				return
			}
			if got.status != 200 || !got.done && leave == 0 || got.done && got.text != alone[w] ||
				!strings.HasPrefix(alone[w], got.text) {
				l.t.Errorf("client %d, request %d: %+v, alone %q", id, n, got, alone[w])
				return
			}
			mu.Lock()
			last := ended()
			if !last { // then clients with several requests in flight get their last answers
				counts[id]++
			}
			took = append(took, time.Since(begun))
			mu.Unlock()
			if last {
				return
			}
		}
	}
	for id := range clients {
		all.Go(func() { client(id, fmt.Sprint("client ", id), id) })
	}
	for k := range 8 {
		all.Go(func() { client(clients, "greedy", k) })
	}
	all.Wait()
	return counts, took
}

// flood sends more requests than may wait while another is answered: refused ones get Retry-After, the
// others are answered.
func (l *loaded) flood(n, waiting int, wishes []wish, alone map[wish]string) {
	release := l.hold()
	defer release()
	var mu sync.Mutex
	var all sync.WaitGroup
	answered, refused := 0, 0
	for i := range n {
		all.Go(func() {
			w := wishes[i%len(wishes)]
			got, err := l.ask(w, "none", fmt.Sprint("flood ", i), i%2 == 0, 0)
			if err != nil {
				l.t.Errorf("flood: %v", err)
				return
			}
			mu.Lock()
			defer mu.Unlock()
			seconds, _ := strconv.Atoi(got.retry)
			switch {
			case got.done && got.text == alone[w]:
				answered++
			case got.status == http.StatusTooManyRequests && got.code == "queue_full" && seconds >= 1:
				refused++
			default:
				l.t.Errorf("flood: %+v, alone %q", got, alone[w])
			}
			if answered+refused == n-waiting {
				release() // all others are queued
			}
		})
	}
	all.Wait()
	l.t.Logf("of %d requests at once %d were answered and %d told to come back", n, answered, refused)
	l.t.Attr("flood-answered", strconv.Itoa(answered))
	l.t.Attr("flood-refused", strconv.Itoa(refused))
	if answered < waiting || refused == 0 || answered+refused != n { // requests run between the held one's texts
		l.t.Errorf("of %d requests at once %d were answered and %d refused, and %d may wait", n, answered,
			refused, waiting)
	}
}

// hold asks for thousands of tokens and returns when they have begun: the server decodes little else until release.
func (l *loaded) hold() (release func()) {
	ctx, cancel := context.WithCancel(context.Background())
	r, err := http.NewRequestWithContext(ctx, "POST", l.url+"/completions",
		strings.NewReader(`{"model": "m", "prompt": "package", "temperature": 1.3, "seed": 4, "max_tokens": 400, "n": `+
			`16, "stream": true, "foretoken": {"policy": "none"}}`))
	if err != nil {
		l.t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	a, err := l.client.Do(r)
	if err != nil {
		l.t.Fatal(err)
	}
	if line, err := bufio.NewReader(a.Body).ReadString('\n'); err != nil || !strings.HasPrefix(line, "data: {") {
		l.t.Fatalf("%d %q, %v", a.StatusCode, line, err)
	}
	return sync.OnceFunc(func() { cancel(); a.Body.Close() })
}

// end sends SIGTERM during streams.
func (l *loaded) end(clients int, w wish, want string) {
	var all sync.WaitGroup
	var mu sync.Mutex
	ends := map[string]int{}
	stopped := false
	for i := range clients {
		all.Go(func() {
			got, err := l.ask(w, "none", fmt.Sprint("last ", i), true, 0)
			mu.Lock()
			defer mu.Unlock()
			switch {
			case err != nil && stopped:
				ends["unheard"]++ // the server had not read this request when it closed
			case err != nil:
				l.t.Errorf("at the end: %v", err)
			case got.done && got.text == want:
				ends["finished"]++
			case got.code == "shutting_down" && got.status == http.StatusOK && strings.HasPrefix(want, got.text):
				ends["cut"]++
			case got.code == "shutting_down" && got.status == http.StatusServiceUnavailable && got.retry != "":
				ends["refused"]++
			default:
				l.t.Errorf("at the end: %+v", got)
			}
		})
	}
	// Wait until one decodes and most others wait: a fast machine may have answered the first before the last one
	// asks.
	heard := 0
	for end := time.Now().Add(5 * time.Minute); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		a, err := l.client.Get(strings.TrimSuffix(l.url, "/v1") + "/health")
		if err != nil {
			l.t.Fatal(err)
		}
		b, _ := io.ReadAll(a.Body)
		a.Body.Close()
		var h struct{ Waiting int }
		if json.Unmarshal(b, &h); h.Waiting >= clients-4 {
			heard = h.Waiting
			break
		}
	}
	mu.Lock()
	stopped = true
	mu.Unlock()
	l.stop()
	all.Wait()
	l.t.Logf("at the end: %v", ends)
	if ends["refused"] < clients-8 || ends["unheard"] > clients-heard ||
		ends["finished"]+ends["cut"]+ends["refused"]+ends["unheard"] != clients {
		l.t.Errorf("at the end: %v of %d", ends, clients)
	}
	select {
	case code := <-l.code:
		if code != exitOK {
			l.t.Errorf("code %d: %s", code, l.errs)
		}
	case <-time.After(5 * time.Minute):
		l.t.Fatal("the server does not end")
	}
}
