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
	"F16":     "14ce129b32193bad90ea65d86b1be1287de972db3d2fbbd27023e81c6694f6be",
	"BF16":    "438c371966f8590cb0c8e7c0a80de59479c409aa217112d8e7c3a53a72fd9a21",
	"Q4_0":    "b26932d1ac8f500b7e4277893ed88f55670afcb6bb0f69e36bfcc5caba9d9357",
	"Q4_1":    "f8727e43a99e4a18ea60b9a113c41c464516b64f084e1c788f79863db0ebe017",
	"Q5_0":    "c5396b83901f53506133fb7ddb2d95c78f83bd702ba90bb7ebb6e0d31ab6337f",
	"Q5_1":    "c6bd9156df810d57575d1893d80e931fe052db0913743b70ef7aecd5cbf62a45",
	"Q8_0":    "2c724b14709f41fa6e6c4c8d482c2e430e68f472c5d064429a6eecaa8bf984a9",
	"Q2_K":    "a7dccaca38c67593c8c95b69521f1b940883223bcd7b898907744aaf37ed8d5e",
	"Q3_K":    "6109d647e8258d46f4f4e145b26f0119719d429b878cddf1ddd8f3495c85d4a6",
	"Q4_K":    "b1ddecc56e6716994a97ad9ab81ad8949991051ab506ca325cfc02821df94e6c",
	"Q5_K":    "578a30c623e286a2c027f0b0bfb3f1c28b8d00a7e80003ad34d5032eb38c0c7e",
	"Q6_K":    "1649efc2433e9530709895cd5ffb55062de9b18d637ca57779a8d5c8ae702a65",
	"IQ1_S":   "5ed1dd5df6c3b760db5f2932388a2d67403ac156f02d0891031f1064e5d98cea",
	"IQ1_M":   "21eb6ba2e230bad7e14d7123e02f6a2d1be3e6b0009a95bd1019d62cc0368b52",
	"IQ2_XXS": "5ad9ab33d08bdb0edadd9a37f23b5c1649f11512422e081cc9ad797f0fd336bb",
	"IQ2_XS":  "e466d6ed30506a9d366fef617745fa931127e0eab29dc54cf7cb64cc48b020af",
	"IQ2_S":   "fb057f6825aa6470a79f0458247714c57f2462742289cd2c6d52037e6a9c5e55",
	"IQ3_XXS": "1984d3d308dc96f7f505fb8b0348482d41c96fe6747a171342617d565ca17795",
	"IQ3_S":   "6b8f3cf7882b62ef279ca544cbf1fb507652e5abf8a08482ff918c3a66e962ab",
	"IQ4_NL":  "bfc722d8ecd08c8e8b33cca8c2122bb1b431c947fd53a349ca203cc25105235c",
	"IQ4_XS":  "c41ae719cd72f654748a07a6cc9d2a628cb8ca9f808b4225be0cf419a9aea78d",
	"TQ1_0":   "57e957b6774471e6682ed2b0958a4b385cddcdd4a91392c035a4f831b7827010",
	"TQ2_0":   "8ab81c9643482cd2b0166de7f41ffc8c683c98863067e14042d018232c35b487",
	"MXFP4":   "31af1d40101f139aebf4bc267427d880ec1b95b2eee435b7bd2867fe58052e56",
	"NVFP4":   "071cf308bcef2580b028d43ffc31f6161d3a59a4232f800c23a47fb99c717985",
	"Q1_0":    "632eba89a15b7e5e041c459b6dfe0487d04c624ebf15c4387c8bed55b1aa088e",
	"Q2_0":    "3736c632b2e6d062109ff49f4004bb3e90b3da63c5cd39f6e5791503fc9f052f",
}

// TestAgainstGGML decodes pseudo-random blocks, every bit pattern of which is valid, and
// compares all bits of the values with ggml's.
func TestAgainstGGML(t *testing.T) {
	for typ := range decoders {
		switch typ {
		case gguf.F32, gguf.Q8_1, gguf.PQ2_0, gguf.PTQ1_0:
			continue // ggml has no decoder
		}
		want, ok := ggml[typ.String()]
		if !ok {
			t.Errorf("%s has no value of ggml's to be compared with", typ)
			continue
		}
		const elements = 1 << 16
		bytes := int(typ.BlockBytes())
		raw := stream(typ.String(), elements/int(typ.BlockSize())*bytes)
		for b := 0; b < len(raw); b += bytes {
			for _, at := range upperBytes(typ) {
				raw[b+at] &= 0xbf // finite, and less than two
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

// upperBytes returns where a block has the upper bytes of its scales.
func upperBytes(t gguf.Type) []int {
	switch t {
	case gguf.F16, gguf.BF16:
		return []int{1}
	case gguf.IQ1M:
		return []int{55}
	case gguf.MXFP4:
		return []int{0}
	}
	at, count := Scales(t)
	return []int{at + 1, at + 3}[:count]
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
