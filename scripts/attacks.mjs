/**
 * Attacks: what a hostile file, request or machine may try, and the bound that holds. A Go test states its own,
 *
 *   t.Attr("attack", "a request sent a byte at a time")
 *   t.Attr("bound", "cut off after 10 s")
 *   t.Attr("measured", took.String()) // optional
 *
 * in the function Test… or Fuzz… itself or in its subtests, one attack each. A test that needs a browser states its own
 * in the comment over it, with lines that begin with "Attack:" and then "Bound:". `make report REPORT=attacks` runs the
 * first kind of tests, reads the comments of the other, and makes the table of docs/attacks.md.
 *
 *   node scripts/attacks.mjs   runs the tests and prints the events of `go test -json`
 */
import { execFileSync, spawnSync } from "node:child_process";
import { readFileSync } from "node:fs";
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
      test = /^func ((?:Test|Fuzz)\w+)\(/.exec(text)?.[1];
      continue;
    }
    if (!test)
      throw new Error(`${file}: ${text.trim()}: state an attack in the test itself, not in a function it calls`);
    const folder = path.posix.dirname(file);
    if (!tests.has(folder)) tests.set(folder, new Set());
    tests.get(folder).add(test);
  }
  return tests;
}

/** A comment and the beginning of the test under it. */
const COMMENTED = /((?:^[ \t]*(?:\/\/|\/?\*).*\n)+)(?:test\(\s*"(.+?)",|func (Test\w+)\()/gm;

/** The attacks that comments state: Map of "PLACE TEST" → { attack, bound }. `read` returns a Map of file → text. */
export function commented(root, read = browserTests) {
  const all = new Map();
  for (const [file, text] of read(root)) {
    const before = all.size;
    for (const [, comment, title, name] of text.matchAll(COMMENTED)) {
      const words = comment.replace(/^[ \t]*(\/\/|\/?\*+\/?)/gm, "").replace(/\s+/g, " ");
      const [, attack, bound] = /Attack: (.+?) Bound: (.+?) ?$/.exec(words) ?? [];
      if (bound) all.set(title ? `${file} ${title}` : `${path.posix.dirname(file)} ${name}`, { attack, bound });
    }
    if (all.size - before !== (text.match(/^\W*Attack: /gm)?.length ?? 0))
      throw new Error(`${file}: want "Attack:" and then "Bound:" in the comment over a test, one attack each`);
  }
  return all;
}

function browserTests(root) {
  const places = ["web/test/**.mjs", "web/test/**.ts", "**_js_test.go"];
  const args = ["ls-files", "--cached", "--others", "--exclude-standard", ...places];
  const files = execFileSync("git", args, { cwd: root, encoding: "utf8" }).split("\n").filter(Boolean);
  return new Map(files.map((file) => [file, readFileSync(path.join(root, file), "utf8")]));
}

function grep(root) {
  const args = ["grep", "--untracked", "-E", "-e", "^func |\\.Attr\\(\"attack\"", "--", "*_test.go"];
  return execFileSync("git", args, { cwd: root, encoding: "utf8", maxBuffer: 1 << 26 });
}

/** Compares the tests that state attacks with the report's. Returns complaints. */
export function differences(root, report, read = grep, readComments = browserTests) {
  const comments = commented(root, readComments);
  const test = (name) => (comments.has(name) ? name : name.replace(/^(\S+ \w+)\/.*/, "$1"));
  const have = new Set(Object.keys(report.data).map(test));
  const want = new Set(comments.keys());
  for (const [folder, tests] of stated(root, read)) for (const name of tests) want.add(`${folder} ${name}`);
  const changed = ([name, { attack, bound }]) =>
    have.has(name) && (report.data[name].attack !== attack || report.data[name].bound !== bound);
  return [
    ...[...want].filter((name) => !have.has(name)).map((name) => `${name} states an attack that the report lacks`),
    ...[...have].filter((name) => !want.has(name)).map((name) => `${name} states no attack, and the report has one`),
    ...[...comments].filter(changed).map(([name]) => `${name} states an attack that the report has otherwise`),
  ].map((line) => `docs/reports/attacks.json: ${line}; run make report REPORT=attacks`);
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const root = path.dirname(path.dirname(fileURLToPath(import.meta.url)));
  let failed = 0;
  for (const [folder, tests] of stated(root)) {
    const pattern = `^(${[...tests].join("|")})$`;
    const args = ["test", "-json", "-count=1", "-timeout=60m", "-run", pattern, `./${folder}`];
    failed ||= spawnSync(process.env.GO ?? "go", args, { cwd: root, stdio: "inherit" }).status;
  }
  for (const [name, texts] of commented(root)) {
    const [, place, Test] = /^(\S+) (.+)$/.exec(name);
    for (const [Key, Value] of Object.entries(texts))
      console.log(JSON.stringify({ Action: "attr", Package: `foretoken/${place}`, Test, Key, Value }));
  }
  process.exit(failed ?? 1);
}
