//go:build unix

package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// fullDiskArgs holds the arguments of a child process that runs a command as if the disk was full, one a line.
const fullDiskArgs = "RUN_ON_A_FULL_DISK"

// TestFullDisk runs commands in a process that may write no file longer than a few bytes, as on a disk that is full at
// that place. What they were to write is missing, what was there before stays, and the error names the file.
func TestFullDisk(t *testing.T) {
	if args := os.Getenv(fullDiskArgs); args != "" {
		os.Exit(onFullDisk(strings.Split(args, "\n")))
	}
	t.Attr("attack", "a disk that is full when a command writes a model, a manual, prompts, a report or cells of a "+
		"benchmark, its output or the tuning cache")
	t.Attr("bound", "the error names the file, which is as it was before or goes on after its last whole line")
	folder := t.TempDir()
	model := filepath.Join("..", "..", "models", "demo", "draft-q8_0.gguf")
	prompts := write(t, "prompts.jsonl", []byte(`{"id":"a","prompt":"x"}`+"\n"+`{"id":"b","prompt":"y"}`))
	out, before := filepath.Join(folder, "foretoken.1"), "what was there before" // named as man's first page
	runs := 0
	for name, args := range map[string][]string{
		"convert": {"convert", model, "--force", "-o", out},
		"prompts": {"sample-prompts", "--device=cpu", "--count=1", "--out", out},
		"json":    {"bench", "--device=cpu", "--prompts", prompts, "--methods=none", "--max-tokens=4", "--json", out},
		"manual":  {"man", "--out", folder},
		"tuning":  {"tuning", out},
	} {
		t.Run(name, func(t *testing.T) {
			if err := os.WriteFile(out, []byte(before), 0o600); err != nil {
				t.Fatal(err)
			}
			o := fullDisk(t, nil, args...)
			if o.code != exitError || !strings.Contains(o.err, syscall.EFBIG.Error()) ||
				!strings.Contains(o.err, folder) {
				t.Errorf("code %d: %s", o.code, o.err)
			}
			if b, err := os.ReadFile(out); err != nil || string(b) != before {
				t.Errorf("the file has %.40q now (%v)", b, err)
			}
			files, err := filepath.Glob(filepath.Join(folder, ".*"))
			if len(files) != 0 || err != nil {
				t.Errorf("left behind: %v, %v", files, err)
			}
			runs++
		})
	}
	t.Run("resume", func(t *testing.T) {
		cells := filepath.Join(folder, "cells")
		args := []string{"bench", "--device=cpu", "--prompts", prompts, "--methods=none", "--max-tokens=4", "--resume",
			cells}
		if o := fullDisk(t, nil, args...); o.code != exitError || !strings.Contains(o.err, cells) {
			t.Errorf("code %d: %s", o.code, o.err)
		}
		if o := call(t, "", args...); o.code != exitOK {
			t.Errorf("with room again: code %d: %s", o.code, o.err)
		}
		runs++
	})
	t.Run("output", func(t *testing.T) {
		full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
		if errors.Is(err, fs.ErrNotExist) {
			t.Skip("this system has no /dev/full")
		}
		if err != nil {
			t.Fatal(err)
		}
		defer full.Close()
		for _, args := range [][]string{
			{"generate", "--device=cpu", "--prompt=x", "--max-tokens=4"}, {"inspect", model}, {"methods"}, {"devices"},
			{"generate", "--device=cpu", "--prompt=x", "--max-tokens=4", "--json"},
		} {
			o := fullDisk(t, full, args...)
			if o.code != exitError || !strings.Contains(o.err, syscall.ENOSPC.Error()) {
				t.Errorf("%v: code %d: %s", args, o.code, o.err)
			}
			runs++
		}
	})
	t.Attr("measured", fmt.Sprintf("%d commands", runs))
}

// fullDisk runs a command in a process whose disk is full, with out as its standard output, or nil.
func fullDisk(t *testing.T, out *os.File, args ...string) outcome {
	t.Helper()
	cmd := exec.Command(os.Args[0], "-test.run", "^TestFullDisk$")
	cmd.Env = append(os.Environ(), fullDiskArgs+"="+strings.Join(args, "\n"))
	var printed, errs strings.Builder
	if cmd.Stdout, cmd.Stderr = &printed, &errs; out != nil {
		cmd.Stdout = out
	}
	err := cmd.Run()
	if _, ended := errors.AsType[*exec.ExitError](err); err != nil && !ended {
		t.Fatal(err)
	}
	return outcome{cmd.ProcessState.ExitCode(), printed.String(), errs.String()}
}

// onFullDisk limits the length of files and runs a command.
func onFullDisk(args []string) int {
	signal.Ignore(syscall.SIGXFSZ)
	const most = 8
	if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &syscall.Rlimit{Cur: most, Max: most}); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return exitUsage
	}
	if args[0] == "tuning" {
		cache := &tuning{path: args[1], models: map[string]string{"target": "a model"}}
		if err := cache.save(map[string]map[string]string{"target": {"a choice": "of a kernel"}}); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return exitError
		}
		return exitOK
	}
	c := system()
	c.tuning = ""
	return run(context.Background(), c, args)
}
