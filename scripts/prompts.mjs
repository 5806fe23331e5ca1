/**
 * Prompts of evaluations, testdata/prompts-*.jsonl: which of them a report was made on, and that the built-in pair was
 * not trained on them. docs/reports/prompts.json says what models/demo/train/corpus.py --check found of them in the
 * training text, and names all files by their SHA-256.
 */
import { createHash } from "node:crypto";
import { existsSync, readFileSync, readdirSync } from "node:fs";
import path from "node:path";

const FILE = /^prompts-.+\.jsonl$/;

/** Commands that read all files: a suite, and these scripts, choose pairs of models, each with its prompts. */
const ALL = /--suite\b|\bweb\/test\/(auto|first|visits)\.mjs/;
const NAMED = { "prompts-go.jsonl": "$PROMPTS" };

const sha256 = (file) => createHash("sha256").update(readFileSync(file)).digest("hex");

/** The SHA-256 of each file of prompts by its name. */
export function hashes(root) {
  const folder = path.join(root, "testdata");
  const names = (existsSync(folder) ? readdirSync(folder) : []).filter((name) => FILE.test(name)).sort();
  return Object.fromEntries(names.map((name) => [name, sha256(path.join(folder, name))]));
}

/** Those of the files that a report's command reads; undefined if it reads none. */
export function readBy(command, files) {
  const reads = (name) => ALL.test(command) || command.includes(name) || command.includes(NAMED[name] ?? name);
  const read = Object.entries(files).filter(([name]) => reads(name));
  return read.length ? Object.fromEntries(read) : undefined;
}

/** Whether a report was made on other prompts than the files have now. */
export const differs = (report, files) =>
  Object.entries(report.prompts ?? {}).some(([name, hash]) => files[name] !== hash);

/** What is wrong with files of prompts, by the report on them, and with reports that do not say which they read. */
export function complaints(root, { data: asked }, reports) {
  const files = hashes(root);
  const again = "run make report REPORT=prompts";
  const wrong = [];
  for (const name of Object.keys(files)) {
    if (!asked[name]) wrong.push(`testdata/${name}: the training text was not asked for it; ${again}`);
    else if (asked[name].prompts_found > 0)
      wrong.push(`testdata/${name}: the training text has ${asked[name].prompts_found} of its prompts`);
  }
  for (const { file, sha256: hash } of Object.values(asked))
    if (file && hash !== sha256(path.join(root, file)))
      wrong.push(`${file}: it has changed since the training text was asked for it; ${again}`);
  for (const [name, report] of reports)
    for (const file of Object.keys(readBy(report.command, files) ?? {}))
      if (!report.prompts?.[file]) wrong.push(`docs/reports/${name}.json: it does not say which ${file} it is made on`);
  return wrong;
}
