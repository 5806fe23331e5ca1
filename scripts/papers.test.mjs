/** docs/papers.md says what the reports show, and asks for a reason that fits. */
import assert from "node:assert/strict";
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import os from "node:os";
import path from "node:path";
import { afterEach, beforeEach, test } from "node:test";
import { pages } from "./reports.mjs";

const SUITE = {
  title: "Trees",
  paper: { title: "On Trees", authors: "A", source: "arXiv:1", headline: "fewer tokens", impossible: ["forests"] },
  pairs: [{ name: "draft" }, { name: "head" }],
  tables: [
    {
      name: "main",
      title: "Main table",
      paper: {
        from: "Table 1",
        columns: ["target", "Tokens"],
        rows: [["big", "−10 %"]],
        claims: [
          {
            says: "Tokens fall",
            row: "small",
            ratio: "tokens",
            most: 0.92,
            why: { head: ["reproduced", "It is sure."] },
          },
        ],
      },
    },
    { name: "unseen", title: "Held out", pairs: ["draft"], paper: { unseen: true } },
    {
      name: "curve",
      title: "Curve",
      pairs: ["draft"],
      note: "read it so",
      paper: { shows: ["tau", "at_equal_length"] },
    },
  ],
};
const interval = (ratio, low, high, n = 40) => ({ ratio, low, high, n });
const measure = (mean, n = 1) => ({ mean, sd: 0, n });
const row = (method, tau, tokens, category = "") => ({
  method,
  category,
  prompts: category ? 8 : 40,
  acceptance_length: measure(tau),
  calls: measure(10),
  tokens: measure(30),
  ratios: tokens && [
    { against: "plain", seeds: 1, calls: interval(9, 9, 9), tokens: interval(9, 9, 9), tau: interval(9, 9, 9) },
    { against: "tree", seeds: 2, calls: interval(1, 0.9, 1.1), tokens, tau: interval(1.1, 1.05, 1.2) },
  ],
});
const table = (name, rows, more) => ({
  name: `papers/${name}`,
  title: name,
  rows,
  against: Object.fromEntries(rows.map((row) => [row, "tree"])),
  ...more,
});
const report = (data) => ({
  command: "foretoken bench --suite papers/trees --json {}",
  machine: "2 × processor",
  cores: 2,
  load: 1,
  date: "2026-11-23",
  commit: "abc1234",
  data,
});

let root;
const write = (name, value) =>
  writeFileSync(path.join(root, name), typeof value === "string" ? value : JSON.stringify(value));
const page = () => readFileSync(path.join(root, "docs", "papers.md"), "utf8");
beforeEach(() => {
  root = mkdtempSync(path.join(os.tmpdir(), "foretoken-papers-"));
  mkdirSync(path.join(root, "docs", "reports"), { recursive: true });
  mkdirSync(path.join(root, "testdata", "suites"), { recursive: true });
  write("testdata/suites/trees.json", SUITE);
  write("testdata/suites/other.json", { title: "No paper", tables: [] });
  write("docs/papers.md", "");
  const pair = (tokens, more) => ({
    device: "cpu",
    note: "40 prompts",
    rows: [row("tree", 4), row("small", 4.5, tokens)],
    tables: [table("main", ["tree", "small", "absent"])],
    missing: [{ method: "absent", reason: "needs a file" }],
    ...more,
  });
  write("docs/reports/papers-trees.json", report({ head: pair(interval(0.85, 0.8, 0.9)) }));
  const quick = pair(interval(0.9, 0.8, 1.01, 10), { quick: true });
  quick.rows.push(
    row("x without a", 3, interval(1, 1, 1)),
    row("x without a", 2, interval(0.5, 0.5, 0.5), "a"),
    row("on it", 3),
  );
  quick.tables.push(
    table("unseen", ["x without a"]),
    table("curve", ["on it"], { at_equal_length: { "on it": interval(0.75, 0.7, 0.8) } }),
  );
  write("docs/reports/papers-trees-quick.json", report({ draft: quick, head: quick }));
});
afterEach(() => rmSync(root, { recursive: true }));

test("the page has the paper's figures, ours, verdicts and reasons", () => {
  assert.deepEqual(pages(root, false), []);
  const text = page().replaceAll(/([^|\n])\n(?=[^|\n#-])/g, "$1 ");
  for (const want of [
    "| Trees | Tokens fall: Tokens ≤ −8.0 % | undecided (quick) | reproduced |",
    "A: [On Trees](https://arxiv.org/abs/1). The paper's headline: fewer tokens.",
    "In the paper, Table 1:\n\n| target | Tokens |\n| --- | --- |\n| big | −10 % |",
    "| Tokens fall | Tokens ≤ −8.0 % | undecided (quick): −10.0 % (−20.0 % to +1.0 %) | " +
      "reproduced: −15.0 % (−20.0 % to −10.0 %) |",
    "- Tokens fall, draft: undecided (quick). About 13 prompts would tell, if the ratio stays.",
    "- Tokens fall, head: reproduced. It is sure.",
    "| small | head | 4.50 | +10.0 % (+5.0 % to +20.0 %) | 0.0 % (−10.0 % to +10.0 %) | " +
      "−15.0 % (−20.0 % to −10.0 %) | 40 × 2 |",
    "Not measured, for want of their artefacts: absent (draft, head).",
    "### Held out\n\nThe paper's figures and claims are not at hand, so there is no verdict.",
    "| x without a | draft | 2.00 | +10.0 % (+5.0 % to +20.0 %) | 0.0 % (−10.0 % to +10.0 %) | " +
      "−50.0 % (−50.0 % to −50.0 %) | 8 × 2 |",
    "| on it | draft | 3.00 | −25.0 % (−30.0 % to −20.0 %) | 40 × 1 |",
    "Note: read it so.",
    "[its report](reports/papers-trees.json)",
    "[its report](reports/papers-trees-quick.json)",
    "Impossible here: forests.",
  ])
    assert.ok(text.includes(want), `${want}\nis not in\n${text}`);
  assert.doesNotMatch(text, /No paper/);
  assert.deepEqual(pages(root, true), []);
});

test("a report of its own says more of a claim than a quick run", () => {
  const changed = structuredClone(SUITE);
  const [claim] = changed.tables[0].paper.claims;
  claim.reports = { draft: ["alone", "short"], head: ["alone", "short"] };
  claim.why.draft = ["not reproduced", "It is unsure."];
  write("testdata/suites/trees.json", changed);
  write("docs/reports/alone.json", report({ rows: [row("short", 3, interval(0.97, 0.94, 0.99))] }));
  assert.deepEqual(pages(root, false), []);
  assert.match(page(), /not reproduced: −3\.0 % \(−6\.0 % to −1\.0 %\) \| reproduced: −15\.0 %/);
});

test("a reason for another verdict is refused, and a verdict without one", () => {
  pages(root, false);
  const changed = structuredClone(SUITE);
  changed.tables[0].paper.claims[0].why.head[0] = "not reproduced";
  write("testdata/suites/trees.json", changed);
  const [complaint] = pages(root, true);
  assert.match(complaint, /table main: the claim "Tokens fall" is reproduced with the pair head, and its reason is/);
  delete changed.tables[0].paper.claims[0].why;
  write("testdata/suites/trees.json", changed);
  assert.match(pages(root, true)[0], /is written for ""/);
});

test("a page that was changed by hand is found", () => {
  pages(root, false);
  write("docs/papers.md", page().replace("reproduced |", "not reproduced |"));
  assert.match(pages(root, true).join(), /^docs\/papers\.md:\d+: differs from its reports/);
});
