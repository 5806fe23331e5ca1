// Command devserver serves the built site on this machine's loopback interface, the way a careful static host
// would: right MIME types, byte ranges, strong ETags and compression. It exists because a page that streams
// WebAssembly and ranges of model files cannot be opened from file:// URLs.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/net/netutil"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := command(os.Stdout).ExecuteContext(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "devserver:", err)
		os.Exit(1)
	}
}

// command builds the command line; the address served is printed on out.
func command(out io.Writer) *cobra.Command {
	var addr, dir, models string
	var cors bool
	cmd := &cobra.Command{
		Use:           "devserver",
		Short:         "Serve the built Foretoken site on loopback",
		Args:          cobra.NoArgs,
		SilenceUsage:  true,
		SilenceErrors: true,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return serve(cmd.Context(), out, addr, dir, models, cors)
		},
	}
	cmd.Flags().StringVar(&addr, "addr", "127.0.0.1:8080", "loopback address to listen on; port 0 picks a free one")
	cmd.Flags().StringVar(&dir, "dir", "web/dist", "folder of the built site")
	cmd.Flags().StringVar(&models, "models", "", "folder of .gguf files to serve at /models/")
	cmd.Flags().BoolVar(&cors, "cors", false, "let pages of other ports of this machine load the module and the models")
	return cmd
}

// serve runs until ctx ends, then lets running requests finish for a moment.
func serve(ctx context.Context, out io.Writer, addr, dir, models string, cors bool) error {
	site, err := newSite(dir, models)
	if err != nil {
		return err
	}
	defer site.close()
	site.cors = cors
	listener, err := listenLoopback(addr)
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "Foretoken is at http://%s/ (stop with Ctrl-C)\n", listener.Addr())
	if models != "" {
		fmt.Fprintf(out, "models from %s are at http://%s/models/\n", models, listener.Addr())
	}
	server := newServer(site)
	done := make(chan error, 1)
	go func() { done <- server.Serve(netutil.LimitListener(listener, maxConnections)) }()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
	}
	// A model may be on its way to a browser; do not wait for all of it.
	grace, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	if err := server.Shutdown(grace); err != nil {
		return server.Close()
	}
	return nil
}

// maxConnections limits connected clients; more wait until one leaves. A page has a few.
const maxConnections = 256

// newServer bounds a client's share of the server: it has seconds to send a request, which has no body worth
// reading, and minutes to take each piece of an answer.
func newServer(handler http.Handler) *http.Server {
	return &http.Server{
		Handler:           handler,
		ReadHeaderTimeout: requestTime,
		ReadTimeout:       requestTime,
		IdleTimeout:       2 * time.Minute,
		MaxHeaderBytes:    32 << 10,
		ErrorLog:          log.New(os.Stderr, "devserver: ", 0),
	}
}

// requestTime limits how long a client takes to send a request.
const requestTime = 10 * time.Second

// listenLoopback listens on addr and refuses whatever another machine could
// reach: the server has no authentication and hands out local files.
func listenLoopback(addr string) (net.Listener, error) {
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		return nil, fmt.Errorf("--addr %q: want host:port, for example 127.0.0.1:8080", addr)
	}
	if host == "" {
		return nil, fmt.Errorf("--addr %q: an empty host listens on every interface; this server is for loopback "+
			"only, use 127.0.0.1:%s", addr, port)
	}
	ips := []net.IP{net.ParseIP(host)}
	if ips[0] == nil {
		if ips, err = net.LookupIP(host); err != nil {
			return nil, fmt.Errorf("--addr %q: %w", addr, err)
		}
	}
	for _, ip := range ips {
		if !ip.IsLoopback() {
			return nil, fmt.Errorf("--addr %q: %s is not a loopback address; this server is for this machine only, "+
				"use 127.0.0.1:%s", addr, ip, port)
		}
	}
	listener, err := net.Listen("tcp", net.JoinHostPort(ips[0].String(), port))
	if errors.Is(err, syscall.EADDRINUSE) {
		return nil, fmt.Errorf("--addr %q: the port is taken by another program; stop it, or pick another address "+
			"such as --addr %s", addr, net.JoinHostPort(host, "0"))
	}
	if err != nil {
		return nil, fmt.Errorf("--addr %q: %w", addr, err)
	}
	return listener, nil
}
