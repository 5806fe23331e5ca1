//go:build !js

package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"foretoken/bench"
)

func TestDoctor(t *testing.T) {
	file := filepath.Join(t.TempDir(), "report.json")
	o := call(t, "", "doctor", "--device", "cpu", "--context", "96", "--repeat", "1", "--out", file)
	if o.code != exitOK {
		t.Fatal(o.err)
	}
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var r bench.DoctorReport
	if err := json.Unmarshal(data, &r); err != nil {
		t.Fatal(err)
	}
	if r.Format != bench.DoctorFormat || r.Adapter.Backend != "cpu" || r.Adapter.Type != "software" ||
		r.Adapter.Limits.BindingBytes <= 0 || r.Program.Go == "" || r.Choices["target"] == nil ||
		r.Choices["draft"] == nil || r.Choices["costs"] != nil {
		t.Errorf("%+v", r)
	}
	if len(r.Checks) < 30 || r.Wrong() > 0 {
		t.Errorf("%d checks, %d wrong", len(r.Checks), r.Wrong())
	}
	for _, p := range r.Products {
		if len(p.Rows) != 5 || p.Rows[0].GBs <= 0 || p.Rows[4].Ratio <= 0 || p.Error != "" {
			t.Errorf("%+v", p)
		}
	}
	if len(r.Products) != 2 || r.Costs == nil || r.Costs.Verify[0].N != 1 {
		t.Errorf("%d products, costs %+v", len(r.Products), r.Costs)
	}
	if m := r.Memory; m == nil || m.One <= 0 || m.All <= 0 || m.Weights <= 0 || m.Share <= 0 || m.Error != "" {
		t.Errorf("memory %+v", m)
	}
	if got := strings.TrimSpace(o.out); got != strings.Join(r.Summary, "\n") ||
		!strings.Contains(got, "wrong: 0") || !strings.Contains(got, "GB/s") || !strings.Contains(got, "T(1)") {
		t.Errorf("printed %s", got)
	}
	for _, bad := range [][]string{{"--repeat", "0"}, {"--out", t.TempDir() + "/no/such/file"}, {"file"}} {
		if o := call(t, "", append([]string{"doctor"}, bad...)...); o.code == exitOK || o.out != "" {
			t.Errorf("%v: code %d: %s", bad, o.code, o.err)
		}
	}
}
