package spec

import (
	"encoding/json"
	"reflect"
	"time"
)

// Stats counts one request, or several after Add. Counters are plain sums, so requests of any length merge. Methods
// derive the rates, and MarshalJSON writes them beside the counters.
type Stats struct {
	Requests     int `json:"requests"`
	PromptTokens int `json:"prompt_tokens"`
	OutputTokens int `json:"output_tokens"` // committed after the prompt, an end-of-sequence id included
	Reused       int `json:"reused"`        // prompt tokens that the target held from an earlier request
	Prefilled    int `json:"prefilled"`     // prompt tokens the target consumed before the first round

	Rounds int `json:"rounds"`
	Calls  int `json:"calls"`           // target passes of the rounds; prefill is not among them
	Nodes  int `json:"tokens_verified"` // rows of those passes, roots included: plain decoding has one a call

	// Drafted counts drafted nodes that were verified, Accepted the committed ones among them, Relaxed ones included;
	// see Event.VerifiedDepth.
	Drafted   int `json:"drafted"`
	Accepted  int `json:"accepted"`
	Relaxed   int `json:"relaxed"`
	Corrected int `json:"corrected"`
	Bonus     int `json:"bonus"`
	Plain     int `json:"plain"`

	// Guessed says that a goodput tree went by guesses of its costs, because passes were not timed before the request.
	Guessed bool `json:"guessed,omitempty"`

	Recoveries int `json:"recoveries,omitempty"` // how often lost models were replaced, see Options.Recover

	// Element i is about depth i+1: rounds that drafted to that depth (verified
	// there) and rounds that accepted a node of it.
	DepthDrafted  []int `json:"depth_drafted"`
	DepthAccepted []int `json:"depth_accepted"`

	// Bins are HeteroSpec's: element i counts the rounds that fell in entropy bin i+1.
	Bins []BinStats `json:"bins,omitempty"`

	// Distances are of the tokens that AdaSD's verifier compared.
	Distances DistanceStats `json:"distances,omitzero"`

	Prefill  time.Duration `json:"prefill_ns"` // both models
	Draft    time.Duration `json:"draft_ns"`
	Verify   time.Duration `json:"verify_ns"`
	Readback time.Duration `json:"readback_ns"` // a part of Draft and Verify
	Host     time.Duration `json:"host_ns"`
	Emit     time.Duration `json:"emit_ns"` // in the receiver of events, without the last call
	// from prefill to the last token: Draft + Verify + Host + Emit
	Decode   time.Duration `json:"decode_ns"`
	Recovery time.Duration `json:"recovery_ns,omitempty"` // with the steps that failed; in none of the above
	First    time.Duration `json:"ttft_ns"`               // from the request to the first committed token, summed
	Started  int           `json:"started"`               // requests that produced a token

	Finish Finish `json:"finish,omitempty"` // of the last request
	// Lossy says that a verifier took part that may commit tokens the target would not have chosen.
	Lossy bool `json:"lossy"`
}

// Add merges another request's counts.
func (s *Stats) Add(o *Stats) {
	addCounters(reflect.ValueOf(s).Elem(), reflect.ValueOf(o).Elem())
	s.Finish, s.Lossy, s.Guessed = o.Finish, s.Lossy || o.Lossy, s.Guessed || o.Guessed
}

// addCounters adds the numbers in src to those in dst, a value of the same type: fields one by one, and slices, which
// grow to the longer one, element by element.
func addCounters(dst, src reflect.Value) {
	switch dst.Kind() {
	case reflect.Struct:
		for i := range dst.NumField() {
			addCounters(dst.Field(i), src.Field(i))
		}
	case reflect.Slice:
		for dst.Len() < src.Len() {
			dst.Set(reflect.Append(dst, reflect.Zero(dst.Type().Elem())))
		}
		for i := range src.Len() {
			addCounters(dst.Index(i), src.Index(i))
		}
	case reflect.Int, reflect.Int64:
		dst.SetInt(dst.Int() + src.Int())
	case reflect.Float64:
		dst.SetFloat(dst.Float() + src.Float())
	}
}

