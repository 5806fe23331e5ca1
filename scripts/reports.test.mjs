/** Pages that disagree with their reports are found, whatever it is that they disagree on. */
import assert from "node:assert/strict";
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import os from "node:os";
import path from "node:path";
import { afterEach, beforeEach, test } from "node:test";
import { commented, differences, stated } from "./attacks.mjs";
import { verdict } from "./report-columns.mjs";
import { pages, reported, withoutMarks } from "./reports.mjs";

const measure = (mean) => ({ mean, sd: 0, n: 2 });
const row = (method, speedup, tokens) => ({
  method,
  category: "",
  prompts: 20,
  speedup: measure(speedup),
  acceptance_length: measure(2),
  calls: measure(10),
  tokens: measure(tokens),
});
const REPORT = {
  command: "foretoken bench --json {}",
  machine: "2 × processor",
  cores: 2,
  load: 1,
  date: "2026-11-23",
  commit: "abc1234",
  data: {
    device: "native, adapter",
    target: "big",
    draft: "small",
    note: "20 prompts",
    rows: [row("auto", 1.654, 30), { ...row("auto", 2, 10), category: "table" }, row("tree of 4", 0.5, 1200)],
  },
};
const PAGE = `# Title

<!-- table: methods speedup tokens -->
<!-- end -->

It decodes <!-- figure: methods auto.speedup -->3×<!-- end --> as fast, with
tokens <!-- figure: methods auto.tokens vs tree of 4.tokens --><!-- end --> and
at least <!-- figure: methods least speedup --><!-- end -->.
`;

let root;
const page = (name = "page") => path.join(root, "docs", `${name}.md`);
beforeEach(() => {
  root = mkdtempSync(path.join(os.tmpdir(), "foretoken-reports-"));
  mkdirSync(path.join(root, "docs", "reports"), { recursive: true });
  writeFileSync(path.join(root, "docs", "reports", "methods.json"), JSON.stringify(REPORT));
  writeFileSync(page(), PAGE);
});
afterEach(() => rmSync(root, { recursive: true }));

test("tables and figures are those of the report", () => {
  assert.deepEqual(pages(root, false), []);
  const text = readFileSync(page(), "utf8");
  assert.match(text, /^\| auto \| 1\.65× \| 30 \|$/m);
  assert.match(text, /^\| tree of 4 \| 0\.50× \| 1,200 \|$/m);
  assert.match(
    text.replaceAll("\n", " "),
    new RegExp(
      "2 × processor; native, adapter; big with small; 20 prompts; 2 interleaved repetitions\\. " +
        "23 November 2026, commit a",
    ),
  );
  assert.match(text, /decodes <!-- figure: methods auto\.speedup -->1\.65×<!-- end -->/);
  assert.match(text, /-->−97\.5 %<!-- end --> and\nat least <!--.*-->0\.50×<!-- end -->/);
  assert.ok(
    Math.max(
      ...text
        .split("\n")
        .filter((line) => !line.includes("<!--"))
        .map((line) => line.length),
    ) <= 120,
  );
  assert.deepEqual(pages(root, true), []);
  assert.match(withoutMarks(text), /It decodes 1\.65× as fast/);
  assert.doesNotMatch(withoutMarks(text), /<!--/);
});

test("a table says where the prompts of its report have changed since", () => {
  const file = path.join(root, "docs", "reports", "methods.json");
  writeFileSync(file, JSON.stringify({ ...REPORT, prompts: { "prompts-go.jsonl": "of then" } }));
  pages(root, false);
  assert.match(readFileSync(page(), "utf8").replaceAll("\n", " "), /commit abc1234, prompts of that commit:\*/);
});

test("a figure changed by hand is found, with its line", () => {
  pages(root, false);
  writeFileSync(page(), readFileSync(page(), "utf8").replace("-->1.65×", "-->3×"));
  const [complaint, ...others] = pages(root, true);
  assert.match(complaint, /^docs\/page\.md:\d+: differs from its reports; run make docs-reports$/);
  assert.deepEqual(others, []);
  assert.match(readFileSync(page(), "utf8"), /-->3×/, "a check writes nothing");
});

