/**
 * Schemas as pydantic 2 and documents of OpenAPI 3.0 and 3.1 spell them, each with values that pass it and others that
 * do not: [name, schema, values, others, options].
 */
const text = { type: "string" };
const whole = { type: "integer" };

const Address = {
  description: "Where someone lives.",
  properties: { city: { title: "City", type: "string" }, zip: { pattern: "^\\d{5}$", title: "Zip", type: "string" } },
  required: ["city", "zip"],
  title: "Address",
  type: "object",
};
const home = { city: "Graz", zip: "08010" };

const kind = (name, more) => ({
  properties: { kind: { const: name, default: name, title: "Kind", type: "string" }, ...more },
  required: ["kind", ...Object.keys(more)],
  title: name,
  type: "object",
});
const pets = { Cat: kind("cat", { lives: whole }), Dog: kind("dog", { name: text }) };

const DECIMAL = "^(?!^[-+.]*$)[+-]?0*\\d*\\.?\\d*$";

/** A model with one field, as pydantic writes it. */
function model(field, $defs) {
  const properties = { a: { title: "A", ...field } };
  const required = "default" in field ? [] : ["a"];
  return {
    ...($defs ? { $defs } : {}),
    properties,
    ...(required.length ? { required } : {}),
    title: "M",
    type: "object",
  };
}

/** Rows of a model's field: what may stand there, and what may not. */
const field = (name, schema, yes, no, options) => {
  const { $defs, ...rest } = schema;
  const of = (value) => ({ a: value });
  return [name, model(rest, $defs), yes.map(of), no.map(of), options];
};

export const pydantic = [
  field("Optional", { anyOf: [whole, { type: "null" }], default: null }, [1, null], ["a"]),
  field("a default that is left out", { default: 3, type: "integer" }, [1], ["a"]),
  field("a union", { anyOf: [whole, text, { items: whole, type: "array" }] }, [1, "a", [2]], [1.5, ["a"]]),
  field("a model", { $defs: { Address }, $ref: "#/$defs/Address" }, [home], [{ city: "Graz" }]),
  field("a model or None", ORNULL(), [home, null], [{}]),
  field("a model with a default", DEFAULTED(), [home], [{ city: "Graz", zip: "x" }]),
  field("a described model", DESCRIBED(), [home], [{ city: 1, zip: "08010" }]),
  field("a list of models", { $defs: { Address }, items: { $ref: "#/$defs/Address" }, type: "array" }, [[home]], [[1]]),
  field(
    "a union told apart",
    TAGGED(),
    [
      { kind: "cat", lives: 9 },
      { kind: "dog", name: "x" },
    ],
    [{ kind: "cat" }],
  ),
  field(
    "Decimal",
    { anyOf: [{ type: "number" }, { pattern: DECIMAL, type: "string" }] },
    [1.5, "1.50", "-3"],
    ["", "-."],
  ),
  field("Decimal, written", { pattern: DECIMAL, type: "string" }, ["+0.5", "12"], [1.5, "a"]),
  field("Literal", { const: "a", type: "string" }, ["a"], ["b"]),
  field("Literals", { enum: ["a", 1, null] }, ["a", 1, null], ["b", 2]),
  field("Enum", ENUM(), ["red"], ["blue"]),
  field(
    "constr",
    { maxLength: 4, minLength: 2, pattern: "^[a-z]+$", type: "string" },
    ["ab", "abcd"],
    ["a", "abcde", "AB"],
  ),
  field("conint", { exclusiveMinimum: 0, maximum: 10, multipleOf: 2, type: "integer" }, [2, 10], [0, 3, 12]),
  field("confloat", { exclusiveMaximum: 1, minimum: 0, type: "number" }, [0, 0.25], [1, -0.5]),
  field("conlist", { items: whole, maxItems: 2, minItems: 1, type: "array" }, [[1]], [[], [1, 2, 3]]),
  field("set", { items: whole, type: "array", uniqueItems: true }, [[1, 2]], [["a"]], { unchecked: ["uniqueItems"] }),
  field(
    "set of few",
    { items: { enum: ["a", "b"], type: "string" }, type: "array", uniqueItems: true },
    [["b", "a"]],
    [["a", "a"]],
  ),
  field(
    "tuple",
    { maxItems: 2, minItems: 2, prefixItems: [whole, text], type: "array" },
    [[1, "a"]],
    [[1], [1, "a", 2]],
  ),
  field("tuple of any length", { items: whole, type: "array" }, [[], [1, 2]], [["a"]]),
  field("dict", { additionalProperties: whole, type: "object" }, [{}, { x: 1 }], [{ x: "a" }]),
  field("dict of anything", { additionalProperties: true, type: "object" }, [{ x: [1] }], [[]]),
  field(
    "dict of a pattern",
    { patternProperties: { "^[a-z]+$": whole }, type: "object" },
    [{ abc: 1 }],
    [{ abc: "x" }],
  ),
  field("dict of literals", LITERALS(), [{ a: 1 }], [{ c: 1 }]),
  field("Any", {}, [1, "a", null, []], []),
  field("datetime", { format: "date-time", type: "string" }, ["2024-02-29T12:30:00Z"], ["2024-02-30T12:30:00Z"]),
  field("date", { format: "date", type: "string" }, ["2024-02-29"], ["29.2.2024"]),
  field("time", { format: "time", type: "string" }, ["12:30:00Z"], ["noon"]),
  field("timedelta", { format: "duration", type: "string" }, ["P1DT2H"], ["1 day"]),
  field("UUID4", { format: "uuid4", type: "string" }, ["123e4567-e89b-42d3-a456-426614174000"], [1]),
  field("UUID", { format: "uuid", type: "string" }, ["123e4567-e89b-12d3-a456-426614174000"], ["123e4567"]),
  field("Path", { format: "path", type: "string" }, ["/tmp/x"], [1]),
  field("bytes", { format: "binary", type: "string" }, ["abc"], [1]),
  field("AnyUrl", { format: "uri", minLength: 1, type: "string" }, ["https://example.com"], [""]),
  field(
    "HttpUrl",
    { format: "uri", maxLength: 2083, minLength: 1, type: "string" },
    ["https://example.com/a"],
    ["a b"],
  ),
  field("EmailStr", { format: "email", type: "string" }, ["a@b.example"], ["a"]),
  field("IPv4Address", { format: "ipv4", type: "string" }, ["10.0.0.1"], ["10.0.0"]),
  field("IPvAnyAddress", { format: "ipvanyaddress", type: "string" }, ["10.0.0.1"], [1]),
  field("SecretStr", { format: "password", type: "string", writeOnly: true }, ["x"], [1]),
  field("Json", { contentMediaType: "application/json", contentSchema: whole, type: "string" }, ["1"], [1]),
  field("Pattern", { format: "regex", type: "string" }, ["^a+$"], ["("]),
  field("a computed field", { deprecated: true, examples: [1], readOnly: true, type: "integer" }, [1], ["a"]),
  ["a list at the root", { items: whole, title: "Numbers", type: "array" }, [[1]], [["a"]]],
  ["extra: forbid", { ...Address, additionalProperties: false }, [home], [{ ...home, x: 1 }]],
  ["extra: allow", { ...Address, additionalProperties: true }, [{ ...home, x: 1 }], [{ x: 1 }]],
  [
    "a recursive model",
    RECURSIVE(),
    [
      { v: 1, next: { v: 2 } },
      { v: 1, next: null },
    ],
    [{ v: 1, next: 2 }],
  ],
  ["a generic model", GENERIC(), [{ box: { value: 1 } }], [{ box: { value: "a" } }]],
];

