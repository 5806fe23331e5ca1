package jinja

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"foretoken/internal/quote"
)

var globals = map[string]*function{
	"range": {func(m *machine, a arguments) Value {
		from, to, step := int64(0), int64(0), int64(1)
		into := []*int64{&to}
		if len(a.pos) > 1 {
			into = []*int64{&from, &to, &step}
		}
		if len(a.pos) == 0 || len(a.pos) > 3 {
			return m.fail("range needs one to three integers")
		}
		for i, v := range a.pos {
			n, ok := integer(v)
			if !ok || n > math.MaxInt32 || n < math.MinInt32 {
				return m.fail("range needs integers of 32 bits, not %s", quote.Text(m.str(v)))
			}
			*into[i] = n
		}
		if step == 0 {
			return m.fail("the step of a range is zero")
		}
		n := steps(from, to, step)
		if !m.makesAll(int(n), perItem) {
			return nil
		}
		list := &List{Items: make([]Value, 0, n)}
		for i := range n {
			list.Items = append(list.Items, from+i*step)
		}
		return list
	}},
	"dict":      {func(m *machine, a arguments) Value { return m.merged("dict", a) }},
	"namespace": {func(m *machine, a arguments) Value { return &namespace{m.merged("namespace", a)} }},
	"joiner": {func(m *machine, a arguments) Value {
		sep, used := m.str(a.or(0, "sep", ", ")), false
		m.makes(2 * perItem)
		return &function{func(*machine, arguments) Value {
			if !used {
				used = true
				return ""
			}
			return sep
		}}
	}},
	"raise_exception": {func(m *machine, a arguments) Value {
		if m.err != nil {
			return nil
		}
		why := "no reason given"
		if v, ok := a.get(0, "message"); ok {
			why = strings.ToValidUTF8(strings.Join(strings.Fields(head(m.str(v), 4000)), " "), "")
		}
		if m.err == nil {
			m.err = &RefusedError{m.line, why[:min(len(why), 500)]}
		}
		return nil
	}},
	"strftime_now": {func(m *machine, a arguments) Value {
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

// head is the first bytes of a text.
func head(s string, most int) string { return s[:min(len(s), most)] }

// RefusedError is raised by the template itself with raise_exception, for example for roles that the model was not
// trained with.
type RefusedError struct {
	Line   int
	Reason string // in the template's words, on one line
}

func (e *RefusedError) Error() string {
	return fmt.Sprintf("jinja: line %d: the template refuses the messages: %s", e.Line, e.Reason)
}

// merged makes a dictionary of the arguments: another dictionary, if there is one, and names with values.
func (m *machine) merged(name string, a arguments) *Dict {
	d := NewDict()
	if len(a.pos) > 0 {
		from, ok := a.pos[0].(*Dict)
		if !ok {
			m.fail("%s needs a dictionary or names with values", name)
		}
		m.copyInto(d, from)
	}
	m.copyInto(d, a.named)
	return d
}

func (m *machine) copyInto(d, from *Dict) {
	if from == nil {
		return
	}
	for i, key := range from.keys {
		if !m.put(d, key, from.values[i]) {
			return
		}
	}
}

// strftime formats a time by C's directives, in English.
func (m *machine) strftime(t time.Time, format string) Value {
	layouts := map[byte]string{'a': "Mon", 'A': "Monday", 'b': "Jan", 'h': "Jan", 'B': "January", 'd': "02", 'e': "_2",
		'H': "15", 'I': "03", 'm': "01", 'M': "04", 'p': "PM", 'S': "05", 'y': "06", 'z': "-0700", 'Z': "MST",
		'F': "2006-01-02", 'T': "15:04:05", 'R': "15:04", 'D': "01/02/06", 'x': "01/02/06", 'X': "15:04:05",
		'c': "Mon Jan _2 15:04:05 2006"}
	weekday := int(t.Weekday())
	numbers := map[byte]string{'Y': strconv.Itoa(t.Year()), 'j': fmt.Sprintf("%03d", t.YearDay()),
		'f': fmt.Sprintf("%06d", t.Nanosecond()/1000), 'w': strconv.Itoa(weekday), 'u': strconv.Itoa((weekday+6)%7 + 1),
		's': strconv.FormatInt(t.Unix(), 10), '%': "%"}
	plain := map[byte]string{'-': "", 'd': "2", 'm': "1", 'I': "3", 'H': "15", 'M': "4", 'S': "5", 'y': "06"}
	if !m.spend(100) { // for the tables
		return ""
	}
	var b strings.Builder
	for i := 0; i < len(format) && m.spend(5) && m.holds(64); i++ {
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
		if layouts[c] == "" && numbers[c] == "" {
			return m.fail("strftime_now does not know %%%c", c)
		}
		b.WriteString(t.Format(layouts[c]))
		b.WriteString(numbers[c])
	}
	return b.String()
}