test("a report that changes is found, and one that no page quotes", () => {
  pages(root, false);
  const file = path.join(root, "docs", "reports", "methods.json");
  writeFileSync(file, readFileSync(file, "utf8").replace("1.654", "1.7"));
  writeFileSync(path.join(root, "docs", "reports", "other.json"), JSON.stringify(REPORT));
  const complaints = pages(root, true);
  assert.equal(complaints.length, 2);
  assert.match(complaints[1], /^docs\/reports\/other\.json: no page quotes it$/);
});

test("rows are chosen by name and by pattern, categories by theirs", () => {
  writeFileSync(
    page("some"),
    ["tree* & a*", "auto/*"].map((rows) => `<!-- table: methods tokens; ${rows} -->\n<!-- end -->\n`).join("\n"),
  );
  assert.deepEqual(pages(root, false), []);
  const [both, categories] = readFileSync(page("some"), "utf8")
    .split("<!-- end -->")
    .map((part) => part.match(/^\| [a-z].*$/gm));
  assert.deepEqual(both, ["| tree of 4 | 1,200 |", "| auto | 30 |"]);
  assert.deepEqual(categories, ["| table | 10 |"]);
});

test("an audit of GPUs has rows of GPUs, of kernels on each, and of their roofline", () => {
  const data = {
    driver: "Vulkan, Mesa",
    columns: ["registers", "row_cycles"],
    gpus: { navi31: { kernels: 1234 } },
    roofline: { "navi31 q8_0 group1x64": { arithmetic: 0.5, r8: 1.25 } },
    kernels: { "matmul M=8": { navi31: [24, 100.4] }, gather: { navi31: [16] } },
  };
  writeFileSync(path.join(root, "docs", "reports", "gpus.json"), JSON.stringify({ ...REPORT, data }));
  const tables = ["kernels; GPU *", "registers row_cycles; navi31 *", "arithmetic r8; roofline *"];
  writeFileSync(page("gpus"), tables.map((mark) => `<!-- table: gpus ${mark} -->\n<!-- end -->\n`).join("\n"));
  assert.deepEqual(pages(root, false), []);
  assert.deepEqual(
    readFileSync(page("gpus"), "utf8").match(/^\| [a-zA-Z].*$/gm),
    [
      "| GPU navi31 | 1,234 |",
      "| navi31 matmul M=8 | 24 | 100 |",
      "| navi31 gather | 16 |  |",
      "| roofline navi31 q8_0 group1x64 | 0.50 | 1.25 |",
    ],
  );
});

test("a row that is compared with another has the changes with their intervals", () => {
  const interval = (ratio, low, high) => ({ ratio, low, high, n: 40 });
  const ratios = [
    { against: "none", seeds: 1, calls: interval(9, 9, 9), tokens: interval(9, 9, 9), tau: interval(9, 9, 9) },
    { against: "tree", seeds: 2, calls: interval(0.933, 0.915, 1.01), tokens: interval(0.855, 0.8, 0.9) },
  ];
  ratios[1].tau = interval(1.07, 1.05, 1.09);
  const rows = [{ ...row("hetero", 1, 30), ratios }];
  writeFileSync(
    path.join(root, "docs", "reports", "ratios.json"),
    JSON.stringify({ ...REPORT, data: { ...REPORT.data, rows } }),
  );
  writeFileSync(page("ratios"), "<!-- table: ratios calls_ratio tokens_ratio tau_ratio pairs -->\n<!-- end -->\n");
  assert.deepEqual(pages(root, false), []);
  const claim = "x <!-- figure: ratios verdict hetero.tokens most 0.92 --><!-- end -->\n";
  writeFileSync(page("claim"), claim);
  assert.deepEqual(pages(root, false), []);
  assert.match(readFileSync(page("claim"), "utf8"), /-->reproduced<!-- end -->/);
  const [line] = readFileSync(page("ratios"), "utf8").match(/^\| hetero.*$/m);
  assert.equal(
    line,
    "| hetero | −6.7 % (−8.5 % to +1.0 %) | −14.5 % (−20.0 % to −10.0 %) | +7.0 % (+5.0 % to +9.0 %) | 40 × 2 |",
  );
});

