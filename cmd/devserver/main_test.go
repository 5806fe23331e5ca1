package main

import (
	"bufio"
	"context"
	"io"
	"net"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"
)

func TestListenRefusesWhatOthersCanReach(t *testing.T) {
	for addr, reason := range map[string]string{
		":8080":          "every interface",
		"0.0.0.0:8080":   "not a loopback",
		"[::]:8080":      "not a loopback",
		"192.0.2.1:8080": "not a loopback",
		"8080":           "host:port",
	} {
		listener, err := listenLoopback(addr)
		if err == nil {
			listener.Close()
		}
		if err == nil || !strings.Contains(err.Error(), reason) {
			t.Errorf("%s: %v, want a reason with %q", addr, err, reason)
		}
	}
}

func TestPortTakenSaysSo(t *testing.T) {
	holder, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer holder.Close()
	_, err = listenLoopback(holder.Addr().String())
	if err == nil || !strings.Contains(err.Error(), "taken") || strings.Contains(err.Error(), "\n") {
		t.Errorf("got %v", err)
	}
}

func TestMissingSiteNamesTheFix(t *testing.T) {
	for _, dir := range []string{t.TempDir(), t.TempDir() + "/none"} {
		if _, err := newSite(dir, ""); err == nil || !strings.Contains(err.Error(), "make demo") {
			t.Errorf("%v", err)
		}
	}
}

// TestServesUntilStopped runs the command as a user does: it prints its
// address, answers, and ends without an error when interrupted.
func TestServesUntilStopped(t *testing.T) {
	dir, _ := build(t)
	reader, writer := io.Pipe()
	cmd := command(writer)
	cmd.SetArgs([]string{"--addr", "127.0.0.1:0", "--dir", dir})
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- cmd.ExecuteContext(ctx) }()
	line, err := bufio.NewReader(reader).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	url := regexp.MustCompile(`http://127\.0\.0\.1:\d+/`).FindString(line)
	response, err := http.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	response.Body.Close()
	if response.StatusCode != 200 {
		t.Errorf("status %d", response.StatusCode)
	}
	stop()
	select {
	case err := <-done:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(time.Minute):
		t.Fatal("the server did not stop")
	}
}
