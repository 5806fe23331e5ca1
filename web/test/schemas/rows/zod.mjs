/**
 * Types of zod, each with values that it takes and with others: [name, type, values, others, options]. Options of a
 * row: io: "input", else the schema is of what it makes; made: the values are what it makes, and not what it takes;
 * targets: those that it is for; open: read with json_open only; refused: how the error says that it is.
 */
import { z } from "zod";

const UUID = (version) => `0190163d-8694-${version}39b-8b23-2e8a3f3c1d5e`;

/** Strings with a format or a check. */
const strings = [
  ["string", z.string(), ["", "é😀"], [1]],
  ["min, max", z.string().min(2).max(3), ["ab", "a😀b".slice(0, 3)], ["a", "abcd"]],
  ["length", z.string().length(2), ["ab"], ["a"]],
  ["nonempty", z.string().nonempty(), ["a"], [""]],
  ["regex", z.string().regex(/^[a-z]+\d?$/), ["ab1"], ["1ab"]],
  ["two regexes", z.string().regex(/a/).regex(/b/).max(9), ["xbay"], ["aaa"]],
  ["startsWith", z.string().startsWith("a.b"), ["a.bc"], ["axb"]],
  ["endsWith", z.string().endsWith(".ts"), ["x.ts"], ["x.tsx"]],
  ["startsWith, endsWith, min", z.string().startsWith("a").endsWith("b").min(3), ["aab"], ["ab"]],
  ["includes", z.string().includes("m?"), ["am?b"], ["am"]],
  ["includes from", z.string().includes("m", { position: 2 }), ["abm"], ["amb"]],
  ["lowercase", z.string().lowercase(), ["ab1é"], ["aB"]],
  ["uppercase", z.string().uppercase(), ["AB1"], ["aB"]],
  ["trim, toLowerCase", z.string().trim().toLowerCase(), ["a"], [1]],
  ["email", z.email(), ["first.last+x@example.co"], ["a@b", "a b@example.com"]],
  ["email of HTML", z.email({ pattern: z.regexes.html5Email }), ["a@b.example"], ["a@"]],
  ["email of RFC 5322", z.email({ pattern: z.regexes.rfc5322Email }), ["a@b.example"], ["a.b.example"]],
  // The pattern counts up to 64 and to 255, and the format of the same parts too.
  ["email of any letters", z.email({ pattern: z.regexes.unicodeEmail }), ["a@b.example"], ["a b@c.example"]],
  ["guid", z.guid(), ["00000000-0000-0000-9000-000000000001"], ["x"]],
  ["uuid", z.uuid(), [UUID(4), "00000000-0000-0000-0000-000000000000"], [UUID(9)]],
  ["uuidv4", z.uuidv4(), [UUID(4)], [UUID(7)]],
  ["uuidv6", z.uuidv6(), [UUID(6)], [UUID(4)]],
  ["uuidv7", z.uuidv7(), [UUID(7)], [UUID(6)]],
  ["url", z.url(), ["https://example.com/a?b=c#d"], ["example"]],
  ["httpUrl", z.httpUrl(), ["https://example.com"], ["no url"]],
  ["emoji", z.emoji(), ["😀", "👍🏽"], ["a", ""]],
  ["nanoid", z.nanoid(), ["V1StGXR8_Z5jdHi6B-myT"], ["V1StGXR8"]],
  ["cuid", z.cuid(), ["cjld2cjxh0000qzrmn831i7rn"], ["x"]],
  ["cuid2", z.cuid2(), ["tz4a98xxat96iws9zmbrgj3a"], ["A-"]],
  ["ulid", z.ulid(), ["01ARZ3NDEKTSV4RRFFQ69G5FAV"], ["01ARZ3NDEKTSV4RRFFQ69G5FAU"]],
  ["xid", z.xid(), ["9m4e2mr0ui3e8a215n4g"], ["9m4e2mr0ui3e8a215n4z"]],
  ["ksuid", z.ksuid(), ["0ujtsYcgvSTl8PAuAdqWYSMnLOv"], ["0ujtsYcg"]],
  ["ipv4", z.ipv4(), ["192.168.0.255"], ["192.168.0.256"]],
  ["ipv6", z.ipv6(), ["2001:db8::8a2e:370:7334", "::1"], ["2001:db8::8a2e::7334"]],
  ["cidrv4", z.cidrv4(), ["10.0.0.0/8"], ["10.0.0.0/33"]],
  ["cidrv6", z.cidrv6(), ["2001:db8::/32"], ["2001:db8::/129"]],
  ["mac", z.mac(), ["00:1A:2B:3C:4D:5E"], ["00-1A-2B-3C-4D-5E"]],
  ["mac with -", z.mac({ delimiter: "-" }), ["00-1A-2B-3C-4D-5E"], ["00:1A:2B:3C:4D:5E"]],
  ["base64", z.base64(), ["aGVsbG8=", ""], ["aGVsbG8"]],
  ["base64url", z.base64url(), ["aGVsbG8", "a-_b"], ["a+/b"]],
  ["jwt", z.jwt(), ["eyJhbGciOiJIUzI1NiIsInR5cCI6IkpXVCJ9.eyJzdWIiOiIxIn0.c2ln"], [1]], // zod gives it no pattern
  ["e164", z.e164(), ["+14155552671"], ["014155552671"]],
  ["credit card", z.creditCard(), ["4111 1111 1111 1111"], ["4111-x"]],
  ["iban", z.iban(), ["DE89370400440532013000"], ["DE00"]],
  ["hostname", z.hostname(), ["example.com"], ["-example"]],
  ["hex", z.hex(), ["0aF"], ["xyz"]],
  ["currency code", z.currencyCode(), ["EUR"], ["EUX"]],
  ["hash, hex", z.hash("sha256"), ["0f".repeat(32)], ["0f".repeat(31)]],
  ["hash, base64", z.hash("md5", { enc: "base64" }), ["1B2M2Y8AsgTpgAmy7PhCfg=="], ["1B2M2Y8AsgTpgAmy7PhCfg"]],
  ["hash, base64url", z.hash("sha1", { enc: "base64url" }), ["2jmj7l5rSw0yVb_vlWAYkK_YBwk"], ["2jmj7l5rSw0"]],
  ["iso.date", z.iso.date(), ["2024-02-29"], ["2023-02-29"]],
  ["iso.time", z.iso.time(), ["12:30", "12:30:15.25"], ["25:00"]],
  ["iso.time of seconds", z.iso.time({ precision: 0 }), ["12:30:15"], ["12:30"]],
  ["iso.datetime", z.iso.datetime(), ["2024-02-29T12:30:15.5Z"], ["2024-02-29T12:30:15+01:00"]],
  ["iso.datetime, offset", z.iso.datetime({ offset: true }), ["2024-02-29T12:30:15+01:00"], ["2024-02-30T12:30:15Z"]],
  ["iso.datetime, local", z.iso.datetime({ local: true }), ["2024-02-29T12:30"], ["2024-02-29"]],
  [
    "iso.datetime, milliseconds",
    z.iso.datetime({ precision: 3 }),
    ["2024-02-29T12:30:15.123Z"],
    ["2024-02-29T12:30:15Z"],
  ],
  ["iso.duration", z.iso.duration(), ["P3Y6M4DT12H30M5S", "P2W"], ["P", "3Y"]],
  ["stringFormat", z.stringFormat("code", /^[A-Z]{2}$/), ["AB"], ["ABC"]],
  [
    "templateLiteral",
    z.templateLiteral(["v", z.int(), "-", z.enum(["a", "b"]), z.string().max(2)]),
    ["v1-axy"],
    ["v-a"],
  ],
  ["stringbool", z.stringbool(), ["true"], [true], { io: "input" }],
  ["json", z.json(), [{ a: [1, "x", null, { b: true }] }], []],
];

