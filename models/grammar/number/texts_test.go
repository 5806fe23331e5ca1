package number

import (
	"encoding/json"
	"fmt"
	"math/big"
	"math/rand/v2"
	"strings"
	"testing"

	"foretoken/models/fuzztest"
	"foretoken/models/grammar/lang"
)

func decimals(t testing.TB, texts ...string) []Decimal {
	t.Helper()
	var out []Decimal
	for _, text := range texts {
		out = append(out, parse(t, text))
	}
	return out
}

// set reads bounds like ">=1 <5.5", multiples "*3", others "/2", points "=1" and exceptions "!7", separated by blanks.
func set(t testing.TB, text string) Set {
	t.Helper()
	var s Set
	for _, word := range strings.Fields(text) {
		number := strings.TrimLeft(word, "<>=*/!")
		d := parse(t, number)
		switch strings.TrimSuffix(word, number) {
		case ">=", ">":
			s = s.And(Set{Least: &Bound{d, word[1] != '='}})
		case "<=", "<":
			s = s.And(Set{Most: &Bound{d, word[1] != '='}})
		case "*":
			s.Multiples = append(s.Multiples, d)
		case "/":
			s.NotMultiples = append(s.NotMultiples, d)
		case "=":
			s.Points = append(s.Points, d)
		case "!":
			s.Except = append(s.Except, d)
		default:
			t.Fatal(word)
		}
	}
	return s
}

func texts(t testing.TB, s string) *lang.Lang {
	t.Helper()
	l, err := Texts(&lang.Maker{}, set(t, s))
	if err != nil {
		t.Fatalf("%s: %v", s, err)
	}
	return l
}

