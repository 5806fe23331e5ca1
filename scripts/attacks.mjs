/**
 * Attacks: what a hostile file, request or machine may try, and the bound that holds. A Go test states its own,
 *
 *   t.Attr("attack", "a request sent a byte at a time")
 *   t.Attr("bound", "cut off after 10 s")
 *   t.Attr("measured", took.String()) // optional
 *
 * in the function Test… itself or in its subtests, one attack each. `make report REPORT=attacks` runs these tests and
 * makes the table of docs/reliability.md.
 *
 *   node scripts/attacks.mjs   runs the tests and prints the events of `go test -json`
 */
import { execFileSync, spawnSync } from "node:child_process";
import path from "node:path";
import { fileURLToPath } from "node:url";

const STATED = /\.Attr\("attack"/;

/** The tests that state attacks: Map of folder → names. `read` returns lines FILE:LINE of all Go tests. */
export function stated(root, read = grep) {
  const tests = new Map();
  let test = "";
  for (const line of read(root).split("\n").filter(Boolean)) {
    const [, file, text] = /^(.+?_test\.go):(.*)$/.exec(line);
    if (!STATED.test(text)) {
      test = /^func (Test\w+)\(/.exec(text)?.[1];
      continue;
    }
    if (!test) throw new Error(`${file}: ${text.trim()}: state an attack in the test itself, not in a function it calls`);
    const folder = path.posix.dirname(file);
    if (!tests.has(folder)) tests.set(folder, new Set());
    tests.get(folder).add(test);
  }
  return tests;
}

function grep(root) {
  const args = ["grep", "--untracked", "-E", "-e", "^func |\\.Attr\\(\"attack\"", "--", "*_test.go"];
  return execFileSync("git", args, { cwd: root, encoding: "utf8", maxBuffer: 1 << 26 });
}

/** Compares the tests that state attacks with the report's. Returns complaints. */
export function differences(root, report, read = grep) {
  const have = new Set(Object.keys(report.data).map((name) => name.replace(/(?<= \w+)\/.*/, "")));
  const want = new Set([...stated(root, read)].flatMap(([folder, tests]) => [...tests].map((test) => `${folder} ${test}`)));
  return [
    ...[...want].filter((name) => !have.has(name)).map((name) => `${name} states an attack that the report lacks`),
    ...[...have].filter((name) => !want.has(name)).map((name) => `${name} states no attack, and the report has one`),
  ].map((line) => `docs/reports/attacks.json: ${line}; run make report REPORT=attacks`);
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const root = path.dirname(path.dirname(fileURLToPath(import.meta.url)));
  let failed = 0;
  for (const [folder, tests] of stated(root)) {
    const pattern = `^(${[...tests].join("|")})$`;
    const args = ["test", "-json", "-count=1", "-run", pattern, `./${folder}`];
    failed ||= spawnSync(process.env.GO ?? "go", args, { cwd: root, stdio: "inherit" }).status;
  }
  process.exit(failed ?? 1);
}
