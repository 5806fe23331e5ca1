//go:build !js

package foretoken

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"foretoken/models/modeltest"
	"foretoken/webgpu"
	"foretoken/webgpu/native"
)

// The audit of GPU kernels compiles them with AMD's compiler for cards that are not there: RADV's null hardware behind
// testdata/nullgpu/shim.c. `make gpu-audit` sets these variables.
const (
	auditReport = "FORETOKEN_GPU_AUDIT"  // compile all kernels, and write the report to this file
	auditFamily = "FORETOKEN_GPU_FAMILY" // set for the process that compiles for one family
	auditDriver = "FORETOKEN_GPU_DRIVER" // another RADV than Debian's: the file of its library
)

// radv matches Debian's RADV.
const radv = "/usr/lib/*/libvulkan_radeon.so"

// gpuFamily is a GPU that kernels are compiled for, with the figures of its largest card.
type gpuFamily struct {
	name   string
	mesa   []string // names in RADV_FORCE_FAMILY, of which a version of Mesa knows one
	simds  float64  // whose cycles the compiler counts
	clock  float64  // GHz
	memory float64  // GB/s
}

// Sources: AMD's data sheets of the Radeon RX 7900 XTX, RX 6900 XT, RX Vega 64 and Ryzen 7 4800U. RDNA has two SIMDs a
// compute unit, GCN four.
var gpuFamilies = []gpuFamily{
	{name: "navi31", mesa: []string{"navi31", "gfx1100"}, simds: 2 * 96, clock: 2.3, memory: 960},
	{name: "navi21", mesa: []string{"navi21"}, simds: 2 * 80, clock: 2.0, memory: 512},
	{name: "vega10", mesa: []string{"vega10"}, simds: 4 * 64, clock: 1.5, memory: 484},
	{name: "renoir", mesa: []string{"renoir"}, simds: 4 * 8, clock: 1.75, memory: 50},
}

// gpuStats holds the compiler's statistics of a kernel.
type gpuStats struct {
	Registers int `json:"registers"` // vector registers of a lane
	Spills    int `json:"spills"`    // vector and scalar registers
	Scratch   int `json:"scratch"`   // bytes of a wave
	LDS       int `json:"lds"`       // bytes of a workgroup
	Waves     int `json:"waves"`     // of a SIMD
	Cycles    int `json:"cycles"`    // that a wave takes of a SIMD, each loop counted as eight turns
	Code      int `json:"code"`      // bytes
}

// auditLine precedes the compiler's statistics of a kernel in the output of the process that compiles.
const auditLine = "KERNEL "

