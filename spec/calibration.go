package spec

import (
	"bytes"
	"encoding/json"
	"fmt"

	"foretoken/internal/quote"
	"foretoken/internal/strictjson"
)

const (
	// calibrationVersion is the version of the format of calibration files.
	calibrationVersion = 1
	maxValues          = 1 << 20 // numbers, texts, lists and objects of a file, counted before they are read
)

// Calibration is a file's content, which begins with a CalibrationHeader.
type Calibration interface {
	// Validate returns an error that names the first wrong field of the content or its header.
	Validate() error
	// SetKind sets the kind in the file's header. A type that embeds CalibrationHeader has it.
	SetKind(kind string)
}

// ModelID identifies a model file.
type ModelID struct {
	Name         string `json:"name"`         // to be read by people; two names of one file are the same model
	Bytes        int64  `json:"bytes"`        // of the file
	Hash         string `json:"hash"`         // of its contents; the caller chooses the function and keeps to it
	Quantisation string `json:"quantisation"` // of its weights, such as q8_0
}

// same reports whether two IDs name one model.
func (m ModelID) same(o ModelID) bool {
	return m.Bytes == o.Bytes && m.Hash == o.Hash && m.Quantisation == o.Quantisation
}

func (m ModelID) String() string {
	hash := m.Hash[:min(len(m.Hash), 8)]
	return fmt.Sprintf("%s (%s, %d bytes, hash %s)", quote.Name(m.Name), quote.Name(m.Quantisation), m.Bytes,
		quote.Name(hash))
}

// Fingerprint identifies the pair of models that a calibration was made for.
type Fingerprint struct {
	Target ModelID `json:"target"`
	Draft  ModelID `json:"draft"`
	// The draft tree's k, d and N, as the settings of an EAGLE-2 tree have them; see WithTree.
	TopK  int `json:"top_k"`
	Depth int `json:"depth"`
	Nodes int `json:"nodes"`
}

// WithTree returns the fingerprint with the settings of a draft tree.
func (f Fingerprint) WithTree(topK, depth, nodes int) Fingerprint {
	f.TopK, f.Depth, f.Nodes = topK, depth, nodes
	return f
}

// MatchesModels refuses another pair than f's.
func (f Fingerprint) MatchesModels(have Fingerprint) error {
	if !f.Target.same(have.Target) {
		return fmt.Errorf("target %s, but the target here is %s", f.Target, have.Target)
	}
	if !f.Draft.same(have.Draft) {
		return fmt.Errorf("draft %s, but the draft here is %s", f.Draft, have.Draft)
	}
	return nil
}

// MatchesTree refuses another tree than f's.
func (f Fingerprint) MatchesTree(k, d, n int) error {
	if f.TopK != k || f.Depth != d || f.Nodes != n {
		return fmt.Errorf(
			"trees of top-k %d, depth %d and %d nodes, but the tree here has top-k %d, depth %d and %d nodes", f.TopK,
			f.Depth, f.Nodes, k, d, n)
	}
	return nil
}

// Validate refuses a fingerprint that names no models or no tree.
func (f Fingerprint) Validate() error {
	for _, m := range []struct {
		field string
		id    ModelID
	}{{"target", f.Target}, {"draft", f.Draft}} {
		switch {
		case m.id.Name == "":
			return fmt.Errorf("field fingerprint.%s.name is missing", m.field)
		case m.id.Hash == "":
			return fmt.Errorf("field fingerprint.%s.hash is missing", m.field)
		case m.id.Bytes <= 0:
			return fmt.Errorf("field fingerprint.%s.bytes is %d, want the size of the model's file", m.field,
				m.id.Bytes)
		}
	}
	for _, n := range []struct {
		field        string
		v, low, high int
	}{{"top_k", f.TopK, 1, MaxTopK}, {"depth", f.Depth, 0, MaxDepth - 1}, {"nodes", f.Nodes, 2, MaxNodes}} {
		if n.v < n.low || n.v > n.high {
			return fmt.Errorf("field fingerprint.%s is %d, want %d to %d", n.field, n.v, n.low, n.high)
		}
	}
	return nil
}

// Made records how a calibration was made. It has no dates: the same run gives the same file.
type Made struct {
	Prompts  string `json:"prompts"`  // which
	Requests int    `json:"requests"` // prompts run
	Tokens   int    `json:"tokens"`   // of the target's continuations
	Samples  int    `json:"samples"`  // rows collected: rounds, or nodes of trees
	// Temperature and Seed drew the continuations.
	Temperature float64 `json:"temperature"`
	Seed        uint64  `json:"seed"`
	// Settings of the fit or the training, by name.
	Settings map[string]string `json:"settings,omitempty"`
}

// CalibrationHeader begins every calibration file. Kind and Version are set on encoding.
type CalibrationHeader struct {
	Kind        string      `json:"kind"`
	Version     int         `json:"version"`
	Fingerprint Fingerprint `json:"fingerprint"`
	Made        Made        `json:"made"`
}

func (h *CalibrationHeader) SetKind(kind string) { h.Kind, h.Version = kind, calibrationVersion }

// CalibrationKind reads a file's kind. file names it in errors.
func CalibrationKind(file string, data []byte) (string, error) {
	var h struct {
		Kind    string `json:"kind"`
		Version int    `json:"version"`
	}
	if err := (strictjson.Rules{Foreign: true, Values: maxValues}).Decode(data, &h); err != nil {
		return "", fmt.Errorf("spec: %s: %w", file, err)
	}
	if h.Kind == "" {
		return "", fmt.Errorf("spec: %s: field kind is missing: this is not a calibration", file)
	}
	if h.Version != calibrationVersion {
		return "", fmt.Errorf("spec: %s: field version is %d, want %d", file, h.Version, calibrationVersion)
	}
	return h.Kind, nil
}

// ParseCalibration reads a file of one kind into an empty value and returns it. It refuses fields that the file should
// not have.
func ParseCalibration[C Calibration](file string, data []byte, kind string, into C) (none C, err error) {
	have, err := CalibrationKind(file, data)
	if err != nil {
		return none, err
	}
	if have != kind {
		return none, fmt.Errorf("spec: %s: field kind is %.80q, want %q", file, have, kind)
	}
	if err := strictjson.Decode(data, into); err != nil {
		return none, fmt.Errorf("spec: %s: %w", file, err)
	}
	if err := into.Validate(); err != nil {
		return none, fmt.Errorf("spec: %s: %w", file, err)
	}
	return into, nil
}

// flat puts each array of plain values on one line. text is MarshalIndent's; strings hold no breaks, for JSON escapes
// them.
func flat(text []byte) []byte {
	var out []byte
	for {
		at := bytes.Index(text, []byte("[\n")) + 1
		if at == 0 {
			return append(out, text...)
		}
		out = append(out, text[:at]...)
		text = text[at:]
		if end := bytes.IndexAny(text, `[]{}"`); text[end] == ']' {
			out = append(out, bytes.Join(bytes.Fields(text[:end]), []byte(" "))...)
			text = text[end:]
		}
	}
}

// EncodeCalibration writes a file of one kind, arrays of numbers on one line each.
func EncodeCalibration(kind string, c Calibration) ([]byte, error) {
	c.SetKind(kind)
	if err := c.Validate(); err != nil {
		return nil, fmt.Errorf("spec: the calibration to be written: %w", err)
	}
	text, err := json.MarshalIndent(c, "", "  ")
	if err != nil {
		return nil, fmt.Errorf("spec: the calibration to be written: %w", err)
	}
	return append(flat(text), '\n'), nil
}