func TestTexts(t *testing.T) {
	for _, c := range []struct{ set, yes, no string }{
		{"*1", "0 -0 -12 1234567890123456", "1.0 01 12345678901234567 1e2 - +1 .5"},
		{"*1 >=-5 <100", "-5 0 99", "-6 100 -0 5.0 00"},
		{"", "1 -0.5 1e9 2.5E-3 -0 -0.0e-00 1.0000000000000000 0E+99",
			".5 1. +1 1e1234 01 1e 1e+ -e5 12345678901234567 1.00000000000000000 1.e5"},
		{">=0.25 <=1.5", "0.25 0.3 1 1.5 1.50 0.9999", "0 0.2 1.51 -1 1.501 1e0 -0"},
		{"*1 >=9999999999999998 <123456789012345678901234567890",
			"9999999999999998 9999999999999999 10000000000000000 123456789012345678901234567889",
			"9999999999999997 123456789012345678901234567890 1000000000000000000000000000000"},
		{">-10000000000000000.5 <=-9999999999999999", "-9999999999999999 -9999999999999999.5 -10000000000000000.4",
			"-9999999999999998 -10000000000000000.5 0"},
		{"*1 >=-9223372036854775808 <=9223372036854775807",
			"-9223372036854775808 9223372036854775807 0 10000000000000000",
			"-9223372036854775809 9223372036854775808 10000000000000000000 -0"},
		{"*1 >=0 <=18446744073709551615", "18446744073709551615 0", "18446744073709551616 -1 -0"},
		{">=-3.4028234663852886e+38 <=3.4028234663852886e+38", "340282346638528860000000000000000000000 1.5 -0.0",
			"340282346638528860000000000000000000001 1e39"},
		{">=-1.7976931348623157e308 <=1.7976931348623157e308", "1e99 -1.5E-99 0", "1e100"},
		{">=0", "0 1e5 0.1e-7 0e1", "-0 -1"},
		{">0", "0.1e5 1", "0 0.0 0e5 -1 0.0E1"},
		{"<0", "-0.1 -1e30", "0 -0 -0.00 1"},
		{">=1e2", "100 100.0 101 100e0 123E+30", "1e2 99 99.9999 0 100e-0 1000e-1"},
		{">-180 <=180", "1e-7 -17.9E-30 180e-00 -0e-5", "1e0 1e+0 1e2 -180e-0 -180"},
		{">-1 <0", "-0.5e-8", "-0.0e-1 -0e-1 0 1e-1"},
		{"*1 >=1e20", "100000000000000000000 99999999999999999999999", "99999999999999999999"},
		{"*1 >=9999999999999999", "9999999999999999 10000000000000000", "9999999999999998"},
		{">0.00000000000000001 <0.00000000000000002", "0.000000000000000011 0.0000000000000000199",
			"0.00000000000000001 0.00000000000000002 0"},
		{">0 <1e-300", "0." + strings.Repeat("0", 300) + "1", "0 0." + strings.Repeat("0", 299) + "1"},
		{">=1e-300 <=1", "0.1 1 1.00 0.0000000000000001", "0 0.0 1.01"},
		{"*0.01", "0 -0.01 1.50 1.5 12.34 1234567890123456.78", "0.001 1.500 1e2"},
		{"*0.05 >=0 <1", "0 0.05 0.1 0.10 0.95", "0.01 1 0.96 -0.05"},
		{"*1e-7", "0.0000001 5 5.0000000", "0.00000001"},
		{"*1000000", "0 1000000 -23000000", "100000 1500000 1000000.0 -0"},
		{"*60", "0 60 120 3600 600", "6 10 90 61"},
		{"*1024", "0 1024 2048 10240", "1023 512 10241"},
		{"*4 *6", "0 12 24 -36", "4 6 18"},
		{"*1.5 *1", "0 3 -9", "1.5 2"},
		{"/1", "0.5 -1.25 0.0000000000000001", "0 1 1.0 -0.000 10.00"},
		{"/1 >=0 <=2", "0.5 1.25 1.001", "0 1 1.0 2 2.1"},
		{"*1 /2", "1 -3 77", "0 2 -4 1.5"},
		{"*0.5 /1", "0.5 -1.5", "1 0.25 1.0"},
		{"*1 /1.5", "1 2 4", "0 3 6"},
		{"!1.5", "1 1.51 15 -1.5 0.5", "1.5 1.50 1.500000000000000 15e-1"},
		{"*1 !0 >=-10 <=10", "1 -1 10", "0 -0"},
		{"!0 !1.5 !1.505 >=0 <=2", "1 1.50500001 1.51 0.01", "0 0.0 0.00 1.5 1.50 1.505 1.5050 1.500"},
		{"=1 =2.50 =1e2 =1e21 =-0 =3 *0.5 !3", "1 2.5 100 1e+21 0", "2.50 1.0 3 1e2 -0"},
		{"*997", "997 0 -1994 99700000000000000000", "998"},
		{"*8192", "0 8192 819200 -16384", "4096 8191"},
		{"*9973 >=0 <=1e5", "0 9973 99730", "9974"},
		{"*65536 <=131072 >=0", "0 65536 131072", "1 65537"},
		{"*1 >=0.5 <=0.75", "", "0 1 0.5"},
		{"<=0 *1", "0 -1", "-0 1"},
		{"<=0", "0 -0.5 -1e5", "0.1"},
		{">=5 <4", "", "4 5"},
		{"*1 >=1e500 <=1e500", "1e+500", "1"},
	} {
		l := texts(t, c.set)
		for _, text := range strings.Fields(c.yes) {
			if !l.Has(text) {
				t.Errorf("%s has not %.60s", c.set, text)
			}
		}
		for _, text := range strings.Fields(c.no) {
			if l.Has(text) {
				t.Errorf("%s has %.60s", c.set, text)
			}
		}
		if (c.yes == "") != l.Empty() {
			t.Errorf("%s: empty is %t", c.set, l.Empty())
		}
	}
}

func TestMistakes(t *testing.T) {
	for s, want := range map[string]string{
		">1e500": "more than 400 digits", "*1e500": "1e-400 to 1e400", "*1e-500": "1e-400 to 1e400",
		"*12347 >0": "at most 10000",
		"*0":        "is 0", "/0": "positive", "*9973 *9967": "at most 10000", ">0 <1e-500": "further apart",
		">1e-500 <2e-500": "further apart", "*9999 /9998": "at most 10000",
		"/9999 /9998": "more than 4000 remainders", "*9973": "more than 4000 remainders",
	} {
		if l, err := Texts(&lang.Maker{}, set(t, s)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %d states, %v; want %q", s, len(l.States()), err, want)
		}
	}
}

