package devicetest

import (
	"fmt"
	"strings"

	"foretoken/webgpu"
)

// Text returns a function that returns s, for KernelSource.WGSL.
func Text(s string) func() string { return func() string { return s } }

// elementwise has a thread for each element: as many as the first word of Constants says, or as the last binding has.
// declarations declares the bindings in WGSL, and body does with them what element does on the host.
func elementwise(name string, bindings []webgpu.Access, declarations, body string,
	element func(b []webgpu.Memory, i int)) *webgpu.KernelSource {
	return &webgpu.KernelSource{Name: name, Key: "devicetest/" + name, Bindings: bindings,
		WGSL: Text(declarations + `@compute @workgroup_size(64)
fn main(@builtin(global_invocation_id) id: vec3<u32>) {
` + body + `}
`),
		Reference: func(groups [3]int, b []webgpu.Memory) {
			n := len(b[len(b)-1])
			if bindings[0] == webgpu.Constants {
				n = int(b[0][0])
			}
			for i := range min(n, 64*groups[0]) {
				element(b, i)
			}
		}}
}

// affine computes y[i] = y[i]·mul + add, with mul and add from a uniform. Its result depends on the order of the
// runs and the writes of the uniform.
func affine() *webgpu.KernelSource {
	return elementwise("affine", []webgpu.Access{webgpu.Constants, webgpu.ReadWrite},
		`struct Params { n: u32, mul: u32, add: u32, pad: u32 }
@group(0) @binding(0) var<uniform> p: Params;
@group(0) @binding(1) var<storage, read_write> y: array<u32>;
`, `  if (id.x < p.n) { y[id.x] = y[id.x] * p.mul + p.add; }
`, func(b []webgpu.Memory, i int) { b[1][i] = b[1][i]*b[0][1] + b[0][2] })
}

// accumulate computes y[i] = y[i]·3 + x[i].
func accumulate() *webgpu.KernelSource {
	return elementwise("accumulate", []webgpu.Access{webgpu.ReadOnly, webgpu.ReadWrite},
		`@group(0) @binding(0) var<storage, read> x: array<u32>;
@group(0) @binding(1) var<storage, read_write> y: array<u32>;
`, `  if (id.x < arrayLength(&y)) { y[id.x] = y[id.x] * 3u + x[id.x]; }
`, func(b []webgpu.Memory, i int) { b[1][i] = b[1][i]*3 + b[0][i] })
}

// swapHalves has two writable bindings.
func swapHalves() *webgpu.KernelSource {
	return elementwise("swap", []webgpu.Access{webgpu.ReadWrite, webgpu.ReadWrite},
		`@group(0) @binding(0) var<storage, read_write> x: array<u32>;
@group(0) @binding(1) var<storage, read_write> y: array<u32>;
`, `  if (id.x < arrayLength(&y)) {
    let t = x[id.x];
    x[id.x] = y[id.x];
    y[id.x] = t;
  }
`, func(b []webgpu.Memory, i int) { b[0][i], b[1][i] = b[1][i], b[0][i] })
}

// sum reads two bindings, which may be the same bytes.
func sum() *webgpu.KernelSource {
	return elementwise("sum", []webgpu.Access{webgpu.ReadOnly, webgpu.ReadOnly, webgpu.ReadWrite},
		`@group(0) @binding(0) var<storage, read> a: array<u32>;
@group(0) @binding(1) var<storage, read> b: array<u32>;
@group(0) @binding(2) var<storage, read_write> y: array<u32>;
`, `  if (id.x < arrayLength(&y)) { y[id.x] = a[id.x] + b[id.x]; }
`, func(b []webgpu.Memory, i int) { b[2][i] = b[0][i] + b[1][i] })
}