const numbers = [
  ["number", z.number(), [1.5, -3, 1e10], ["1"]],
  ["int", z.int(), [9007199254740991, -5], [1.5]],
  ["safe int of number", z.number().int(), [3], [3.5]],
  ["int32", z.int32(), [-2147483648], [2147483648]],
  ["uint32", z.uint32(), [4294967295], [-1, 4294967296]],
  ["float32", z.float32(), [1.5], ["a"]],
  ["float64", z.float64(), [-1.5], [null]],
  ["gt, lte", z.number().gt(3).lte(9.5), [3.5, 9.5], [3, 10]],
  ["positive", z.number().positive(), [0.25], [0]],
  ["nonnegative int", z.int().nonnegative(), [0], [-1]],
  ["negative", z.number().negative(), [-1], [0]],
  ["multipleOf", z.number().multipleOf(0.25).max(3), [0.75], [0.8]],
  ["two multipleOf", z.int().multipleOf(2).multipleOf(3), [6], [4]],
  ["multipleOf, bounds", z.int().multipleOf(5).gt(10).lt(20), [15], [10, 12, 20]],
];

const rest = [
  ["boolean", z.boolean(), [true], ["true"]],
  ["null", z.null(), [null], [0]],
  ["any", z.any(), [1, { a: [] }], []],
  ["unknown", z.unknown(), ["a"], []],
  ["object that never has a property", z.object({ a: z.never().optional(), b: z.int() }), [{ b: 1 }], [{ a: 1, b: 1 }]],
  ["literal", z.literal("tuna"), ["tuna"], ["cod"]],
  ["literals", z.literal(["a", 1, null, true]), ["a", 1, null, true], [2, "b", false]],
  ["enum", z.enum(["red", "green"]), ["red"], ["blue"]],
  ["nativeEnum", z.nativeEnum({ A: 0, B: "x", 0: "A" }), [0, "x"], ["A", 1]],
  ["enum of numbers", z.enum({ One: 1, Two: 2 }), [1], [3]],
  ["keyof", z.keyof(z.object({ a: z.string(), b: z.int() })), ["b"], ["c"]],
  ["optional", z.object({ a: z.string().optional(), b: z.int() }), [{ b: 1 }, { a: "", b: 1 }], [{ a: "" }]],
  ["exactOptional", z.object({ a: z.exactOptional(z.string()) }), [{}, { a: "x" }], [{ a: 1 }]],
  ["nonoptional", z.object({ a: z.nonoptional(z.string().optional()) }), [{ a: "x" }], [{}]],
  ["nullable", z.nullable(z.int()), [null, 4], ["a"]],
  ["nullable enum", z.enum(["a", "b"]).nullable(), [null, "a"], ["c"]],
  ["nullable object", z.object({ a: z.int() }).nullable(), [null, { a: 1 }], [{ a: null }]],
  ["nullish", z.object({ a: z.string().nullish() }), [{}, { a: null }, { a: "x" }], [{ a: 1 }]],
  ["default", z.object({ a: z.number().default(3), b: z.int() }), [{ a: 4, b: 1 }], [{ a: 4 }]],
  ["default, input", z.object({ a: z.number().default(3) }), [{}, { a: 1 }], [{ a: "x" }], { io: "input" }],
  ["prefault", z.object({ a: z.prefault(z.int(), 3) }), [{}, { a: 1 }], [{ a: "x" }], { io: "input" }],
  ["catch", z.object({ a: z.int(), b: z.string().catch("x") }), [{ a: 1, b: "y" }], [{ b: "y" }]],
  ["success", z.object({ a: z.success(z.string()) }), [{ a: true }], [{ a: "x" }], { made: true }],
  ["readonly", z.readonly(z.object({ a: z.int() })), [{ a: 1 }], [{}]],
  ["brand", z.string().brand("Id").min(1), ["x"], [""]],
  ["pipe", z.string().pipe(z.string().min(2)), ["ab"], ["a"]],
  ["transform, input", z.string().transform((text) => text.length), ["abc"], [3], { io: "input" }],
  ["preprocess", z.preprocess((value) => value, z.int()), [3], ["a"]],
  ["codec, input", z.codec(z.iso.datetime(), z.date(), CODEC()), ["2024-02-29T12:30:15Z"], ["x"], { io: "input" }],
  ["lazy", z.lazy(() => z.object({ a: z.string() })), [{ a: "" }], [{ a: 1 }]],
  ["promise", z.promise(z.int()), [], ["a"]],
  ["file", z.file(), [], [1]],
  ["array", z.array(z.int()), [[], [1, 2]], [["a"]]],
  ["array, min, max", z.array(z.string()).min(1).max(2), [["a"]], [[], ["a", "b", "c"]]],
  ["tuple", z.tuple([z.string(), z.int()]), [["a", 1]], [["a"], ["a", "b"]], TUPLES()],
  ["tuple with a rest", z.tuple([z.string(), z.int()], z.boolean()), [["a", 1, true, false]], [["a", 1, 2]], TUPLES()],
  ["tuple with an optional end", z.tuple([z.string(), z.int().optional()]), [["a"], ["a", 1]], [["a", "b"]], TUPLES()],
  ["object", z.object({ a: z.string(), b: z.object({ c: z.int() }) }), [{ a: "x", b: { c: 1 } }], [{ a: "x", b: {} }]],
  ["strictObject", z.strictObject({ a: z.string() }), [{ a: "x" }], [{ a: "x", b: 1 }]],
  ["looseObject", z.looseObject({ a: z.string() }), [{ a: "x", b: 1 }], [{ b: 1 }]],
  ["catchall", z.object({ a: z.string() }).catchall(z.int()), [{ a: "x", b: 1 }], [{ a: "x", b: "y" }]],
  ["record", z.record(z.string(), z.int()), [{ x: 1, y: 2 }], [{ x: "a" }]],
  [
    "record of a pattern",
    z.record(z.string().regex(/^[a-c]+$/), z.int()),
    [{ abc: 1 }],
    [{ d: 1 }, { a: "x" }],
    NAMES(),
  ],
  ["record of uuids", z.record(z.uuid(), z.int()), [{ [UUID(4)]: 1 }], [{ x: 1 }], NAMES()],
  ["record of numbers", z.record(z.number(), z.string()), [{ 12: "x" }], [{ a: "x" }], NAMES()],
  ["record of an enum", z.record(z.enum(["a", "b"]), z.int()), [{ a: 1, b: 2 }], [{ a: 1 }]],
  ["partialRecord", z.partialRecord(z.enum(["a", "b"]), z.int()), [{ a: 1 }], [{ a: "x" }]],
  [
    "looseRecord",
    z.looseRecord(z.string().regex(/^x/), z.int()),
    [{ xa: 1, y: "z" }],
    [{ xa: "z" }],
    { ...NAMES(), open: true },
  ],
  ["union", z.union([z.string().max(2), z.int(), z.array(z.int())]), ["ab", 3, [1]], ["abc", 1.5, ["a"]]],
  ["xor", z.xor([z.string(), z.int()]), ["a", 1], [null]],
  ["xor that overlaps", z.xor([z.number().min(1), z.number().max(5)]), [0, 6], [3]],
  [
    "discriminatedUnion",
    UNION(),
    [
      { k: "a", x: 1 },
      { k: "b", y: "z" },
    ],
    [{ k: "a", y: "z" }, { k: "c" }],
  ],
  [
    "intersection",
    z.intersection(z.object({ a: z.string() }), z.object({ b: z.int() })),
    [{ a: "", b: 1 }],
    [{ a: "" }],
  ],
  [
    "intersection of unions",
    z.intersection(UNION(), z.looseObject({ y: z.string() })),
    [{ k: "b", y: "z" }],
    [{ k: "b" }],
  ],
  ["extend, omit, partial", EXTENDED(), [{ b: 1, c: true }, { c: false }], [{ b: 1 }, { b: "x", c: true }]],
  ["recursive", NODE(), [{ v: 1, next: { v: 2, next: null, kids: [] }, kids: [] }], [{ v: 1, next: 3, kids: [] }]],
  [
    "mutually recursive",
    USER(),
    [{ name: "a", posts: [{ title: "t", by: { name: "b", posts: [] } }] }],
    [{ name: "a", posts: [1] }],
  ],
  ["reused by an id", REUSED(), [{ a: "x", b: "y" }], [{ a: "", b: "y" }, { b: "y" }]],
  [
    "described",
    z.object({ a: z.int().describe("a number") }).meta({ title: "T", examples: [{ a: 1 }] }),
    [{ a: 1 }],
    [{}],
  ],
  ["property check", z.looseObject({ a: z.string() }).check(z.property("a", z.string())), [{ a: "x" }], [{ a: 1 }]],
];