// randomSet has few values of few digits, so that the texts of the test come near them.
func randomSet(r *rand.Rand) string {
	number := func() string {
		return []string{fmt.Sprint(r.IntN(260) - 130), fmt.Sprintf("%.1f", r.Float64()*8-4),
			fmt.Sprintf("%.2f", r.Float64()*3-1.5), "0", "1e2", "-0.05e1", "120e-1"}[r.IntN(7)]
	}
	var words []string
	add := func(of int, each func() string) {
		for r.IntN(of) == 0 {
			words = append(words, each())
		}
	}
	pick := func(all ...string) string { return all[r.IntN(len(all))] }
	multiple := func() string {
		return pick("1", "1", "2", "3", "5", "0.1", "0.5", "0.25", "0.05", "1.5", "10", "20", "60", "1e1", "0.3",
			"7", "100", "32")
	}
	add(2, func() string { return pick(">", ">=") + number() })
	add(2, func() string { return pick("<", "<=") + number() })
	add(3, func() string { return "*" + multiple() })
	add(4, func() string { return "/" + multiple() })
	add(4, func() string { return "!" + number() })
	return strings.Join(words, " ")
}

// has is the meaning of the words of a set.
func has(t testing.TB, s string, v *big.Rat) bool {
	for _, word := range strings.Fields(s) {
		number := strings.TrimLeft(word, "<>=*/!")
		d := rat(t, number)
		c := v.Cmp(d)
		good := false
		switch strings.TrimSuffix(word, number) {
		case ">=":
			good = c >= 0
		case ">":
			good = c > 0
		case "<=":
			good = c <= 0
		case "<":
			good = c < 0
		case "*":
			good = new(big.Rat).Quo(v, d).IsInt()
		case "/":
			good = !new(big.Rat).Quo(v, d).IsInt()
		case "!":
			good = c != 0
		}
		if !good {
			return false
		}
	}
	return true
}

// TestTextsAreTheirSet compares languages with arithmetic, for all numbers of few digits.
func TestTextsAreTheirSet(t *testing.T) {
	var all []string
	for i := -140; i <= 140; i++ {
		all = append(all, fmt.Sprint(i))
		if i > -45 && i < 45 {
			for _, f := range []string{".0", ".2", ".25", ".50", ".75", ".999", ".001"} {
				all = append(all, fmt.Sprint(i)+f)
			}
			all = append(all, fmt.Sprintf("%.1f", float64(i)/10), fmt.Sprintf("%.2f", float64(i)/25),
				fmt.Sprintf("-0.%d", i+45), fmt.Sprintf("0.00%d", i+45))
		}
	}
	plain := len(all)
	all = append(all, "1e2", "-1e0", "0e5", "5E-1", "1.5e1", "-0.0e3", "60e0", "3e-300", "-7E300")
	values := make([]*big.Rat, len(all))
	for i, text := range all {
		values[i] = rat(t, text)
	}
	r := rand.New(rand.NewPCG(5, 6))
	n := 800
	if testing.Short() {
		n = 100
	}
	for range n {
		s := randomSet(r)
		l := texts(t, s)
		integers := false
		places := 3
		if step, ok := set(t, s).step(); ok {
			integers, places = step.exponent >= 0, -step.exponent
		}
		for i, text := range all {
			_, fraction, pointed := strings.Cut(text, ".")
			if pointed && (integers || len(fraction) > places) ||
				strings.HasPrefix(text, "-0") && values[i].Sign() == 0 {
				continue // another text of the same value
			}
			want := has(t, s, values[i])
			if i >= plain && !l.Has(text) {
				continue // exponents are written on some sides only
			}
			if l.Has(text) != want || set(t, s).Has(parse(t, text)) != want {
				t.Fatalf("%q has %s: want %t", s, text, want)
			}
		}
	}
}

