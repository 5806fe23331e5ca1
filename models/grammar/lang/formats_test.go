package lang

import (
	"strings"
	"testing"
)

// formatTexts are texts that a format has, and texts that it has not, among them those of the RFCs.
var formatTexts = map[string][2][]string{
	"date": {
		{"1963-06-19", "2020-02-29", "2000-02-29", "0004-02-29", "9999-12-31", "2020-01-31"},
		{"2021-02-29", "1900-02-29", "2020-04-31", "2020-13-01", "2020-00-10", "2020-01-00", "1963-6-19",
			"06/19/1963",
			"2020-01-32", "+2020-01-01", "1963-06-1৪", "20200101", ""}},
	"time": {
		{"08:30:06.283185Z", "23:59:60Z", "23:59:60.5+00:00", "08:30:06z", "00:00:00-23:59", "12:00:00+05:30"},
		{"24:00:00Z", "12:60:00Z", "12:00:60Z", "12:00:00", "12:00:00+24:00", "12:00:00+0530", "12:00:00.Z",
			"1:00:00Z",
			"12:00Z", "22:59:60Z", "12:00:00+05"}},
	"date-time": {
		{"1985-04-12T23:20:50.52Z", "1996-12-19T16:39:57-08:00", "1990-12-31T23:59:60Z",
			"1937-01-01T12:00:27.87+00:20",
			"1963-06-19t08:30:06.283185z"},
		{"1990-02-31T15:59:59Z", "1990-12-31T15:59:59-24:00", "1998-12-31T23:58:60Z", "06/19/1963 08:30:06 PST",
			"2013-350T01:01:01", "1963-6-19T08:30:06Z", "1985-04-12 23:20:50Z", "1985-04-12", "1985-04-12T"}},
	"duration": {
		{"P4DT12H30M5S", "PT0S", "P0D", "P1M", "PT1M", "PT36H", "P1DT12H", "P2W", "P1Y2M3D", "PT5M3S"},
		{"P", "PT", "P1YT", "PT1D", "4DT12H", "P2D1Y", "P1D2H", "P2S", "P1Y2W", "P1", "P1Y1D", "PT1H1S", "p1d",
			"P1.5D"}},
	"uuid": {
		{"2EB8AA08-AA98-11EA-B4AA-73B441D16380", "2eb8aa08-aa98-11ea-b4aa-73b441d16380", strings.Repeat("0", 8) +
			"-0000-0000-0000-" + strings.Repeat("0", 12)},
		{"2eb8aa08-aa98-11ea-b4aa-73b441d1638", "2eb8aa08aa9811eab4aa73b441d16380",
			"2eb8aa08-aa98-11ea-b4aa-73b441d1638g",
			"urn:uuid:2eb8aa08-aa98-11ea-b4aa-73b441d16380"}},
	"ipv4": {
		{"192.168.0.1", "0.0.0.0", "255.255.255.255", "87.10.0.1"},
		{"127.0.0.0.1", "256.1.1.1", "127.0", "0x7f000001", "087.10.0.1", "192.168.1.0/24", "1.2.3.٤", " 1.2.3.4"}},
	"ipv6": {
		{"::1", "::", "12345::"[1:], "2001:DB8:0:0:8:800:200C:417A", "2001:db8::8:800:200c:417a", "FF01::101",
			"::abef",
			"0:0:0:0:0:0:13.1.68.3", "::FFFF:129.144.52.38", "1:2:3:4:5:6:7::", "::2:3:4:5:6:7:8", "1::3:4:5:6:7:8",
			"1:2:3:4:5::1.2.3.4", "d6::"},
		{"12345::", "1:1:1:1:1:1:1:1:1", "1:2:3:4:5:6:7", "1::2::3", ":2:3:4:5:6:7:8", "1:2:3:4:5:6:7:", "::1%eth0",
			"fe80::a/64",
			"1:2:3:4:5:6:7::8:9", "::1.2.3", "1:2:3:4:5:6:7:1.2.3.4", "::ffff:256.1.1.1", "::laptop",
			"1:2:3:4:5:6:7:8::"}},
	"hostname": {
		{"www.example.com", "localhost", "a", "3com", "a--b.c", strings.Repeat("a", 63) + ".com",
			"xn--4gbwdl.xn--wgbh1c",
			"ec2-203-0-113-25.eu-central-1.compute.amazonaws.com", "a.b.c.d.e.f.g.h.i.j.k"},
		{"", ".", "-a", "a-", "a_b", strings.Repeat("a", 64), "a..b", "a.", ".a", "a.-b", "a-.b", "é.com", "a b",
			strings.Repeat("a", 63) + "." + strings.Repeat("a", 63) + "." + strings.Repeat("a", 63) + "." +
				strings.Repeat("a", 63)}},
	"idn-hostname": {
		{"example.com", "실례.테스트", "bücher.example", "例え.jp", "нам.рф", "भारत", strings.Repeat("a", 63)},
		{"〮한국", "-é", "é-", "\u0901a", "", "é..a", "Ⅷ.com", "a.ａ", strings.Repeat("é", 64), "ab--cd"}},
	"email": {
		{"joe.bloggs@example.com", "te~st@example.com", "a+b@c-d.e", "!#$%&'*+-/=?^_`{|}~@a.bc",
			strings.Repeat("a", 64) + "@" + strings.Repeat("b", 63) + ".com"},
		{"2962", ".test@example.com", "test.@example.com", "te..st@example.com", "a@b", "a@", "@b.c", "a@b..c",
			"a@-b.c",
			"a@b.c-", "a b@c.d", "a@b@c.d", strings.Repeat("a", 65) + "@b.c", strings.Repeat("a", 64) + ".@b.c",
			"é@b.c"}},
	"idn-email": {
		{"실례@실례.테스트", "joe@example.com", strings.Repeat("é", 32) + "@é.fr"},
		{"실례", "é@", strings.Repeat("é", 33) + "@b.c", strings.Repeat("실", 22) + "@b.c", "é..a@b.c"}},
	"uri": {
		{"http://foo.bar/?baz=qux#quux", "ftp://ftp.is.co.za/rfc/rfc1808.txt",
			"ldap://[2001:db8::7]/c=GB?objectClass?one",
			"mailto:John.Doe@example.com", "news:comp.infosystems.www.servers.unix", "tel:+1-816-555-1212",
			"telnet://192.0.2.16:80/", "urn:oasis:names:specification:docbook:dtd:xml:4.1.2", "http://a@b:80/%20?",
			"a:/",
			"http://[v1.a:b]/", "file:///etc/hosts"},
		{"//foo.bar/?baz=qux", "/abc", "abc", "http:// shouldfail.com", ":// should fail", "bar,baz:qux",
			"http://a\\b", "",
			"http://a/%2", "http://[::1", "http://[fe80::a%25en1]", "http://é/", "http://a/<b>", "1a:b",
			"http://a:b/",
			"http://a#b#c", "http://a/[b]", "foo:"}},
	"uri-reference": {
		{"http://foo.bar/?baz=qux#quux", "//foo.bar/?baz=qux", "/abc", "abc", "", "#frag", "?q", "../a/b:c", "foo:",
			"a/%20"},
		{"\\\\WINDOWS\\fileshare", "#frag\\ment", "a b", "a/%zz", "1:a", ":", "é", "a[0]"}},
	"iri": {
		{"http://ƒøø.ßår/?∂éœ=πîx#πîüx", "http://a/?\uE000", "urn:é"},
		{"/abc", "âππ", "http://a/\uE000", "http://a/#\uE000", "http:// é", "", "http://\U0001FFFE"}},
	"iri-reference": {
		{"//ƒøø.ßår/?∂éœ=πîx", "âππ", "", "#ƒrägmênt", "http://ƒøø"},
		{"\\\\WINDOWS\\filëßåré", "#ƒräg\\mênt", "é:a"}},
	"uri-template": {
		{"http://example.com/dictionary/{term:1}/{term}", "", "{/id*}{?fields,token}", "{+path}/here",
			"{#x,hello,y}", "%20é",
			"{var:9999}", "{%20_a}"},
		{"http://example.com/dictionary/{term:1}/{term", "{}", "{a", "a}", "{a:0}", "{a:10000}", "{-a}", "{a,}",
			"a b", "\"", "%2",
			"{a*b}", "{?}"}},
	"json-pointer": {
		{"", "/foo", "/foo/0", "/", "/a~1b", "/c%d", "/e^f", "/g|h", "/i\\j", "/k\"l", "/ ", "/m~0n", "/foo//bar",
			"/\n"},
		{"/foo/bar~", "/~2", "a", "#/foo", "0", "/~~"}},
	"relative-json-pointer": {
		{"1", "0/foo/bar", "2/0/baz/1/zip", "0#", "120/foo", "0/~0"},
		{"/foo", "-1/a", "+1/a", "0##", "01/a", "01#", "", "0+1", "1#/a", "0a"}},
	"regex": {
		{"([abc])+\\s+$", "", "^[a-zA-Z0-9._-]+@[^@]+$", "a{2,3}?|b", "(?:a(b)c)*", "^(?=.*\\d)(?!x).{8,}$",
			"\\p{Lu}+", "[]", "[-]",
			"\\u00e9\\/", "^a$|^$"},
		{"^(abc]", "(", "a**", "[b-a]", "a{3,2}", "\\", "[a", "(?<n>a", "{2}", "+", "\\q", "]", "(?=a)*", "\\Z"}},
}