func TestMain(m *testing.M) {
	if os.Getenv(auditFamily) != "" {
		if err := compileKernels(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// compileKernels compiles the kernels that standard input lists, in a process whose only adapter is null hardware.
func compileKernels() error {
	if dev, err := native.Open(native.Options{}); !errors.Is(err, webgpu.ErrUnavailable) {
		if err == nil {
			dev.Destroy()
		}
		return fmt.Errorf("native opened null hardware without being asked to: %v", err)
	}
	if all, err := native.Adapters(); err != nil || len(all) > 0 {
		return fmt.Errorf("native lists null hardware: %v, %v", all, err)
	}
	dev, err := native.Open(native.Options{Null: true, ReadTimeout: time.Minute})
	if err != nil {
		return err
	}
	fmt.Println(dev.Info().Driver)
	for in := json.NewDecoder(bufio.NewReader(os.Stdin)); ; {
		var k sentKernel
		if err := in.Decode(&k); err == io.EOF {
			os.Exit(0) // not Destroy: null hardware cannot free everything
		} else if err != nil {
			return err
		}
		fmt.Fprintf(os.Stderr, "%s%d\n", auditLine, k.Number)
		if _, err := dev.NewKernels([]*webgpu.KernelSource{{Name: k.Name, Key: strconv.Itoa(k.Number),
			Bindings: k.Bindings, WGSL: func() string { return k.WGSL }}}); err != nil {
			return err
		}
	}
}

// sentKernel is a kernel on its way to the process that compiles it.
type sentKernel struct {
	Number     int
	Name, WGSL string
	Bindings   []webgpu.Access
}

// radvFile returns RADV's library. The test is not run where it is missing.
func radvFile(t testing.TB) string {
	t.Helper()
	wanted := cmp.Or(os.Getenv(auditDriver), radv)
	found, err := filepath.Glob(wanted)
	if err != nil || len(found) == 0 {
		modeltest.NotRun(t, wanted+" (mesa-vulkan-drivers)")
	}
	return found[0]
}

// run runs a program that is to succeed.
func run(t testing.TB, name string, args ...string) {
	t.Helper()
	if out, err := exec.Command(name, args...).CombinedOutput(); err != nil {
		t.Fatalf("%s: %v: %s", name, err, out)
	}
}

// nullDriver builds the driver and returns the file that a Vulkan loader finds it by. The test is not run where RADV or
// a compiler of C is missing.
func nullDriver(t testing.TB) string {
	t.Helper()
	library := radvFile(t)
	if _, err := exec.LookPath("cc"); err != nil {
		modeltest.NotRun(t, "a compiler of C")
	}
	dir := t.TempDir()
	driver, manifest := filepath.Join(dir, "libnullgpu.so"), filepath.Join(dir, "icd.json")
	run(t, "cc", "-shared", "-fPIC", "-O1", "-Wall", "-Werror", "-DREAL="+strconv.Quote(library), "-o", driver,
		filepath.Join("testdata", "nullgpu", "shim.c"), "-ldl")
	text := fmt.Appendf(nil, `{"file_format_version": "1.0.0", "ICD": {"library_path": %q, "api_version": "1.3.230"}}`,
		driver)
	if err := os.WriteFile(manifest, text, 0o600); err != nil {
		t.Fatal(err)
	}
	return manifest
}

// sent returns kernels as JSON lines for a program that compiles them.
func sent(t testing.TB, list []gpuKernel) []byte {
	t.Helper()
	var lines bytes.Buffer
	for i, k := range list {
		if err := json.NewEncoder(&lines).Encode(sentKernel{i, k.Name, k.text(), k.Bindings}); err != nil {
			t.Fatal(err)
		}
	}
	return lines.Bytes()
}

// compileFor compiles kernels for a family and returns what the compiler says of each, and its version.
func compileFor(t testing.TB, manifest string, f gpuFamily, list []gpuKernel) (all []gpuStats, version string) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	in := sent(t, list)
	return onFamily(t, f, len(list), func() *exec.Cmd {
		cmd := exec.Command("nice", "-n", "10", self)
		cmd.Stdin = bytes.NewReader(in)
		cmd.Env = append(os.Environ(), auditFamily+"="+f.name, "VK_ICD_FILENAMES="+manifest,
			"VK_DRIVER_FILES="+manifest)
		return cmd
	})
}

// onFamily runs a command that compiles n kernels, with RADV as a GPU of a family, and returns what the compiler says
// of each, and what the command prints.
func onFamily(t testing.TB, f gpuFamily, n int, command func() *exec.Cmd) (all []gpuStats, printed string) {
	t.Helper()
	cache, stats := t.TempDir(), ""
	var err error
	for _, name := range f.mesa {
		cmd := command()
		cmd.Env = append(cmd.Environ(), "RADV_FORCE_FAMILY="+name, "RADV_DEBUG=shaderstats,nocache",
			"XDG_CACHE_HOME="+cache, "XDG_RUNTIME_DIR="+cache)
		var out, messages bytes.Buffer
		cmd.Stdout, cmd.Stderr = &out, &messages
		err = cmd.Run()
		if printed, stats = strings.TrimSpace(out.String()), messages.String(); err == nil ||
			!strings.Contains(stats, "Unknown family") {
			break
		}
	}
	if err == nil {
		all, err = parseStats(stats, n)
	}
	if err != nil {
		t.Fatalf("%s: %v: %s", f.name, err, stats[max(0, len(stats)-2000):])
	}
	return all, printed
}

var statLine = regexp.MustCompile(`(?m)^([A-Za-z ]+): (\d+)$`)

// parseStats reads the statistics of n kernels.
func parseStats(text string, n int) ([]gpuStats, error) {
	parts := regexp.MustCompile(`(?m)^`+auditLine+`\d+$`).Split(text, -1)[1:]
	if len(parts) != n {
		return nil, fmt.Errorf("%d of %d kernels were compiled", len(parts), n)
	}
	all := make([]gpuStats, n)
	for i, part := range parts {
		values := map[string]int{}
		for _, line := range statLine.FindAllStringSubmatch(part, -1) {
			values[line[1]], _ = strconv.Atoi(line[2])
		}
		for _, name := range []string{"VGPRs", "Spilled VGPRs", "Spilled SGPRs", "Scratch size", "LDS size",
			"Subgroups per SIMD", "Inverse Throughput", "Code size"} {
			if _, ok := values[name]; !ok {
				return nil, fmt.Errorf("kernel %d: the compiler does not say %q", i, name)
			}
		}
		all[i] = gpuStats{values["VGPRs"], values["Spilled VGPRs"] + values["Spilled SGPRs"], values["Scratch size"],
			values["LDS size"], values["Subgroups per SIMD"], values["Inverse Throughput"],
			values["Code size"]}
	}
	return all, nil
}

// TestGPUKernels compiles the kernels that a GPU can be given for four families of GPUs: none may spill registers or
// keep an array in memory. With a file to write to it compiles all, and reports what it finds.
func TestGPUKernels(t *testing.T) {
	file := os.Getenv(auditReport)
	if testing.Short() && file == "" {
		t.Skip("compiles a minute of kernels")
	}
	manifest, list := nullDriver(t), gpuKernels(t, gpuInfo(), file != "")
	report := newGPUReport(list)
	for _, f := range gpuFamilies {
		all, driver := compileFor(t, manifest, f, list)
		report.add(f, driver, all)
		bad := 0
		for i, c := range all {
			if c.Spills == 0 && c.Scratch == 0 {
				continue
			}
			if bad++; file == "" && bad <= 20 {
				t.Errorf("%s: %s spills %d registers and has %d bytes of scratch", f.name, list[i].label, c.Spills,
					c.Scratch)
			}
		}
		t.Logf("%s: %d kernels, %d with spills or scratch", f.name, len(list), bad)
	}
	if file != "" {
		report.write(t, file)
	}
}

// TestParseStats reads statistics of two kernels, and refuses those that lack one.
func TestParseStats(t *testing.T) {
	const one = "KERNEL 0\n\nCompute Shader:\n*** SHADER STATS ***\nSGPRs: 128\nVGPRs: 24\nSpilled SGPRs: 1\n" +
		"Spilled VGPRs: 2\nCode size: 284\nLDS size: 512\nScratch size: 1024\nSubgroups per SIMD: 16\n" +
		"Latency: 4457\nInverse Throughput: 2228\n"
	got, err := parseStats("warning\n"+one+strings.Replace(one, "KERNEL 0", "KERNEL 1", 1), 2)
	if want := (gpuStats{24, 3, 1024, 512, 16, 2228, 284}); err != nil || !slices.Equal(got, []gpuStats{want, want}) {
		t.Errorf("read %v, %v; want %v twice", got, err, want)
	}
	for _, bad := range []string{"", one, one + "KERNEL 1\n"} {
		if _, err := parseStats(bad, 2); err == nil {
			t.Errorf("%q was read", bad)
		}
	}
}