test("an interval decides a claim, or leaves it open", () => {
  for (const [ratio, low, high, which, bound, want] of [
    [0.85, 0.8, 0.9, "most", 0.92, "reproduced"],
    [0.9, 0.8, 1.01, "most", 0.92, "undecided"], // the interval holds 1
    [0.94, 0.9, 0.98, "most", 0.92, "undecided"], // and here the bound
    [0.97, 0.95, 0.99, "most", 0.92, "not reproduced"],
    [0.99, 0.97, 1.01, "most", 1, "reproduced"],
    [1.2, 1.1, 1.3, "least", 1.13, "reproduced"],
    [1.1, 1.05, 1.15, "least", 1.13, "undecided"],
    [1.05, 1.01, 1.1, "least", 1.13, "not reproduced"],
  ])
    assert.equal(verdict({ ratio, low, high }, which, bound), want, `${ratio} at ${which} ${bound}`);
});

test("marks within code are text", () => {
  const code = "```text\n<!-- table: none x -->\n<!-- end -->\nx <!-- figure: none a.b -->1<!-- end -->\n```\n";
  writeFileSync(page("code"), code);
  assert.deepEqual(pages(root, false), []);
  assert.equal(readFileSync(page("code"), "utf8"), code);
  assert.equal(withoutMarks(code), code);
});

for (const [what, text, complaint] of [
  ["a report that is missing", "x <!-- figure: none auto.speedup -->1<!-- end -->", /none\.json/],
  [
    "a row that is missing",
    "x <!-- figure: methods chain.speedup -->1<!-- end -->",
    /no row "chain"; it has auto, auto\/table, tree of 4/,
  ],
  ["a column that is missing", "x <!-- figure: methods auto.pace -->1<!-- end -->", /no column pace/],
  ["a column of a table that is missing", "<!-- table: methods pace -->\n<!-- end -->", /no column pace/],
  [
    "a figure at the beginning of a line",
    "<!-- figure: methods auto.speedup -->1.65×<!-- end -->",
    /at the beginning of a line/,
  ],
  ["a mark that does not end", "x <!-- figure: methods auto.speedup -->1", /not as many end/],
]) {
  test(what, () => {
    writeFileSync(page("other"), `${text}\n`);
    pages(root, false);
    const complaints = pages(root, true);
    assert.ok(
      complaints.length > 0 && complaints.every((one) => one.startsWith("docs/other.md:")),
      complaints.join("\n"),
    );
    assert.match(complaints.join("\n"), complaint);
  });
}

test("attributes of tests and figures of benchmarks are read from go test -json", () => {
  const event = (fields) => JSON.stringify({ Package: "p", ...fields });
  const output = [
    event({ Action: "attr", Test: "TestOracle/native/x3m", Key: "f32", Value: "1.4e-05" }),
    event({ Action: "output", Output: "BenchmarkRound/plain-2 \t" }),
    event({ Action: "output", Output: "       3\t 1200 ns/op\t 1.000 submits/round\n" }),
    "not an event",
  ].join("\n");
  assert.deepEqual(reported(output), {
    "TestOracle/native/x3m": { f32: 1.4e-5 },
    "BenchmarkRound/plain": { "ns/op": 1200, "submits/round": 1 },
  });
});