func TestFormats(t *testing.T) {
	for name, texts := range formatTexts {
		l, longest, known := new(Maker).Format(name)
		if !known {
			t.Fatalf("%s is not known", name)
		}
		check(t, l)
		l = new(Maker).Length(l, 0, longest)
		if l, _, _ := new(Maker).Format(name); !l.single || 3*len(l.states) > formatUnits+1000 {
			t.Errorf("%s has %d states, deterministic %v", name, len(l.states), l.single)
		}
		for i, has := range []bool{true, false} {
			for _, text := range texts[i] {
				if l.Has(text) != has {
					t.Errorf("%s: %q: %v", name, text, !has)
				}
			}
		}
	}
	for _, name := range []string{"int32", "double", "byte", "binary", "password", "phone", "Date", ""} {
		if _, _, known := new(Maker).Format(name); known {
			t.Errorf("%q is known", name)
		}
	}
	if l, _, known := (&Maker{Spend: func(int) bool { return false }}).Format("date"); l != nil || !known {
		t.Error("a format costs nothing")
	}
}

func BenchmarkFormats(b *testing.B) {
	m := &Maker{}
	for name, pair := range map[string][2]string{"email": {"email", "idn-email"}, "uri": {"uri", "iri"}} {
		left, _, _ := m.Format(pair[0])
		right, _, _ := m.Format(pair[1])
		b.Run("And/"+name, func(b *testing.B) {
			for b.Loop() {
				m.And(left, right)
			}
		})
		b.Run("Length/"+name, func(b *testing.B) {
			for b.Loop() {
				m.Length(left, 3, 100)
			}
		})
	}
}
