/**
 * Checks the structure of src/: no import circles, folders that depend in one direction, short files; and that lines of
 * all files are short.
 */
import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { promises as fs } from "node:fs";
import path from "node:path";
import { test } from "node:test";
import { fileURLToPath } from "node:url";

const source = path.join(path.dirname(path.dirname(fileURLToPath(import.meta.url))), "src");

/** The folders that each folder may import, besides itself. Type imports count. */
const LAYERS = {
  protocol: [],
  sources: ["protocol"],
  engine: ["protocol", "sources"],
  worker: ["protocol", "sources"],
  widget: ["protocol", "sources", "engine", "styles"],
  player: ["protocol", "widget", "styles"],
  embed: ["protocol", "engine", "widget"],
  benchmark: ["protocol", "engine", "widget", "styles"],
  playground: ["protocol", "engine", "widget", "styles"],
  page: ["protocol", "engine", "widget", "player", "playground", "benchmark", "styles"],
};

const IMPORT = /\b(?:from|import)\s*\(?\s*"(\.{1,2}\/[^"]+\.ts)"/g;

/** Returns a map from each file to the files that it imports, statically, dynamically or for types. */
async function importsOf(folder) {
  const graph = new Map();
  for (const name of await fs.readdir(folder, { recursive: true })) {
    if (!name.endsWith(".ts")) continue;
    // Examples in comments import the published package.
    const text = (await fs.readFile(path.join(folder, name), "utf8")).replace(/^\s*(\*|\/\/).*$/gm, "");
    const imported = [...text.matchAll(IMPORT)].map(([, to]) => path.posix.join(path.posix.dirname(name), to));
    graph.set(name, [...new Set(imported)]);
  }
  return graph;
}

/** Returns one import circle as a list that ends with its first file, or undefined. */
function circleIn(graph) {
  const done = new Set();
  const visit = (file, above) => {
    if (above.includes(file)) return [...above.slice(above.indexOf(file)), file];
    if (done.has(file)) return undefined;
    for (const to of graph.get(file) ?? []) {
      const circle = visit(to, [...above, file]);
      if (circle) return circle;
    }
    done.add(file);
    return undefined;
  };
  for (const file of graph.keys()) {
    const circle = visit(file, []);
    if (circle) return circle;
  }
  return undefined;
}

/** Returns the imports that leave the layers, as lines. */
function against(layers, graph) {
  const folderOf = (file) => (file.includes("/") ? file.slice(0, file.indexOf("/")) : undefined);
  const lines = [];
  for (const [file, imported] of graph) {
    const from = folderOf(file);
    if (from === undefined) continue; // The entries of the package import any folder.
    for (const to of imported) {
      const folder = folderOf(to);
      if (folder !== from && !layers[from]?.includes(folder)) lines.push(`${file} imports ${to}`);
    }
  }
  return lines;
}

test("no file of src/ imports itself through others", async () => {
  const graph = await importsOf(source);
  assert.ok(graph.size > 40, `found ${graph.size} files only`);
  for (const imported of graph.values()) for (const to of imported) assert.ok(graph.has(to), `${to} does not exist`);
  assert.equal(circleIn(graph)?.join(" → "), undefined);
});

test("folders of src/ import only the layers below them", async () => {
  assert.deepEqual(against(LAYERS, await importsOf(source)), []);
});

test("the check finds circles and imports of a higher layer", () => {
  const graph = new Map([
    ["sources/a.ts", ["sources/b.ts"]],
    ["sources/b.ts", ["widget/c.ts"]],
    ["widget/c.ts", ["sources/a.ts"]],
  ]);
  assert.deepEqual(circleIn(graph), ["sources/a.ts", "sources/b.ts", "widget/c.ts", "sources/a.ts"]);
  assert.deepEqual(against(LAYERS, graph), ["sources/b.ts imports widget/c.ts"]);
  graph.set("sources/b.ts", []);
  assert.equal(circleIn(graph), undefined);
});

/** Returns the lines over 120 columns, with tabs of 4, as lines of text. Rows of Markdown tables cannot break. */
function tooWide(name, text) {
  return text.split("\n").flatMap((line, i) => {
    const columns = [...line.replaceAll("\t", "    ")].length;
    return columns > 120 && !(name.endsWith(".md") && line.startsWith("|"))
      ? [`${name}:${i + 1} has ${columns} columns`]
      : [];
  });
}

test("files of src/ have at most 600 lines", async () => {
  for (const name of await fs.readdir(source, { recursive: true })) {
    if (!/\.(ts|css)$/.test(name)) continue;
    const lines = (await fs.readFile(path.join(source, name), "utf8")).split("\n").length;
    assert.ok(lines <= 600, `${name} has ${lines} lines`);
  }
});

test("files of the repository that people write have at most 120 columns", async () => {
  const root = path.dirname(path.dirname(source));
  const kinds = ["mjs", "ts", "js", "css", "html", "sh", "py", "c", "h", "wgsl", "go", "md", "mdx", "yml"];
  const args = ["ls-files", "-z", "Makefile", ".ci", ...kinds.map((kind) => `*.${kind}`)];
  const files = execFileSync("git", args, { cwd: root, encoding: "utf8" }).split("\0").filter(Boolean);
  assert.ok(files.length > 800, `found ${files.length} files only`);
  const found = [];
  for (const name of files) found.push(...tooWide(name, await fs.readFile(path.join(root, name), "utf8")));
  assert.deepEqual(found, []);
  assert.deepEqual(tooWide("a.go", `\t${"x".repeat(117)}\n${"é".repeat(120)}`), ["a.go:1 has 121 columns"]);
  assert.deepEqual(tooWide("a.md", `| ${"x".repeat(120)} |`), []);
});

test("files that run are scripts: what the build makes is not kept", async () => {
  const root = path.dirname(path.dirname(source));
  const files = execFileSync("git", ["ls-files", "-s"], { cwd: root, encoding: "utf8" });
  const names = [...files.matchAll(/^100755 .*\t(.+)$/gm)].map(([, name]) => name);
  assert.ok(names.includes(".ci/run"));
  for (const name of names) {
    const text = await fs.readFile(path.join(root, name), "latin1");
    assert.ok(text.startsWith("#!"), `${name} is a program, not a script`);
  }
});
