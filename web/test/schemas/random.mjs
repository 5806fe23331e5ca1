/** Random numbers of a seed, and random texts, names and values from small pools, so that keywords often meet. */

/** Draws of the generator mulberry32: the same ones for the same seeds. */
export class Random {
  #state = 0;

  constructor(...seeds) {
    for (const seed of seeds) {
      this.#state = Math.imul(this.#state ^ seed, 0x9e3779b1) + 0x7f4a7c15;
      this.next();
    }
  }

  /** In [0, 1). */
  next() {
    this.#state = (this.#state + 0x6d2b79f5) | 0;
    let x = Math.imul(this.#state ^ (this.#state >>> 15), 1 | this.#state);
    x = (x + Math.imul(x ^ (x >>> 7), 61 | x)) ^ x;
    return ((x ^ (x >>> 14)) >>> 0) / 4294967296;
  }

  below(n) {
    return Math.floor(this.next() * n);
  }

  chance(p) {
    return this.next() < p;
  }

  pick(list) {
    return list[this.below(list.length)];
  }

  /** `n` of the list, none twice; all of them where there are fewer. */
  some(list, n) {
    const rest = [...list];
    const taken = [];
    while (taken.length < n && rest.length > 0) taken.push(...rest.splice(this.below(rest.length), 1));
    return taken;
  }

  shuffle(list) {
    return this.some(list, list.length);
  }
}

/** Names of properties, which patterns match too. */
export const NAMES = ["a", "b", "c", "ab", "ba", "abc", "x1", "2", "é", "😀", "a b"];

const TEXTS = [
  ...["", ...NAMES, "aa", "aab", "bbb", "cab", "12", "007", "x😀y", "ÀB"],
  ...["line\nfeed", 'say "a"', "back\\slash"],
];

const NUMBERS = [
  ...[0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 12, 15, 20, 100, -1, -2, -3, -4, -10, -100],
  ...[0.5, 1.5, 2.5, -0.5, -1.5, 0.1, 0.3, 0.25, 0.01, 3.14, -2.75, 99.99],
  ...[1000, 65536, 1000000, 4294967296, 9007199254740991, -9007199254740991],
];

/** Expressions with strings that they match. */
const PATTERNS = {
  "^a": ["a", "ab", "a b"],
  b$: ["b", "ab", "aab"],
  "^[ab]*$": ["", "a", "abba"],
  "a|b": ["a", "cab"],
  "^.{1,3}$": ["a", "😀", "é12"],
  "^\\d+$": ["2", "007", "12345"],
  "\\w": ["x1", "_"],
  "^[^a]": ["b", "é", "\n"],
  "^(a|bc)+$": ["a", "abc", "bcbc"],
  "\\p{L}": ["é", "ÀB", "2x"],
  "^\\S*$": ["", "x😀y"],
  "^x\\d?$": ["x", "x1"],
  "😀": ["😀", "x😀y"],
};

/** Strings of each format, on which ajv-formats and the format's standard agree, and one that neither takes. */
export const FORMATS = {
  date: ["2024-02-29", "1999-12-31", "2023-02-29"],
  time: ["12:30:00Z", "23:59:59.25+01:00", "24:00:00Z"],
  "date-time": ["2024-02-29T12:30:00Z", "1999-12-31T23:59:59.5-05:00", "2024-02-30T00:00:00Z"],
  duration: ["P1D", "PT1H30M", "P1Y2M", "1D"],
  uuid: ["123e4567-e89b-12d3-a456-426614174000", "123e4567e89b12d3a456426614174000"],
  ipv4: ["127.0.0.1", "10.20.30.255", "1.2.3.256"],
  ipv6: ["::1", "2001:db8::ff00:42:8329", "fe80:::1"],
  hostname: ["example.com", "a-b.c1", "-a.com"],
  email: ["a@b.example", "first.last@example.com", "a.b.example"],
  uri: ["https://example.com/a?b=c#d", "urn:isbn:1", "/a/b"],
  "json-pointer": ["", "/a/0", "/x~1y", "/~2"],
  unknown: ["a", "anything"],
};

/** Quantifiers, and how often a sample repeats what stands before them. */
const ONCE = Array.from({ length: 5 }, () => ["", 1, 1]);
const BOUNDED = [
  ["?", 0, 1],
  ["{2}", 2, 2],
  ["{1,3}", 1, 3],
];
const ENDLESS = [
  ["*", 0, 3],
  ["+", 1, 3],
  ["+?", 1, 2],
  ["{2,}", 2, 4],
];

/** What draws schemas and their values share: the expressions that were made up, with strings that they match. */
export class Pools {
  #random;
  #samples = new Map(Object.entries(PATTERNS));

