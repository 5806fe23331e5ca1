package main

import (
	"encoding/base64"
	"math"
	"strconv"
	"time"
	"unicode/utf8"

	"foretoken"
	"foretoken/spec"
	"foretoken/trace"
)

func ms(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

type phases struct {
	Draft    float64 `json:"draft"`
	Verify   float64 `json:"verify"`
	Readback float64 `json:"readback"`
	Host     float64 `json:"host"`
}

// counts are those of spec.Stats, of the request so far.
type counts struct {
	Calls         int   `json:"calls"`
	Nodes         int   `json:"tokens_verified"`
	OutputTokens  int   `json:"output_tokens"`
	Drafted       int   `json:"drafted"`
	Accepted      int   `json:"accepted"`
	Relaxed       int   `json:"relaxed"`
	Corrected     int   `json:"corrected"`
	Bonus         int   `json:"bonus"`
	Plain         int   `json:"plain"`
	DepthDrafted  []int `json:"depth_drafted"`
	DepthAccepted []int `json:"depth_accepted"`
}

// set copies the counts of a request.
func (c *counts) set(s *spec.Stats) {
	*c = counts{s.Calls, s.Nodes, s.OutputTokens, s.Drafted, s.Accepted, s.Relaxed, s.Corrected, s.Bonus, s.Plain,
		append(c.DepthDrafted[:0], s.DepthDrafted...), append(c.DepthAccepted[:0], s.DepthAccepted...)}
}

func (c *counts) append(b []byte) []byte {
	for _, n := range []struct {
		name  string
		value int
	}{{`{"calls":`, c.Calls}, {`,"tokens_verified":`, c.Nodes}, {`,"output_tokens":`, c.OutputTokens},
		{`,"drafted":`, c.Drafted}, {`,"accepted":`, c.Accepted}, {`,"relaxed":`, c.Relaxed},
		{`,"corrected":`, c.Corrected}, {`,"bonus":`, c.Bonus}, {`,"plain":`, c.Plain}} {
		b = strconv.AppendInt(append(b, n.name...), int64(n.value), 10)
	}
	b = appendInts(append(b, `,"depth_drafted":`...), c.DepthDrafted)
	return append(appendInts(append(b, `,"depth_accepted":`...), c.DepthAccepted), '}')
}

// event is a round as the page sees it.
type event struct {
	Round  int               `json:"round"`
	Text   string            `json:"text"`
	Tokens []foretoken.Token `json:"tokens"`
	Tree   []byte            `json:"tree,omitempty"` // as package trace encodes it, where the request asks for it
	Pruned int               `json:"pruned"`         // drafted nodes that were not verified
	// Means over the accepted path, in nats; nil where unknown.
	Entropy      *float64    `json:"entropy,omitempty"`
	DraftEntropy *float64    `json:"draft_entropy,omitempty"`
	Bin          int         `json:"bin,omitempty"` // HeteroSpec's entropy bin, from 1
	Phi          float64     `json:"phi,omitempty"` // of the meta-path in nats, where there is a bin
	MS           phases      `json:"ms"`
	Counts       counts      `json:"counts"`
	Elapsed      float64     `json:"elapsed_ms"`
	Finish       spec.Finish `json:"finish,omitempty"`
}

// fill writes a round, with the figures of its tree, over the event before it; nothing of either is kept by the page.
func (out *event) fill(in *foretoken.Event, f trace.Figures, elapsed time.Duration) {
	r := in.Round
	*out = event{Round: r.Round, Text: in.Text, Finish: r.Finish, Elapsed: ms(elapsed),
		Tokens: append(out.Tokens[:0], in.Tokens...), Pruned: f.Pruned, Bin: f.Bin, Phi: f.Phi,
		MS: phases{ms(r.Draft), ms(r.Verify), ms(r.Readback), ms(r.Host)}, Counts: out.Counts}
	out.Counts.set(r.Stats)
	if f.Entropy >= 0 {
		out.Entropy = &f.Entropy
	}
	if f.DraftEntropy >= 0 {
		out.DraftEntropy = &f.DraftEntropy
	}
}

// append writes the event as encoding/json would. encoding/json takes several times as long in WebAssembly and
// allocates, and the page waits for an event after every round. NaN and infinities become null.
func (e *event) append(b []byte) []byte {
	b = append(b, `{"round":`...)
	b = strconv.AppendInt(b, int64(e.Round), 10)
	b = appendText(append(b, `,"text":`...), e.Text)
	b = appendAll(append(b, `,"tokens":`...), e.Tokens, appendToken)
	if len(e.Tree) > 0 {
		b = append(base64.StdEncoding.AppendEncode(append(b, `,"tree":"`...), e.Tree), '"')
	}
	b = strconv.AppendInt(append(b, `,"pruned":`...), int64(e.Pruned), 10)
	if e.Entropy != nil {
		b = appendNumber(append(b, `,"entropy":`...), *e.Entropy, 32)
	}
	if e.DraftEntropy != nil {
		b = appendNumber(append(b, `,"draft_entropy":`...), *e.DraftEntropy, 32)
	}
	if e.Bin != 0 {
		b = strconv.AppendInt(append(b, `,"bin":`...), int64(e.Bin), 10)
	}
	if e.Phi != 0 {
		b = appendNumber(append(b, `,"phi":`...), e.Phi, 64)
	}
	b = appendNumber(append(b, `,"ms":{"draft":`...), e.MS.Draft, 64)
	b = appendNumber(append(b, `,"verify":`...), e.MS.Verify, 64)
	b = appendNumber(append(b, `,"readback":`...), e.MS.Readback, 64)
	b = appendNumber(append(b, `,"host":`...), e.MS.Host, 64)
	b = e.Counts.append(append(b, `},"counts":`...))
	b = appendNumber(append(b, `,"elapsed_ms":`...), e.Elapsed, 64)
	if e.Finish != "" {
		b = appendText(append(b, `,"finish":`...), string(e.Finish))
	}
	return append(b, '}')
}

func appendToken(b []byte, t foretoken.Token) []byte {
	b = strconv.AppendInt(append(b, `{"id":`...), int64(t.ID), 10)
	b = appendText(append(b, `,"text":`...), t.Text)
	b = appendText(append(b, `,"kind":`...), t.Kind.String())
	b = strconv.AppendInt(append(b, `,"depth":`...), int64(t.Depth), 10)
	if t.Piece != "" {
		b = appendText(append(b, `,"piece":`...), t.Piece)
	}
	if t.LogProb != nil {
		b = appendNumber(append(b, `,"logprob":`...), float64(*t.LogProb), 32)
	}
	if len(t.Top) > 0 {
		b = appendAll(append(b, `,"top":`...), t.Top, func(b []byte, p foretoken.TokenProb) []byte {
			b = strconv.AppendInt(append(b, `{"id":`...), int64(p.ID), 10)
			b = appendText(append(b, `,"text":`...), p.Text)
			return append(appendNumber(append(b, `,"logprob":`...), float64(p.LogProb), 32), '}')
		})
	}
	return append(b, '}')
}

func appendAll[T any](b []byte, all []T, one func([]byte, T) []byte) []byte {
	b = append(b, '[')
	for i, v := range all {
		if i > 0 {
			b = append(b, ',')
		}
		b = one(b, v)
	}
	return append(b, ']')
}

func appendInts(b []byte, all []int) []byte {
	return appendAll(b, all, func(b []byte, v int) []byte { return strconv.AppendInt(b, int64(v), 10) })
}

func appendNumber(b []byte, v float64, bits int) []byte {
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return append(b, "null"...)
	}
	return strconv.AppendFloat(b, v, 'g', -1, bits)
}

// appendText writes a string; bytes that are no UTF-8 become U+FFFD.
func appendText(b []byte, s string) []byte {
	const hex = "0123456789abcdef"
	b = append(b, '"')
	for i := 0; i < len(s); {
		c := s[i]
		switch {
		case c == '"' || c == '\\':
			b = append(b, '\\', c)
		case c < ' ':
			b = append(b, '\\', 'u', '0', '0', hex[c>>4], hex[c&15])
		case c < utf8.RuneSelf:
			b = append(b, c)
		default:
			r, n := utf8.DecodeRuneInString(s[i:])
			b, i = utf8.AppendRune(b, r), i+n
			continue
		}
		i++
	}
	return append(b, '"')
}
