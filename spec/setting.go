package spec

import (
	"fmt"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"

	"foretoken/internal/hint"
	"foretoken/internal/strictjson"
)

// Setting is a row of a table of settings, for one field of requests. Flags, readers of requests, the page's form, its
// types and the documentation's tables are made of the rows. A row stands in the package that reads the field;
// foretoken.Settings joins the tables.
type Setting struct {
	Name  string `json:"name"` // of the field in JSON; flags and attributes have dashes for the underscores
	Group Group  `json:"group"`
	Help  string `json:"help"` // a sentence without a capital and a full stop

	// Bounds of a number, where Most is above Least.
	Least   float64  `json:"least"`
	Most    float64  `json:"most"`
	Zero    string   `json:"zero,omitempty"`    // what 0 stands for; "": 0 is a value like others
	Choices []string `json:"choices,omitempty"` // the names that a text takes; nil: any text

	Unset string `json:"unset,omitempty"` // what a missing value stands for; "": the default request says it
	// For names the adapters and verifiers that read it. Nil: every method does, or in GroupMethod the drafters whose
	// rows have a default of it.
	For    []string `json:"for,omitempty"`
	Except []string `json:"except,omitempty"` // adapters that ignore it

	Label string  `json:"label,omitempty"` // in the page's form; "": the form leaves it out
	Unit  string  `json:"unit,omitempty"`
	Step  float64 `json:"step,omitempty"` // of the form's arrows; 0: 1 for whole numbers, 0.01 for others
	Flag  string  `json:"flag,omitempty"` // on the command line, where it is not the name; "-": there is none
	API   string  `json:"api,omitempty"`  // in requests of OpenAI's API, where it is not the name
	// In those requests it is a member of their object "foretoken", like all of GroupMethod and GroupParts.
	Object bool `json:"object,omitempty"`
}

// Group says what a setting is part of: forms and tables have a section for each.
type Group string

const (
	GroupMethod      Group = "method"      // the method, and what it reads
	GroupParts       Group = "parts"       // in place of parts of the method
	GroupSampling    Group = "sampling"    // how tokens are drawn, and how many
	GroupFilters     Group = "filters"     // which tokens may be drawn
	GroupConstraints Group = "constraints" // what the text has to fit, and where it ends
	GroupOutput      Group = "output"      // what is returned, and at which cost
)

// Bounded reports whether the setting is a number with bounds.
func (s *Setting) Bounded() bool { return s.Most > s.Least }

// InObject reports whether requests of OpenAI's API have it in their object "foretoken".
func (s *Setting) InObject() bool { return s.Object || s.Group == GroupMethod || s.Group == GroupParts }

// Holds reports whether a value is within the bounds; NaN is not.
func (s *Setting) Holds(v float64) bool { return v >= s.Least && v <= s.Most || v == 0 && s.Zero != "" }

// Check refuses a value beyond the bounds.
func (s *Setting) Check(v float64) error {
	if s.Holds(v) {
		return nil
	}
	return Refuse(s.Name, "is %s, want %s", number(v), s.Want())
}

// Want describes the values within the bounds.
func (s *Setting) Want() string {
	want := number(s.Least) + " to " + number(s.Most)
	if s.Most == math.MaxFloat64 {
		want = number(s.Least) + " or more"
	}
	switch {
	case s.Zero == "":
		return want
	case s.Least == 0:
		return "0 (" + s.Zero + ")" + strings.TrimPrefix(want, "0")
	}
	return fmt.Sprintf("0 (%s) or %s", s.Zero, want)
}

// number writes whole numbers with all their digits.
func number(v float64) string {
	if v == math.Trunc(v) && math.Abs(v) < 1e21 {
		return strconv.FormatFloat(v, 'f', -1, 64)
	}
	return fmt.Sprint(v)
}

// CheckName refuses the value of a field that takes known names.
func CheckName(field, name string, known []string) error {
	if slices.Contains(known, name) {
		return nil
	}
	return Refuse(field, "is %.80q, want %s%s", name, orList(known), hint.DidYouMean(name, known))
}

func orList(names []string) string {
	last := len(names) - 1
	if last == 0 {
		return names[0]
	}
	return strings.Join(names[:last], ", ") + " or " + names[last]
}

// Named returns a row of a table. It panics if there is none, which is a mistake of the program.
func Named(table []Setting, name string) *Setting {
	return &table[slices.IndexFunc(table, func(s Setting) bool { return s.Name == name })]
}

// CheckSettings refuses numbers beyond their bounds and unknown names in the fields of a struct, given by pointer.
// Empty names and nil pointers count as missing, and so do settings that the struct has no field for.
func CheckSettings(table []Setting, of any) error {
	for i := range table {
		s := &table[i]
		v := s.In(of)
		if v.Kind() == reflect.Pointer {
			v = v.Elem()
		}
		var err error
		switch {
		case !v.IsValid():
		case s.Bounded() && v.CanInt():
			err = s.Check(float64(v.Int()))
		case s.Bounded() && v.CanFloat():
			err = s.Check(v.Float())
		case len(s.Choices) > 0 && v.Kind() == reflect.String && v.Len() > 0:
			err = CheckName(s.Name, v.String(), s.Choices)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// In returns the setting's field in a struct, given by pointer; the zero Value if it has none.
func (s *Setting) In(of any) reflect.Value {
	v := reflect.ValueOf(of).Elem()
	if index, ok := fieldsOf(v.Type())[s.Name]; ok {
		return v.FieldByIndex(index)
	}
	return reflect.Value{}
}

// Decode sets the setting's field in a struct, given by pointer, from JSON. The field shares nothing with its old
// value, which may belong to other requests.
func (s *Setting) Decode(raw []byte, of any) error {
	field := s.In(of)
	own := reflect.New(field.Type())
	if err := strictjson.Decode(raw, own.Interface()); err != nil {
		return err
	}
	field.Set(own.Elem())
	return nil
}

var fieldIndexes sync.Map // of map[string][]int by reflect.Type

// fieldsOf returns the indexes of a struct's fields by their names in JSON.
func fieldsOf(t reflect.Type) map[string][]int {
	if known, ok := fieldIndexes.Load(t); ok {
		return known.(map[string][]int)
	}
	fields := map[string][]int{}
	for _, f := range reflect.VisibleFields(t) {
		if name, _, _ := strings.Cut(f.Tag.Get("json"), ","); name != "" && name != "-" {
			fields[name] = f.Index
		}
	}
	fieldIndexes.Store(t, fields)
	return fields
}