// TestLongBounds compares with arithmetic near bounds of many digits.
func TestLongBounds(t *testing.T) {
	r := rand.New(rand.NewPCG(11, 12))
	digits := func(n int) string {
		var out strings.Builder
		for range n {
			out.WriteByte(byte('0' + []int{0, 9, 1, r.IntN(10)}[r.IntN(4)]))
		}
		return out.String()
	}
	number := func() string {
		text := []string{"-", ""}[r.IntN(2)] + fmt.Sprint(1+r.IntN(9)) + digits(r.IntN(24))
		if n := r.IntN(20); n > 0 {
			text += "." + digits(n)
		}
		return text
	}
	// near changes the digits at the end of a number.
	near := func(text string) string {
		for r.IntN(3) > 0 {
			at := len(text) - 1 - r.IntN(min(3, len(text)))
			if c := text[at]; c != '.' && c != '-' {
				text = text[:at] + digits(1) + text[at+1:]
			}
		}
		if strings.Contains(text, ".") {
			text += digits(r.IntN(3))
		} else if r.IntN(4) == 0 {
			text = text[:max(len(text)-1, 1)]
		}
		return text
	}
	tried := [2]int{}
	for range 1500 {
		a := number()
		b := number()
		if r.IntN(2) == 0 {
			b = near(a)
		}
		if r.IntN(4) == 0 {
			a = []string{"0", "-0.0", "-1e60", "-3e200"}[r.IntN(4)]
		}
		s := []string{">", ">="}[r.IntN(2)] + a + " " + []string{"<", "<="}[r.IntN(2)] + b
		if !json.Valid([]byte(b)) || rat(t, a).Cmp(rat(t, b)) > 0 {
			continue
		}
		l := texts(t, s)
		for range 20 {
			exponent := []string{"", "", "e0", "e-1", "E-30", "e+2", "e10"}[r.IntN(7)]
			text := near([]string{a, b}[r.IntN(2)]) + exponent
			_, fraction, _ := strings.Cut(text, ".")
			if !json.Valid([]byte(text)) {
				continue
			}
			want := has(t, s, rat(t, text))
			tried[b2i(want)]++
			another := len(fraction) > FractionDigits || strings.ContainsAny(text, "eE") ||
				strings.HasPrefix(text, "-0")
			if got := l.Has(text); got != want && (got || !another) { // another text of the value is enough
				t.Fatalf("%q has %s: want %t", s, text, want)
			}
		}
	}
	if min(tried[0], tried[1]) < 1000 {
		t.Error(tried)
	}
}

// TestListAndTexts compares List with the texts of the set.
func TestListAndTexts(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 8))
	known := 0
	for range 3000 {
		s := randomSet(r)
		values, ok := set(t, s).List(40)
		if !ok {
			continue
		}
		known++
		l := texts(t, s)
		written, finite := l.List(100_000)
		if !finite {
			t.Fatalf("%q has %v and endless texts", s, values)
		}
		in := map[Decimal]bool{}
		for _, text := range written {
			in[parse(t, text)] = true
		}
		for _, v := range values {
			if !in[v] || !has(t, s, rat(t, v.String())) {
				t.Fatalf("%q lists %s; texts %q", s, v, written)
			}
			delete(in, v)
		}
		if len(in) > 0 {
			t.Fatalf("%q lists %v; texts %q", s, values, written)
		}
	}
	if known < 300 {
		t.Errorf("only %d sets could be listed", known)
	}
}

func TestListOfNothing(t *testing.T) {
	for s, want := range map[string]bool{"*1 >=4 <=4.5 /2": true, "*1 >0 <1": true, "*2 /1": true, ">1 <=1": true,
		"=1 *2":         true,
		"*1 >=4 <=4 !4": true, "": false, "*1 >=4 <=5": false, "=1": false, ">0 <1": false, "*1e900 >=1 <=1e9": true,
		"*1 >=1 <=1e999999999": false, "*1e-999999999 >=1 <=2": false} {
		if all, ok := set(t, s).List(0); ok != want {
			t.Errorf("%q: %v, %t", s, all, ok)
		}
	}
}

// TestAnd: the conjunction of two sets has what both have.
func TestAnd(t *testing.T) {
	r := rand.New(rand.NewPCG(9, 10))
	for range 3000 {
		a, b := randomSet(r), randomSet(r)
		x, y := set(t, a), set(t, b)
		if r.IntN(3) == 0 {
			x.Points = decimals(t, "1", "2", "1.5", "3", "60", "-0", "0.0", "1e2")
		}
		if r.IntN(3) == 0 {
			y.Points = decimals(t, "2.0", "1.5", "60", "0", "7")
		}
		both := x.And(y)
		for range 30 {
			d := parse(t, []string{fmt.Sprint(r.IntN(120)), fmt.Sprint(float64(r.IntN(16)) / 4)}[r.IntN(2)])
			if want := x.Has(d) && y.Has(d); both.Has(d) != want {
				t.Fatalf("%q and %q has %s: want %t", a, b, d, want)
			}
		}
	}
}

