//go:build !js

package main

import (
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/schollz/progressbar/v3"

	"foretoken"
	"foretoken/spec"
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
	partial  bool // the last line has no end yet
}

// event writes the tokens of a round in one write.
func (p *textPrinter) event(e *foretoken.Event) error {
	if e.Text == "" {
		return nil
	}
	p.partial = !strings.HasSuffix(e.Text, "\n")
	text := e.Text
	if p.terminal {
		text = harmless(text)
	}
	if p.colour && len(e.Tokens) > 0 {
		text = coloured(e.Tokens)
	}
	_, err := io.WriteString(p.out, text)
	return err
}

// end finishes the last line.
func (p *textPrinter) end() error {
	if !p.partial {
		return nil
	}
	p.partial = false
	_, err := io.WriteString(p.out, "\n")
	return err
}

// coloured marks runs of tokens that were drafted and accepted.
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
		b.WriteString(harmless(t.Text))
	}
	if on {
		b.WriteString(colourOff)
	}
	return b.String()
}

// harmless replaces what would steer a terminal: a model may write escape sequences.
func harmless(s string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) && r != '\n' && r != '\t' {
			return unicode.ReplacementChar
		}
		return r
	}, s)
}

// printable shows a name from a file, quoted where it would not be safe or
// clear on a line.
func printable(s string) string {
	if q := strconv.Quote(s); s == "" || q != `"`+s+`"` {
		return q
	}
	return s
}

// summary is the line of statistics after the text.
func summary(s *spec.Stats, policy string, device webgpu.Info) string {
	words := []string{fmt.Sprintf("%d tokens in %.2f s", s.OutputTokens, s.Decode.Seconds())}
	if s.Decode > 0 {
		words = append(words, fmt.Sprintf("%.1f tok/s", s.DecodeSpeed()))
	}
	if s.Started > 0 {
		words = append(words, fmt.Sprintf("first after %d ms", s.FirstToken().Round(time.Millisecond).Milliseconds()))
	}
	if policy != spec.DrafterNone && s.Calls > 0 {
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
	return strings.Join(append(words, fmt.Sprintf("%s device %s", device.Backend, printable(device.Adapter))), " · ")
}

// bar is a progress bar on standard error. It is invisible where nobody looks.
type bar struct{ p *progressbar.ProgressBar }

// newBar counts prompts.
func newBar(c *console, show bool, total int) *bar {
	if !show || !c.errTerminal {
		return &bar{}
	}
	return &bar{progressbar.NewOptions(total, append(look(c), progressbar.OptionSetDescription("prompts"), progressbar.OptionShowCount())...)}
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

func look(c *console) []progressbar.Option {
	return []progressbar.Option{progressbar.OptionSetWriter(c.err), progressbar.OptionSetWidth(30), progressbar.OptionClearOnFinish(),
		progressbar.OptionSetPredictTime(false), progressbar.OptionUseANSICodes(true), progressbar.OptionThrottle(50 * time.Millisecond)}
}

// loading draws what Open reports: a bar for the weights of each model, then a
// spinner with the kernel at hand.
type loading struct {
	c     *console
	stage string
	bar   bar
	over  bool
}

func (l *loading) report(p foretoken.Progress) {
	if l.over || !l.c.errTerminal {
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
		options := append(look(l.c), progressbar.OptionSetDescription(p.Stage))
		if p.Stage == "kernels" {
			// Interval 0: it turns with each report, and no goroutine outlives it.
			l.bar.p = progressbar.NewOptions(-1, append(options, progressbar.OptionSetSpinnerChangeInterval(0), progressbar.OptionSetElapsedTime(false), progressbar.OptionThrottle(0))...)
		} else {
			l.bar.p = progressbar.NewOptions64(max(p.Total, 1), append(options, progressbar.OptionShowBytes(true))...)
		}
	}
	if p.Stage == "kernels" {
		l.bar.clear() // a shorter note would leave the end of a longer one
		l.bar.p.Describe(harmless(p.Note))
		return
	}
	_ = l.bar.p.Set64(p.Done)
}

// end takes the bar away. What is reported later, while tokens flow, is not drawn.
func (l *loading) end() {
	l.bar.clear()
	l.over = true
}
