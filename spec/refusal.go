package spec

import (
	"fmt"
	"math"
	"strconv"

	"foretoken/internal/strictjson"
)

// FieldError refuses the value of a request's or a file's field. Programs name the field as their users do: the
// command line as a flag, the endpoint as the param of its error.
type FieldError = strictjson.FieldError

// Refuse makes a FieldError with the prefix of this package's errors.
func Refuse(field, format string, args ...any) error {
	return fmt.Errorf("spec: %w", &FieldError{Field: field, Reason: fmt.Sprintf(format, args...)})
}

// Limit bounds a field of requests that holds a number.
type Limit struct {
	Field string  `json:"field"`
	Least float64 `json:"least"`
	Most  float64 `json:"most"`
	Zero  string  `json:"zero,omitempty"` // what 0 stands for; "": 0 is a value like others
}

// The limits of requests, the same in Go, in JavaScript, on the command line and over HTTP. The settings of methods
// have theirs in package method, because they depend on the drafter.
var (
	LimitTemperature = Limit{"temperature", 0.001, 2, "greedy"}
	LimitTopK        = Limit{"top_k_sampling", 1, math.MaxInt32, "off"}
	LimitTopP        = Limit{Field: "top_p", Most: 1}
	LimitMinP        = Limit{"min_p", 0, 1, "off"}
	LimitMaxTokens   = Limit{"max_tokens", 1, math.MaxInt32, "until the context is full"}
	LimitTopLogProbs = Limit{Field: "top_logprobs", Most: 20}
	LimitFrequency   = Limit{Field: "frequency_penalty", Least: -2, Most: 2}
	LimitPresence    = Limit{Field: "presence_penalty", Least: -2, Most: 2}
	LimitBias        = Limit{Field: "logit_bias", Least: -100, Most: 100}
	LimitN           = Limit{Field: "n", Least: 1, Most: 16}
)

// RequestLimits lists them for programs in other languages.
func RequestLimits() []Limit {
	return []Limit{LimitTemperature, LimitTopK, LimitTopP, LimitMinP, LimitMaxTokens, LimitTopLogProbs, LimitFrequency,
		LimitPresence, LimitBias, LimitN}
}

// Check refuses a value beyond the limit.
func (l Limit) Check(v float64) error {
	if l.Holds(v) {
		return nil
	}
	return Refuse(l.Field, "is %v, want %s", v, l.Want())
}

// Holds reports whether a value is within the limit; NaN is not.
func (l Limit) Holds(v float64) bool { return v >= l.Least && v <= l.Most || v == 0 && l.Zero != "" }

// Want describes the values within the limit.
func (l Limit) Want() string {
	number := func(v float64) string { return strconv.FormatFloat(v, 'f', -1, 64) }
	switch {
	case l.Zero == "":
		return number(l.Least) + " to " + number(l.Most)
	case l.Least == 0:
		return fmt.Sprintf("0 (%s) to %s", l.Zero, number(l.Most))
	}
	return fmt.Sprintf("0 (%s) or %s to %s", l.Zero, number(l.Least), number(l.Most))
}
