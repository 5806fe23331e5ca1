//go:build !js

package simd

import (
	"cmp"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/tetratelabs/wazero"
)

// TestIntrinsics compares the intrinsics of simd.h, and those of WebAssembly, with testdata/intrinsics.c.
func TestIntrinsics(t *testing.T) {
	clang := cmp.Or(os.Getenv("CLANG"), "clang-16")
	strict := []string{"-std=c11", "-Wall", "-Wextra", "-Werror", "testdata/intrinsics.c"}
	compile := func(t *testing.T, compiler string, flags ...string) string {
		if _, err := exec.LookPath(compiler); err != nil {
			notRun(t, compiler)
		}
		program := filepath.Join(t.TempDir(), "intrinsics")
		args := slices.Concat([]string{"-o", program}, strict, flags)
		out, err := exec.Command(compiler, args...).CombinedOutput()
		if err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		return program
	}
	check := func(t *testing.T, command ...string) {
		out, err := exec.Command(command[0], command[1:]...).CombinedOutput()
		if err != nil || len(out) > 0 {
			t.Fatalf("%s differs (%v)", out, err)
		}
	}
	for _, compiler := range []string{"gcc", clang} {
		for _, level := range []string{"-O0", "-O1", "-O3"} {
			t.Run(compiler+level, func(t *testing.T) {
				t.Parallel()
				switch runtime.GOARCH {
				case "amd64":
					check(t, compile(t, compiler, level, "-msse4.1", "-lm"))
				case "arm64":
					check(t, compile(t, compiler, level, "-lm"))
				default:
					t.Skipf("simd.h has no intrinsics for %s", runtime.GOARCH)
				}
			})
		}
	}
	t.Run("arm64", func(t *testing.T) {
		t.Parallel()
		if _, err := exec.LookPath("qemu-aarch64"); err != nil {
			notRun(t, "qemu-aarch64")
		}
		check(t, "qemu-aarch64", compile(t, "aarch64-linux-gnu-gcc", "-O1", "-static", "-lm"))
	})
	t.Run("wasm", func(t *testing.T) {
		t.Parallel()
		program := compile(t, clang, "-O1", "--target=wasm32", "-msimd128", "-nostdlib", "-Wl,--no-entry")
		code, err := os.ReadFile(program)
		if err != nil {
			t.Fatal(err)
		}
		ctx := context.Background()
		r := wazero.NewRuntime(ctx)
		defer r.Close(ctx)
		module, err := r.Instantiate(ctx, code)
		if err != nil {
			t.Fatal(err)
		}
		at, err := module.ExportedFunction("differs").Call(ctx)
		if err != nil {
			t.Fatal(err)
		}
		name, _ := module.Memory().Read(uint32(at[0]), 40)
		if name, _, _ := strings.Cut(string(name), "\x00"); name != "" {
			t.Fatalf("%s differs", name)
		}
	})
}

// TestEveryIntrinsicIsCompared looks for the names that simd.h defines in testdata/intrinsics.c.
func TestEveryIntrinsicIsCompared(t *testing.T) {
	header, err := os.ReadFile("src/simd.h")
	if err != nil {
		t.Fatal(err)
	}
	comparisons, err := os.ReadFile("testdata/intrinsics.c")
	if err != nil {
		t.Fatal(err)
	}
	defined := regexp.MustCompile(`(?:OP \w+ |#define )wasm_(\w+)\(`).FindAllSubmatch(header, -1)
	if len(defined) == 0 {
		t.Fatal("simd.h defines no intrinsic")
	}
	for _, name := range defined {
		if !regexp.MustCompile(`\b(wasm_)?`+string(name[1])+`\(`).Match(comparisons) &&
			!regexp.MustCompile(`\(`+string(name[1])+`,`).Match(comparisons) {
			t.Errorf("nothing compares wasm_%s", name[1])
		}
	}
}
