package foretoken

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"slices"

	"foretoken/internal/files"
	"foretoken/internal/strictjson"
	"foretoken/models/llama"
	"foretoken/spec"
	"foretoken/spec/adapt"
)

// KindSet is a file that holds several calibrations: the entropy bins of several tree shapes, say.
const KindSet = "set"

// Calibrations holds data fitted to a pair of models.
type Calibrations struct {
	Hetero []*adapt.HeteroCalibration // one for each shape of draft tree
	C2T    *spec.C2TClassifier
	Head   *llama.Head // the draft's acceptance head
}

// setFile is a file of kind KindSet.
type setFile struct {
	Kind         string            `json:"kind"`
	Version      int               `json:"version"`
	Calibrations []json.RawMessage `json:"calibrations"`
}

// Parse reads a calibration file of any kind, which the file itself names,
// into what was read before: entropy bins are added, anything else is
// replaced. file names it in errors.
func (c *Calibrations) Parse(file string, data []byte) error {
	kind, err := spec.CalibrationKind(file, data)
	if err != nil {
		return err
	}
	switch kind {
	case spec.KindHetero:
		h, err := adapt.ParseHetero(file, data)
		if err != nil {
			return err
		}
		c.Hetero = append(c.Hetero, h)
	case spec.KindC2T:
		c.C2T, err = spec.ParseC2T(file, data)
		return err
	case llama.KindAcceptance:
		c.Head, err = llama.ParseHead(file, data)
		return err
	case KindSet:
		var set setFile
		if err := strictjson.Decode(data, &set); err != nil {
			return fmt.Errorf("foretoken: %s: %w", file, err)
		}
		for i, one := range set.Calibrations {
			name := fmt.Sprintf("%s, calibration %d", file, i+1)
			if kind, err := spec.CalibrationKind(name, one); err != nil {
				return err
			} else if kind == KindSet {
				return fmt.Errorf("foretoken: %s: a set inside a set", name)
			}
			if err := c.Parse(name, one); err != nil {
				return err
			}
		}
	default:
		return fmt.Errorf("foretoken: %s: field kind is %.80q, want %s, %s, %s or %s", file, kind, spec.KindHetero,
			spec.KindC2T, llama.KindAcceptance, KindSet)
	}
	return nil
}

// EncodeHetero gives the file of one or more calibrations of entropy bins, a set where there are several.
func EncodeHetero(all ...*adapt.HeteroCalibration) ([]byte, error) {
	var texts [][]byte
	for _, h := range all {
		text, err := h.Encode()
		if err != nil {
			return nil, err
		}
		if len(all) == 1 {
			return text, nil
		}
		texts = append(texts, bytes.ReplaceAll(bytes.TrimSpace(text), []byte("\n"), []byte("\n    ")))
	}
	return fmt.Appendf(nil, "{\n  \"kind\": %q,\n  \"version\": 1,\n  \"calibrations\": [\n    %s\n  ]\n}\n", KindSet,
		bytes.Join(texts, []byte(",\n    "))), nil
}

// HeteroFor picks the entropy bins for a pair and a tree (see spec.Fingerprint.Shaped),
// those read last first, or says why none fit.
func (c *Calibrations) HeteroFor(f spec.Fingerprint) (*adapt.HeteroCalibration, error) {
	var first error
	for _, h := range slices.Backward(c.Hetero) {
		err := h.Matches(f)
		if err == nil {
			return h, nil
		}
		// The bins of the right tree and another pair say more than those of another tree.
		if first == nil || h.Fingerprint.TopK == f.TopK && h.Fingerprint.Depth == f.Depth &&
			h.Fingerprint.Nodes == f.Nodes {
			first = err
		}
	}
	if first == nil {
		return nil, fmt.Errorf("foretoken: there are no entropy bins; fit some with foretoken calibrate hetero "+
			"--top-k %d --depth %d --nodes %d", f.TopK, f.Depth, f.Nodes)
	}
	return nil, first
}

// hashed is the number of bytes at each end of a file that go into its hash: the header, with the configuration,
// the vocabulary and every tensor's name and shape, and some weights. A hash of all bytes would have to fetch the
// complete file where weights come over a network.
const (
	hashedHead = 1 << 20
	hashedTail = 1 << 16
)

// modelID names a model file by its size and a SHA-256 over its size, its first MiB and its last 64 KiB.
func modelID(src files.Source, name, quantisation string, hash func([]byte) [sha256.Size]byte) (spec.ModelID, error) {
	size := src.Size()
	head := min(size, hashedHead)
	tail := max(head, size-hashedTail)
	text := fmt.Appendln(nil, size)
	at := int64(len(text))
	text = append(text, make([]byte, head+size-tail)...)
	for _, part := range []struct{ from, to int64 }{{0, head}, {tail, size}} {
		b := text[at : at+part.to-part.from]
		at += int64(len(b))
		if n, err := src.ReadAt(b, part.from); n < len(b) {
			if err == nil || err == io.EOF {
				err = io.ErrUnexpectedEOF
			}
			return spec.ModelID{}, fmt.Errorf("foretoken: %s: bytes %d to %d, to tell the file by: %w", src.Name(),
				part.from, part.to, err)
		}
	}
	if name == "" {
		name = src.Name()
	}
	if hash == nil {
		hash = sha256.Sum256
	}
	sum := hash(text)
	return spec.ModelID{Name: name, Bytes: size, Hash: hex.EncodeToString(sum[:16]), Quantisation: quantisation}, nil
}

// Fingerprint names the pair of models, for calibrations; its tree is empty.
func (s *Session) Fingerprint() spec.Fingerprint { return s.pair }

// HeadFingerprint names the target and its EAGLE-3 head; zero without a head.
func (s *Session) HeadFingerprint() spec.Fingerprint { return s.headPair }

// Calibrations returns the calibrations that the session was opened with.
func (s *Session) Calibrations() Calibrations { return s.fitted }
