#!/usr/bin/env node
// Runs `go test` and prints its output as without -json: gotest.mjs NAME ARGUMENTS... Lists tests that miss their data
// in build/notrun/NAME, one a line, which `make test` prints at its end; go test names no test of a package that
// passes.
import { spawn } from "node:child_process";
import { mkdirSync, writeFileSync } from "node:fs";
import { createInterface } from "node:readline";

const [name, ...args] = process.argv.slice(2);
const go = spawn(process.env.GO || "go", ["test", "-json", ...args], { stdio: ["inherit", "pipe", "inherit"] });
const ended = new Promise((resolve) => go.on("close", (code) => resolve(code ?? 1)));
const output = new Map(); // package and test → what it printed
const missing = new Set();

for await (const line of createInterface({ input: go.stdout })) {
  let event;
  try {
    event = JSON.parse(line);
  } catch {
    console.log(line);
    continue;
  }
  const { Action: action, Package: pkg, Test: test, Output: text } = event;
  const key = `${pkg ?? event.ImportPath} ${test ?? ""}`;
  if (action === "output" || action === "build-output") {
    output.set(key, (output.get(key) ?? "") + text);
    const said = /NOT RUN: (\S+: .*)/.exec(text);
    if (said) missing.add(`NOT RUN: ${pkg} ${said[1]}`);
  } else if (action === "pass" || action === "skip" || action === "fail" || action === "build-fail") {
    const all = output.get(key) ?? "";
    if (action.endsWith("fail")) process.stdout.write(all);
    else if (!test) for (const l of all.split("\n")) if (/^(ok|\?)\s/.test(l)) console.log(l);
    output.delete(key);
  }
}
for (const left of output.values()) process.stdout.write(left); // of tests that a crash ended
mkdirSync("build/notrun", { recursive: true });
writeFileSync(`build/notrun/${name}`, [...missing].sort().map((l) => `${l}\n`).join(""));
process.exitCode = await ended;
