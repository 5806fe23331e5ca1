//go:build !js

package simd

import (
	"bytes"
	"cmp"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"testing"
)

// notRun ends a test whose compiler is missing. It is modeltest.NotRun, which this package cannot import.
func notRun(t *testing.T, missing string) {
	t.Helper()
	if os.Getenv("FORETOKEN_REQUIRE_DATA") == "1" {
		t.Fatalf("%s is missing, and FORETOKEN_REQUIRE_DATA=1 asks for it", missing)
	}
	t.Skipf("NOT RUN: %s: %s is missing", t.Name(), missing)
}

// TestModulesAreBuiltFromSource builds the modules again, by the version of clang that built those in the repository,
// and compares them byte for byte.
func TestModulesAreBuiltFromSource(t *testing.T) {
	version := regexp.MustCompile(`clang.([0-9]+\.[0-9]+\.[0-9]+)`)
	made := version.FindSubmatch(plainModule)
	if made == nil {
		t.Fatal("plain.wasm does not say which clang built it")
	}
	said, err := exec.Command(cmp.Or(os.Getenv("CLANG"), "clang-16"), "--version").Output()
	if err != nil {
		notRun(t, fmt.Sprintf("clang %s (%v)", made[1], err))
	}
	here := version.Find(bytes.ReplaceAll(said, []byte("clang version"), []byte("clang")))
	if !bytes.Contains(here, made[1]) {
		notRun(t, fmt.Sprintf("clang %s, which built the modules (here is %s)", made[1], here))
	}
	to := t.TempDir()
	if out, err := exec.Command("sh", "src/build.sh", to).CombinedOutput(); err != nil {
		t.Fatalf("src/build.sh: %v\n%s", err, out)
	}
	for _, name := range []string{"plain.wasm", "relaxed.wasm"} {
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
