package main

import (
	"crypto/sha256"
	"encoding/hex"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"foretoken/internal/strictjson"
)

// pairs is models/catalog.json: pairs of models that are known to work together.
type pairs struct {
	Version int `json:"version"`
	Pairs   []struct {
		ID         string     `json:"id"`
		Title      string     `json:"title"`
		Family     string     `json:"family"`
		Licence    string     `json:"licence"`
		LicenceURL string     `json:"licence_url"`
		Memory     int64      `json:"memory_bytes"` // of the device, at least
		Target     knownModel `json:"target"`
		Draft      knownModel `json:"draft"`
	} `json:"pairs"`
}

// knownModel is a file on a hub: owner/repo/file, or owner/repo@revision/file.
type knownModel struct {
	Name   string `json:"name"`
	Title  string `json:"title"`
	Quant  string `json:"quant"`
	Bytes  int64  `json:"bytes"`  // 0: not known
	SHA256 string `json:"sha256"` // empty: not known
}

func TestPairs(t *testing.T) {
	body, err := os.ReadFile(filepath.Join("..", "models", "catalog.json"))
	if err != nil {
		t.Fatal(err)
	}
	var c pairs
	if err := strictjson.Decode(body, &c); err != nil {
		t.Fatal(err)
	}
	if c.Version != 1 || len(c.Pairs) == 0 {
		t.Fatalf("version %d with %d pairs", c.Version, len(c.Pairs))
	}
	name := regexp.MustCompile(`^[\w.-]+/[\w.-]+(@[0-9a-f]{40})?/[\w.-]+\.gguf$`)
	quant := regexp.MustCompile(`^(F32|F16|BF16|Q[2-8]_[01K](_[SML])?|IQ4_NL)$`)
	hash := regexp.MustCompile(`^[0-9a-f]{64}$`)
	ids := map[string]bool{}
	for i, p := range c.Pairs {
		if p.ID == "" || ids[p.ID] || p.Title == "" || p.Family == "" || p.Licence == "" {
			t.Errorf("pair %d, %q: the id is empty or taken, or title, family or licence are missing", i, p.ID)
		}
		ids[p.ID] = true
		if u, err := url.Parse(p.LicenceURL); err != nil || u.Scheme != "https" || u.Host == "" {
			t.Errorf("%s: licence_url %q", p.ID, p.LicenceURL)
		}
		if p.Target.Name == p.Draft.Name || p.Memory < p.Target.Bytes+p.Draft.Bytes {
			t.Errorf("%s: one model twice, or less memory (%d) than the files take", p.ID, p.Memory)
		}
		for _, m := range []knownModel{p.Target, p.Draft} {
			builtin := i == 0 && strings.HasPrefix(m.Name, "models/demo/")
			if !name.MatchString(m.Name) && !builtin || m.Title == "" || !quant.MatchString(m.Quant) || m.Bytes < 0 ||
				m.SHA256 != "" && !hash.MatchString(m.SHA256) {
				t.Errorf("%s: %+v", p.ID, m)
			}
			if !strings.Contains(strings.ToLower(filepath.Base(m.Name)), strings.ToLower(m.Quant)) {
				t.Errorf("%s: %s does not name its type %s", p.ID, m.Name, m.Quant)
			}
			if builtin {
				file, err := os.ReadFile(filepath.Join("..", filepath.FromSlash(m.Name)))
				if err != nil {
					t.Fatal(err)
				}
				if sum := sha256.Sum256(file); int64(len(file)) != m.Bytes || hex.EncodeToString(sum[:]) != m.SHA256 {
					t.Errorf("%s has %d bytes and SHA-256 %x, the catalog says %d and %s", m.Name, len(file), sum,
						m.Bytes, m.SHA256)
				}
			}
		}
	}
	if c.Pairs[0].ID != "builtin" {
		t.Errorf("the first pair is %s, want the built-in one", c.Pairs[0].ID)
	}
}
