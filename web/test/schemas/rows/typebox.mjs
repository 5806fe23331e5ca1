/** Types of TypeBox, each with values that it takes and with others: [name, type, values, others, options]. */
import { Type } from "@sinclair/typebox";
import { Value } from "@sinclair/typebox/value";

const Point = Type.Object({ x: Type.Number(), y: Type.Number() });
const Named = Type.Object({ name: Type.String({ minLength: 1 }) });

const Tree = Type.Recursive((This) => Type.Object({ v: Type.Integer(), kids: Type.Array(This) }));

const Shapes = Type.Module({
  Circle: Type.Object({ kind: Type.Literal("circle"), at: Type.Ref("Spot") }),
  Spot: Type.Object({ x: Type.Integer(), then: Type.Optional(Type.Ref("Circle")) }),
});

export const rows = [
  ["Any", Type.Any(), [1, {}], []],
  ["Unknown", Type.Unknown(), ["a"], []],
  ["String", Type.String({ minLength: 2, maxLength: 3 }), ["ab"], ["a"]],
  ["String, pattern", Type.String({ pattern: "^[a-z]+$" }), ["ab"], ["A"]],
  ["Number", Type.Number({ exclusiveMinimum: 0, maximum: 5 }), [0.5, 5], [0, 6]],
  ["Integer", Type.Integer({ minimum: 1, multipleOf: 3 }), [3], [1, 4.5]],
  ["Boolean", Type.Boolean(), [true], [1]],
  ["Null", Type.Null(), [null], [0]],
  ["Literal", Type.Literal("a"), ["a"], ["b"]],
  ["Const", Type.Const({ a: 1, b: ["x"] }), [{ a: 1, b: ["x"] }], [{ a: 2, b: ["x"] }]],
  ["Enum", Type.Enum({ A: "a", B: 2 }), ["a", 2], ["A"]],
  ["Union", Type.Union([Type.String(), Type.Integer(), Type.Null()]), ["a", 1, null], [1.5]],
  ["Union of literals", Type.Union([Type.Literal("a"), Type.Literal(2)]), ["a", 2], ["b"]],
  ["Array", Type.Array(Type.Integer(), { minItems: 1, maxItems: 2 }), [[1]], [[], [1, 2, 3], ["a"]]],
  ["Array, contains", CONTAINS(), [["a", 1]], [["a"], [1, 1, 1]]],
  ["Array, unique", UNIQUE(Type.String()), [["a", "b"]], [["a", 1]], { unchecked: ["uniqueItems"] }],
  ["Array, unique of few", UNIQUE(Type.Union([Type.Literal("a"), Type.Literal("b")])), [["b", "a"]], [["a", "a"]]],
  ["Tuple", Type.Tuple([Type.String(), Type.Integer()]), [["a", 1]], [["a"], ["a", 1, 2]]],
  ["Object", Point, [{ x: 1, y: 2.5 }], [{ x: 1 }, { x: 1, y: "a" }]],
  [
    "Object, closed",
    Type.Object({ a: Type.String() }, { additionalProperties: false }),
    [{ a: "" }],
    [{ a: "", b: 1 }],
  ],
  [
    "Object, others",
    Type.Object({ a: Type.String() }, { additionalProperties: Type.Integer() }),
    [{ a: "", b: 1 }],
    [{ a: 1 }],
  ],
  ["Object, counted", Type.Object({ a: Type.Optional(Type.Integer()) }, { minProperties: 1 }), [{ a: 1 }], [{}]],
  ["Optional", Type.Object({ a: Type.Optional(Type.String()), b: Type.Null() }), [{ b: null }], [{ a: 1, b: null }]],
  ["Readonly", Type.Object({ a: Type.Readonly(Type.String()) }), [{ a: "" }], [{}]],
  ["Partial", Type.Partial(Point), [{}, { y: 1 }], [{ x: "a" }]],
  ["Required", Type.Required(Type.Partial(Point)), [{ x: 1, y: 1 }], [{ x: 1 }]],
  ["Pick", Type.Pick(Point, ["x"]), [{ x: 1 }], [{}]],
  ["Omit", Type.Omit(Point, ["x"]), [{ y: 1 }], [{}]],
  ["KeyOf", Type.KeyOf(Point), ["x"], ["z"]],
  ["Index", Type.Index(Named, ["name"]), ["a"], [""]],
  ["Composite", Type.Composite([Point, Named]), [{ x: 1, y: 2, name: "a" }], [{ x: 1, y: 2 }]],
  ["Intersect", Type.Intersect([Point, Named]), [{ x: 1, y: 2, name: "a" }], [{ x: 1, y: 2, name: "" }]],
  ["Intersect, closed", CLOSED(), [{ x: 1, y: 2, name: "a" }], [{ x: 1, y: 2, name: "a", z: 1 }]],
  ["Extract", Type.Extract(Type.Union([Type.String(), Type.Integer()]), Type.Integer()), [1], ["a"]],
  ["Exclude", Type.Exclude(Type.Union([Type.String(), Type.Integer()]), Type.Integer()), ["a"], [1]],
  ["Mapped", Type.Mapped(Type.KeyOf(Point), () => Type.String()), [{ x: "a", y: "b" }], [{ x: "a" }]],
  ["Not", Type.Not(Type.String()), [1, null], ["a"]],
  [
    "Not of a union",
    Type.Object({ a: Type.Not(Type.Union([Type.Null(), Type.Integer()])) }),
    [{ a: 1.5 }],
    [{ a: null }],
  ],
  ["Never", Type.Object({ a: Type.Optional(Type.Never()) }), [{}], [{ a: 1 }]],
  ["Record", Type.Record(Type.String(), Type.Integer()), [{ a: 1 }], [{ a: "x" }]],
  ["Record of a pattern", Type.Record(Type.String({ pattern: "^x" }), Type.Integer()), [{ xa: 1 }], [{ xa: "a" }]],
  ["Record of numbers", Type.Record(Type.Integer(), Type.String()), [{ 12: "a" }], [{ 12: 1 }]],
  [
    "Record of literals",
    Type.Record(Type.Union([Type.Literal("a"), Type.Literal("b")]), Type.Null()),
    [{ a: null, b: null }],
    [{}],
  ],
  ["TemplateLiteral", Type.TemplateLiteral("v${1|2}-${string}"), ["v1-x"], ["v3-x"]],
  ["Capitalize", Type.Capitalize(Type.Literal("abc")), ["Abc"], ["abc"]],
  ["Recursive", Tree, [{ v: 1, kids: [{ v: 2, kids: [] }] }], [{ v: 1, kids: [{ v: 2 }] }]],
  ["Module", Shapes.Import("Circle"), [{ kind: "circle", at: { x: 1 } }], [{ kind: "circle", at: { x: "a" } }]],
  ["Unsafe", Type.Unsafe({ type: ["string", "null"] }), ["a", null], [1]],
  ["Unsafe, OpenAPI", Type.Unsafe({ type: "string", nullable: true, enum: ["a", null] }), ["a", null], ["b"]],
  ["described", Type.String({ title: "T", description: "d", default: "", examples: ["x"], $id: "t" }), ["a"], [1]],
];

function CONTAINS() {
  return Type.Array(Type.Any(), { contains: Type.Integer(), minContains: 1, maxContains: 2 });
}

function UNIQUE(items) {
  return Type.Array(items, { uniqueItems: true });
}

function CLOSED() {
  return Type.Intersect([Point, Named], { unevaluatedProperties: false });
}

export const schemaOf = (type) => JSON.parse(JSON.stringify(type));

/** Whether a type takes a value; undefined for types without a check. */
export function accepts(type, value) {
  try {
    return Value.Check(type, value);
  } catch {
    return undefined;
  }
}
