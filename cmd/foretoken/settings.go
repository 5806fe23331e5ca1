//go:build !js

package main

import (
	"encoding/json"
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
	name, usage := flagOf(s), usageOf(s)
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
		f.Var(fieldFlag{"float64", func(text string) error {
			v, err := strconv.ParseFloat(text, 64)
			*to = &v
			return err
		}}, name, usage)
	case *map[int32]float32:
		f.Var(fieldFlag{"bias", func(text string) error { return addBias(to, text) }}, name,
			"ID=ADD: "+usage+"; may be given several times")
	case *json.RawMessage:
		f.Var(fieldFlag{"string", func(text string) error { *to = json.RawMessage(text); return nil }}, name, usage)
	default:
		f.Var(fieldFlag{"JSON", func(text string) error { return s.Decode([]byte(text), r) }}, name, usage)
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

// flagOf is the name of a setting's flag.
func flagOf(s *spec.Setting) string {
	if strings.Trim(s.Flag, "-") != "" {
		return s.Flag
	}
	return strings.ReplaceAll(s.Name, "_", "-")
}

// flagOfField is the name of the flag of a field, which may be no setting's.
func flagOfField(field string) string {
	s := spec.Setting{Name: field}
	for _, row := range foretoken.Settings() {
		if row.Name == field {
			s = row
		}
	}
	return flagOf(&s)
}

// fieldFlag is the flag of a field that pflag has no type for, by the name of its kind: see kindOf.
type fieldFlag struct {
	kind string
	set  func(text string) error
}

func (f fieldFlag) Type() string          { return f.kind }
func (f fieldFlag) String() string        { return "" } // such a field is not set by default
func (f fieldFlag) Set(text string) error { return f.set(text) }

// addBias adds ID=ADD, what is added to the logits of a token.
func addBias(to *map[int32]float32, text string) error {
	id, add, ok := strings.Cut(text, "=")
	token, err := strconv.ParseInt(strings.TrimSpace(id), 10, 32)
	bias, err2 := strconv.ParseFloat(strings.TrimSpace(add), 32)
	if !ok || err != nil || err2 != nil {
		return strconv.ErrSyntax
	}
	if *to == nil {
		*to = map[int32]float32{}
	}
	(*to)[int32(token)] = float32(bias)
	return nil
}
