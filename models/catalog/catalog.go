// Package catalog reads models/catalog.json, the list of models that are known to work here: where a file is, what it
// may be used for, how much memory it takes, and what can draft for it. The page offers them by one click, so a bad
// entry fails the build. Package plan computes the memory of the entries.
package catalog

import (
	"encoding/json"
	"fmt"
	"net/url"
	"slices"
	"strings"

	"foretoken/internal/quote"
	"foretoken/internal/strictjson"
	"foretoken/models/arch"
)

// Version is the version of the schema that Read reads.
const Version = 2

// Builtin is the repository of the files that are served with the page.
const Builtin = "models/demo"

// Unchecked stands for the checksum of a file that has no known one.
const Unchecked = "unchecked"

// Catalog lists models; the first one is built in.
type Catalog struct {
	Version int      `json:"version"`
	Models  []*Model `json:"models"`
}

// File is a file of a repository, with what a visitor has to know before loading it.
type File struct {
	Repository string `json:"repository"`         // owner/name on a hub, or Builtin
	Revision   string `json:"revision,omitempty"` // a commit or a branch; none where the file is built in
	Name       string `json:"file"`
	Bytes      int64  `json:"bytes"`  // 0: not known
	SHA256     string `json:"sha256"` // 64 hexadecimal digits, or Unchecked
	Licence    string `json:"licence"`
	LicenceURL string `json:"licence_url"`
	Memory     Memory `json:"memory"`
}

// Memory is the number of bytes that loading a model takes with 4,096 positions, or with as many as it was trained for.
type Memory struct {
	GPU int64 `json:"gpu"`
	CPU int64 `json:"cpu"`
}

// Model is a model that can be loaded alone or with one of its drafters.
type Model struct {
	ID     string `json:"id"`
	Title  string `json:"title"`
	Family string `json:"family"`
	File
	Quant    string    `json:"quant"`                // the storage type of its matrices, as in the file's name
	Kind     string    `json:"kind"`                 // one of Kinds
	Template string    `json:"template"`             // the family of its chat template, or "none"
	Device   string    `json:"device"`               // one of Devices: the least that it runs on with its first drafter
	Needs    string    `json:"needs,omitempty"`      // the architecture or format that does not run yet; none: it runs
	Drafts   bool      `json:"draft_only,omitempty"` // offered as a drafter only
	Drafters []Drafter `json:"drafters"`             // the best one first
	HParams  *HParams  `json:"hparams,omitempty"`    // none where plan reads the file itself
}

// Files returns the file of a model and those of its heads.
func (m *Model) Files() []*File {
	all := []*File{&m.File}
	for i := range m.Drafters {
		if head := m.Drafters[i].Head; head != nil {
			all = append(all, &head.File)
		}
	}
	return all
}

// Drafter drafts for a model: another model of the catalog, or a head with a config.json beside it.
type Drafter struct {
	Kind  string `json:"kind"` // model or eagle3
	Model string `json:"model,omitempty"`
	Head  *Head  `json:"head,omitempty"`
}

// Head is an EAGLE-3 head.
type Head struct {
	File
	Config string `json:"config"` // the name of its config.json in the same repository
}

// HParams holds the facts of a model that its memory follows from, as its config.json states them.
type HParams struct {
	Architecture string `json:"architecture"`
	Layers       int    `json:"layers"`
	Dim          int    `json:"dim"`
	Heads        int    `json:"heads"`
	KVHeads      int    `json:"kv_heads"`
	HeadDim      int    `json:"head_dim"`
	FFN          int    `json:"ffn"`
	Vocab        int    `json:"vocab"`
	Context      int    `json:"context"`
	Tied         bool   `json:"tied"` // the file has no output matrix
}

var (
	// Kinds are the uses that models were trained for.
	Kinds = []string{"chat", "code", "base", "embedding"}
	// Devices are the classes of devices: see DeviceOf.
	Devices = []string{"phone", "laptop", "desktop"}
)

// DeviceOf returns the least class of devices with so many bytes for models: browsers end a phone's tab that takes more
// than one GiB, and four GiB are the reach of WebAssembly's addresses, and most that shared graphics memory lends.
func DeviceOf(m Memory) string {
	switch most := max(m.GPU, m.CPU); {
	case most <= 1<<30:
		return Devices[0]
	case most <= 4<<30:
		return Devices[1]
	}
	return Devices[2]
}

// Read reads a catalog, or returns an error that names the entry and the field.
func Read(body []byte) (*Catalog, error) {
	c := &Catalog{}
	if err := strictjson.Decode(body, c); err != nil {
		return nil, fmt.Errorf("models/catalog.json: %w", err)
	}
	if c.Version != Version {
		return nil, fmt.Errorf("models/catalog.json: version: is %d, want %d", c.Version, Version)
	}
	if len(c.Models) == 0 || c.Models[0] == nil || c.Models[0].Repository != Builtin {
		return nil, fmt.Errorf("models/catalog.json: models: the first one is not built in: want repository %s",
			Builtin)
	}
	byID := map[string]*Model{}
	for i, m := range c.Models {
		if m == nil || !isWord(m.ID) || byID[m.ID] != nil {
			return nil, fmt.Errorf("models/catalog.json: models[%d]: id: empty, taken, or not of a-z, 0-9, dots "+
				"and dashes", i)
		}
		byID[m.ID] = m
	}
	for _, m := range c.Models {
		if err := m.check(byID); err != nil {
			return nil, fmt.Errorf("models/catalog.json: %s: %w", quote.Name(m.ID), err)
		}
	}
	return c, nil
}

