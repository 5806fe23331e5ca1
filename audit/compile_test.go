//go:build cgo && !js

package audit

import (
	"os"
	"slices"
	"strings"
	"testing"

	"foretoken/models/modeltest"
)

func TestMain(m *testing.M) {
	if !Worker() {
		os.Exit(m.Run())
	}
}

// TestKernels compiles a short list of the kernels that a GPU can be given for every GPU: none may spill registers or
// keep an array in memory.
func TestKernels(t *testing.T) {
	if testing.Short() {
		t.Skip("compiles a minute of kernels")
	}
	c, err := newCompiler("")
	if err != nil {
		modeltest.NotRun(t, err.Error())
	}
	defer c.close()
	list, err := kernelsOf(gpuInfo(), false)
	if err != nil {
		t.Fatal(err)
	}
	for _, g := range gpus {
		all, _, err := c.compile(g, list)
		if err != nil {
			t.Fatal(err)
		}
		bad := 0
		for i, s := range all {
			if s.spills == 0 && s.scratch == 0 {
				continue
			}
			if bad++; bad <= 20 {
				t.Errorf("%s: %s spills %d registers and has %d bytes of scratch", g.name, list[i].label, s.spills,
					s.scratch)
			}
		}
		t.Logf("%s: %d kernels, %d with spills or scratch", g.name, len(list), bad)
	}
}

// TestParseStats reads statistics of two kernels, and refuses those that lack one.
func TestParseStats(t *testing.T) {
	const one = "KERNEL 0\n\nCompute Shader:\n*** SHADER STATS ***\nSGPRs: 128\nVGPRs: 24\nSpilled SGPRs: 1\n" +
		"Spilled VGPRs: 2\nCode size: 284\nLDS size: 512\nScratch size: 1024\nSubgroups per SIMD: 16\n" +
		"Latency: 4457\nInverse Throughput: 2228\n"
	got, err := parseStats("warning\n"+one+strings.Replace(one, "KERNEL 0", "KERNEL 1", 1), 2)
	want := stats{registers: 24, spills: 3, scratch: 1024, lds: 512, waves: 16, cycles: 2228, code: 284}
	if err != nil || !slices.Equal(got, []stats{want, want}) {
		t.Errorf("read %v, %v; want %v twice", got, err, want)
	}
	for _, bad := range []string{"", one, one + "KERNEL 1\n"} {
		if _, err := parseStats(bad, 2); err == nil {
			t.Errorf("%q was read", bad)
		}
	}
}