// TestWorkEnds: whatever a set asks for, its texts take no more work than Spend allows, and leave nothing half made.
func TestWorkEnds(t *testing.T) {
	for _, s := range []string{"*9973 >=0 <=9000000000000000", "/997 /991 /7", "*0.0009973 /0.0000000000000000000007",
		"*8192e30", "!1 >=0 <=10", "*1 >=0 <100", ">=1e390", ">=1e-399 <=2e-399", "*99 /98"} {
		for budget := 1; budget < 1<<22; budget *= 3 {
			left := budget
			m := &lang.Maker{Spend: func(units int) bool {
				if left -= units; left < 0 {
					return false
				}
				return true
			}}
			l, err := Texts(m, set(t, s))
			if left < 0 && (l != nil || err != nil) {
				t.Fatalf("%s with %d units: %d states, %v", s, budget, len(l.States()), err)
			}
			if left >= 0 && l == nil && err == nil {
				t.Fatalf("%s with %d units: nothing", s, budget)
			}
		}
	}
}

// usual are sets that schemas have, and the most states of their texts.
var usual = []struct {
	set    string
	states int
}{
	{"*1", 20}, {"", 40}, {"*1 >=0 <=100", 5}, {">=-180 <=180", 50}, {"*1 >=-2147483648 <=2147483647", 30},
	{"*1 >=0 <=18446744073709551615", 40}, {"*1 >=-9223372036854775808 <=9223372036854775807", 60},
	{">=-3.4028234663852886e+38 <=3.4028234663852886e+38", 120}, {"*0.01 >=0", 20}, {">0", 60}, {"*1 >=1", 20},
	{">=0 <=1", 45}, {"*1 >=-9007199254740991 <=9007199254740991", 40}, {"*60", 80}, {"*1024", 200}, {"*3989", 4000},
	{"*7", 120}, {"*0.05 >=0 <=1e6", 20}, {"/1", 50}, {"*1 >=1 <=65535", 10}, {"*512 >=0 <=1000000", 250},
	{">=-1.7976931348623157e308 <=1.7976931348623157e308", 45}, {"!0", 60}, {"*86400", 160},
}

func TestUsualAreSmall(t *testing.T) {
	for _, c := range usual {
		units := 0
		l, err := Texts(&lang.Maker{Spend: func(n int) bool { units += n; return true }}, set(t, c.set))
		if err != nil {
			t.Fatal(err)
		}
		states := len(l.States())
		t.Logf("%-70s %5d states %7d units", c.set, states, units)
		if states > c.states || units > 1500*c.states {
			t.Errorf("%s: %d states and %d units, want at most %d and %d", c.set, states, units, c.states,
				1500*c.states)
		}
	}
}

func BenchmarkTexts(b *testing.B) {
	for _, c := range usual {
		b.Run(strings.ReplaceAll(c.set, " ", "_"), func(b *testing.B) {
			set := set(b, c.set)
			m := &lang.Maker{}
			for b.Loop() {
				if _, err := Texts(m, set); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// FuzzTexts: of any two bounds, multiple and exception, the texts are numbers that keep to them; in bounded work.
func FuzzTexts(f *testing.F) {
	f.Add("0.25", "1.5e0", "0.05", "1", uint8(3), "0.35")
	f.Add("-1e400", "1e-400", "1e399", "0.001", uint8(7), "-0.0")
	f.Add("9223372036854775807", "1e20", "1e18", "0", uint8(1), "10000000000000000000")
	f.Fuzz(func(t *testing.T, least, most, multiple, except string, kinds uint8, text string) {
		words := []string{">" + least, "<" + most, "*" + multiple, "!" + except, ">=" + least, "<=" + most,
			"/" + multiple}
		for i, number := range []string{least, most, multiple, except, least, most, multiple} {
			if d, err := Parse(number); err != nil || kinds>>i&1 == 0 || d.sign() <= 0 && number == multiple {
				words[i] = ""
			}
		}
		s := strings.Join(words, " ")
		fuzztest.Bound(t, len(s), func() {
			left := 3 << 20
			m := &lang.Maker{Spend: func(units int) bool { left -= units; return left >= 0 }}
			l, err := Texts(m, set(t, s))
			if err != nil {
				fuzztest.Refusal(t, err, "")
			}
			if text = text[:min(len(text), 40)]; !l.Has(text) {
				return
			}
			if d, err := Parse(text); err != nil || !json.Valid([]byte(text)) || !set(t, s).Has(d) {
				t.Fatalf("%q has %q", s, text)
			}
		})
	})
}
