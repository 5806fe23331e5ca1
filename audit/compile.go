//go:build cgo && !js

package audit

import (
	"bufio"
	"bytes"
	"cmp"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"

	"foretoken/webgpu"
	"foretoken/webgpu/native"
)

// defaultRADV matches Debian's RADV, of its package mesa-vulkan-drivers.
const defaultRADV = "/usr/lib/*/libvulkan_radeon.so"

// gpu is a GPU that kernels are compiled for, with the figures of the largest card of its kind.
type gpu struct {
	name   string
	mesa   []string // names in RADV_FORCE_FAMILY, of which a version of Mesa knows one
	simds  float64  // whose cycles the compiler counts
	clock  float64  // GHz
	memory float64  // GB/s
}

// Sources: AMD's data sheets of the Radeon RX 7900 XTX, RX 6900 XT, RX Vega 64 and Ryzen 7 4800U. RDNA has two SIMDs a
// compute unit, GCN four.
var gpus = []gpu{
	{name: "navi31", mesa: []string{"navi31", "gfx1100"}, simds: 2 * 96, clock: 2.3, memory: 960},
	{name: "navi21", mesa: []string{"navi21"}, simds: 2 * 80, clock: 2.0, memory: 512},
	{name: "vega10", mesa: []string{"vega10"}, simds: 4 * 64, clock: 1.5, memory: 484},
	{name: "renoir", mesa: []string{"renoir"}, simds: 4 * 8, clock: 1.75, memory: 50},
}

// stats holds the compiler's statistics of a kernel.
type stats struct {
	registers int // vector registers of a lane
	spills    int // vector and scalar registers
	scratch   int // bytes of a wave
	lds       int // bytes of a workgroup
	waves     int // of a SIMD
	cycles    int // that a wave takes of a SIMD, each loop counted as countedTurns turns
	code      int // bytes
}

// kernelLine precedes the compiler's statistics of a kernel in the output of the process that compiles.
const kernelLine = "KERNEL "

// compiler compiles kernels by RADV, in a process for each GPU.
type compiler struct {
	radv     string // the file of its library
	folder   string // temporary
	manifest string // by which a Vulkan loader finds the driver of null hardware
}

//go:embed nullgpu/shim.c
var shim string

// newCompiler builds the driver of null hardware in front of the RADV that a pattern of file names matches; "": of
// Debian's. The error names the package that is missing.
func newCompiler(radv string) (*compiler, error) {
	radv = cmp.Or(radv, defaultRADV)
	found, err := filepath.Glob(radv)
	if err != nil || len(found) == 0 {
		return nil, fmt.Errorf("%s (mesa-vulkan-drivers)", radv)
	}
	if _, err := exec.LookPath("cc"); err != nil {
		return nil, errors.New("a compiler of C")
	}
	c := &compiler{radv: found[0]}
	if c.folder, err = os.MkdirTemp("", "gpuaudit"); err != nil {
		return nil, err
	}
	c.manifest = filepath.Join(c.folder, "icd.json")
	driver := filepath.Join(c.folder, "libnullgpu.so")
	err = c.buildC(shim, driver, "-shared", "-fPIC", "-DREAL="+strconv.Quote(c.radv))
	if err == nil {
		err = os.WriteFile(c.manifest, fmt.Appendf(nil,
			`{"file_format_version": "1.0.0", "ICD": {"library_path": %q, "api_version": "1.3.230"}}`, driver), 0o600)
	}
	if err != nil {
		c.close()
		return nil, err
	}
	return c, nil
}

// close removes the driver.
func (c *compiler) close() { os.RemoveAll(c.folder) }

// buildC compiles a file of C.
func (c *compiler) buildC(source, out string, flags ...string) error {
	args := append(flags, "-O1", "-Wall", "-Werror", "-o", out, "-x", "c", "-", "-ldl")
	return run(source, "cc", args...)
}

// run runs a program that reads a text.
func run(input, name string, args ...string) error {
	cmd := exec.Command(name, args...)
	cmd.Stdin = strings.NewReader(input)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w: %s", name, err, out)
	}
	return nil
}

// workerArgument starts a program as the process that compiles.
const workerArgument = "compile-standard-input"

