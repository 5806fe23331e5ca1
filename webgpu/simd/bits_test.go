package simd_test

import (
	_ "embed"
	"encoding/json"
	"flag"
	"fmt"
	"hash/fnv"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"foretoken/webgpu"
	"foretoken/webgpu/kernels/kerneltest"
	"foretoken/webgpu/simd"
)

var update = flag.Bool("update", false, "write testdata/bits.json")

// bitsFile has the hash of each of 64 rows of each program of bitsPrograms, eight digits a row.
//
//go:embed testdata/bits.json
var bitsFile []byte

// bitsRows is the number of rows of each program.
const bitsRows = 64

// bitsProgram computes rows of a kernel.
type bitsProgram struct {
	name string
	// apart: the rows are problems of their own, which do not run together.
	apart bool
	// rows computes the given rows and returns as many words for each of them.
	rows func(order []int) []uint32
}

// rowBits returns the hashes of n rows. Processors choose the sign and payload of a NaN, so every NaN counts as one.
func rowBits(words []uint32, n int) []string {
	width := len(words) / n
	var rows []string
	for i := range n {
		h := fnv.New32a()
		for _, w := range words[i*width:][:width] {
			if w&0x7fffffff > 0x7f800000 {
				w = 0x7fc00000
			}
			h.Write([]byte{byte(w), byte(w >> 8), byte(w >> 16), byte(w >> 24)})
		}
		rows = append(rows, fmt.Sprintf("%08x", h.Sum32()))
	}
	return rows
}

// allRows are the rows of a program, in an order that each number of rows begins at another one.
func allRows(from int) []int {
	var rows []int
	for i := range bitsRows {
		rows = append(rows, (from*7+i)%bitsRows)
	}
	return rows
}

// TestBits compares the bits of every kernel with those in the repository: in each form of the kernels that runs here,
// on one to four threads, in a browser on one and three, for each number of rows on one. All homes of the kernels have
// these bits. A compiler that contracts a product and a sum, or that reorders sums, fails it. A change of the numbers
// writes the file with -update.
func TestBits(t *testing.T) {
	want := map[string]string{}
	if err := json.Unmarshal(bitsFile, &want); err != nil {
		t.Fatal(err)
	}
	if *update {
		want = map[string]string{}
		_, dev := watch(t, simd.Options{})
		for _, p := range bitsPrograms(kerneltest.New(t, dev)) {
			want[p.name] = strings.Join(rowBits(p.rows(allRows(0)), bitsRows), "")
		}
		text, err := json.MarshalIndent(want, "", "\t")
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile("testdata/bits.json", append(text, '\n'), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	for _, form := range simd.Forms() {
		for threads := 1; threads <= 4; threads++ {
			if testing.Short() && threads%2 == 0 {
				continue
			}
			t.Run(fmt.Sprintf("%s, %d threads", form, threads), func(t *testing.T) {
				_, dev := watch(t, simd.Options{Form: form, Threads: threads})
				known := maps.Clone(want)
				for _, p := range bitsPrograms(kerneltest.New(t, dev)) {
					compareBits(t, p, known[p.name], threads == 1 && !testing.Short())
					delete(known, p.name)
				}
				for name := range known {
					t.Errorf("testdata/bits.json has %s, which does not run", name)
				}
				if n := dev.Counters().Fallbacks; n > 0 {
					t.Errorf("%d dispatches ran their references", n)
				}
			})
		}
	}
}

// compareBits runs a program with some numbers of rows or with every one.
func compareBits(t *testing.T, p bitsProgram, want string, every bool) {
	t.Helper()
	if len(want) != 8*bitsRows {
		t.Errorf("testdata/bits.json lacks %s", p.name)
		return
	}
	wrong := map[int]bool{}
	for m := 1; m <= bitsRows; m++ {
		if m < bitsRows && (p.apart || !every && !slices.Contains(kerneltest.BatchSizes, m)) {
			continue
		}
		order := allRows(m)[:m]
		for i, bits := range rowBits(p.rows(order), m) {
			if row := order[i]; bits != want[8*row:][:8] {
				wrong[row] = true
			}
		}
	}
	if len(wrong) > 0 {
		t.Errorf("%s: other bits in %d of %d rows, the first is %d", p.name, len(wrong), bitsRows,
			slices.Min(slices.Collect(maps.Keys(wrong))))
	}
}

// watched is a device that notes the entries of the kernels that it compiles.
type watched struct {
	webgpu.Device
	entries map[string]bool
}

func (w *watched) NewKernels(sources []*webgpu.KernelSource) ([]webgpu.Kernel, error) {
	for _, s := range sources {
		w.entries[s.Entry] = true
	}
	return w.Device.NewKernels(sources)
}

func watch(t *testing.T, o simd.Options) (map[string]bool, webgpu.Device) {
	t.Helper()
	dev, err := simd.Open(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(dev.Destroy)
	w := &watched{dev, map[string]bool{}}
	return w.entries, w
}

// TestBitsOfEveryKernel expects bitsPrograms to run all kernels of src/kernels.h but those that only copy words.
func TestBitsOfEveryKernel(t *testing.T) {
	copies := []string{"feature_store", "feature_gather", "feature_parent", "keep", "mask", "siblings", "spread",
		"stream"}
	entries, dev := watch(t, simd.Options{})
	for _, p := range bitsPrograms(kerneltest.New(t, dev)) {
		p.rows([]int{5})
	}
	for _, name := range simd.KernelNames(dev.(*watched).Device) {
		if strings.HasPrefix(name, "matmul_") { // a form that this processor lacks, else it would stand for matmul
			continue
		}
		if !entries[name] && !slices.Contains(copies, name) {
			t.Errorf("bitsPrograms does not run %s", name)
		}
	}
}