function ORNULL() {
  return { $defs: { Address }, anyOf: [{ $ref: "#/$defs/Address" }, { type: "null" }], default: null };
}

function DEFAULTED() {
  return { $defs: { Address }, allOf: [{ $ref: "#/$defs/Address" }], default: home };
}

function DESCRIBED() {
  return { $defs: { Address }, $ref: "#/$defs/Address", description: "home", default: home };
}

function TAGGED() {
  const mapping = { cat: "#/$defs/Cat", dog: "#/$defs/Dog" };
  return {
    $defs: pets,
    discriminator: { mapping, propertyName: "kind" },
    oneOf: [{ $ref: "#/$defs/Cat" }, { $ref: "#/$defs/Dog" }],
  };
}

function ENUM() {
  return { $defs: { Colour: { enum: ["red", "green"], title: "Colour", type: "string" } }, $ref: "#/$defs/Colour" };
}

function LITERALS() {
  return { additionalProperties: whole, propertyNames: { enum: ["a", "b"] }, type: "object" };
}

function RECURSIVE() {
  const next = { anyOf: [{ $ref: "#/$defs/Node" }, { type: "null" }], default: null };
  const Node = { properties: { v: whole, next }, required: ["v"], title: "Node", type: "object" };
  return { $defs: { Node }, $ref: "#/$defs/Node" };
}

function GENERIC() {
  const Box_int_ = { properties: { value: whole }, required: ["value"], title: "Box[int]", type: "object" };
  return {
    $defs: { Box_int_ },
    properties: { box: { $ref: "#/$defs/Box_int_" } },
    required: ["box"],
    title: "M",
    type: "object",
  };
}

/** A schema within a document, whose others it refers to. */
const among = (schemas, schema) => ({ ...schema, components: { schemas } });

