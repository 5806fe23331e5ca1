//go:build !js

package simd

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"testing"
)

// TestModulesAreBuiltFromSource builds the modules again, by the version of clang that built those in the repository,
// and compares them byte for byte.
func TestModulesAreBuiltFromSource(t *testing.T) {
	version := regexp.MustCompile(`clang.([0-9]+\.[0-9]+\.[0-9]+)`)
	made := version.FindSubmatch(threadsModule)
	if made == nil {
		t.Fatal("threads.wasm does not say which clang built it")
	}
	said, err := exec.Command("clang", "--version").Output()
	if err != nil {
		t.Skipf("NOT RUN: %s: clang %s is missing (%v)", t.Name(), made[1], err)
	}
	if here := version.Find(bytes.ReplaceAll(said, []byte("clang version"), []byte("clang"))); !bytes.Contains(here, made[1]) {
		t.Skipf("NOT RUN: %s: built by clang %s, here is %s", t.Name(), made[1], here)
	}
	to := t.TempDir()
	if out, err := exec.Command("sh", "src/build.sh", to).CombinedOutput(); err != nil {
		t.Fatalf("src/build.sh: %v\n%s", err, out)
	}
	for _, name := range []string{"kernels.wasm", "threads.wasm"} {
		want, err := os.ReadFile(filepath.Join(to, name))
		if err != nil {
			t.Fatal(err)
		}
		got, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(got, want) {
			t.Errorf("%s is not what src/build.sh makes of src: build it again and commit it", name)
		}
	}
}
