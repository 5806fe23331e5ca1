//go:build !js

package main

import (
	"fmt"
	"io"
	"strings"
	"time"
	"unicode"

	"github.com/schollz/progressbar/v3"

	"foretoken"
	"foretoken/internal/quote"
	"foretoken/spec"
	"foretoken/spec/method"
	"foretoken/webgpu"
)

const (
	colourAccepted = "\x1b[32m"
	colourOff      = "\x1b[0m"
)

// textPrinter writes text as it is decoded.
type textPrinter struct {
	out      io.Writer
	terminal bool
	colour   bool
	partial  bool // the last line is not finished
}

// event writes the tokens of a round in one call.
func (p *textPrinter) event(e *foretoken.Event) error {
	if e.Text == "" {
		return nil
	}
	p.partial = !strings.HasSuffix(e.Text, "\n")
	text := e.Text
	if p.terminal {
		text = escapeControls(text)
	}
	if p.colour && len(e.Tokens) > 0 {
		text = coloured(e.Tokens)
	}
	_, err := io.WriteString(p.out, text)
	return err
}

func (p *textPrinter) end() error {
	if !p.partial {
		return nil
	}
	p.partial = false
	_, err := io.WriteString(p.out, "\n")
	return err
}

// coloured highlights runs of drafted and accepted tokens.
func coloured(tokens []foretoken.Token) string {
	var b strings.Builder
	on := false
	for _, t := range tokens {
		if t.Text == "" {
			continue
		}
		if drafted := t.Kind == spec.Accepted || t.Kind == spec.Relaxed; drafted != on {
			if on = drafted; on {
				b.WriteString(colourAccepted)
			} else {
				b.WriteString(colourOff)
			}
		}
		b.WriteString(escapeControls(t.Text))
	}
	if on {
		b.WriteString(colourOff)
	}
	return b.String()
}

// escapeControls replaces control characters: a model may write escape sequences that steer a terminal, and marks
// that show its text in another order.
func escapeControls(s string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case unicode.IsControl(r) && r != '\n' && r != '\t', '\u2028' <= r && r <= '\u202e',
			'\u2066' <= r && r <= '\u2069':
			return unicode.ReplacementChar
		}
		return r
	}, s)
}

// summary formats the line of statistics after the text.
func summary(s *spec.Stats, policy string, device webgpu.Info) string {
	words := []string{fmt.Sprintf("%d tokens in %.2f s", s.OutputTokens, s.Decode.Seconds())}
	if s.Decode > 0 {
		words = append(words, fmt.Sprintf("%.1f tok/s", s.DecodeSpeed()))
	}
	if s.Started > 0 {
		words = append(words, fmt.Sprintf("first after %d ms", s.FirstToken().Round(time.Millisecond).Milliseconds()))
	}
	if policy != method.DrafterNone && s.Calls > 0 {
		words = append(words, fmt.Sprintf("%.2f tokens a pass", s.AcceptedLength()))
	}
	if s.Reused > 0 {
		words = append(words, fmt.Sprintf("%d of %d prompt tokens reused", s.Reused, s.PromptTokens))
	}
	words = append(words, fmt.Sprintf("%d passes", s.Calls), "policy "+policy)
	if s.Requests == 1 {
		words = append(words, "finish "+string(s.Finish))
	} else {
		words = append(words, fmt.Sprintf("%d prompts", s.Requests))
	}
	return strings.Join(append(words, fmt.Sprintf("%s device %s", device.Backend, quote.Name(device.Adapter))), " · ")
}

// bar is a progress bar on standard error; the zero value draws nothing.
type bar struct{ p *progressbar.ProgressBar }

// newBar returns a bar that counts up to total on a terminal, under the name of the things that it counts.
func newBar(c *console, what string, total int, more ...progressbar.Option) *bar {
	if !c.errTerminal {
		return &bar{}
	}
	options := append(barStyle(c), progressbar.OptionSetDescription(what), progressbar.OptionShowCount())
	return &bar{progressbar.NewOptions(total, append(options, more...)...)}
}

// counting returns a callback that shows done of total, with a new bar when the total changes.
func (b *bar) counting(c *console, what string, more ...progressbar.Option) func(done, total int) {
	last := -1
	return func(done, total int) {
		if total != last {
			*b, last = *newBar(c, what, total, more...), total
		}
		b.set(done)
	}
}

func (b *bar) set(n int) {
	if b.p != nil {
		_ = b.p.Set(n) // a bar that cannot be drawn is no reason to stop
	}
}

func (b *bar) clear() {
	if b.p != nil {
		_ = b.p.Clear()
	}
}

func barStyle(c *console) []progressbar.Option {
	return []progressbar.Option{progressbar.OptionSetWriter(c.err), progressbar.OptionSetWidth(30),
		progressbar.OptionClearOnFinish(), progressbar.OptionSetPredictTime(false),
		progressbar.OptionUseANSICodes(true), progressbar.OptionThrottle(50 * time.Millisecond)}
}

// loading draws the progress of Open: a bar for the weights of each model, then a spinner with the current kernel.
// Where standard error is no terminal it prints a line now and then.
type loading struct {
	c        *console
	stage    string
	bar      bar
	finished bool
	told     time.Time // when the last line was printed, or loading began
}

// quietly is how long loading goes on without a line where there is no bar.
const quietly = 5 * time.Second

func (l *loading) report(p foretoken.Progress) {
	if l.finished {
		return
	}
	if p.Stage == "notice" {
		l.bar.clear()
		l.c.note("%s", p.Note)
		return
	}
	if !l.c.errTerminal {
		l.tell(p)
		return
	}
	if p.Stage == "ready" {
		l.end()
		return
	}
	if p.Stage == "memory" {
		l.bar.clear()
		l.c.note("on the device: %s", p.Note)
		return
	}
	if p.Stage != l.stage {
		l.bar.clear()
		l.stage = p.Stage
		options := append(barStyle(l.c), progressbar.OptionSetDescription(p.Stage))
		if p.Stage == "kernels" {
			// Interval 0: the spinner turns with each report and needs no goroutine.
			l.bar.p = progressbar.NewOptions(-1, append(options, progressbar.OptionSetSpinnerChangeInterval(0),
				progressbar.OptionSetElapsedTime(false), progressbar.OptionThrottle(0))...)
		} else {
			l.bar.p = progressbar.NewOptions64(max(p.Total, 1), append(options, progressbar.OptionShowBytes(true))...)
		}
	}
	if p.Stage == "kernels" {
		l.bar.clear() // a shorter note would leave the end of a longer one
		l.bar.p.Describe(escapeControls(p.Note))
		return
	}
	_ = l.bar.p.Set64(p.Done)
}

// tell prints a line if the last one is long ago.
func (l *loading) tell(p foretoken.Progress) {
	now := time.Now()
	if l.told.IsZero() {
		l.told = now
	}
	if now.Sub(l.told) < quietly {
		return
	}
	l.told = now
	switch {
	case p.Note != "":
		l.c.note("loading %s: %s", p.Stage, p.Note)
	case p.Total > 0:
		l.c.note("loading %s: %d of %d MB", p.Stage, p.Done/1e6, p.Total/1e6)
	default:
		l.c.note("loading %s", p.Stage)
	}
}

// end removes the bar. Later reports, while tokens flow, are not drawn.
func (l *loading) end() {
	l.bar.clear()
	l.finished = true
}
