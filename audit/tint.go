//go:build cgo && !js

package audit

import (
	"bytes"
	_ "embed"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"foretoken/webgpu/kernels/matmul"
)

// tintOutputs are the columns of the comparison, after naga's: what Tint makes for a driver with robustBufferAccess2,
// for one without, and with no safeguards: neither clamps of indices nor counters that end loops.
var tintOutputs = []string{"tint", "clamped", "plain"}

// comparedKernels are products of four weight rows, and attention over heads of a usual size.
var comparedKernels = regexp.MustCompile(
	`^matmul (q8_0|q4_0|q4_k|q6_k) group4x64 M=(1|4|16) store$|^attention f16 group=[14] dim=64 context=4096$`)

// rooflined are the kernels whose arithmetic by Tint is compared with reading: packed products, which naga lacks, and
// others with as many weight rows.
var rooflined = regexp.MustCompile(`^matmul (q8_0|q4_0|q4_k|q6_k) (group|packed)4x64 M=\d+ store$`)

//go:embed nullgpu/spirv.c
var spirv string

// CompareTint reports what RADV makes of kernels by naga and by Tint, which Chrome has, and the roofline of packed
// products by Tint. radv is as for Compile. It needs Chromium, Debian's spirv-tools and libvulkan-dev, and the
// repository's root as the working directory.
func CompareTint(radv string) (*Report, error) {
	c, err := newCompiler(radv)
	if err != nil {
		return nil, fmt.Errorf("audit: %w is missing", err)
	}
	defer c.close()
	program := filepath.Join(c.folder, "spirv")
	if err := c.buildC(spirv, program); err != nil {
		return nil, err
	}
	r := newReport(nil)
	r.Columns = nil
	for _, output := range append([]string{"naga"}, tintOutputs...) {
		for _, figure := range []string{"registers", "waves", "code", "cycles", "of_naga"} {
			r.Columns = append(r.Columns, output+":"+figure)
		}
	}
	if err := r.compareTint(c, program); err != nil {
		return nil, err
	}
	return r, r.rooflineTint(c, program)
}

// compareTint adds the statistics of compared kernels by naga and by Tint.
func (r *Report) compareTint(c *compiler, program string) error {
	list, err := listed(comparedKernels)
	if err != nil {
		return err
	}
	folder, chromium, err := c.tintSPIRV(list)
	if err != nil {
		return err
	}
	r.Chromium = chromium
	for _, g := range gpus {
		if g.name != "navi31" && g.name != "renoir" {
			continue
		}
		naga, driver, err := c.compile(g, list)
		if err != nil {
			return err
		}
		r.Driver = driver
		outputs := [][]stats{naga}
		for _, output := range tintOutputs {
			all, err := c.compileSPIRV(program, g, folder, output, len(list))
			if err != nil {
				return err
			}
			outputs = append(outputs, all)
		}
		for i, k := range list {
			if r.Rows[k.label] == nil {
				r.Rows[k.label] = map[string][]float64{}
			}
			for _, all := range outputs {
				s := all[i]
				r.Rows[k.label][g.name] = append(r.Rows[k.label][g.name], float64(s.registers), float64(s.waves),
					float64(s.code), float64(s.cycles), float64(s.cycles)/float64(naga[i].cycles))
			}
		}
	}
	return nil
}

// rooflineTint adds the roofline of products by Tint, and refuses one that spills.
func (r *Report) rooflineTint(c *compiler, program string) (err error) {
	if r.list, err = listed(rooflined, matmul.DotProduct); err != nil {
		return err
	}
	folder, _, err := c.tintSPIRV(r.list)
	if err != nil {
		return err
	}
	for _, g := range gpus {
		if !strings.HasPrefix(g.name, "navi") { // GCN multiplies byte by byte
			continue
		}
		all, err := c.compileSPIRV(program, g, folder, "tint", len(r.list))
		if err != nil {
			return err
		}
		r.addRoofline(g, all)
		for i, s := range all {
			if s.scratch > 0 || s.spills > 0 {
				return fmt.Errorf("audit: %s %s: %+v", g.name, r.list[i].label, s)
			}
		}
	}
	return nil
}

// listed returns the kernels for a GPU with features whose labels match.
func listed(labels *regexp.Regexp, features ...string) ([]kernel, error) {
	list, err := kernelsOf(gpuInfo(features...), false)
	return slices.DeleteFunc(list, func(k kernel) bool { return !labels.MatchString(k.label) }), err
}

// tintSPIRV has Chromium compile kernels. It returns a folder of NUMBER.OUTPUT.spv, and Chromium's version.
func (c *compiler) tintSPIRV(list []kernel) (folder, version string, err error) {
	if folder, err = os.MkdirTemp(c.folder, "tint"); err != nil {
		return "", "", err
	}
	in, err := sent(list)
	if err != nil {
		return "", "", err
	}
	cmd := exec.Command("node", filepath.Join("scripts", "tint.mjs"), folder)
	cmd.Stdin, cmd.Stderr = bytes.NewReader(in), os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return "", "", fmt.Errorf("scripts/tint.mjs: %w", err)
	}
	for i := range list {
		path := filepath.Join(folder, strconv.Itoa(i))
		text, err := os.ReadFile(path + ".clamped.spvasm")
		if err == nil {
			err = os.WriteFile(path+".tint.spvasm", []byte(withoutBufferClamps(string(text))), 0o600)
		}
		if err != nil {
			return "", "", err
		}
		for _, output := range tintOutputs {
			name := path + "." + output
			err := run("", "spirv-as", "--target-env", "spv1.4", "-o", name+".spv", name+".spvasm")
			if err != nil {
				return "", "", err
			}
		}
	}
	return folder, strings.TrimSpace(string(out)), nil
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

// compileSPIRV compiles n kernels of a folder for a GPU.
func (c *compiler) compileSPIRV(program string, g gpu, folder, output string, n int) ([]stats, error) {
	args := []string{"-n", "10", program, c.radv}
	for i := range n {
		args = append(args, filepath.Join(folder, fmt.Sprintf("%d.%s.spv", i, output)))
	}
	all, _, err := c.statistics(g, n, func() *exec.Cmd { return exec.Command("nice", args...) })
	return all, err
}
