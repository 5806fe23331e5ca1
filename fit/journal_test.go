//go:build !js

package fit

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestJournalGoesOn(t *testing.T) {
	path := filepath.Join(t.TempDir(), "new", "work.partial")
	settings := map[string]any{"k": 3, "name": "a<b"}
	j, err := OpenJournal(path, settings)
	if err != nil {
		t.Fatal(err)
	}
	for i := range 3 {
		if err := j.Add(fmt.Sprint(i), []int{i, 10 * i}); err != nil {
			t.Fatal(err)
		}
	}
	j.Close()
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	// An interrupt may cut the last line anywhere.
	for cut := len(whole) - 1; cut > bytes.LastIndexByte(whole[:len(whole)-1], '\n'); cut-- {
		if err := os.WriteFile(path, whole[:cut], 0o600); err != nil {
			t.Fatal(err)
		}
		j, err := OpenJournal(path, settings)
		if err != nil {
			t.Fatal(err)
		}
		var got []int
		if ok, err := j.Get("1", &got); !ok || err != nil || len(got) != 2 || got[1] != 10 {
			t.Fatalf("cut at %d: %v, %v, %v", cut, got, ok, err)
		}
		if ok, _ := j.Get("2", &got); ok {
			t.Fatalf("cut at %d: half a line is taken for finished work", cut)
		}
		if err := j.Add("2", []int{2, 20}); err != nil {
			t.Fatal(err)
		}
		j.Close()
		if again, _ := os.ReadFile(path); !bytes.Equal(again, whole) {
			t.Fatalf("cut at %d and gone on, the file is\n%s\nwant\n%s", cut, again, whole)
		}
	}
	if _, err := OpenJournal(path, map[string]any{"k": 4}); err == nil || !strings.Contains(err.Error(), path) ||
		!strings.Contains(err.Error(), "remove the file") {
		t.Errorf("other settings: %v", err)
	}
	if err := os.WriteFile(path, append(whole, "nonsense\n"...), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := OpenJournal(path, settings); err == nil || !strings.Contains(err.Error(), "line 5") {
		t.Errorf("a broken line: %v", err)
	}
	const notes = "my notes"
	if err := os.WriteFile(path, []byte(notes), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := OpenJournal(path, settings); err == nil || !strings.Contains(err.Error(), path) {
		t.Errorf("a file of something else: %v", err)
	}
	if b, err := os.ReadFile(path); err != nil || string(b) != notes {
		t.Errorf("%q, %v", b, err)
	}
	if err := os.WriteFile(path, whole, 0o600); err != nil {
		t.Fatal(err)
	}
	if j, err = OpenJournal(path, settings); err != nil {
		t.Fatal(err)
	}
	if err := j.Remove(); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(path); err == nil {
		t.Error("a finished journal is still there")
	}
}
