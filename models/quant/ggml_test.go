package quant

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"math"
	"testing"

	"foretoken/models/gguf"
)

// ggml holds the SHA-256 of 65536 floats from ggml's own decoders (llama.cpp v0.5.0, dequantize_row_*) for the
// blocks of this test. testdata/ggml.py prints it.
var ggml = map[string]string{
	"F16":    "14ce129b32193bad90ea65d86b1be1287de972db3d2fbbd27023e81c6694f6be",
	"BF16":   "438c371966f8590cb0c8e7c0a80de59479c409aa217112d8e7c3a53a72fd9a21",
	"Q4_0":   "b26932d1ac8f500b7e4277893ed88f55670afcb6bb0f69e36bfcc5caba9d9357",
	"Q4_1":   "f8727e43a99e4a18ea60b9a113c41c464516b64f084e1c788f79863db0ebe017",
	"Q5_0":   "c5396b83901f53506133fb7ddb2d95c78f83bd702ba90bb7ebb6e0d31ab6337f",
	"Q5_1":   "c6bd9156df810d57575d1893d80e931fe052db0913743b70ef7aecd5cbf62a45",
	"Q8_0":   "2c724b14709f41fa6e6c4c8d482c2e430e68f472c5d064429a6eecaa8bf984a9",
	"Q2_K":   "a7dccaca38c67593c8c95b69521f1b940883223bcd7b898907744aaf37ed8d5e",
	"Q3_K":   "6109d647e8258d46f4f4e145b26f0119719d429b878cddf1ddd8f3495c85d4a6",
	"Q4_K":   "b1ddecc56e6716994a97ad9ab81ad8949991051ab506ca325cfc02821df94e6c",
	"Q5_K":   "578a30c623e286a2c027f0b0bfb3f1c28b8d00a7e80003ad34d5032eb38c0c7e",
	"Q6_K":   "1649efc2433e9530709895cd5ffb55062de9b18d637ca57779a8d5c8ae702a65",
	"IQ4_NL": "bfc722d8ecd08c8e8b33cca8c2122bb1b431c947fd53a349ca203cc25105235c",
}

// TestAgainstGGML decodes pseudo-random blocks, every bit pattern of which is valid, and
// compares all bits of the values with ggml's.
func TestAgainstGGML(t *testing.T) {
	halves := map[gguf.Type][]int{gguf.Q4_1: {0, 2}, gguf.Q5_1: {0, 2}, gguf.Q4_K: {0, 2}, gguf.Q5_K: {0, 2},
		gguf.Q2_K: {80, 82}, gguf.Q3_K: {108}, gguf.Q6_K: {208}}
	for typ := range decoders {
		if typ == gguf.F32 {
			continue // nothing to decode
		}
		want, ok := ggml[typ.String()]
		if !ok {
			t.Errorf("%s has no value of ggml's to be compared with", typ)
			continue
		}
		const elements = 1 << 16
		bytes, at := int(typ.BlockBytes()), halves[typ]
		if at == nil {
			at = []int{0}
		}
		raw := stream(typ.String(), elements/int(typ.BlockSize())*bytes)
		for b := 0; b < len(raw); b += bytes {
			for _, h := range at {
				raw[b+h+1] &= 0xbf // finite, and less than two
			}
		}
		dst := make([]float32, elements)
		if err := Dequantize(typ, raw, dst); err != nil {
			t.Fatal(err)
		}
		sum := sha256.New()
		for _, v := range dst {
			sum.Write(binary.LittleEndian.AppendUint32(nil, math.Float32bits(v)))
		}
		if got := hex.EncodeToString(sum.Sum(nil)); got != want {
			t.Errorf("%s: decoded values differ from ggml's", typ)
		}
	}
}

// stream is n pseudo-random bytes that belong to a name.
func stream(name string, n int) []byte {
	var b []byte
	for i := 0; len(b) < n; i++ {
		sum := sha256.Sum256(fmt.Appendf(nil, "%s %d", name, i))
		b = append(b, sum[:]...)
	}
	return b[:n]
}
