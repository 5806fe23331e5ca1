/** What pages of the built site download, at first and at most later: `node scripts/sizes.mjs FILE` writes a report. */
import { readFileSync, readdirSync, statSync, writeFileSync } from "node:fs";
import path from "node:path";
import { fileURLToPath } from "node:url";

const dist = path.join(path.dirname(path.dirname(fileURLToPath(import.meta.url))), "web", "dist");
const gzipped = (name) => statSync(path.join(dist, `${name}.gz`)).size;

/** The modules that come with these, and with `later` those that they import when they need them. */
function reach(names, later) {
  const found = new Set();
  const visit = (name) => {
    if (found.has(name)) return;
    found.add(name);
    const text = readFileSync(path.join(dist, name), "utf8");
    for (const [, call, other] of text.matchAll(/import(\()?(?:[\w$*{}, ]*?from)?\s*"\.\/([\w.-]+\.js)"/g))
      if (later || !call) visit(other);
  };
  for (const name of names) visit(name);
  return found;
}

const sum = (names) => [...names].reduce((total, name) => total + gzipped(name), 0);
const data = { "size/foretoken.wasm": { gzip: gzipped("foretoken.wasm") } };
for (const [name, at] of [
  ["widget.js", ["widget.js"]],
  ["foretoken.js", ["foretoken.js"]],
  ["the page", ["start.js", "page.js", "worker.js", "wasm_exec.js"]],
]) {
  const first = reach(at, false);
  const all = reach([...at, "worker.js", "wasm_exec.js"], true);
  data[`size/${name}`] = { now: sum(first), later: sum([...all].filter((one) => !first.has(one))) };
}
const models = path.join(dist, "models", "demo");
const pair = readdirSync(models).filter((name) => name.endsWith(".gguf"));
data["size/built-in pair"] = { raw: pair.reduce((total, name) => total + statSync(path.join(models, name)).size, 0) };
writeFileSync(process.argv[2], JSON.stringify(data));
