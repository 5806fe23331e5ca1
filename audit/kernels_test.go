//go:build cgo && !js

package audit

import (
	"io/fs"
	"os"
	"path"
	"strings"
	"testing"
)

// TestListIsComplete expects every shader of the repository in the full lists of a GPU and of a software adapter.
func TestListIsComplete(t *testing.T) {
	info, used := gpuInfo(gpuFeatures...), map[string]bool{}
	for _, info.Software = range []bool{false, true} {
		list, err := kernelsOf(info, true)
		if err != nil {
			t.Fatal(err)
		}
		for _, k := range list {
			for _, file := range strings.Fields(k.Name) {
				used[file] = true
			}
		}
	}
	shaders, err := fs.Glob(os.DirFS("../webgpu/kernels"), "*.wgsl")
	if err != nil {
		t.Fatal(err)
	}
	own, err := fs.Glob(os.DirFS("../webgpu/kernels"), "*/*.wgsl")
	if err != nil || len(own) < 40 {
		t.Fatal(len(own), err)
	}
	for _, file := range append(shaders, own...) {
		if name := strings.TrimSuffix(file, ".wgsl"); !used[name] && path.Dir(file) != "kerneltest" {
			t.Errorf("no list has a kernel with %s", file)
		}
	}
}
