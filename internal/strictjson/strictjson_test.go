package strictjson

import (
	"encoding/json"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"
)

type inner struct {
	Depth int `json:"depth"`
}

type sample struct {
	Name   string             `json:"name"`
	Heat   *float64           `json:"heat"`
	Narrow float32            `json:"narrow"`
	Count  uint               `json:"count"`
	Small  int8               `json:"small"`
	On     bool               `json:"on"`
	Biases map[string]float32 `json:"biases"`
	ByID   map[int32]float32  `json:"by_id"`
	Parts  []inner            `json:"parts"`
	IDs    []int32            `json:"ids"`
	Any    any                `json:"any"`
	Raw    json.RawMessage    `json:"raw"`
	Number json.Number        `json:"number"`
	Bare   string
	inner
	//lint:ignore U1000 no member of the JSON either
	secret int
}

// TestRefused decodes texts that are wrong in every way there is, and looks for Go's own words in the errors.
func TestRefused(t *testing.T) {
	t.Attr("attack", "JSON that parsers read in different ways: names twice, half pairs of surrogates, broken UTF-8")
	t.Attr("bound", "refused with the member and its byte, in one line of 300 bytes")
	deep := strings.Repeat(`[`, MaxDepth+1) + strings.Repeat(`]`, MaxDepth+1)
	for text, want := range map[string]string{
		`{"name": 7}`:                       "name is 7, want a string",
		`{"heat": "hot"}`:                   "heat is a string, want a number",
		`{"heat": 1e999}`:                   "heat is 1e999, want a number of 64 bits",
		`{"narrow": 1e39}`:                  "narrow is 1e39, want a number of 32 bits",
		`{"any": {"a": [1, -1e400]}}`:       "any.a[1] is -1e400, want a number of 64 bits",
		`{"count": -1}`:                     "count is -1, want a whole number of 0 or more",
		`{"small": 128}`:                    "small is 128, want a whole number",
		`{"depth": 1.5}`:                    "depth is 1.5, want a whole number",
		`{"depth": 1e-1}`:                   "depth is 1e-1, want a whole number",
		`{"depth": 1e99}`:                   "depth is 1e99, want a whole number",
		`{"depth": 1e99999999999999999999}`: "depth is 1e99999999999999999999, want a whole number",
		`{"depth": 9223372036854775808}`:    "depth is 9223372036854775808, want a whole number",
		`{"depth": "1"}`:                    "depth is a string, want a whole number",
		`{"on": {}}`:                        "on is an object, want true or false",
		`{"on": 1}`:                         "on is 1, want true or false",
		`{"name": true}`:                    "name is true, want a string",
		`{"number": "5"}`:                   "number is a string, want a number",
		`{"biases": []}`:                    "biases is a list, want an object",
		`{"biases": {"a": "b"}}`:            "biases.a is a string, want a number",
		`{"biases": {"a": null}}`:           "biases.a is null, want a number",
		`{"ids": [1, null]}`:                "ids[1] is null, want a whole number",
		`{"ids": [1, 2.5]}`:                 "ids[1] is 2.5, want a whole number",
		`{"by_id": {"1": 1, "01": 2}}`:      "by_id.01 is a name, want a whole number",
		`{"by_id": {"a": 1}}`:               "by_id.a is a name, want a whole number",
		`{"by_id": {"4294967296": 1}}`:      "by_id.4294967296 is a name, want a whole number",
		`{"parts": [{}, {"depth": ""}]}`:    "parts[1].depth is a string, want a whole number",
		`{"parts": true}`:                   "parts is true, want a list",
		`[]`:                                "the JSON value is a list, want an object",
		`7`:                                 "the JSON value is 7, want an object",

		`{"nmae": ""}`:              "nmae is unknown; did you mean name?",
		`{"parts": [{"detph": 1}]}`: "parts[0].detph is unknown; did you mean depth?",
		`{"blue": 1}`:               "blue is unknown",
		`{"secret": 1}`:             "secret is unknown",
		`{"Name": "a"}`:             "Name is unknown; did you mean name?",
		`{"bare": "a"}`:             "bare is unknown; did you mean Bare?",
		`{"a\u0007b\n": 1}`:         `"a\ab\n" is unknown`,
		`{"": 1}`:                   `"" is unknown`,
		`{"` + strings.Repeat("x", 1<<16) + `": 1}`: "is unknown",

		`{"name": "a", "on": true, "name": "b"}`: "name is given twice, at bytes 2 and 27",
		`{"name": "a", "n\u0061me": "b"}`:        "name is given twice",
		`{"raw": [{"a": {"b": 1, "b": 1}}]}`:     "raw[0].a.b is given twice",
		`{"any": {"": 1, "": 1}}`:                `any."" is given twice`,
		`{"raw": {"\ud83d\ude00": 1, "😀": 2}}`:   "raw.😀 is given twice",
		`{"name": "a\ud800b"}`:                   `name holds \ud800 at byte 12, half of a pair of surrogates`,
		`{"name": "\udc00"}`:                     `name holds \udc00`,
		`{"name": "\ud800\ud800"}`:               `name holds \ud800`,
		`{"name": "\ud800\u0061"}`:               `name holds \ud800`,
		`{"name": "\uD83D"}`:                     `name holds \ud83d`,
		`{"raw": {"\ud800": 1}}`:                 `raw has a name that holds \ud800`,
		"{\"name\": \"a\xff\"}":                  "name holds the byte 0xff at byte 12, which is not UTF-8",
		"{\"name\": \"\xed\xa0\x80\"}":           "name holds the byte 0xed", // a surrogate in three bytes
		"{\"name\": \"\xc0\x80\"}":               "name holds the byte 0xc0", // a zero in two
		"{\"name\": \"ok ✓ \xf0\x9f\x98\"}":      "name holds the byte 0xf0",
		"{\"\xff\": \"\"}":                       "has a name that holds the byte 0xff",

		`{} {}`: "at byte 4: there is more after the value", `{},`: "there is more after",
		`{"name": "`: "not JSON at byte 10: the text ends", `{"raw": [1, `: "the text ends",
		`{"name": "\`: "the text ends", `{"name": "\u00`: "the text ends", `{"raw": tru`: "the text ends",
		`{"raw": -`: "the text ends", `{`: "the text ends",
		``: "not JSON at byte 0: the text is empty", " \n": "the text is empty",
		`{"name": x}`: "not JSON at byte 10: 'x', want a value", `{"name" 1}`: "want a colon",
		`{name: 1}`: "want a name in quotes",
		`{"a": 1,}`: "unknown", `{"raw": [1,]}`: "not JSON at byte 12", `{"raw": 1,}`: "want a name in quotes",
		`{"raw": [1 2]}`: "want a comma", `{"raw": 1 "on": true}`: "want a comma", `{"raw": 01}`: "want a comma",
		`{"raw": .5}`: "want a value", `{"raw": 1.}`: "want a digit", `{"raw": 1e}`: "want a digit",
		`{"raw": +1}`:  "want a value",
		`{"raw": NaN}`: "'N', want a value", `{"raw": -Infinity}`: "'I', want a digit",
		`{"raw": Infinity}`: "want a value", `{"raw": 'a'}`: "want a value", `{"raw": "\x"}`: "after a backslash",
		`{"raw": "\u12g4"}`: "four hexadecimal digits", "{\"raw\": \"a\nb\"}": "control characters",
		"\ufeff{}": "a byte order mark, want a value", `{"raw": nul}`: "want null",
		`{"raw": /* */ 1}`: "want a value", "{\"raw\": \u00a01}": "want a value",
		`{"raw": ` + deep + `}`: fmt.Sprintf("at byte %d objects and lists are nested deeper than %d", 8+MaxDepth,
			MaxDepth),
	} {
		err := Decode([]byte(text), &sample{})
		if err == nil || !strings.Contains(err.Error(), want) || len(err.Error()) > 300 {
			t.Errorf("%.60s: %v, want %q", text, err, want)
			continue
		}
		for _, word := range []string{"json:", "Go ", "unmarshal", "struct", "float64", "inner", "uint"} {
			if strings.Contains(err.Error(), word) {
				t.Errorf("%.60s: %v says %q", text, err, word)
			}
		}
	}
	for text, want := range map[string]error{`{"nmae": 1}`: ErrUnknown, `{"on": true, "on": true}`: ErrTwice} {
		if err := Decode([]byte(text), &sample{}); !errors.Is(err, want) {
			t.Errorf("%s: %v is not %v", text, err, want)
		}
	}
}

// TestTaken decodes texts that look odd and are fine.
func TestTaken(t *testing.T) {
	for text, is := range map[string]func(*sample) bool{
		`{"name": "\ud83d\ude00\u00e9\"\\\/"}`: func(v *sample) bool { return v.Name == `😀é"\/` },
		" {\"name\": \"a\", \"depth\": 3}\r\n": func(v *sample) bool { return v.Name == "a" && v.Depth == 3 },
		`{"depth": 1e2, "count": 50e-1}`:       func(v *sample) bool { return v.Depth == 100 && v.Count == 5 },
		`{"depth": -0, "count": -0.0}`:         func(v *sample) bool { return v.Depth == 0 && v.Count == 0 },
		`{"depth": -1.20E+1, "small": -128}`:   func(v *sample) bool { return v.Depth == -12 && v.Small == -128 },
		`{"depth": 0e99, "ids": [1.0, 2e0]}`:   func(v *sample) bool { return v.IDs[0] == 1 && v.IDs[1] == 2 },
		`{"depth": 9.223372036854775807e18}`:   func(v *sample) bool { return v.Depth == 1<<63-1 },
		`{"name": null, "parts": null}`:        func(v *sample) bool { return v.Name == "" && v.Parts == nil },
		`{"any": {"a": null, "A": 1}}`:         func(v *sample) bool { return len(v.Any.(map[string]any)) == 2 },
		`{"raw": 1e999}`:                       func(v *sample) bool { return string(v.Raw) == "1e999" },
		`{"number": 12345678901234567890123}`:  func(v *sample) bool { return v.Number == "12345678901234567890123" },
		`{"by_id": {"-1": 1, "10": 2}}`:        func(v *sample) bool { return v.ByID[-1] == 1 && v.ByID[10] == 2 },
		`{"Bare": "\u0000\u007f"}`:             func(v *sample) bool { return v.Bare == "\x00\x7f" },
		`null`:                                 func(v *sample) bool { return true },
	} {
		var v sample
		if err := Decode([]byte(text), &v); err != nil || !is(&v) {
			t.Errorf("%s: %+v, %v", text, v, err)
		}
	}
	var v sample
	if err := DecodeForeign([]byte(`{"more": {"Name": 1}, "name": "a"}`), &v); err != nil || v.Name != "a" {
		t.Errorf("%+v, %v", v, err)
	}
	if err := DecodeForeign([]byte(`{"NAME": "a"}`), &v); !errors.Is(err, ErrUnknown) {
		t.Error(err)
	}
}

// TestCounts has values refused before they are built, in little memory and time.
func TestCounts(t *testing.T) {
	t.Attr("attack", "a request of a million empty lists or objects")
	t.Attr("bound", "refused at the value after the last that is allowed, before any is built, in 8 MiB")
	most := uint64(0)
	for _, text := range []string{"[" + strings.Repeat("[],", 1<<20) + "[]]",
		`{"a": [` + strings.Repeat("{},", 1<<20) + "1]}"} {
		var v any
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		err := Rules{Values: 1000}.Decode([]byte(text), &v)
		runtime.ReadMemStats(&after)
		if err == nil || !strings.Contains(err.Error(), "more than 1000 values") {
			t.Error(err)
		}
		most = max(most, after.TotalAlloc-before.TotalAlloc)
	}
	if most > 8<<20 {
		t.Errorf("%d bytes allocated", most)
	}
	t.Attr("measured", fmt.Sprintf("%d KiB", most>>10))
	if err := (Rules{Values: 4}).Check([]byte(`{"a": [1, 2]}`)); err != nil {
		t.Error(err)
	}
	if err := (Rules{Values: 3}).Check([]byte(`{"a": [1, 2]}`)); err == nil {
		t.Error("a fourth value is taken")
	}
	for text, taken := range map[string]bool{`{"a": [[1, 2, 30], [ 4]]}`: true, `{"a": [[1, "2", "3"]]}`: false,
		`{"a": {"b": 1, "c": 2, "d": 3}}`: false} {
		if err := (Rules{Values: 4, IDs: true}).Check([]byte(text)); (err == nil) != taken {
			t.Errorf("%s: %v", text, err)
		}
	}
}

// TestManyNames checks objects of many names, where comparing each with all would take minutes, and of a name that is
// long and given often.
func TestManyNames(t *testing.T) {
	t.Attr("attack", "objects of half a million names, and names of a kilobyte that are given a thousand times")
	t.Attr("bound", "found by sorting, with 8 bytes a name")
	b := []byte("{")
	for i := range 1 << 19 {
		b = fmt.Appendf(b, "\"n%d\": %d,", i, i)
	}
	once := string(b)
	begun := time.Now()
	if err := Check([]byte(once + `"last": 1}`)); err != nil {
		t.Error(err)
	}
	if err := Check([]byte(once + `"n77": 1}`)); !errors.Is(err, ErrTwice) {
		t.Error(err)
	}
	same := strings.Repeat(`"`+strings.Repeat("x", 1<<10)+`": 1,`, 1<<12)
	if err := Check([]byte("{" + same + `"y": 1}`)); !errors.Is(err, ErrTwice) {
		t.Error(err)
	}
	if took := time.Since(begun); took > 20*time.Second {
		t.Errorf("it took %v", took)
	}
}

// FuzzCheck compares with encoding/json: whatever passes is valid there and means the same.
func FuzzCheck(f *testing.F) {
	for _, seed := range []string{`{"a": [1, -0.5e3, true, null, "\ud83d\ude00"], "b": {}}`, `{"a": 1, "a": 2}`,
		`"\ud800"`, "[\"\xff\"]", `[1,]`, `01`, ` 1 `, `"\u00"`, `{"depth": 1e2, "ids": [3.0], "name": "x"}`} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		if Check(text) == nil && !json.Valid(text) {
			t.Errorf("%q is no JSON", text)
		}
		var own, std sample
		if Decode(text, &own) == nil && json.Unmarshal(text, &std) == nil && fmt.Sprint(own) != fmt.Sprint(std) {
			t.Errorf("%q: %+v, encoding/json %+v", text, own, std)
		}
	})
}

func BenchmarkCheck(b *testing.B) {
	text := []byte("{")
	for i := range 150000 {
		text = fmt.Appendf(text, "\"Ġtoken%d\": %d,", i, i)
	}
	text = append(text, `"last": 1}`...)
	for name, check := range map[string]func([]byte) bool{
		"strictjson":    func(b []byte) bool { return Check(b) == nil },
		"encoding_json": json.Valid, // for comparison
	} {
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(text)))
			b.ReportAllocs()
			for b.Loop() {
				if !check(text) {
					b.Fatal(name)
				}
			}
		})
	}
}