export const openapi = [
  ["3.0: nullable", { type: "string", nullable: true, maxLength: 2 }, ["ab", null], ["abc", 1]],
  ["3.0: nullable: false", { type: "string", nullable: false }, ["a"], [null]],
  ["3.0: nullable enum", { type: "string", nullable: true, enum: ["a", "b", null] }, ["a", null], ["c"]],
  [
    "3.0: nullable object",
    { type: "object", nullable: true, properties: { a: whole } },
    [{ a: 1 }, null],
    [{ a: "x" }, 1],
  ],
  ["3.0: nullable reference", among({ Address }, NULLABLE("Address")), [home, null], [1]],
  ["3.0: exclusiveMinimum: true", { type: "number", minimum: 0, exclusiveMinimum: true }, [0.5], [0]],
  [
    "3.0: int32, int64",
    { type: "object", properties: { a: INTEGER("int32"), b: INTEGER("int64") } },
    [{ a: 1, b: 2 }],
    [{ a: "x" }],
  ],
  ["3.0: float, double", { type: "number", format: "double", example: 1.5 }, [1.5], ["a"]],
  ["3.0: byte, binary, password", { oneOf: [{ type: "string", format: "byte" }, whole] }, ["YQ==", 1], [null]],
  [
    "3.0: readOnly, writeOnly",
    { properties: { id: { ...whole, readOnly: true } }, type: "object" },
    [{ id: 1 }],
    [{ id: "x" }],
  ],
  ["3.0: xml, externalDocs, x-", ANNOTATED(), [{ a: 1 }], [{ a: "x" }]],
  ["3.0: discriminator", among(pets, TOLD()), [{ kind: "dog", name: "x" }], [{ kind: "dog" }, { kind: "cow" }]],
  ["3.0: allOf of a base", among({ Address }, BASED()), [{ ...home, country: "AT" }], [home], { open: true }],
  ["3.0: map", { type: "object", additionalProperties: { type: "array", items: text } }, [{ a: ["x"] }], [{ a: "x" }]],
  ["3.0: free form", { type: "object", additionalProperties: {} }, [{ a: { b: 1 } }], [1]],
  ["3.0: deprecated", { type: "boolean", deprecated: true, default: false, example: true }, [true], ["true"]],
  ["3.1: types", { type: ["string", "null"], maxLength: 1 }, ["a", null], ["ab", 1]],
  [
    "3.1: const and titles",
    {
      oneOf: [
        { const: 1, title: "One" },
        { const: 2, title: "Two" },
      ],
    },
    [1, 2],
    [3],
  ],
  ["3.1: content", { type: "string", contentEncoding: "base64", contentMediaType: "image/png" }, ["YQ=="], [1]],
  ["3.1: examples", { type: "integer", examples: [1, 2], exclusiveMinimum: 0 }, [1], [0]],
  ["3.1: closed composition", CLOSED(), [{ ...home, country: "AT" }], [{ ...home, country: "AT", x: 1 }]],
  ["3.1: a reference with siblings", among({ Address }, SIBLINGS()), [home], [{ city: "Graz" }]],
  ["3.1: a tuple", { type: "array", prefixItems: [whole, text], items: false, minItems: 2 }, [[1, "a"]], [[1, "a", 2]]],
  ["3.1: dialect", DIALECT(), ["a"], [1]],
];

function INTEGER(format) {
  return { type: "integer", format };
}

function NULLABLE(name) {
  return { nullable: true, allOf: [{ $ref: `#/components/schemas/${name}` }] };
}

function ANNOTATED() {
  return {
    type: "object",
    title: "T",
    externalDocs: { url: "https://example.com", description: "more" },
    "x-order": 1,
    properties: { a: { ...whole, xml: { name: "b", attribute: true }, "x-go-type": "int64" } },
    required: ["a"],
  };
}

function TOLD() {
  const mapping = { cat: "#/components/schemas/Cat", dog: "Dog" };
  const oneOf = ["Cat", "Dog"].map((name) => ({ $ref: `#/components/schemas/${name}` }));
  return { oneOf, discriminator: { propertyName: "kind", mapping } };
}

function BASED() {
  const own = { type: "object", properties: { country: { type: "string", minLength: 2 } }, required: ["country"] };
  return { allOf: [{ $ref: "#/components/schemas/Address" }, own] };
}

function CLOSED() {
  return { ...among({ Address }, BASED()), unevaluatedProperties: false };
}

function SIBLINGS() {
  return { $ref: "#/components/schemas/Address", summary: "s", description: "d", maxProperties: 2 };
}

function DIALECT() {
  return { $schema: "https://spec.openapis.org/oas/3.1/dialect/base", type: "string" };
}
