package tune

import (
	"strings"
	"testing"

	"foretoken/webgpu"
	"foretoken/webgpu/kernels"
)

// TestChoicesShipped checks that choices.json names existing families and leaves no more than the width of tiles to
// time.
func TestChoicesShipped(t *testing.T) {
	formats := map[string]kernels.Format{}
	for f := range kernels.Formats {
		formats[f.String()] = f
	}
	for _, c := range measuredChoices() {
		if c.Backend == "" || c.Adapter == "" || c.Adapter != strings.ToLower(c.Adapter) ||
			c.Rows != "1" && c.Rows != "64" {
			t.Errorf("choices.json: %+v", c)
		}
		for name, format := range formats {
			candidates := c.Candidates(webgpu.Info{Features: []string{"subgroups"}}, format)
			if len(candidates) == 0 {
				t.Errorf("choices.json: %s %s: %s has unknown families %q; run make choices", c.Backend, c.Adapter,
					name, c.Families[name])
			}
			for _, f := range candidates {
				if f.Narrow() != candidates[0].Narrow() {
					t.Errorf("choices.json: %s %s: %s has families %q: "+
						"timing more than the width of tiles delays the first token", c.Backend, c.Adapter, name,
						c.Families[name])
				}
			}
		}
		for name := range c.Families {
			if _, ok := formats[name]; !ok {
				t.Errorf("choices.json: %s %s: there is no format %s", c.Backend, c.Adapter, name)
			}
		}
	}
	for _, i := range []webgpu.Info{{Backend: "native", Adapter: "NVIDIA llvmpipe"},
		{Backend: "native", Adapter: "softpipe", Software: true}, {}} {
		if c := Shipped(i); c.Families != nil {
			t.Errorf("%+v has choices %+v", i, c)
		}
	}
}
