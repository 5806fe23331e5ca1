//go:build !js

package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"foretoken"
	"foretoken/cmd/foretoken/serve"
	"foretoken/internal/quote"
	"foretoken/openai"
	"foretoken/spec"
)

// keyVariable is the environment variable with the key of serve, for which --api-key takes precedence.
const keyVariable = "FORETOKEN_API_KEY"

type serveOptions struct {
	generateOptions
	template string // file
	addr     string
	name     string
	key      string
	hosts    []string
	origins  []string
	share    bool
	queue    int
	timeout  time.Duration
	grace    time.Duration
	top      int
	quiet    bool
}

func serveCommand(c *console) *cobra.Command {
	o := serveOptions{generateOptions: generateOptions{request: openai.DefaultRequest()}}
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Answer programs written for OpenAI's API, on this machine",
		Long: "Serve a model over HTTP with OpenAI's API, for programs on this machine:\n" +
			"POST /v1/chat/completions and /v1/completions (streamed or not), GET /v1/models and GET /health.\n\n" +
			"Sampling and method flags are the defaults of requests. A request may choose its own method with\n" +
			"\"foretoken\": {\"policy\": …}. With the same seed the text equals that of foretoken generate. " +
			"One request\n" +
			"decodes at a time; the others wait their turn. The server keeps the KV cache of a conversation: an\n" +
			"answer prefills only the new tokens. A request of another user, as its field \"user\" names it,\n" +
			"does not find it, unless with --share-cache.\n\n" +
			"Requests from web pages are refused unless --cors-origin names their origin. The first\n" +
			"Ctrl-C, SIGTERM or SIGHUP (the terminal closed) gives running answers the time of --grace to finish;\n" +
			"the second Ctrl-C or SIGTERM kills.",
		Example: "  foretoken serve\n" +
			"  foretoken serve --target qwen2.5-1.5b.gguf --draft qwen2.5-0.5b.gguf --addr 127.0.0.1:9000\n" +
			"  curl http://127.0.0.1:8080/v1/completions -H 'Content-Type: application/json' \\\n" +
			"    -d '{\"model\": \"foretoken\", \"prompt\": \"func onlyDigits(s string) bool {\", \"temperature\": 0}'",
		Args: flagsOnly,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := o.complete(c, cmd.Flags()); err != nil {
				return err
			}
			return o.run(cmd.Context(), c, cmd.Flags().Changed("seed"))
		},
	}
	f := cmd.Flags()
	o.flags(f)
	f.Lookup("seed").Usage = "seed of requests that give none (default a new one for each)"
	f.Lookup("seed").DefValue = "0"
	f.StringVar(&o.template, "chat-template", "",
		"file with a chat template in Jinja (default the one in the target's file)")
	f.StringVar(&o.addr, "addr", "127.0.0.1:8080", "address to listen on; port 0 picks a free one")
	f.StringVar(&o.name, "model-name", "", "model name that requests give (default foretoken, or the target's file)")
	f.StringVar(&o.key, "api-key", "",
		"key that requests must send; other users of this machine can see a flag, but not the variable "+keyVariable)
	f.StringArrayVar(&o.hosts, "allow-host", nil,
		"host name that requests may use besides localhost; may be given several times")
	f.StringArrayVar(&o.origins, "cors-origin", nil,
		"origin of web pages that may send requests, such as http://localhost:3000, or *; may be given several times")
	f.BoolVar(&o.share, "share-cache", false,
		"reuse one user's cached prompts for the others, who can then tell how they begin; requests name their user")
	f.IntVar(&o.queue, "max-queue", 16, "requests that may wait while one is decoded; 0: none")
	f.DurationVar(&o.timeout, "timeout", 10*time.Minute, "longest time of a request, waiting included; 0: no limit")
	f.DurationVar(&o.grace, "grace", 10*time.Second, "time that running answers have to finish when the server ends")
	f.IntVar(&o.top, "top-logprobs", 5,
		"likeliest tokens that requests may ask for at every position, at most 20; 0: none, and no logprobs")
	f.BoolVar(&o.quiet, "quiet", false, "do not print a line for each request")
	f.BoolVar(&o.json, "json", false,
		"print one JSON object an event to standard output: listening, ready, request, stopped")
	return cmd
}

func (o *serveOptions) complete(c *console, given *pflag.FlagSet) error {
	if err := cmp.Or(o.completeRequest(c, given),
		want("max-queue", o.queue, o.queue >= 0, "0 or more"),
		want("timeout", o.timeout, o.timeout >= 0, "0 (no limit) or more"),
		want("grace", o.grace, o.grace >= 0, "0 or more"),
		asUsage(spec.Named(foretoken.Settings(), "top_logprobs").Check(float64(o.top)))); err != nil {
		return err
	}
	for _, origin := range o.origins {
		if scheme, host, ok := strings.Cut(origin, "://"); origin != "*" &&
			(!ok || scheme == "" || host == "" || strings.ContainsAny(host, "/?#")) {
			return usagef("--cors-origin is %q, want an origin such as http://localhost:3000, or *", origin)
		}
	}
	if _, _, err := net.SplitHostPort(o.addr); err != nil {
		return usagef("--addr is %q, want host:port, for example 127.0.0.1:8080", o.addr)
	}
	if o.key == "" {
		o.key = os.Getenv(keyVariable)
	}
	if o.name == "" {
		o.name = "foretoken"
		if o.models.target != "" {
			o.name = strings.TrimSuffix(baseName(o.models.target), ".gguf")
		}
	}
	o.models.candidates = o.top
	if o.top == 1 {
		o.models.candidates = 2 // decoding needs two
	}
	return nil
}

