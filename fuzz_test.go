package foretoken

import (
	"bytes"
	"math"
	"os"
	"strings"
	"testing"

	"foretoken/internal/pair"
	"foretoken/models/fuzztest"
	"foretoken/spec"
	"foretoken/spec/adapt"
)

// FuzzCalibrationFiles parses files of every kind of calibration: entropy bins, a classifier, an acceptance head
// and sets of them. A file that parses works.
func FuzzCalibrationFiles(f *testing.F) {
	for _, name := range []string{"calibration.json", "c2t.json"} {
		data, err := os.ReadFile("models/demo/" + name)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
		for _, name := range []string{strings.Repeat("n", 3000), strings.Repeat(`\n\u001b`, 300)} {
			f.Add([]byte(strings.ReplaceAll(strings.ReplaceAll(string(data), "Go code 7.3M", name), "Q8_0",
				name)))
		}
	}
	head := &adapt.AcceptanceHead{Label: adapt.LabelArgmax, Estimator: spec.Estimator{Dim: 2,
		Weight: make([]float32, 2),
		Layers: []spec.EstimatorLayer{{Weight: make([]float32, 4), Bias: make([]float32, 2)}}}}
	data, err := head.Encode()
	if err != nil {
		f.Fatal(err)
	}
	f.Add(data)
	f.Add([]byte(strings.Replace(string(data), `"dim": 2`, `"dim": 4294967296`, 1)))
	f.Add([]byte(`{"kind": "` + pair.KindSet + `", "version": 1, "calibrations": [` + string(data) + `, {}]}`))
	long := strings.Repeat("n", 3000) // an error may quote a text of any length
	for _, field := range []string{`"kind": "` + long + `"`, `"` + long + `": 1`, `"label": "` + long + `"`,
		`"features": ["` + long + `"]`, `"version": 1` + strings.Repeat("0", 3000)} {
		for _, kind := range []string{adapt.KindHetero, adapt.KindC2T, adapt.KindAcceptance} {
			f.Add([]byte(`{"kind": "` + kind + `", "version": 1, ` + field + `}`))
		}
	}
	f.Add([]byte(`{"kind": "` + pair.KindSet + `", "version": 1, "calibrations": 1` + strings.Repeat("0", 3000) + `}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		fuzztest.Bound(t, 16*len(data), func() { // lists of numbers take several times their text in memory
			var c Calibrations
			if err := c.Parse("fit.json", data); err != nil {
				if text := err.Error(); strings.ContainsAny(text, "\n\r") || !strings.Contains(text, "fit.json") ||
					len(text) > 2000 {
					t.Fatalf("%.3000q is not one line that names its file", text)
				}
				return
			}
			checkMismatch := func(err error) { // checks the error about a file of another pair, which names the pair
				if err != nil {
					fuzztest.Refusal(t, err, "")
				}
			}
			if len(c.Hetero) > 0 {
				_, err := adapt.HeteroFor(c.Hetero, spec.Fingerprint{})
				checkMismatch(err)
			}
			for _, h := range c.Hetero {
				got, err := adapt.HeteroFor(c.Hetero, h.Fingerprint)
				if err != nil || got.Fingerprint != h.Fingerprint {
					t.Fatalf("%+v, %v", h.Fingerprint, err)
				}
				for _, fit := range h.Fits {
					if fit.Bin(math.Inf(1)) != len(fit.Means)-1 {
						t.Fatalf("%+v", fit)
					}
				}
			}
			if c.C2T != nil {
				checkMismatch(c.C2T.Matches(spec.Fingerprint{}))
				if p := c.C2T.Confidence(adapt.C2TFeatures{Probability: 0.5, Entropy: 1, Depth: 1}); !(p >= 0 &&
					p <= 1) {
					t.Fatal(p)
				}
			}
			if len(c.Heads) > 0 {
				_, err := adapt.AcceptanceFor(c.Heads, spec.Fingerprint{}, adapt.AcceptanceUse{Label: adapt.LabelDraw})
				checkMismatch(err)
			}
			for _, h := range c.Heads {
				checkMismatch(h.Covers(adapt.AcceptanceUse{Source: "eagle3", Label: adapt.LabelRatio}))
				text, err := h.Encode()
				if err != nil {
					t.Fatal(err)
				}
				back, err := adapt.ParseAcceptance("fit.json", text)
				if err != nil {
					t.Fatalf("%s: %v", text, err)
				}
				if again, err := back.Encode(); err != nil || !bytes.Equal(again, text) {
					t.Fatalf("%s became %s, %v", text, again, err)
				}
			}
		})
	})
}
