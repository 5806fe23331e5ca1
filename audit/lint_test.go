//go:build cgo && !js

package audit

import (
	"os"
	"strings"
	"testing"
)

// TestShaderRules breaks each rule, and expects each in the table of the documentation.
func TestShaderRules(t *testing.T) {
	const head = `struct Params { n: u32, }
		@group(0) @binding(0) var<uniform> P: Params;
		@group(0) @binding(1) var<storage, read> weights: array<f32>;
		@group(0) @binding(2) var<storage, read_write> y: array<f32>;
		var<workgroup> w: array<f32, 64>;
		const N: u32 = 4u;
		fn fetch(i: u32) -> f32 { return weights[i]; }
		@compute @workgroup_size(64)
		fn main(@builtin(workgroup_id) wid: vec3<u32>, @builtin(local_invocation_index) lane: u32) {
		`
	good := `let n = P.n;
		var a: array<f32, N>;
		a[0u] = 0.0; // a[lane]
		for (var i = 0u; i < n; i = i + 1u) { a[N - 1u] = a[0] + fetch(i); }
		w[lane] = a[3u];
		workgroupBarrier();
		if (lane < N) { y[lane] = w[lane] / f32(P.n % 3u); }
	}`
	if len(shaderRules) == 0 {
		t.Fatal("no rules")
	}
	for name, check := range shaderRules {
		if bad := check(parseShader(head + good)); len(bad) > 0 {
			t.Errorf("%s: the good kernel breaks it: %q", name, bad)
		}
	}
	for _, c := range []struct{ rule, body string }{
		{"words", "switch (lane) { default: {} } }"},
		{"words", "} fn f(p: ptr<function, f32>) { }"},
		{"words", "} var<private> p: f32;"},
		{"words", "let h = vec2<f16>(); }"},
		{"builtins", "y[0] = unpack2x16unorm(1u).x; }"},
		{"builtins", "y[0] = tanh(1.0); }"},
		{"constant-index", "var a: array<f32, 4>; a[lane] = 1.0; }"},
		{"constant-index", "let v = vec4<f32>(); y[0] = v[wid.x]; }"},
		{"constant-index", "y[0] = vec4<f32>()[lane]; }"},
		{"constant-index", "} fn f(weights: array<f32, 4>, i: u32) -> f32 { return weights[i]; }"},
		{"struct-array", "} struct S { a: f32, b: array<f32, 4>, }"},
		{"bounded-loop", "loop { y[0] = 1.0; } }"},
		{"bounded-loop", "while (true) { y[0] = 1.0; } }"},
		{"bounded-loop", "for (;;) { y[0] = 1.0; } }"},
		{"hot-loop", "for (var i = lane; i < N; i = i + 64u) { y[i] = fetch(i); } }"},
		{"hot-loop", "for (var i = 0u; i < P.n; i = i + 1u) { y[i] = fetch(i); } }"},
		{"hot-loop", "var n = P.n; for (var i = 0u; i < n; i = i + 1u) { y[i] = fetch(i); } }"},
		{"hot-loop", "for (var i = 0u; i < N; i = i + 1u) { let k = N; i = k; y[i] = fetch(i); } }"},
		{"hot-loop", "for (var i = 0u; i < N; i = i + 1u) { y[i] = fetch(i / 4u); } }"},
		{"hot-loop", "for (var i = 0u; i < N; i = i + 1u) { g(i); } } fn g(i: u32) -> f32 { return fetch(i % 3u); }"},
		{"array-copies", "for (var i = 0u; i < N; i = i + 1u) { f(a); } } fn f(a: array<f32, 4>) {}"},
		{"barriers", "if (lane < N) { workgroupBarrier(); } }"},
		{"barriers", "let l = lane; for (var i = 0u; i < l; i = i + 1u) { g(); } } fn g() { workgroupBarrier(); }"},
		{"barriers", "if (y[0] > 0.0) { return; } workgroupBarrier(); }"},
		{"barriers", "if (P.n > 0u) { y[0] = 1.0; } else if (w[0] > 0.0) { } else { storageBarrier(); } }"},
		{"nan-tests", "let v = y[0]; if (v != v) { y[0] = 1.0; } }"},
		{"workgroup-size", "} struct Q { a: f32, b: vec2<f32>, } var<workgroup> big: array<Q, 1400>;"},
		{"length", strings.Repeat("y[0] = 1.0;\n", mostStatements) + "}"},
	} {
		if bad := shaderRules[c.rule](parseShader(head + c.body)); len(bad) == 0 {
			t.Errorf("%s: nothing is wrong with %.200s", c.rule, c.body)
		}
	}
	page, err := os.ReadFile("../docs/gpus-d3d12-metal.md")
	if err != nil {
		t.Fatal(err)
	}
	for name := range shaderRules {
		if !strings.Contains(string(page), "`"+name+"`") {
			t.Errorf("the documentation has no rule %s", name)
		}
	}
}
