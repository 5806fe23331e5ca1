//go:build !js

package foretoken

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"foretoken/webgpu/kernels/matmul"
)

// tintReport is set to the file that the comparison of Tint and naga is written to. It needs Chromium, and Debian's
// spirv-tools and libvulkan-dev.
const tintReport = "FORETOKEN_GPU_TINT"

// tintOutputs are the columns of the comparison, after naga's: what Tint makes for a driver with robustBufferAccess2,
// for one without, and with no safeguards: neither clamps of indices nor counters that end loops.
var tintOutputs = []string{"tint", "clamped", "plain"}

// comparedKernels are products of four weight rows, and attention over heads of a usual shape.
var comparedKernels = regexp.MustCompile(
	`^matmul (q8_0|q4_0|q4_k|q6_k) group4x64 M=(1|4|16) store$|^attention f16 group=[14] dim=64 context=4096$`)

// rooflined are the kernels whose arithmetic by Tint is compared with reading: packed products, which naga lacks, and
// others with as many weight rows.
var rooflined = regexp.MustCompile(`^matmul (q8_0|q4_0|q4_k|q6_k) (group|packed)4x64 M=\d+ store$`)

// TestTint reports what RADV's compiler makes of kernels by naga and by Tint, and the roofline of packed products by
// Tint. It runs only with a file to write to.
func TestTint(t *testing.T) {
	file := os.Getenv(tintReport)
	if file == "" {
		t.Skip(tintReport + " names no file")
	}
	list := listed(t, comparedKernels)
	manifest, compiler := nullDriver(t), filepath.Join(t.TempDir(), "spirv")
	run(t, "cc", "-O1", "-Wall", "-Werror", "-o", compiler, filepath.Join("testdata", "nullgpu", "spirv.c"), "-ldl")
	folder, chromium := tintSPIRV(t, list)
	report := newGPUReport(nil)
	report.Chromium, report.Columns = chromium, nil
	for _, output := range append([]string{"naga"}, tintOutputs...) {
		for _, figure := range []string{"registers", "waves", "code", "cycles", "of_naga"} {
			report.Columns = append(report.Columns, output+":"+figure)
		}
	}
	for _, f := range gpuFamilies {
		if f.name != "navi31" && f.name != "renoir" {
			continue
		}
		naga, driver := compileFor(t, manifest, f, list)
		report.Driver = driver
		outputs := [][]gpuStats{naga}
		for _, output := range tintOutputs {
			outputs = append(outputs, compileSPIRV(t, compiler, f, folder, output, len(list)))
		}
		for i, k := range list {
			if report.Rows[k.label] == nil {
				report.Rows[k.label] = map[string][]float64{}
			}
			for _, all := range outputs {
				c := all[i]
				report.Rows[k.label][f.name] = append(report.Rows[k.label][f.name], float64(c.Registers),
					float64(c.Waves), float64(c.Code), float64(c.Cycles), float64(c.Cycles)/float64(naga[i].Cycles))
			}
		}
	}
	report.list = listed(t, rooflined, matmul.DotProduct)
	folder, _ = tintSPIRV(t, report.list)
	for _, f := range gpuFamilies {
		if strings.HasPrefix(f.name, "navi") { // GCN multiplies byte by byte
			all := compileSPIRV(t, compiler, f, folder, "tint", len(report.list))
			report.addRoofline(f, all)
			for i, c := range all {
				if c.Scratch > 0 || c.Spills > 0 {
					t.Errorf("%s %s: %+v", f.name, report.list[i].label, c)
				}
			}
		}
	}
	report.write(t, file)
}

// listed returns the kernels for a GPU with features whose labels match.
func listed(t *testing.T, labels *regexp.Regexp, features ...string) []gpuKernel {
	return slices.DeleteFunc(gpuKernels(t, gpuInfo(features...), false),
		func(k gpuKernel) bool { return !labels.MatchString(k.label) })
}

// tintSPIRV has Chromium compile kernels and returns a folder of NUMBER.OUTPUT.spv, and Chromium's version.
func tintSPIRV(t *testing.T, list []gpuKernel) (folder, version string) {
	t.Helper()
	folder = t.TempDir()
	cmd := exec.Command("node", filepath.Join("scripts", "tint.mjs"), folder)
	cmd.Stdin, cmd.Stderr = bytes.NewReader(sent(t, list)), os.Stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	for i := range list {
		path := filepath.Join(folder, strconv.Itoa(i))
		text, err := os.ReadFile(path + ".clamped.spvasm")
		if err == nil {
			err = os.WriteFile(path+".tint.spvasm", []byte(withoutBufferClamps(string(text))), 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
		for _, output := range tintOutputs {
			name := path + "." + output
			run(t, "spirv-as", "--target-env", "spv1.4", "-o", name+".spv", name+".spvasm")
		}
	}
	return folder, strings.TrimSpace(string(out))
}

var (
	bufferLength = regexp.MustCompile(`(?m)^ *(%\w+) = OpArrayLength `)
	lessOne      = regexp.MustCompile(`(?m)^ *(%\w+) = OpISub %uint (%\w+) %uint_1$`)
	clamp        = regexp.MustCompile(`(?m)^( *%\w+ = )OpExtInst %uint %\w+ UMin (%\w+) (%\w+)$`)
)

// withoutBufferClamps returns a shader of Tint's without the clamps of indices to the length of a buffer. Tint leaves
// them out for a driver with robustBufferAccess2, which Chromium's software adapter does not have.
func withoutBufferClamps(text string) string {
	lengths, last := map[string]bool{}, map[string]bool{}
	for _, m := range bufferLength.FindAllStringSubmatch(text, -1) {
		lengths[m[1]] = true
	}
	for _, m := range lessOne.FindAllStringSubmatch(text, -1) {
		last[m[1]] = lengths[m[2]]
	}
	return clamp.ReplaceAllStringFunc(text, func(line string) string {
		m := clamp.FindStringSubmatch(line)
		if !last[m[3]] {
			return line
		}
		return m[1] + "OpCopyObject %uint " + m[2]
	})
}

// compileSPIRV compiles n kernels of a folder for a family.
func compileSPIRV(t *testing.T, compiler string, f gpuFamily, folder, output string, n int) []gpuStats {
	t.Helper()
	args := []string{"-n", "10", compiler, radvFile(t)}
	for i := range n {
		args = append(args, filepath.Join(folder, fmt.Sprintf("%d.%s.spv", i, output)))
	}
	all, _ := onFamily(t, f, n, func() *exec.Cmd { return exec.Command("nice", args...) })
	return all
}

// TestWithoutBufferClamps keeps what is no clamp to the length of a buffer.
func TestWithoutBufferClamps(t *testing.T) {
	const text = "%5 = OpArrayLength %uint %1 0\n%6 = OpISub %uint %5 %uint_1\n%7 = OpISub %uint %4 %uint_1\n"
	got := withoutBufferClamps(text + "%8 = OpExtInst %uint %2 UMin %3 %6\n%9 = OpExtInst %uint %2 UMin %3 %7\n")
	if want := text + "%8 = OpCopyObject %uint %3\n%9 = OpExtInst %uint %2 UMin %3 %7\n"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}