// Text returns the catalog as it is written to its file.
func (c *Catalog) Text() ([]byte, error) {
	var b strings.Builder
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	err := e.Encode(c)
	return []byte(b.String()), err
}

// check returns an error that begins with the name of the first bad field.
func (m *Model) check(byID map[string]*Model) error {
	switch {
	case m.Title == "":
		return fmt.Errorf("title: is empty")
	case m.Family == "":
		return fmt.Errorf("family: is empty")
	case !slices.Contains(Kinds, m.Kind):
		return fmt.Errorf("kind: is %q, want one of %s", m.Kind, strings.Join(Kinds, ", "))
	case !isWord(m.Template):
		return fmt.Errorf("template: is %q, want the family of the chat template or none", m.Template)
	case m.Kind == "chat" && m.Template == "none":
		return fmt.Errorf("template: is none, but the model is for chat")
	case !slices.Contains(Devices, m.Device):
		return fmt.Errorf("device: is %q, want one of %s", m.Device, strings.Join(Devices, ", "))
	case m.Quant == "" || !strings.Contains(strings.ToLower(m.Name), strings.ToLower(m.Quant)):
		return fmt.Errorf("quant: is %q, which the name of the file does not contain", m.Quant)
	case m.Drafters == nil:
		return fmt.Errorf("drafters: missing; want a list, empty where nothing drafts for the model")
	}
	if err := m.File.check(".gguf"); err != nil {
		return err
	}
	if m.Memory.GPU < m.Bytes/2 || m.Memory.CPU < m.Bytes/2 {
		return fmt.Errorf("memory: is less than half of the file: run plan")
	}
	for i, d := range m.Drafters {
		if err := d.check(m, byID); err != nil {
			return fmt.Errorf("drafters[%d]: %w", i, err)
		}
	}
	if m.HParams != nil {
		return m.HParams.check(m.Needs)
	}
	return nil
}

func (d *Drafter) check(of *Model, byID map[string]*Model) error {
	switch d.Kind {
	case "model":
		if by := byID[d.Model]; by == nil || by == of || d.Head != nil {
			return fmt.Errorf("model: is %q, want the id of another model, and no head", d.Model)
		}
		return nil
	case "eagle3":
		if d.Head == nil || d.Model != "" {
			return fmt.Errorf("head: missing, or beside a model")
		}
		if !isFile(d.Head.Config, ".json") {
			return fmt.Errorf("config: is %q, want the name of a .json file", d.Head.Config)
		}
		return d.Head.File.check(".safetensors")
	}
	return fmt.Errorf("kind: is %q, want model or eagle3", d.Kind)
}

func (f *File) check(extension string) error {
	owner, name, _ := strings.Cut(f.Repository, "/")
	link, err := url.Parse(f.LicenceURL)
	switch {
	case !isFile(owner, "") || !isFile(name, ""):
		return fmt.Errorf("repository: is %q, want owner/name", f.Repository)
	case f.Repository == Builtin && f.Revision != "":
		return fmt.Errorf("revision: is %q, but the file is built in", f.Revision)
	case f.Repository != Builtin && !isFile(f.Revision, ""):
		return fmt.Errorf("revision: is %q, want a commit or a branch", f.Revision)
	case !isFile(f.Name, extension):
		return fmt.Errorf("file: is %q, want the name of a %s file", f.Name, extension)
	case f.Bytes < 0:
		return fmt.Errorf("bytes: is %d, want the size of the file, or 0 where it is not known", f.Bytes)
	case f.SHA256 != Unchecked && (len(f.SHA256) != 64 || strings.Trim(f.SHA256, "0123456789abcdef") != ""):
		return fmt.Errorf("sha256: is %q, want 64 hexadecimal digits or %s", f.SHA256, Unchecked)
	case f.Licence == "":
		return fmt.Errorf("licence: is empty")
	case err != nil || link.Scheme != "https" || link.Host == "":
		return fmt.Errorf("licence_url: is %q, want an https address", f.LicenceURL)
	case f.Memory.GPU <= 0 || f.Memory.CPU <= 0:
		return fmt.Errorf("memory: is %d and %d bytes, want more than 0: run plan", f.Memory.GPU, f.Memory.CPU)
	}
	return nil
}

func (p *HParams) check(needs string) error {
	if needs == "" && !slices.Contains(arch.Names(), p.Architecture) { // bound: a dozen names
		return fmt.Errorf("hparams: architecture: is %q, want one of %s", p.Architecture,
			strings.Join(arch.Names(), ", "))
	}
	if min(p.Layers, p.Dim, p.Heads, p.KVHeads, p.HeadDim, p.FFN, p.Vocab, p.Context) <= 0 {
		return fmt.Errorf("hparams: %+v: a count is 0", *p)
	}
	return nil
}

// isWord reports whether s is made of lower-case letters, digits, dots and dashes.
func isWord(s string) bool {
	return s != "" && strings.Trim(s, "abcdefghijklmnopqrstuvwxyz0123456789.-") == ""
}

// isFile reports whether s is a name without a path that ends with extension.
func isFile(s, extension string) bool {
	rest := strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("._-", r) {
			return -1
		}
		return r
	}, s)
	return rest == "" && strings.Trim(s, ".") != "" && strings.HasSuffix(s, extension)
}
