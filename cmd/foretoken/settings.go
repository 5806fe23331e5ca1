//go:build !js

package main

import (
	"encoding/json"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/pflag"

	"foretoken"
	"foretoken/spec"
)

// settingFlags adds the flags of a request's settings, which set its fields.
func settingFlags(f *pflag.FlagSet, r *foretoken.Request) {
	for _, s := range foretoken.Settings() {
		if s.Flag != "-" {
			settingFlag(f, &s, r)
		}
	}
}

func settingFlag(f *pflag.FlagSet, s *spec.Setting, r *foretoken.Request) {
	name, usage := flagOf(s.Name), usageOf(s)
	switch to := s.In(r).Addr().Interface().(type) {
	case *bool:
		f.BoolVar(to, name, *to, usage)
	case *int:
		f.IntVar(to, name, *to, usage)
	case *uint64:
		f.Uint64Var(to, name, *to, usage)
	case *float64:
		f.Float64Var(to, name, *to, usage)
	case *string:
		f.StringVar(to, name, *to, usage)
	case *[]int32:
		f.Int32SliceVar(to, name, nil, usage)
	case *[]string:
		if s.Choices != nil {
			f.StringSliceVar(to, name, nil, usage)
		} else {
			f.StringArrayVar(to, name, nil, usage+"; may be given several times")
		}
	case **float64:
		f.Var(optionalNumber{to}, name, usage)
	case *map[int32]float32:
		f.Var(biases{to}, name, "ID=ADD: "+usage+"; may be given several times")
	case *json.RawMessage:
		f.Var((*rawJSON)(to), name, usage)
	default:
		f.Var(decoded{s, r}, name, usage)
	}
}

// usageOf describes a flag: the one adapter or verifier that reads it, its help, its names unless the help has them or
// they are many, and its default or its bounds.
func usageOf(s *spec.Setting) string {
	usage := s.Help
	if len(s.For) == 1 {
		usage = s.For[0] + ": " + usage
	}
	if n := len(s.Choices); n > 0 && n < 9 && !strings.Contains(usage, s.Choices[0]) {
		usage += ": " + orList(s.Choices)
	}
	switch {
	case s.Zero != "" && (s.Unset == "" || s.Unset == s.Zero):
		usage += "; 0: " + s.Zero
	case s.Unset != "":
		usage += " (default " + s.Unset + ")"
	case s.Bounded():
		usage += ", " + s.Want()
	}
	return usage
}

// flagOf is the flag of a field.
func flagOf(field string) string {
	rows := foretoken.Settings()
	i := slices.IndexFunc(rows, func(s spec.Setting) bool { return s.Name == field })
	if i >= 0 && strings.Trim(rows[i].Flag, "-") != "" {
		return rows[i].Flag
	}
	return strings.ReplaceAll(field, "_", "-")
}

// optionalNumber is the flag of a number for which 0 is not the same as leaving it out.
type optionalNumber struct{ to **float64 }

func (optionalNumber) Type() string { return "float64" }

func (o optionalNumber) String() string {
	if o.to == nil || *o.to == nil {
		return ""
	}
	return strconv.FormatFloat(**o.to, 'g', -1, 64)
}

func (o optionalNumber) Set(text string) error {
	v, err := strconv.ParseFloat(text, 64)
	*o.to = &v
	return err
}

// biases is the flag of what is added to the logits of tokens, each as ID=ADD.
type biases struct{ to *map[int32]float32 }

func (biases) Type() string { return "bias" }

func (biases) String() string { return "" }

func (b biases) Set(text string) error {
	id, add, ok := strings.Cut(text, "=")
	token, err := strconv.ParseInt(strings.TrimSpace(id), 10, 32)
	bias, err2 := strconv.ParseFloat(strings.TrimSpace(add), 32)
	if !ok || err != nil || err2 != nil {
		return strconv.ErrSyntax
	}
	if *b.to == nil {
		*b.to = map[int32]float32{}
	}
	(*b.to)[int32(token)] = float32(bias)
	return nil
}

// rawJSON is the flag of a text in JSON that others read.
type rawJSON json.RawMessage

func (*rawJSON) Type() string { return "string" }

func (r *rawJSON) String() string { return string(*r) }

func (r *rawJSON) Set(text string) error {
	*r = rawJSON(text)
	return nil
}

// decoded is the flag of a field that is given in JSON.
type decoded struct {
	*spec.Setting
	r *foretoken.Request
}

func (decoded) Type() string { return "JSON" }

func (decoded) String() string { return "" }

func (d decoded) Set(text string) error { return d.Decode([]byte(text), d.r) }