// saxpy computes y[i] = a·x[i] + y[i] in floats.
func saxpy() *webgpu.KernelSource {
	return elementwise("saxpy", []webgpu.Access{webgpu.Constants, webgpu.ReadOnly, webgpu.ReadWrite},
		`struct Params { n: u32, a: f32, pad0: u32, pad1: u32 }
@group(0) @binding(0) var<uniform> p: Params;
@group(0) @binding(1) var<storage, read> x: array<f32>;
@group(0) @binding(2) var<storage, read_write> y: array<f32>;
`, `  if (id.x < p.n) { y[id.x] = p.a * x[id.x] + y[id.x]; }
`, func(b []webgpu.Memory, i int) {
			a, x, y := b[0].F32()[1], b[1].F32(), b[2].F32()
			y[i] = a*x[i] + y[i]
		})
}

// places writes the index of each workgroup to its word.
func places() *webgpu.KernelSource {
	return &webgpu.KernelSource{
		Name: "places", Key: "devicetest/places",
		Bindings: []webgpu.Access{webgpu.ReadWrite},
		WGSL: Text(`@group(0) @binding(0) var<storage, read_write> y: array<u32>;
@compute @workgroup_size(1)
fn main(@builtin(workgroup_id) g: vec3<u32>, @builtin(num_workgroups) n: vec3<u32>) {
  y[(g.z * n.y + g.y) * n.x + g.x] = g.x | (g.y << 8u) | (g.z << 16u) | 0x1000000u;
}
`),
		Reference: func(n [3]int, b []webgpu.Memory) {
			for z := range n[2] {
				for y := range n[1] {
					for x := range n[0] {
						b[0][(z*n[1]+y)*n[0]+x] = uint32(x | y<<8 | z<<16 | 0x1000000)
					}
				}
			}
		},
	}
}

// spin keeps one thread busy for p rounds of a computation that compilers cannot shorten, and writes the result.
func spin() *webgpu.KernelSource {
	return &webgpu.KernelSource{
		Name: "spin", Key: "devicetest/spin",
		Bindings: []webgpu.Access{webgpu.Constants, webgpu.ReadWrite},
		WGSL: Text(`struct Params { rounds: u32, pad0: u32, pad1: u32, pad2: u32 }
@group(0) @binding(0) var<uniform> p: Params;
@group(0) @binding(1) var<storage, read_write> y: array<u32>;
@compute @workgroup_size(1)
fn main() {
  var s = y[0] | 1u;
  for (var i = 0u; i < p.rounds; i = i + 1u) {
    s = s ^ (s << 13u);
    s = s ^ (s >> 17u);
    s = s ^ (s << 5u);
  }
  y[0] = s;
}
`),
		Reference: func(_ [3]int, b []webgpu.Memory) {
			s := b[1][0] | 1
			for range b[0][0] {
				s ^= s << 13
				s ^= s >> 17
				s ^= s << 5
			}
			b[1][0] = s
		},
	}
}

// wide has n storage bindings and sums their first words into the last.
func wide(n int) *webgpu.KernelSource {
	src := &webgpu.KernelSource{Name: "wide", Key: fmt.Sprintf("devicetest/wide/%d", n)}
	var decl, add strings.Builder
	for i := range n - 1 {
		fmt.Fprintf(&decl, "@group(0) @binding(%d) var<storage, read> x%d: array<u32>;\n", i, i)
		fmt.Fprintf(&add, " + x%d[0]", i)
		src.Bindings = append(src.Bindings, webgpu.ReadOnly)
	}
	src.Bindings = append(src.Bindings, webgpu.ReadWrite)
	src.WGSL = Text(fmt.Sprintf("%s@group(0) @binding(%d) var<storage, read_write> y: array<u32>;\n"+
		"@compute @workgroup_size(1)\nfn main() { y[0] = 0u%s; }\n",
		decl.String(), n-1, add.String()))
	src.Reference = func(_ [3]int, b []webgpu.Memory) {
		s := uint32(0)
		for _, x := range b[:n-1] {
			s += x[0]
		}
		b[n-1][0] = s
	}
	return src
}
