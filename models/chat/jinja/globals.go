package jinja

import (
	"fmt"
	"math"
	"strings"
	"time"
)

// object has attributes that are worked out when asked for.
type object struct {
	attrs map[string]func(*machine) Value
}

var globals = map[string]*function{
	"range": {"range", func(m *machine, a arguments) Value {
		r := &rangeValue{0, 0, 1}
		into := []*int64{&r.to}
		if len(a.pos) > 1 {
			into = []*int64{&r.from, &r.to, &r.step}
		}
		if len(a.pos) == 0 || len(a.pos) > 3 {
			return m.fail("range needs one to three integers")
		}
		for i, v := range a.pos {
			n, ok := integer(v)
			if !ok || n > math.MaxInt32 || n < math.MinInt32 {
				return m.fail("range needs integers of 32 bits, not %s", quote(m.str(v)))
			}
			*into[i] = n
		}
		if r.step == 0 {
			return m.fail("the step of a range is zero")
		}
		return r
	}},
	"dict": {"dict", func(m *machine, a arguments) Value {
		d := NewDict()
		if len(a.pos) > 0 {
			from, ok := a.pos[0].(*Dict)
			if !ok {
				return m.fail("dict needs a dictionary or names with values")
			}
			m.copyInto(d, from)
		}
		m.copyInto(d, a.named)
		return d
	}},
	"namespace": {"namespace", func(m *machine, a arguments) Value {
		ns := &namespace{NewDict()}
		if len(a.pos) > 0 {
			from, ok := a.pos[0].(*Dict)
			if !ok {
				return m.fail("namespace needs a dictionary or names with values")
			}
			m.copyInto(ns.attrs, from)
		}
		m.copyInto(ns.attrs, a.named)
		return ns
	}},
	"joiner": {"joiner", func(m *machine, a arguments) Value {
		sep, used := ", ", false
		if v, ok := a.get(0, "sep"); ok {
			sep = m.str(v)
		}
		return &function{"joiner", func(*machine, arguments) Value {
			if !used {
				used = true
				return ""
			}
			return sep
		}}
	}},
	"cycler": {"cycler", func(m *machine, a arguments) Value {
		if len(a.pos) == 0 {
			return m.fail("cycler needs values")
		}
		i := 0
		return &object{map[string]func(*machine) Value{
			"current": func(*machine) Value { return a.pos[i] },
			"next": func(*machine) Value {
				return &function{"next", func(*machine, arguments) Value {
					v := a.pos[i]
					i = (i + 1) % len(a.pos)
					return v
				}}
			},
			"reset": func(*machine) Value {
				return &function{"reset", func(*machine, arguments) Value { i = 0; return nil }}
			},
		}}
	}},
	"raise_exception": {"raise_exception", func(m *machine, a arguments) Value {
		if m.err != nil {
			return nil
		}
		why := "no reason given"
		if v, ok := a.get(0, "message"); ok {
			why = strings.ToValidUTF8(strings.Join(strings.Fields(m.str(v)), " "), "")
		}
		if m.err == nil {
			m.err = &RefusedError{m.line, why[:min(len(why), 500)]}
		}
		return nil
	}},
	"strftime_now": {"strftime_now", func(m *machine, a arguments) Value {
		format, ok := "", false
		if v, given := a.get(0, "format"); given {
			format, ok = v.(string)
		}
		if !ok {
			return m.fail("strftime_now needs a format")
		}
		return m.strftime(m.now(), format)
	}},
}

// RefusedError is raised by the template itself with raise_exception, for example for roles that the model was not
// trained with.
type RefusedError struct {
	Line   int
	Reason string // in the template's words, on one line
}

func (e *RefusedError) Error() string {
	return fmt.Sprintf("jinja: line %d: the template refuses the messages: %s", e.Line, e.Reason)
}

func (m *machine) copyInto(d, from *Dict) {
	if from == nil || !m.spend(perKey*len(from.keys)) {
		return
	}
	for i, key := range from.keys {
		d.set(key, from.values[i])
	}
}

// strftime formats a time by C's directives, in English.
func (m *machine) strftime(t time.Time, format string) Value {
	layouts := map[byte]string{'a': "Mon", 'A': "Monday", 'b': "Jan", 'h': "Jan", 'B': "January", 'd': "02", 'e': "_2",
		'H': "15", 'I': "03", 'm': "01", 'M': "04", 'p': "PM", 'S': "05", 'y': "06", 'z': "-0700", 'Z': "MST",
		'F': "2006-01-02", 'T': "15:04:05", 'R': "15:04", 'D': "01/02/06", 'x': "01/02/06", 'X': "15:04:05",
		'c': "Mon Jan _2 15:04:05 2006"}
	plain := map[byte]string{'-': "", 'd': "2", 'm': "1", 'I': "3", 'H': "15", 'M': "4", 'S': "5", 'y': "06"}
	var b strings.Builder
	for i := 0; i < len(format) && m.spend(100); i++ {
		if format[i] != '%' || i+1 == len(format) {
			b.WriteByte(format[i])
			continue
		}
		i++
		c := format[i]
		if c == '-' && i+1 < len(format) { // GNU: without padding
			if l, ok := plain[format[i+1]]; ok {
				i++
				if format[i] == 'H' {
					fmt.Fprint(&b, t.Hour())
				} else {
					b.WriteString(t.Format(l))
				}
				continue
			}
		}
		switch {
		case layouts[c] != "":
			b.WriteString(t.Format(layouts[c]))
		case c == 'Y':
			fmt.Fprintf(&b, "%d", t.Year())
		case c == 'j':
			fmt.Fprintf(&b, "%03d", t.YearDay())
		case c == 'f':
			fmt.Fprintf(&b, "%06d", t.Nanosecond()/1000)
		case c == 'w':
			fmt.Fprint(&b, int(t.Weekday()))
		case c == 'u':
			fmt.Fprint(&b, (int(t.Weekday())+6)%7+1)
		case c == 's':
			fmt.Fprint(&b, t.Unix())
		case c == '%':
			b.WriteByte('%')
		default:
			return m.fail("strftime_now does not know %%%c", c)
		}
	}
	return b.String()
}