function CODEC() {
  return { decode: (text) => new Date(text), encode: (date) => date.toISOString() };
}

/** Draft 4 and OpenAPI 3.0 have no propertyNames, so zod drops what it asks of names there. */
function NAMES() {
  return { targets: ["draft-2020-12", "draft-07"] };
}

/** OpenAPI 3.0 has no tuples. */
function TUPLES() {
  return { targets: ["draft-2020-12", "draft-07", "draft-04"] };
}

function UNION() {
  const [a, b] = [z.object({ k: z.literal("a"), x: z.int() }), z.object({ k: z.literal("b"), y: z.string() })];
  return z.discriminatedUnion("k", [a, b]);
}

function EXTENDED() {
  const base = z.object({ a: z.string(), b: z.int() });
  return base.omit({ a: true }).partial().extend({ c: z.boolean() });
}

function NODE() {
  const node = z.object({
    v: z.number(),
    get next() {
      return z.nullable(node);
    },
    get kids() {
      return z.array(node);
    },
  });
  return node;
}

function USER() {
  const user = z.object({
    name: z.string(),
    get posts() {
      return z.array(post);
    },
  });
  const post = z.object({
    title: z.string(),
    get by() {
      return user.optional();
    },
  });
  return user;
}

function REUSED() {
  const name = z.string().min(1).meta({ id: "Name", title: "Name", deprecated: true });
  return z.object({ a: name, b: name.describe("another"), c: name.optional() });
}