  constructor(random) {
    this.#random = random;
  }

  /** Strings that the expression matches: most of them, since lookaheads and anchors are not heeded. */
  samples(pattern) {
    return this.#samples.get(pattern) ?? [];
  }

  name() {
    return this.#random.pick(NAMES);
  }

  text() {
    const random = this.#random;
    if (random.chance(0.9)) return random.pick(TEXTS);
    return random.pick(FORMATS[random.pick(Object.keys(FORMATS))]);
  }

  number() {
    return this.#random.pick(NUMBERS);
  }

  scalar() {
    const random = this.#random;
    if (random.chance(0.2)) return random.pick([null, true, false]);
    return random.chance(0.5) ? this.text() : this.number();
  }

  /** Any value. */
  value(depth = 2) {
    const random = this.#random;
    if (depth === 0 || random.chance(0.45)) return this.scalar();
    if (random.chance(0.45)) return Array.from({ length: random.below(4) }, () => this.value(depth - 1));
    return Object.fromEntries(random.some(NAMES, random.below(4)).map((name) => [name, this.value(depth - 1)]));
  }

  pattern() {
    if (this.#random.chance(0.6)) return this.#random.pick(Object.keys(PATTERNS));
    const { source, sample } = this.#alternatives(2);
    const [start, end] = [this.#random.chance(0.5) ? "^" : "", this.#random.chance(0.5) ? "$" : ""];
    const ahead = this.#random.chance(0.05) ? `(?${this.#random.pick("=!")}${this.#atom(0).source})` : "";
    const pattern = `${start}${ahead}${source.includes("|") ? `(?:${source})` : source}${end}`;
    this.#samples.set(pattern, [sample(), sample(), sample()]);
    return pattern;
  }

  #alternatives(depth) {
    const all = Array.from({ length: this.#random.chance(0.25) ? 2 : 1 }, () => this.#sequence(depth));
    return { source: all.map((one) => one.source).join("|"), sample: () => this.#random.pick(all).sample() };
  }

  #sequence(depth) {
    const all = Array.from({ length: 1 + this.#random.below(3) }, () => this.#repeated(depth));
    return { source: all.map((one) => one.source).join(""), sample: () => all.map((one) => one.sample()).join("") };
  }

  #repeated(depth) {
    const atom = this.#atom(depth);
    // A repetition without end of another takes JavaScript exponential time.
    const endless = /[*+]|,}/.test(atom.source);
    const [sign, least, most] = this.#random.pick([...ONCE, ...BOUNDED, ...(endless ? [] : ENDLESS)]);
    const times = () => least + this.#random.below(most - least + 1);
    return { source: atom.source + sign, sample: () => Array.from({ length: times() }, atom.sample).join("") };
  }

  #atom(depth) {
    if (depth > 0 && this.#random.chance(0.2)) {
      const inside = this.#alternatives(depth - 1);
      return { source: `${this.#random.pick(["(", "(?:"])}${inside.source})`, sample: inside.sample };
    }
    const [source, ...chars] = this.#random.pick([
      ...["a", "b", "c", "x", "1", "é", "😀", "-", " "].map((char) => [char, char]),
      ["[ab]", "a", "b"],
      ["[^a]", "b", "é", "😀"],
      ["[a-c1]", "a", "b", "c", "1"],
      ["\\d", "0", "7"],
      ["\\w", "a", "_", "2"],
      ["\\s", " ", "\n"],
      ["\\D", "a", "😀"],
      [".", "a", "é", "😀"],
      ["\\u{e9}", "é"],
      ["\\/", "/"],
    ]);
    return { source, sample: () => this.#random.pick(chars) };
  }
}
