//go:build !js

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"foretoken/internal/files"
	"foretoken/models/convert/converttest"
	"foretoken/models/gguf"
	"foretoken/models/safetensors"
)

// onlyFiles checks the files in a folder: a failed run leaves nothing behind.
func onlyFiles(t *testing.T, dir string, want ...string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	slices.Sort(want)
	if !slices.Equal(names, want) {
		t.Errorf("the folder has %q, want %q", names, want)
	}
}

func openPath(t *testing.T, path string) *gguf.File {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	f, err := gguf.Open(files.FromBytes(path, b))
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// sameContent compares two models tensor by tensor.
func sameContent(t *testing.T, got, want *gguf.File) {
	t.Helper()
	if len(got.Tensors) != len(want.Tensors) {
		t.Fatalf("%d tensors, want %d", len(got.Tensors), len(want.Tensors))
	}
	for i := range want.Tensors {
		w := &want.Tensors[i]
		g, err := got.Tensor(w.Name)
		if err != nil {
			t.Fatal(err)
		}
		a, b := make([]byte, g.Size), make([]byte, w.Size)
		if err := errors.Join(got.ReadTensor(g, a, 0), want.ReadTensor(w, b, 0)); err != nil {
			t.Fatal(err)
		}
		if g.Type != w.Type || !slices.Equal(g.Dims, w.Dims) || !bytes.Equal(a, b) {
			t.Errorf("%s: %s %v, want %s %v with the same bytes: %v", w.Name, g.Type, g.Dims, w.Type, w.Dims,
				bytes.Equal(a, b))
		}
	}
}

// TestConvertFolder rebuilds the built-in draft from safetensors of its weights, which gives the same tokens, and
// decodes with the folder itself.
func TestConvertFolder(t *testing.T) {
	draft := openDraft(t)
	files, err := converttest.Checkpoint(draft, safetensors.F32)
	if err != nil {
		t.Fatal(err)
	}
	tensors, err := converttest.Tensors(draft, safetensors.F32)
	if err == nil {
		err = files.SetWeights(tensors, 2)
	}
	dir := filepath.Join(t.TempDir(), "tiny-go")
	if err = errors.Join(err, os.Mkdir(dir, 0o700), files.Write(dir),
		os.WriteFile(filepath.Join(dir, "README.md"), []byte("# tiny"), 0o600)); err != nil {
		t.Fatal(err)
	}
	out := filepath.Join(t.TempDir(), "out.gguf")
	o := call(t, "", "convert", dir, "-o", out, "--type", "q8_0")
	if o.code != exitOK || o.out != "" || strings.Count(o.err, "\n") != 1 || !strings.Contains(o.err, "out.gguf: ") {
		t.Fatalf("%+v", o)
	}
	sameContent(t, openPath(t, out), draft)
	onlyFiles(t, filepath.Dir(out), "out.gguf")

	again := filepath.Join(t.TempDir(), "again.gguf")
	o = call(t, "", "convert", out, "-o", again, "--json")
	var said struct {
		File    string
		Bytes   int64
		Seconds float64
	}
	if st, err := os.Stat(again); err != nil || json.Unmarshal([]byte(o.out), &said) != nil || said.File != again ||
		said.Bytes != st.Size() || said.Seconds <= 0 || o.err != "" {
		t.Errorf("%v, %+v", err, o)
	}

	o = call(t, "", "inspect", dir)
	for _, want := range []string{"tiny-go: GGUF version 3", `"tiny-go"`, "llama.block_count", "4096 tokens",
		"F32 100.0 %", "can be run: yes"} {
		if !strings.Contains(o.out, want) {
			t.Errorf("inspect says nothing of %q:\n%s%s", want, o.out, o.err)
		}
	}
	original := write(t, "draft.gguf", demoBytes(t, "draft"))
	ids := func(target string, more ...string) []int32 {
		return results(t, generate(t, "", append([]string{"--target", target, "--draft", "none", "--prompt", testPrompt,
			"--max-tokens", "12", "--json"}, more...)...))[0].TokenIDs
	}
	want := ids(original)
	for target, quantise := range map[string]string{out: "", dir: "q8_0",
		filepath.Join(dir, "model-00002-of-00002.safetensors"): "Q8_0", filepath.Join(dir,
			"model.safetensors.index.json"): "q8_0"} {
		if got := ids(target, "--quantise", quantise); !slices.Equal(got, want) {
			t.Errorf("%s, stored as %q: %v, want %v", target, quantise, got, want)
		}
	}
	if err := os.Remove(filepath.Join(dir, "tokenizer.json")); err != nil {
		t.Fatal(err)
	}
	oneError(t, "no tokenizer", call(t, "", "convert", dir, "-o", out, "--force"), exitError, dir,
		"tokenizer.json is missing")
	sameContent(t, openPath(t, out), draft) // the old file stays
}

func TestConvertJoinsAndRequantises(t *testing.T) {
	draft := openDraft(t)
	parts, err := converttest.Parts(draft, "big", 3, true)
	dir, to := t.TempDir(), t.TempDir()
	if err = errors.Join(err, parts.Write(dir)); err != nil {
		t.Fatal(err)
	}
	second, out := filepath.Join(dir, "big-00002-of-00003.gguf"), filepath.Join(to, "big.gguf")
	for name, in := range map[string][]string{
		"any part": {second}, "the folder": {dir}, "all parts": {second, filepath.Join(dir, "big-00003-of-00003.gguf"),
			filepath.Join(dir, "big-00001-of-00003.gguf")},
	} {
		if o := call(t, "", append([]string{"convert", "--force", "-o", out}, in...)...); o.code != exitOK {
			t.Fatalf("%s: %s", name, o.err)
		}
		sameContent(t, openPath(t, out), draft)
	}
	if o := call(t, "", "inspect", second); o.code != exitOK || !strings.Contains(o.out, "can be run: yes") ||
		strings.Contains(o.out, "split.") {
		t.Errorf("%s%s", o.out, o.err)
	}
	half := filepath.Join(to, "half.gguf")
	if o := call(t, "", "convert", out, "-o", half, "--type", "F16"); o.code != exitOK {
		t.Fatal(o.err)
	}
	f := openPath(t, half)
	for i := range f.Tensors {
		if info := &f.Tensors[i]; len(info.Dims) > 1 && info.Type != gguf.F16 {
			t.Errorf("%s is %s", info.Name, info.Type)
		}
	}
	if o := call(t, "", "convert", half, "-o", half, "--type", "q8_0", "--force"); o.code != exitOK { // onto itself
		t.Fatal(o.err)
	}
	if info, err := openPath(t, half).Tensor("blk.0.attn_q.weight"); err != nil || info.Type != gguf.Q8_0 {
		t.Errorf("%+v %v", info, err)
	}
	onlyFiles(t, to, "big.gguf", "half.gguf")
	renamed := write(t, "model.gguf", parts["big-00002-of-00003.gguf"])
	oneError(t, "renamed", call(t, "", "convert", renamed, "-o", filepath.Join(to, "x.gguf")), exitError, renamed,
		"one of 3 parts")
	if o := call(t, "", "inspect", renamed); o.code != exitOK ||
		!strings.Contains(o.out, "can be run: no: convert: "+renamed+" is one of 3 parts") {
		t.Errorf("%s%s", o.out, o.err)
	}
	if err := os.Remove(filepath.Join(dir, "big-00003-of-00003.gguf")); err != nil {
		t.Fatal(err)
	}
	for _, in := range []string{second, dir, filepath.Join(dir, "big-00003-of-00003.gguf")} {
		oneError(t, in, call(t, "", "convert", in, "-o", filepath.Join(to, "x.gguf")), exitError,
			"1 of 3 parts are missing: big-00003-of-00003.gguf")
	}
	onlyFiles(t, to, "big.gguf", "half.gguf")
}

func TestConvertRefusesWhatItCannotDo(t *testing.T) {
	draft := write(t, "draft.gguf", demoBytes(t, "draft"))
	dir := t.TempDir()
	out := filepath.Join(dir, "out.gguf")
	if err := os.WriteFile(out, []byte("kept"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		args []string
		code int
		want []string
	}{
		"no input":      {nil, exitUsage, []string{"needs a model"}},
		"no output":     {[]string{draft}, exitUsage, []string{"-o"}},
		"no such type":  {[]string{draft, "-o", out, "--type", "q9"}, exitUsage, []string{"--type", "q9", "q8_0"}},
		"there already": {[]string{draft, "-o", out}, exitError, []string{out, "--force"}},
		"a folder":      {[]string{draft, "-o", dir, "--force"}, exitError, []string{dir, "not a file"}},
		"no folder": {[]string{draft, "-o", filepath.Join(dir, "no", "out.gguf")}, exitError,
			[]string{filepath.Join(dir, "no")}},
		"nothing there": {[]string{filepath.Join(dir, "none.gguf"), "-o", out, "--force"}, exitError,
			[]string{"none.gguf"}},
		"an empty folder": {[]string{t.TempDir(), "-o", out, "--force"}, exitError,
			[]string{"neither a .gguf file nor safetensors"}},
		"damaged": {[]string{write(t, "bad.gguf", demoBytes(t, "draft")[:9000]), "-o", out, "--force"},
			exitError, []string{"bad.gguf", "truncated"}},
		"two models": {[]string{draft, write(t, "other.gguf", demoBytes(t, "draft")), "-o", out, "--force"},
			exitError, []string{"choose one model"}},
		"not safetensors": {[]string{write(t, "model.safetensors", []byte("GGUF and more than that")), "-o", out,
			"--force"}, exitError, []string{"model.safetensors", "GGUF"}},
		"several in folder": {[]string{twoModels(t), "-o", out, "--force"}, exitError,
			[]string{"several models", "a.gguf", "b.gguf"}},
	} {
		oneError(t, name, call(t, "", append([]string{"convert"}, c.args...)...), c.code, c.want...)
	}
	if b, err := os.ReadFile(out); string(b) != "kept" {
		t.Errorf("%q %v", b, err)
	}
	onlyFiles(t, dir, "out.gguf")
}

func twoModels(t *testing.T) string {
	dir := t.TempDir()
	for _, name := range []string{"a.gguf", "b.gguf"} {
		if err := os.WriteFile(filepath.Join(dir, name), demoBytes(t, "draft"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// TestConvertOnAFullDisk limits the file size of a child process to less than the model.
func TestConvertOnAFullDisk(t *testing.T) {
	if path := os.Getenv("LIMITED_CONVERT"); path != "" {
		signal.Ignore(syscall.SIGXFSZ) // writing fails instead
		if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &syscall.Rlimit{Cur: 100_000, Max: 100_000}); err != nil {
			t.Fatal(err)
		}
		os.Exit(run(context.Background(), &console{in: strings.NewReader(""), out: os.Stdout, err: os.Stderr},
			strings.Split(path, "\n")))
	}
	draft, dir := write(t, "draft.gguf", demoBytes(t, "draft")), t.TempDir()
	out := filepath.Join(dir, "out.gguf")
	cmd := exec.Command(os.Args[0], "-test.run", "^TestConvertOnAFullDisk$")
	cmd.Env = append(os.Environ(), "LIMITED_CONVERT="+
		strings.Join([]string{"convert", draft, "-o", out, "--type", "f16"}, "\n"))
	var errs bytes.Buffer
	cmd.Stderr = &errs
	err := cmd.Run()
	if code := cmd.ProcessState.ExitCode(); err == nil || code != exitError {
		t.Errorf("code %d, %v", code, err)
	}
	lines := strings.Split(strings.TrimSpace(errs.String()), "\n")
	last := lines[len(lines)-1]
	for _, want := range []string{"foretoken: convert: writing " + out, "file too large",
		"the partial file was removed", "make room"} {
		if !strings.Contains(last, want) {
			t.Errorf("%q says nothing of %q", last, want)
		}
	}
	onlyFiles(t, dir)
}

// stopped is a source that interrupts the run while it is read.
type stopped struct {
	files.Source
	stop func()
}

func (s stopped) ReadAt(p []byte, off int64) (int, error) {
	if off > 0 {
		s.stop()
	}
	return s.Source.ReadAt(p, off)
}

func TestInterruptedConvertLeavesNothing(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	dir := t.TempDir()
	src := stopped{files.FromBytes("x", make([]byte, 10*copyChunk)), cancel}
	err := writeComplete(ctx, filepath.Join(dir, "out.gguf"), false, func(w io.Writer) error {
		onlyOne, err := os.ReadDir(dir)
		if err != nil || len(onlyOne) != 1 || onlyOne[0].Name() == "out.gguf" {
			t.Errorf("while writing the folder has %v %v", onlyOne, err)
		}
		return copySource(ctx, w, src, &bar{})
	})
	if !errors.Is(err, errInterrupted) {
		t.Errorf("%v", err)
	}
	onlyFiles(t, dir)
	// From the command line, before it begins.
	draft := write(t, "draft.gguf", demoBytes(t, "draft"))
	var errs bytes.Buffer
	code := run(ctx, &console{in: strings.NewReader(""), out: io.Discard, err: &errs},
		[]string{"convert", draft, "-o", filepath.Join(dir, "out.gguf")})
	if code != exitInterrupted || errs.String() != "foretoken: interrupted\n" {
		t.Errorf("code %d: %q", code, errs.String())
	}
	onlyFiles(t, dir)
}

// TestCopySourceKeepsTheFirstError covers errors of a writer, of a reader, and of a truncated source.
func TestCopySourceKeepsTheFirstError(t *testing.T) {
	full := errors.New("the disk is full")
	data := bytes.Repeat([]byte("abcdefg"), 1<<20)
	for n := range 4 {
		err := copySource(t.Context(), &failing{after: n, err: full}, files.FromBytes("x", data), &bar{})
		if !errors.Is(err, full) {
			t.Errorf("after %d writes: %v", n, err)
		}
	}
	var b bytes.Buffer
	if err := copySource(t.Context(), &b, files.FromBytes("x", data), &bar{}); err != nil ||
		!bytes.Equal(b.Bytes(), data) {
		t.Errorf("%d of %d bytes: %v", b.Len(), len(data), err)
	}
	if err := copySource(t.Context(), io.Discard, longer{files.FromBytes("x.gguf", data)}, &bar{}); err == nil ||
		!strings.Contains(err.Error(), "x.gguf ends at byte 7340032 of 7341032") {
		t.Errorf("%v", err)
	}
}

type failing struct {
	after int
	err   error
}

func (w *failing) Write(p []byte) (int, error) {
	if w.after--; w.after < 0 {
		return 0, w.err
	}
	return len(p), nil
}

type longer struct{ files.Source }

func (l longer) Size() int64 { return l.Source.Size() + 1000 }

func TestConvertShowsProgress(t *testing.T) {
	draft := write(t, "draft.gguf", demoBytes(t, "draft"))
	var errs bytes.Buffer
	c := &console{in: strings.NewReader(""), out: io.Discard, err: &errs, errTerminal: true}
	if code := run(context.Background(), c, []string{"convert", draft, "-o",
		filepath.Join(t.TempDir(), "progress.gguf"), "--type", "f32"}); code != exitOK {
		t.Fatalf("code %d: %s", code, errs.String())
	}
	if !strings.Contains(errs.String(), "progress.gguf") || !strings.Contains(errs.String(), "%") {
		t.Errorf("%q", errs.String())
	}
}