export const rows = [...strings, ...numbers, ...rest];

export const targets = ["draft-2020-12", "draft-07", "draft-04", "openapi-3.0"];

/** The classes of zod that JSON Schema lacks: toJSONSchema throws, or knows of no schema of them. */
export const unrepresentable = [
  ...[
    "BigInt",
    "BigIntFormat",
    "Date",
    "Function",
    "Map",
    "NaN",
    "Set",
    "Symbol",
    "Undefined",
    "Void",
    "Custom",
    "Transform",
  ],
  // checks of those, of files and of values that JSON lacks, and what no instance has
  ...["CheckBigIntFormat", "CheckMaxSize", "CheckMinSize", "CheckSizeEquals", "CheckMimeType", "CheckProperties"],
  ...["AsyncError", "CyclicError", "EncodeError", "Error", "RealError", "Registry"],
];

/** The schema of a type, and the classes of zod that it is made of. */
export function schemaOf(type, target, { io = "output" } = {}) {
  const classes = new Set();
  const override = ({ zodSchema }) => {
    for (const one of [zodSchema, ...(zodSchema._zod.def.checks ?? [])])
      for (const name of one._zod.traits) classes.add(name);
  };
  const schema = z.toJSONSchema(type, { target, io, override });
  return { schema: JSON.parse(JSON.stringify(schema)), classes };
}

/** The names of all classes of zod. */
export const classes = Object.keys(z.core).filter((name) => /^\$Zod/.test(name) && typeof z.core[name] === "function");

export const accepts = async (type, value) => (await type.safeParseAsync(value)).success;