func (o *serveOptions) run(ctx context.Context, c *console, seeded bool) error {
	config := serve.Config{Created: time.Now(),
		Options: openai.Options{Model: o.name, Defaults: o.request, Seeded: seeded, Candidates: o.top}, Key: o.key,
		Hosts: o.hosts, Origins: o.origins, Queue: o.queue, Timeout: o.timeout,
		ShareCache: o.share}
	var err error
	if config.Template, err = readTemplate(c, o.template); err != nil {
		return err
	}
	listener, err := o.listen(&config, c)
	if err != nil {
		return err
	}
	say := o.events(c)
	config.Log = func(e serve.Entry) { say("request", e, e.Path != "/health", requestLine(&e)) }
	server := serve.New(config)
	web := server.HTTP(log.New(c.err, "foretoken: ", 0))
	url := "http://" + listener.Addr().String() + "/v1"
	say("listening", map[string]any{"url": url, "model": o.name}, false, "")
	ended := make(chan error, 1)
	go func() { ended <- web.Serve(server.Listen(listener)) }()
	o.models.timed = o.request.Config().WeighsCosts()
	s, err := openSession(ctx, c, &o.models)
	if err != nil {
		web.Close()
		<-ended
		return err
	}
	defer s.close()
	if err := s.CanChat(); err != nil && config.Template == "" {
		c.note("%s: ask /v1/completions, or give a template with --chat-template",
			oneLine(err.Error()))
	}
	server.Open(s)
	device := s.Info().Device
	say("ready", map[string]any{"url": url, "model": o.name, "device": device.Backend + " " + device.Adapter,
		"load_ms": s.Info().LoadMS}, true, fmt.Sprintf("%s is at %s on %s %s (stop with Ctrl-C)", quote.Name(o.name),
		url, device.Backend, quote.Name(device.Adapter)))
	select {
	case err := <-ended:
		return err
	case <-ctx.Done():
	}
	cut := o.stop(server, web)
	say("stopped", map[string]any{"cut": cut}, cut, "answers were cut off: they took longer than --grace")
	return nil
}

// stop lets running answers finish within --grace and reports whether some were cut off.
func (o *serveOptions) stop(server *serve.Server, web *http.Server) (cut bool) {
	server.Drain()
	grace, cancel := context.WithTimeout(context.Background(), o.grace)
	defer cancel()
	if web.Shutdown(grace) == nil {
		return false
	}
	server.Abort()
	// The answers end within a round, and their clients get an error.
	last, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	if web.Shutdown(last) != nil {
		web.Close()
		server.Wait() // a round may be long, and its session is closed next
	}
	return true
}

// listen opens the address and prints a note if other machines can reach it.
func (o *serveOptions) listen(config *serve.Config, c *console) (net.Listener, error) {
	listener, err := net.Listen("tcp", o.addr)
	if errors.Is(err, syscall.EADDRINUSE) {
		host, _, _ := net.SplitHostPort(o.addr)
		return nil, fmt.Errorf("--addr %s: the port is taken by another program; stop it, or take a free one with "+
			"--addr %s", o.addr, net.JoinHostPort(host, "0"))
	}
	if err != nil {
		return nil, fmt.Errorf("--addr %s: %w", o.addr, err)
	}
	at, ok := listener.Addr().(*net.TCPAddr)
	if ok && at.IP.IsLoopback() {
		return listener, nil
	}
	config.Remote = true
	if host, _, _ := net.SplitHostPort(o.addr); host != "" {
		config.Hosts = append(config.Hosts, host)
	}
	if o.key == "" {
		c.note("%s can be reached from other machines, and no key is asked for: set %s", listener.Addr(), keyVariable)
	} else {
		c.note("%s can be reached from other machines; what is said is not encrypted", listener.Addr())
	}
	return listener, nil
}

// events returns the function that prints events: as JSON on standard output, or as lines on standard error if
// worth is set.
func (o *serveOptions) events(c *console) func(event string, v any, worth bool, line string) {
	var mu sync.Mutex
	return func(event string, v any, worth bool, line string) {
		mu.Lock()
		defer mu.Unlock()
		switch {
		case o.json && (event != "request" || !o.quiet):
			b, err := json.Marshal(v)
			if err == nil {
				// One object with the event's name first.
				fmt.Fprintf(c.out, "{\"event\":%q,%s\n", event, b[1:])
			}
		case !o.json && worth && (event != "request" || !o.quiet):
			fmt.Fprintln(c.err, "foretoken:", line)
		}
	}
}

func requestLine(e *serve.Entry) string {
	line := fmt.Sprintf("%s %s %d", quote.Name(e.Method), quote.Name(e.Path), e.Status)
	if e.Code != "" {
		line += " " + e.Code
	}
	if e.Error != "" {
		line += " · " + e.ID + ": " + quote.Name(e.Error)
	}
	if e.Output > 0 {
		line += fmt.Sprintf(" · %d + %d tokens · %.2f a pass · finish %s", e.Prompt, e.Output, e.Accept, e.Finish)
	}
	if e.QueueMS >= 1 {
		line += fmt.Sprintf(" · waited %.0f ms", e.QueueMS)
	}
	return line + fmt.Sprintf(" · %.0f ms", e.MS)
}