// count takes in a round that committed e.Tokens.
func (s *Stats) count(e *Event) {
	s.Rounds++
	s.Calls++
	s.OutputTokens += len(e.Tokens)
	s.Nodes += e.Tree.Len()
	for _, o := range e.Origins {
		switch o {
		case Plain:
			s.Plain++
		case Accepted:
			s.Accepted++
		case Relaxed:
			s.Accepted++
			s.Relaxed++
		case Corrected:
			s.Corrected++
		case Bonus:
			s.Bonus++
		}
	}
	for len(s.DepthDrafted) < e.VerifiedDepth {
		s.DepthDrafted = append(s.DepthDrafted, 0)
		s.DepthAccepted = append(s.DepthAccepted, 0)
	}
	for i := range e.VerifiedDepth {
		s.DepthDrafted[i]++
	}
	for i := 1; i < len(e.Path); i++ {
		s.DepthAccepted[i-1]++
	}
	for _, d := range e.Tree.Depths[1:] {
		if int(d) <= e.VerifiedDepth {
			s.Drafted++
		}
	}
	s.countBin(e)
	s.Distances.Count(e)
	s.Draft += e.Draft
	s.Verify += e.Verify
	s.Readback += e.Readback
	s.Host += e.Host
}

// AcceptedLength is τ with the bonus token: committed tokens per target pass. Plain decoding has 1.
func (s *Stats) AcceptedLength() float64 { return ratio(s.OutputTokens, s.Calls) }

// DraftAcceptance is accepted over drafted tokens. In a tree most nodes cannot be accepted, so it compares only drafts
// of like trees.
func (s *Stats) DraftAcceptance() float64 { return ratio(s.Accepted, s.Drafted) }

// DepthAcceptance is, per depth from 1, the rounds that accepted a node of that depth
// over the rounds that drafted so deep.
func (s *Stats) DepthAcceptance() []float64 {
	rates := make([]float64, len(s.DepthDrafted))
	for i := range rates {
		rates[i] = ratio(s.DepthAccepted[i], s.DepthDrafted[i])
	}
	return rates
}

// PrefillSpeed is prompt tokens a second, both models' prefill in the time.
func (s *Stats) PrefillSpeed() float64 { return perSecond(s.Prefilled, s.Prefill) }

// DecodeSpeed is output tokens a second after prefill.
func (s *Stats) DecodeSpeed() float64 { return perSecond(s.OutputTokens, s.Decode) }

// FirstToken is the mean time from the start of a request to its first token.
func (s *Stats) FirstToken() time.Duration {
	if s.Started == 0 {
		return 0
	}
	return s.First / time.Duration(s.Started)
}

// PerRound is the mean of a summed time over the rounds, in milliseconds.
func (s *Stats) PerRound(total time.Duration) float64 {
	if s.Rounds == 0 {
		return 0
	}
	return milliseconds(total) / float64(s.Rounds)
}

// MarshalJSON writes the counters and the values derived from them. Derived times are in milliseconds; means are
// per round unless their name says otherwise.
func (s Stats) MarshalJSON() ([]byte, error) {
	type counters Stats // drops the method, not the fields
	if s.DepthDrafted == nil {
		s.DepthDrafted, s.DepthAccepted = []int{}, []int{}
	}
	return json.Marshal(struct {
		counters
		AcceptedLength  float64   `json:"acceptance_length"`
		DraftAcceptance float64   `json:"draft_acceptance"`
		DepthAcceptance []float64 `json:"acceptance_per_depth"`
		DraftMS         float64   `json:"draft_ms"`
		VerifyMS        float64   `json:"verify_ms"`
		ReadbackMS      float64   `json:"readback_ms"`
		HostMS          float64   `json:"host_ms"`
		FirstMS         float64   `json:"ttft_ms"`
		PrefillSpeed    float64   `json:"prefill_tok_s"`
		DecodeSpeed     float64   `json:"decode_tok_s"`
		TotalMS         float64   `json:"total_ms"` // prefill and decoding
		RecoveryMS      float64   `json:"recovery_ms,omitempty"`
	}{
		counters(s), s.AcceptedLength(), s.DraftAcceptance(), s.DepthAcceptance(),
		s.PerRound(s.Draft), s.PerRound(s.Verify), s.PerRound(s.Readback), s.PerRound(s.Host),
		milliseconds(s.FirstToken()), s.PrefillSpeed(), s.DecodeSpeed(), milliseconds(s.Prefill + s.Decode),
		milliseconds(s.Recovery),
	})
}

func ratio(a, b int) float64 {
	if b == 0 {
		return 0
	}
	return float64(a) / float64(b)
}

func perSecond(n int, d time.Duration) float64 {
	if d <= 0 {
		return 0
	}
	return float64(n) / d.Seconds()
}

func milliseconds(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }
