/** The training text is asked for prompts, and a prompts file or a report that its answer does not cover is refused. */
import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import os from "node:os";
import path from "node:path";
import { afterEach, beforeEach, test } from "node:test";
import { fileURLToPath } from "node:url";
import { complaints, differs, hashes, readBy } from "./prompts.mjs";

const CORPUS = path.join(path.dirname(fileURLToPath(import.meta.url)), "..", "models", "demo", "train", "corpus.py");
const LINE = "func walk(root string, visit func(string)) error {";
const PROMPTS = [
  { id: "line-0", prompt: `// walk visits all files.\n${LINE}\n` },
  { id: "short-0", prompt: "type set map[string]bool\n\nfunc (s set) has(name string) bool {\n" },
  { id: "own-0", prompt: "// A berry that nobody has picked yet is on no list.\ntype berry struct {\n" },
];

let root;
const write = (name, text) => writeFileSync(path.join(root, name), text);
const lines = (prompts) => prompts.map((prompt) => `${JSON.stringify(prompt)}\n`).join("");
const check = (...files) =>
  JSON.parse(execFileSync("/usr/bin/python3", [CORPUS, "--check", "data", ...files], { cwd: root, encoding: "utf8" }));

beforeEach(() => {
  root = mkdtempSync(path.join(os.tmpdir(), "foretoken-prompts-"));
  for (const folder of ["data", "testdata"]) mkdirSync(path.join(root, folder));
  write("data/manifest.json", JSON.stringify({ sources: { std: "go version" }, missing: ["m@v1"], prompts: "abc" }));
  write("data/train.txt", `package a\n\n${LINE}\n\treturn nil\n}\n\0${PROMPTS[1].prompt}\treturn s[name]\n}\n\0`);
  write("data/qa.txt", `Q: How is walk declared?\nA: ${LINE}\n\0`);
  write("testdata/prompts-go.jsonl", lines(PROMPTS));
});
afterEach(() => rmSync(root, { recursive: true }));

test("lines and prompts that the training text has are found, without their indentation", () => {
  write("heads.txt", `// Both heads are in one file.\n\t${LINE}\n\n// This one is not.\nfunc x() {\n`);
  const { corpus, ...rest } = check("testdata/prompts-go.jsonl", "heads.txt");
  assert.deepEqual(corpus, { sources: { std: "go version" }, missing: ["m@v1"], prompts: "abc" });
  assert.match(rest["train.txt"].sha256, /^[0-9a-f]{64}$/);
  assert.match(rest["sampled-go.jsonl"].sha256, /^[0-9a-f]{64}$/);
  const found = rest["prompts-go.jsonl"];
  assert.equal(found.sha256, hashes(root)["prompts-go.jsonl"]);
  assert.deepEqual(found.occur, { "line-0": { [LINE]: 2 } });
  assert.deepEqual(found["in one piece"], ["short-0"]);
  assert.deepEqual([found.prompts, found.lines, found.lines_found, found.prompts_found], [3, 2, 1, 2]);
  assert.deepEqual(rest["heads.txt"].occur, { [`\t${LINE}`]: { [`\t${LINE}`]: 2 } });
});

test("a prompts file is refused that has changed, is new, or occurs in the training text", () => {
  assert.match(complaints(root, { data: check("testdata/prompts-go.jsonl") }, []).join(), /has 2 of its prompts/);
  write("testdata/prompts-go.jsonl", lines(PROMPTS.slice(2)));
  const report = { data: check("testdata/prompts-go.jsonl") };
  assert.deepEqual(complaints(root, report, []), []);
  write("testdata/prompts-go.jsonl", lines([...PROMPTS.slice(2), { id: "own-1", prompt: "var (\n" }]));
  assert.match(complaints(root, report, []).join(), /^testdata\/prompts-go\.jsonl: it has changed since/);
  write("testdata/prompts-go.jsonl", lines(PROMPTS.slice(2)));
  write("testdata/prompts-new.jsonl", lines(PROMPTS.slice(2)));
  assert.match(complaints(root, report, []).join(), /^testdata\/prompts-new\.jsonl: the training text was not asked/);
});

test("a report says which prompts it was made on, and whether they have changed", () => {
  write("testdata/prompts-stories.jsonl", lines(PROMPTS.slice(2)));
  const files = hashes(root);
  const read = (command) => Object.keys(readBy(command, files) ?? {});
  assert.deepEqual(read("foretoken bench --prompts $PROMPTS --json {}"), ["prompts-go.jsonl"]);
  assert.deepEqual(read("foretoken bench --prompts testdata/prompts-stories.jsonl"), ["prompts-stories.jsonl"]);
  for (const both of ["node web/test/auto.mjs --json {}", "foretoken bench --suite papers/mars --json {}"])
    assert.deepEqual(read(both), ["prompts-go.jsonl", "prompts-stories.jsonl"]);
  assert.deepEqual(read("go test -json ./models/demo"), []);

  const report = { command: "foretoken bench --prompts $PROMPTS" };
  write("testdata/prompts-go.jsonl", lines(PROMPTS.slice(2)));
  const asked = { data: check("testdata/prompts-go.jsonl", "testdata/prompts-stories.jsonl") };
  assert.deepEqual(complaints(root, asked, [["methods", report]]), [
    "docs/reports/methods.json: it does not say which prompts-go.jsonl it is made on",
  ]);
  report.prompts = readBy(report.command, files);
  assert.deepEqual(complaints(root, asked, [["methods", report]]), []);
  assert.equal(differs(report, files), false);
  assert.equal(differs(report, hashes(root)), true);
});