// Worker compiles the kernels of standard input and returns true if this process was started for that. A program that
// compiles kernels starts itself again for each GPU, because RADV reads its environment variables when it is loaded.
// Call it first in main.
func Worker() bool {
	if len(os.Args) != 2 || os.Args[1] != workerArgument {
		return false
	}
	if err := compileInput(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	return true
}

// compileInput compiles the kernels that standard input lists, in a process whose only adapter is null hardware.
func compileInput() error {
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
			return nil // without Destroy: null hardware cannot free everything
		} else if err != nil {
			return err
		}
		fmt.Fprintf(os.Stderr, "%s%d\n", kernelLine, k.Number)
		if _, err := dev.NewKernels([]*webgpu.KernelSource{{Name: k.Name, Key: strconv.Itoa(k.Number),
			Bindings: k.Bindings, WGSL: func() string { return k.WGSL }}}); err != nil {
			return err
		}
	}
}

// sentKernel is a kernel on its way to a process that compiles it.
type sentKernel struct {
	Number     int
	Name, WGSL string
	Bindings   []webgpu.Access
}

// sent returns kernels as JSON lines for a program that compiles them.
func sent(list []kernel) ([]byte, error) {
	var lines bytes.Buffer
	for i, k := range list {
		if err := json.NewEncoder(&lines).Encode(sentKernel{i, k.Name, k.text(), k.Bindings}); err != nil {
			return nil, err
		}
	}
	return lines.Bytes(), nil
}

// compile compiles kernels for a GPU by naga and RADV. It returns the statistics of each, and the driver's version.
func (c *compiler) compile(g gpu, list []kernel) (all []stats, version string, err error) {
	self, err := os.Executable()
	if err != nil {
		return nil, "", err
	}
	in, err := sent(list)
	if err != nil {
		return nil, "", err
	}
	return c.statistics(g, len(list), func() *exec.Cmd {
		cmd := exec.Command("nice", "-n", "10", self, workerArgument)
		cmd.Stdin = bytes.NewReader(in)
		cmd.Env = append(os.Environ(), "VK_ICD_FILENAMES="+c.manifest, "VK_DRIVER_FILES="+c.manifest)
		return cmd
	})
}

// statistics runs a command that compiles n kernels, with RADV as a GPU. It returns the statistics of each, and what
// the command prints.
func (c *compiler) statistics(g gpu, n int, command func() *exec.Cmd) (all []stats, printed string, err error) {
	var messages string
	for _, name := range g.mesa {
		cmd := command()
		cmd.Env = append(cmd.Environ(), "RADV_FORCE_FAMILY="+name, "RADV_DEBUG=shaderstats,nocache",
			"XDG_CACHE_HOME="+c.folder, "XDG_RUNTIME_DIR="+c.folder)
		var out, errors bytes.Buffer
		cmd.Stdout, cmd.Stderr = &out, &errors
		err = cmd.Run()
		if printed, messages = strings.TrimSpace(out.String()), errors.String(); err == nil ||
			!strings.Contains(messages, "Unknown family") {
			break
		}
	}
	if err == nil {
		all, err = parseStats(messages, n)
	}
	if err != nil {
		return nil, "", fmt.Errorf("%s: %w: %s", g.name, err, messages[max(0, len(messages)-2000):])
	}
	return all, printed, nil
}

var statLine = regexp.MustCompile(`(?m)^([A-Za-z ]+): (\d+)$`)

// parseStats reads the statistics of n kernels.
func parseStats(text string, n int) ([]stats, error) {
	parts := regexp.MustCompile(`(?m)^`+kernelLine+`\d+$`).Split(text, -1)[1:]
	if len(parts) != n {
		return nil, fmt.Errorf("%d of %d kernels were compiled", len(parts), n)
	}
	all := make([]stats, n)
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
		all[i] = stats{registers: values["VGPRs"], spills: values["Spilled VGPRs"] + values["Spilled SGPRs"],
			scratch: values["Scratch size"], lds: values["LDS size"], waves: values["Subgroups per SIMD"],
			cycles: values["Inverse Throughput"], code: values["Code size"]}
	}
	return all, nil
}
