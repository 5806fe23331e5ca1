package adapt

import (
	"bytes"
	"math"
	"testing"
)

// FuzzCalibrations parses damaged files. A file that parses can be encoded, parses to the same value again and
// works.
func FuzzCalibrations(f *testing.F) {
	h, err := heteroCalibration().Encode()
	if err != nil {
		f.Fatal(err)
	}
	c, err := classifier().Encode()
	if err != nil {
		f.Fatal(err)
	}
	f.Add(h)
	f.Add(c)
	f.Add([]byte("{}"))
	f.Fuzz(func(t *testing.T, data []byte) {
		if bins, err := ParseHetero("f", data); err == nil {
			text, err := bins.Encode()
			if err != nil {
				t.Fatal(err)
			}
			back, err := ParseHetero("f", text)
			if err != nil {
				t.Fatalf("%s: %v", text, err)
			}
			if again, err := back.Encode(); err != nil || !bytes.Equal(again, text) {
				t.Fatalf("%s became %s (%v)", text, again, err)
			}
			for _, fit := range bins.Fits {
				if fit.Bin(math.Inf(1)) != len(fit.Means)-1 || fit.Low() >= len(fit.Means) {
					t.Fatalf("bins %+v", fit)
				}
			}
		}
		if net, err := ParseC2T("f", data); err == nil {
			text, err := net.Encode()
			if err != nil {
				t.Fatal(err)
			}
			back, err := ParseC2T("f", text)
			if err != nil {
				t.Fatalf("%s: %v", text, err)
			}
			x := C2TFeatures{Probability: 0.5, Entropy: 1, Depth: 1}
			if p := net.Confidence(x); !(p >= 0 && p <= 1) || back.Confidence(x) != p {
				t.Fatalf("confidence %g, %g after %s", p, back.Confidence(x), text)
			}
		}
	})
}
