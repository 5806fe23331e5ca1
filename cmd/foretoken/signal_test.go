//go:build !js

package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestSignals sends signals to a child process that waits as main does. It prints "ready", then its cause to end, then
// reads a line and ends with its exit code: a signal in between that kills it is seen by the missing code.
func TestSignals(t *testing.T) {
	if mode := os.Getenv("WAIT_FOR_SIGNAL"); mode != "" {
		if mode == "nohup" {
			signal.Ignore(syscall.SIGHUP)
		}
		ctx := untilSignal()
		fmt.Println("ready")
		<-ctx.Done()
		var why stopSignal
		if !errors.As(context.Cause(ctx), &why) {
			os.Exit(exitError)
		}
		fmt.Println(why)
		_, _ = bufio.NewReader(os.Stdin).ReadString('\n')
		os.Exit(why.exitCode())
	}
	t.Attr("attack", "Ctrl-C, SIGTERM and a terminal that closes, once and again, with and without nohup")
	t.Attr("bound", "the first one lets the program finish with its code; a second one that is no hangup kills it")
	// A signal with a handler has the system's default in child processes, also where these tests run under nohup.
	handled := make(chan os.Signal, 1)
	signal.Notify(handled, syscall.SIGHUP)
	defer signal.Stop(handled)
	hangup, interrupt, terminate := syscall.SIGHUP, syscall.SIGINT, syscall.SIGTERM
	for _, c := range []struct {
		name    string
		mode    string
		signals []syscall.Signal
		first   syscall.Signal // ends the context
		killed  syscall.Signal // kills the process; 0: it ends by itself
	}{
		{"Ctrl-C", "shell", []syscall.Signal{interrupt}, interrupt, 0},
		{"SIGTERM", "shell", []syscall.Signal{terminate}, terminate, 0},
		{"a second one kills", "shell", []syscall.Signal{interrupt, terminate}, interrupt, terminate},
		{"a terminal that closes", "shell", []syscall.Signal{hangup, hangup, hangup}, hangup, 0},
		{"after that a signal kills", "shell", []syscall.Signal{hangup, terminate}, hangup, terminate},
		{"nohup", "nohup", []syscall.Signal{hangup, hangup, terminate}, terminate, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			cmd := exec.Command(os.Args[0], "-test.run", "^TestSignals$")
			cmd.Env = append(os.Environ(), "WAIT_FOR_SIGNAL="+c.mode)
			out, err := cmd.StdoutPipe()
			if err != nil {
				t.Fatal(err)
			}
			in, err := cmd.StdinPipe()
			if err != nil {
				t.Fatal(err)
			}
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			end := time.AfterFunc(time.Minute, func() { _ = cmd.Process.Kill() })
			defer end.Stop()
			lines := bufio.NewScanner(out)
			lines.Scan() // ready
			ended := false
			for _, s := range c.signals {
				if err := cmd.Process.Signal(s); err != nil {
					t.Fatal(err)
				}
				if s == c.first && !ended {
					if ended = lines.Scan(); !strings.Contains(lines.Text(), c.first.String()) {
						t.Fatalf("the context ended by %q, want %v", lines.Text(), c.first)
					}
				}
			}
			if c.killed == 0 {
				fmt.Fprintln(in)
			}
			_ = lines.Scan() // until it closes its output
			_ = cmd.Wait()
			status := cmd.ProcessState.Sys().(syscall.WaitStatus)
			if c.killed != 0 {
				if !status.Signaled() || status.Signal() != c.killed {
					t.Errorf("it ended with %v, want signal %v", cmd.ProcessState, c.killed)
				}
			} else if want := (stopSignal{c.first}).exitCode(); status.ExitStatus() != want {
				t.Errorf("it ended with %v, want code %d", cmd.ProcessState, want)
			}
		})
	}
}
