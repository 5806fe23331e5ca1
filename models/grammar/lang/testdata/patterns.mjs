// Writes patterns.json: whether expressions match texts, as this program's engine says with the flag u. Besides a list
// there are random ones with looks in every place. node patterns.mjs [count [seed]] > patterns.json
const fixed = String.raw`
  ^$ a^ $a ^^a$$ (^|,)a(,|$) ^(?:)$ ^[^]$ [] ^[]*$ ^.$ ^[.]$ ^\.$ ^[a-]$ ^[-a]$ ^[\w-]$ ^[\]^]$ ^\/$ \bab\b \Ba a\B
  \b ^\B$ ^\d+$ ^\D$ ^\w$ ^\W$ ^\s$ ^\S$ ^[\s\S]$ ^[^\s]$ ^[\d\-x]+$ ^\t\n\v\f\r$ ^\cJ$ ^\x41$ ^\u0041$ ^\u{41}$
  ^\u{1F600}$ ^\uD83D\uDE00$ ^[\uD83D\uDE00-\uD83D\uDE02]$ ^[^\uD800-\uDFFF]$ ^\0$ ^[\b]$ ^\p{L}$ ^\p{Lu}$
  ^\p{Script=Greek}+$ ^\p{sc=Grek}$ ^\P{L}$ ^[^\p{L}]$ ^\p{Emoji}$
  ^\p{Emoji_Presentation}$ ^\p{Extended_Pictographic}$ ^\p{ASCII}$ ^\p{Any}$ ^\p{Alphabetic}$ ^\p{Alpha}$
  ^\p{Lowercase}$ ^\p{Upper}$ ^\p{ID_Start}$ ^\p{IDC}$ ^\p{White_Space}$ ^\p{gc=Nd}$
  ^\p{General_Category=Decimal_Number}$ ^\p{Letter}$ ^\p{punct}$ ^\p{Math}$ ^\p{Cased}$ ^a{2}$ ^a{1,}$ ^a{0,2}?b$
  ^(?:a|b){2,3}$ ^(a*)*$ ^(?:a?){3}$ ^(?:a*?b??)+$ (?<x>a)b ^(?<é>a)$ ^(?=a) ^(?!a) (?=ab)a a(?!b) (?<=a)b (?<!a)b
  ^(?=.*\d)(?=.*[a-z]).{2,4}$ ^(?!.*(.)(?:b)).*$ ^(?:(?!ab).)*$ ^(?:(?=[ab]).)+$ (?<=^|,)a (?<!^)b (?<=\d{2})a
  (?<=(?<!b)a)b (?<!a*)b ^(?!(?!a)) (?=\bab) (?!\b)a ^(?!-)[a-z0-9-]{1,4}(?<!-)$ ^(?=(?<=^)a) a(?=b(?<=ab))
  (?:(?<=a)b|c)+$ (?=$) (?!$). ^(?:a(?=b)|b(?=c)|c)*$ ^(?=a*$|b*$) (?<=(?:ab)+)c ^(?!.*\.\.)(?!\.)[a-z.]+$ (?!) (?=)
  (?<=)a ^(?=(?=a)(?!b))a a|b|^c ^a|b$ ^(?:a|^b)$ ^[|]$`.trim().split(/\s+/);
fixed.push("");

// what V8 refuses, and so do we
const wrong = String.raw`( ) (?:a (?<a [a a** a+* + * ? {2} a{2}{3} a{3,2} \1 \k<x> \q \a \A \z \Z \p{Nope} 
  \p{Script=Nope} \p{L \pL \x4 \u41 \u{110000} \u{} [b-a] \c1 [\B] (?i)a
  (?P<x>a) (?>a) (?#a) a++ (?<1>a) (?<>a) \07 \e \h
  \ (?x:a) (?`.split(/\s+/);

let [, , count = "150", seed = "1"] = process.argv;
let state = BigInt(seed) * 0x9e3779b97f4a7c15n & 0xffffffffffffffffn;
function random(n) {
  state ^= state << 13n & 0xffffffffffffffffn;
  state ^= state >> 7n;
  state ^= state << 17n & 0xffffffffffffffffn;
  return Number(state >> 20n) % n;
}
const pick = (...all) => all[random(all.length)];

function expression(depth, behind) {
  const sub = () => expression(depth - 1, behind);
  if (depth === 0 || random(5) === 0) {
    const ends = behind ? [] : ["$", "\\b", "\\B"];
    return pick("a", "b", "c", ".", "[ab]", "[^a]", "^", ...ends, "\\d", "\\w", "1");
  }
  switch (random(9)) {
  case 0: case 1: case 2: return sub() + sub();
  case 3: return `(?:${sub()}|${sub()})`;
  case 4: return `(?:${sub()})${pick("*", "+", "?", "*?", "+?")}`;
  case 5: return `(?:${sub()}){${random(2)},${1 + random(2)}}`;
  case 6: return behind ? sub() : `(?${pick("=", "!")}${sub()})`;
  case 7: return `(?<${pick("=", "!")}${expression(depth - 1, true)})`;
  default: return sub() + sub() + sub();
  }
}

const texts = ["", "a", "b", "ab", "ba", "abc", "aab", "a,a", "bc", "cab", "a1", "12a", "1", "-", "a-", "a-b", "a.b",
  "a..b", ".a", "aaaa", "abab", "ababc", "é", "É", "α", "Ω", "😀", "😂", "©", "\n", "\t\n\v\f\r",
  "\b", "\0", "\u2028", "\ufeff",
  "\u00a0", "]", "^", "|", "/", "_", "A", "ǅ", "〆", "०", "॥", "٣", "ª",
  "\u0301", "+", "\u180e", "\u{10ffff}", "b1", "aa", "bb", "ca", "a b", "c"];
// V8 begins to match within a surrogate pair too; ECMA-262 does not (section 22.2.7.2, AdvanceStringIndex).
function matches(sticky, text) {
  for (let at = 0; at <= text.length; at += text.codePointAt(at) > 0xffff ? 2 : 1) {
    sticky.lastIndex = at;
    if (sticky.test(text)) return true;
  }
  return false;
}
const of = (source) => {
  let r;
  try { r = new RegExp(source, "uy"); } catch { return [source, ""]; }
  return [source, texts.map((t) => matches(r, t) ? "1" : "0").join("")];
};
const all = [...fixed, ...wrong].map(of);
for (let i = 0; i < Number(count); i++) all.push(of(expression(4, false)));
console.log(`{"texts": ${JSON.stringify(texts)}, "patterns": [\n${all.map((p) => JSON.stringify(p)).join(",\n")}\n]}`);
