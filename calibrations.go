package foretoken

import (
	"fmt"

	"foretoken/internal/pair"
	"foretoken/spec"
	"foretoken/spec/adapt"
)

// Calibrations holds data fitted to a pair of models.
type Calibrations struct {
	Hetero []*adapt.HeteroCalibration // one for each draft tree
	C2T    *adapt.C2TClassifier
	Heads  []*adapt.AcceptanceHead // for each draft and label, one for each band of temperatures
}

// Parse reads a calibration file of any kind, which the file itself names, into what was read before: entropy bins and
// acceptance heads are added, a classifier is replaced. file names it in errors.
func (c *Calibrations) Parse(file string, data []byte) error {
	all, err := pair.SplitCalibrations(file, data)
	for _, one := range all {
		switch one.Kind {
		case adapt.KindHetero:
			var h *adapt.HeteroCalibration
			if h, err = adapt.ParseHetero(one.File, one.Data); err == nil {
				c.Hetero = append(c.Hetero, h)
			}
		case adapt.KindC2T:
			c.C2T, err = adapt.ParseC2T(one.File, one.Data)
		case adapt.KindAcceptance:
			var h *adapt.AcceptanceHead
			if h, err = adapt.ParseAcceptance(one.File, one.Data); err == nil {
				c.Heads = append(c.Heads, h)
			}
		default:
			err = fmt.Errorf("foretoken: %s: field kind is %.80q, want %s, %s, %s or %s", one.File, one.Kind,
				adapt.KindHetero, adapt.KindC2T, adapt.KindAcceptance, pair.KindSet)
		}
		if err != nil {
			return err
		}
	}
	return err
}

// Encode returns the file that Parse reads, a set unless it holds one calibration.
func (c *Calibrations) Encode() ([]byte, error) {
	var all []interface{ Encode() ([]byte, error) }
	for _, h := range c.Hetero {
		all = append(all, h)
	}
	if c.C2T != nil {
		all = append(all, c.C2T)
	}
	for _, h := range c.Heads {
		all = append(all, h)
	}
	files := make([][]byte, len(all))
	for i, one := range all {
		var err error
		if files[i], err = one.Encode(); err != nil {
			return nil, err
		}
	}
	return pair.JoinCalibrations(files), nil
}

// Fingerprint names the pair of models, for calibrations; its tree is empty.
func (s *Session) Fingerprint() spec.Fingerprint { return s.pair.IDs }

// HeadFingerprint names the target and its EAGLE-3 head; zero without a head.
func (s *Session) HeadFingerprint() spec.Fingerprint { return s.pair.HeadIDs }

// Calibrations returns the calibrations that the session was opened with.
func (s *Session) Calibrations() Calibrations { return s.fitted }