test("tests that state an attack make a table of attacks, bounds and tests", () => {
  const attr = (Package, Test, attrs) =>
    Object.entries(attrs).map(([Key, Value]) => JSON.stringify({ Action: "attr", Package, Test, Key, Value }));
  const output = [
    ...attr("foretoken/cmd/devserver", "TestSlow", {
      attack: "a request a byte at a time",
      bound: "10 s",
      measured: "9 s",
    }),
    ...attr("foretoken/cmd/foretoken/serve", "TestSlow", { attack: "a body a byte at a time", bound: "30 s" }),
    ...attr("foretoken", "TestPrompts/long", { attack: "a prompt of /v1 with | in it", bound: "1 MiB" }),
    ...attr("foretoken/models", "FuzzFile", { attack: "a file of anything", bound: "1 GiB" }),
    ...attr("foretoken/web/test/a.mjs", "a link asks: load, and/or store", { attack: "a link", bound: "a click" }),
    ...attr("foretoken", "TestLife", { turns: "3" }),
  ];
  const data = reported(output.join("\n"));
  assert.deepEqual(data.TestLife, { turns: 3 });
  delete data.TestLife;
  writeFileSync(path.join(root, "docs", "reports", "attacks.json"), JSON.stringify({ ...REPORT, data }));
  writeFileSync(page("attacks"), "<!-- table: attacks bound measured test -->\n<!-- end -->\n");
  assert.deepEqual(pages(root, false), []);
  const text = readFileSync(page("attacks"), "utf8");
  assert.match(text, /^\| attack \| bound \| measured \| test \|$/m);
  assert.match(text, /^\| a request a byte at a time \| 10 s \| 9 s \| `cmd\/devserver` `TestSlow` \|$/m);
  assert.match(text, /^\| a body a byte at a time \| 30 s \|  \| `cmd\/foretoken\/serve` `TestSlow` \|$/m);
  assert.match(text, /^\| a prompt of \/v1 with \\\| in it \| 1 MiB \|  \| `TestPrompts\/long` \|$/m);
  assert.match(text, /^\| a link \| a click \|  \| `web\/test\/a\.mjs` a link asks: load, and\/or store \|$/m);
  assert.deepEqual(pages(root, true), []);
  const sources = (...lines) => () => lines.join("\n");
  const all = sources(
    "cmd/devserver/a_test.go:func TestSlow(t *testing.T) {",
    'cmd/devserver/a_test.go:\tt.Attr("attack", "x")',
    "cmd/foretoken/serve/b_test.go:func TestSlow(t *testing.T) {",
    'cmd/foretoken/serve/b_test.go:\tt.Attr("attack", "x")',
    "c_test.go:func helper() {",
    "c_test.go:func TestPrompts(t *testing.T) {",
    'c_test.go:\t\tt.Attr("attack", c.name)',
    "models/d_test.go:func FuzzFile(f *testing.F) {",
    'models/d_test.go:\tf.Attr("attack", "a file of anything")',
  );
  const link = "/**\n * Attack: a link\n * Bound: a\n * click\n */\ntest(\n  \"a link asks: load, and/or store\",\n";
  const comments = (text) => () => new Map([["web/test/a.mjs", text]]);
  assert.deepEqual([...stated(root, all).get(".")], ["TestPrompts"]);
  assert.deepEqual(differences(root, { data }, all, comments(link)), []);
  const renamed = (read) => () => read().replace("TestPrompts", "TestTexts");
  const complaints = differences(root, { data }, renamed(all), comments(link)).join("\n");
  assert.match(complaints, /\. TestTexts states.* lacks.*\n.*\. TestPrompts states no/);
  assert.match(differences(root, { data }, all, comments("")).join(), /a link asks.* states no attack/);
  assert.match(differences(root, { data }, all, comments(link.replace("click", "key"))).join(), /otherwise/);
  const inGo = "// TestX tries.\n//\n// Attack: a clock\n// Bound: none\nfunc TestX(t *testing.T) {\n";
  const read = () => new Map([["webgpu/a_js_test.go", inGo]]);
  assert.deepEqual([...commented(root, read)], [["webgpu TestX", { attack: "a clock", bound: "none" }]]);
  for (const wrong of [link.replace("Bound", "Limit"), link.replace("*/", "*/\nlet x;")])
    assert.throws(() => commented(root, comments(wrong)), /want "Attack:" and then "Bound:"/);
  const helper = sources("c_test.go:func helper() {", 'c_test.go:\tt.Attr("attack", "x")');
  assert.throws(() => stated(root, helper), /state an attack in the test itself/);
});

test("an attack without a bound is refused, and one that two tests state", () => {
  for (const [data, complaint] of [
    [{ "a TestX": { attack: "x" } }, /without a bound/],
    [{ "a TestX": { attack: "x", bound: "1" }, "b TestY": { bound: "1" } }, /without an attack/],
    [{ "a TestX": { attack: "x", bound: "1" }, "b TestY": { attack: "x", bound: "1" } }, /and so does/],
  ]) {
    writeFileSync(path.join(root, "docs", "reports", "attacks.json"), JSON.stringify({ ...REPORT, data }));
    writeFileSync(page("attacks"), "<!-- table: attacks bound test -->\n<!-- end -->\n");
    assert.match(pages(root, true).join("\n"), complaint);
  }
});
