package pair

import (
	"bytes"
	"encoding/json"
	"fmt"

	"foretoken/internal/strictjson"
	"foretoken/spec"
)

// KindSet is a file that holds several calibrations: the entropy bins of several trees, say.
const KindSet = "set"

// setFile is a file of kind KindSet.
type setFile struct {
	Kind         string            `json:"kind"`
	Version      int               `json:"version"`
	Calibrations []json.RawMessage `json:"calibrations"`
}

// Calibration is a file of one calibration, or a part of a set.
type Calibration struct {
	File string // for errors: its name, with the number of the part
	Kind string // never KindSet
	Data []byte // JSON
}

// SplitCalibrations returns the calibrations of a file: the parts of a set, or the file itself. file names it in
// errors.
func SplitCalibrations(file string, data []byte) ([]Calibration, error) {
	kind, err := spec.CalibrationKind(file, data)
	if err != nil {
		return nil, err
	}
	if kind != KindSet {
		return []Calibration{{file, kind, data}}, nil
	}
	var set setFile
	if err := strictjson.Decode(data, &set); err != nil {
		return nil, fmt.Errorf("foretoken: %s: %w", file, err)
	}
	all := make([]Calibration, len(set.Calibrations))
	for i, one := range set.Calibrations {
		name := fmt.Sprintf("%s, calibration %d", file, i+1)
		kind, err := spec.CalibrationKind(name, one)
		if err != nil {
			return nil, err
		}
		if kind == KindSet {
			return nil, fmt.Errorf("foretoken: %s: a set inside a set", name)
		}
		all[i] = Calibration{name, kind, one}
	}
	return all, nil
}

// JoinCalibrations returns the file of encoded calibrations, a set unless there is one.
func JoinCalibrations(all [][]byte) []byte {
	if len(all) == 1 {
		return all[0]
	}
	var parts [][]byte
	for _, text := range all {
		parts = append(parts, bytes.ReplaceAll(bytes.TrimSpace(text), []byte("\n"), []byte("\n    ")))
	}
	return fmt.Appendf(nil, "{\n  \"kind\": %q,\n  \"version\": 1,\n  \"calibrations\": [\n    %s\n  ]\n}\n", KindSet,
		bytes.Join(parts, []byte(",\n    ")))
}
