package kernels

import "testing"

func TestUnroll(t *testing.T) {
	got := unroll(`a
for (var i = 0u; i < N; i = i + 1u) { // unroll
 x[i] = y;
 for (var j = 0u; j < 2u; j = j + 1u) { // unroll
  z[i * 2u + j] = 1;
 }
}
b`, map[string]uint32{"N": 2})
	want := "a\n{\n x[0u] = y;\n{\n  z[0u * 2u + 0u] = 1;\n}\n{\n  z[0u * 2u + 1u] = 1;\n}\n}\n" +
		"{\n x[1u] = y;\n{\n  z[1u * 2u + 0u] = 1;\n}\n{\n  z[1u * 2u + 1u] = 1;\n}\n}\nb"
	if got != want {
		t.Errorf("unrolled to\n%s\nwant\n%s", got, want)
	}
}
