package number

import (
	"encoding/json"
	"fmt"
	"math"
	"math/big"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"
)

func parse(t testing.TB, text string) Decimal {
	t.Helper()
	d, err := Parse(text)
	if err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return d
}

func rat(t testing.TB, text string) *big.Rat {
	t.Helper()
	r, ok := new(big.Rat).SetString(text)
	if !ok {
		t.Fatalf("%s is no number", text)
	}
	return r
}

// randomText is a number in JSON; many have the same value.
func randomText(r *rand.Rand) string {
	pick := func(all ...string) string { return all[r.IntN(len(all))] }
	text := pick("", "-") + pick("0", "1", "5", "10", "12", "100", "1000", "123456789012345678901", "99")
	text += pick("", "", ".0", ".5", ".50", ".05", ".000", ".125", ".00000000000000000001")
	return text + pick("", "", "e0", "e2", "E-2", "e+3", "e-30", "e30", "e-1")
}

func TestDecimal(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 20_000 {
		a, b := randomText(r), randomText(r)
		d, e, x, y := parse(t, a), parse(t, b), rat(t, a), rat(t, b)
		if got, want := d.Cmp(e), x.Cmp(y); got != want || (d == e) != (want == 0) {
			t.Fatalf("%s and %s: %d, equal %t; want %d", a, b, got, d == e, want)
		}
		if text := d.String(); parse(t, text) != d || rat(t, text).Cmp(x) != 0 || !json.Valid([]byte(text)) {
			t.Fatalf("%s is written %s", a, d)
		}
		n, ok := d.Int64()
		if want := x.IsInt() && x.Num().IsInt64(); ok != want || ok && x.Num().Int64() != n {
			t.Fatalf("%s is the integer %d, %t", a, n, ok)
		}
		if y.Sign() == 0 || e.long() {
			continue
		}
		if want := new(big.Rat).Quo(x, y).IsInt(); d.isMultiple(e.abs()) != want {
			t.Fatalf("%s is a multiple of %s: want %t", a, b, want)
		}
	}
	if Int(math.MinInt64) != parse(t, "-9223372036854775808") || Int(0) != parse(t, "-0.0e5") ||
		Int(700) != parse(t, "7e2") {
		t.Error("Int differs from Parse")
	}
	if n, ok := Int(math.MinInt64).Int64(); !ok || n != math.MinInt64 {
		t.Error("the least int64 is none")
	}
}

func TestCommon(t *testing.T) {
	r := rand.New(rand.NewPCG(13, 14))
	for range 20_000 {
		p := parse(t, fmt.Sprintf("%de%d", 1+r.IntN(1<<r.IntN(34)), r.IntN(12)-6))
		q := parse(t, fmt.Sprintf("%de%d", 1+r.IntN(1<<r.IntN(34)), r.IntN(12)-6))
		m, ok := common(p, q)
		if !ok {
			if len(p.digits)+len(q.digits)+max(p.exponent, q.exponent)-min(p.exponent, q.exponent) <= stepDigits {
				t.Fatalf("%s and %s have no common multiple", p, q)
			}
			continue
		}
		a, b := rat(t, m.String()), rat(t, m.String())
		a.Quo(a, rat(t, p.String()))
		b.Quo(b, rat(t, q.String()))
		if !a.IsInt() || !b.IsInt() || new(big.Int).GCD(nil, nil, a.Num(), b.Num()).Cmp(big.NewInt(1)) != 0 {
			t.Fatalf("the least common multiple of %s and %s is not %s", p, q, m)
		}
	}
}

// TestStringsAreJavaScripts compares with encoding/json, which prints numbers as ECMA-262 does.
func TestStringsAreJavaScripts(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	for range 20_000 {
		f := math.Ldexp(float64(r.IntN(1<<20)-1<<19), r.IntN(200)-100)
		want, err := json.Marshal(f)
		if err != nil {
			t.Fatal(err)
		}
		exact := strconv.FormatFloat(f, 'e', -1, 64)
		if got := parse(t, exact).String(); got != strings.Replace(string(want), "-0", "0", b2i(f == 0)) {
			t.Fatalf("%s is written %s, want %s", exact, got, want)
		}
	}
}

func b2i(b bool) int {
	if b {
		return 1
	}
	return 0
}

func TestParse(t *testing.T) {
	for _, text := range []string{"", "-", "01", "1.", ".5", "+1", "1e", "1e+", "1e--1", "1e+-1", "0x1", "1 ", "NaN",
		"1e1.5", "--1", "1.5.5", "1e1234567890", strings.Repeat("1", longestText+1)} {
		if d, err := Parse(text); err == nil {
			t.Errorf("%.20q is read as %.20s", text, d)
		}
	}
	huge, tiny := parse(t, "1e999999999"), parse(t, "-3.5e-999999999")
	if huge.Cmp(parse(t, "9e999999998")) != 1 || tiny.Cmp(Int(0)) != -1 || tiny.Cmp(parse(t, "-1e-999999998")) != 1 {
		t.Error("numbers of large exponents compare otherwise")
	}
	if fmt.Sprint(huge, tiny) != "1e+999999999 -3.5e-999999999" ||
		huge.isMultiple(Int(7919*1024)) || !huge.isMultiple(Int(1024)) {
		t.Error(huge, tiny)
	}
	if parse(t, "1e0000000000000002") != Int(100) {
		t.Error("zeros before an exponent count")
	}
}
