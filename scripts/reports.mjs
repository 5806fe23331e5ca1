/**
 * Reports: what a command measured, with machine, date and commit, in docs/reports/NAME.json, and the tables and
 * figures that pages quote from them.
 *
 *   node scripts/reports.mjs make [NAME [-- COMMAND]] run COMMAND, or the command that the report holds, again; without
 *                                                     NAME those of all reports that need no GPU
 *   node scripts/reports.mjs write                    rewrite the tables and figures of all pages
 *   node scripts/reports.mjs check                    fail where a page differs, or a report is quoted nowhere
 *
 * COMMAND is a line of shell. It writes JSON to the file that stands for {}, or several to {LABEL}s; without any it is
 * `go test -json`, and what tests say with t.Attr and benchmarks with b.ReportMetric is the report.
 *
 * A page marks what is generated, and nothing between the marks is written by hand:
 *
 *   <!-- table: NAME COLUMN ... [; ROW & PATTERN* ...] -->   ends with a line <!-- end -->
 *   <!-- figure: NAME ROW.COLUMN [vs|over ROW.COLUMN] -->1.65×<!-- end -->
 *   <!-- figure: NAME least|most COLUMN [; ROW & PATTERN* ...] -->1.65×<!-- end -->
 *   <!-- figure: NAME verdict ROW.RATIO most|least BOUND -->reproduced<!-- end -->
 *
 * docs/papers.md (papers.mjs) and the page's lines about methods (method-lines.mjs) are generated as a whole.
 *
 * `vs` gives the change in per cent, `over` the quotient. The columns of each kind of report are in report-columns.mjs.
 */
import { execFileSync, spawnSync } from "node:child_process";
import { existsSync, mkdtempSync, readFileSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import os from "node:os";
import path from "node:path";
import { fileURLToPath } from "node:url";
import { differences } from "./attacks.mjs";
import { FILE as LINES, methodLines } from "./method-lines.mjs";
import { PAGE as PAPERS, papers } from "./papers.mjs";
import { complaints, differs, hashes, readBy } from "./prompts.mjs";
import { columnOf, format, rowsOf, setting, verdict, wrap } from "./report-columns.mjs";

const BLOCK = /^(<!-- table: (.+) -->)\n[^]*?^<!-- end -->$/gm;
const FIGURE = /(<!-- figure: ([^>]+?) -->)([^<]*)(<!-- end -->)/g;

/** Text without the marks, for whoever renders pages. */
export function withoutMarks(text) {
  const marks = /^<!-- (table: .+|end|settings: .+|\/settings) -->\n/gm;
  return outsideCode(text, (part) => part.replace(marks, "").replace(FIGURE, "$3"));
}

/** The text with its parts outside of blocks of code changed; `change` also gets the line that a part begins on. */
function outsideCode(text, change) {
  let line = 1;
  const parts = text.split(/^(```[^]*?^```$)/m).map((part, i) => {
    const made = i % 2 ? part : change(part, line);
    line += part.split("\n").length - 1;
    return made;
  });
  return parts.join("");
}

/** The pages of a repository that may quote reports. */
export function pagesOf(root) {
  const docs = readdirSync(path.join(root, "docs")).filter((name) => name.endsWith(".md"));
  const others = ["README.md", "SECURITY.md", "models/demo/README.md"].filter((name) =>
    existsSync(path.join(root, name)),
  );
  return [...others, ...docs.map((name) => `docs/${name}`)];
}

const fileOf = (name) => (name.startsWith("demo/") ? `models/${name}.json` : `docs/reports/${name}.json`);

/** The reports of a repository by name. Files that were fitted to the built-in pair are some too. */
export class Reports {
  #root;
  #rows = new Map();
  quoted = new Set();

  constructor(root) {
    this.#root = root;
  }

  names() {
    const folder = path.join(this.#root, "docs", "reports");
    return (existsSync(folder) ? readdirSync(folder) : [])
      .filter((name) => name.endsWith(".json"))
      .map((name) => name.slice(0, -5))
      .sort();
  }

  /** Those that need no machine with a GPU, which a report says of itself. */
  ofHere() {
    return this.names().filter((name) => !this.read(name).elsewhere);
  }

  read(name) {
    this.quoted.add(name);
    const file = fileOf(name);
    try {
      return JSON.parse(readFileSync(path.join(this.#root, file), "utf8"));
    } catch (cause) {
      throw new Error(`${file}: ${cause.message}`);
    }
  }

  /** Rows of a report: Map of name → { column: value }. */
  rows(name) {
    if (!this.#rows.has(name)) this.#rows.set(name, rowsOf(this.read(name)));
    return this.#rows.get(name);
  }

  /** The rows that are named, in that order (* is any text without a slash), or all but those of categories. */
  some(name, wanted) {
    const rows = [...this.rows(name)];
    if (!wanted) return rows.filter((row) => !category(row));
    return wanted.split(" & ").flatMap((pattern) => {
      if (!pattern.includes("*")) return [[pattern, this.#row(name, pattern)]];
      const parts = pattern.split("*").map((part) => part.replace(/[^\w ]/g, "\\$&"));
      const found = rows.filter(([row]) => new RegExp(`^${parts.join("[^/]*")}$`).test(row));
      if (found.length === 0) throw new Error(`report ${name} has no row like "${pattern}"`);
      return found;
    });
  }

  #row(name, row) {
    const found = this.rows(name).get(row);
    if (!found) throw new Error(`report ${name} has no row "${row}"; it has ${[...this.rows(name).keys()].join(", ")}`);
    return found;
  }

  value(name, of) {
    const dot = of.lastIndexOf(".");
    const [row, column] = [of.slice(0, dot), of.slice(dot + 1)];
    const value = this.#row(name, row)[column];
    if (value === undefined) throw new Error(`report ${name}: row "${row}" has no column ${column}`);
    return [value, column];
  }

  figure(mark) {
    const [, name, of] = /^(\S+) (.+)$/.exec(mark) ?? [];
    if (!name) throw new Error("want a report and a figure");
    const extreme = /^(least|most) (\S+?)(?:; (.+))?$/.exec(of);
    if (extreme) {
      const [, which, column, wanted] = extreme;
      const values = this.some(name, wanted)
        .map(([, row]) => row[column])
        .filter((value) => typeof value === "number");
      if (values.length === 0) throw new Error(`report ${name} has no column ${column}`);
      return format(column, which === "least" ? Math.min(...values) : Math.max(...values));
    }
    const claim = /^verdict (.+)\.(calls|tokens|tau|speed) (most|least) ([\d.]+)$/.exec(of);
    if (claim) {
      const [, row, ratio, which, bound] = claim;
      const [ratios] = this.value(name, `${row}.ratios`);
      return verdict(ratios[ratio], which, Number(bound));
    }
    const [first, how, second] = of.split(/ (vs|over) /);
    const [value, column] = this.value(name, first);
    if (!how) return format(column, value);
    const [base] = this.value(name, second);
    return how === "vs" ? format("change", value / base - 1) : format("times", value / base);
  }

  table(mark, page) {
    const [what, wanted] = mark.split("; ");
    const [name, ...columns] = what.trim().split(" ");
    const rows = this.some(name, wanted);
    for (const column of columns)
      if (!rows.some(([, row]) => row[column] !== undefined)) throw new Error(`report ${name} has no column ${column}`);
    const lines = [columns.map((column) => columnOf(column).title), columns.map(() => "---")];
    lines[0].unshift(rows[0][1].test ? "attack" : "");
    lines[1].unshift("---");
    for (const [row, cells] of rows)
      lines.push([category([row, cells]) ?? row, ...columns.map((column) => format(column, cells[column]))]);
    return [
      ...lines.map((cells) => `| ${cells.map((cell) => cell.replaceAll("|", "\\|")).join(" | ")} |`),
      "",
      this.provenance(name, page),
    ].join("\n");
  }

  /** Who measured a report, as a paragraph of a page. */
  provenance(name, page) {
    return wrap(provenance(name, this.read(name), page, differs(this.read(name), hashes(this.#root))));
  }
}

/** The category of a row of METHOD/CATEGORY. */
const category = ([row, cells]) => (cells.test || !row.includes("/") ? undefined : row.split("/").at(-1));

/**
 * Who measured what, where, when and by which command; the report itself has the command that this runs. `earlier`: the
 * prompts have changed since.
 */
function provenance(name, report, page, earlier) {
  const link = path.posix.relative(path.posix.dirname(page), fileOf(name));
  if (report.calibrations || report.made) return `*From [${path.posix.basename(link)}](${link}).*`;
  const where = [report.machine, setting(report.data)].filter(Boolean).join("; ");
  const day = new Date(`${report.date}T00:00:00Z`).toLocaleDateString("en-GB", {
    day: "numeric",
    month: "long",
    year: "numeric",
    timeZone: "UTC",
  });
  const load = report.load > 2 * report.cores ? `, on a busy machine (load average ${report.load.toFixed(0)})` : "";
  const command = `make report REPORT=${name}`;
  const prompts = earlier ? ", prompts of that commit" : "";
  return `*${where}. ${day}, commit ${report.commit}${prompts}${load}:* \`${command}\` *made [its report](${link}).*`;
}

/** A page with its tables and figures as the reports have them; `complain` gets what cannot be generated. */
export function regenerate(page, text, reports, complain) {
  return outsideCode(text, (part, from) => {
    const attempt = (before, old, make) => {
      try {
        return make();
      } catch (error) {
        complain(from + before.split("\n").length - 1, error.message);
        return old;
      }
    };
    const marks = part.match(/<!-- (table|figure):/g)?.length ?? 0;
    if (marks !== (part.match(/<!-- end -->/g)?.length ?? 0))
      complain(from, `${marks} marks begin below, and not as many end`);
    const tables = part.replace(BLOCK, (old, open, mark, at) =>
      attempt(part.slice(0, at), old, () => `${open}\n\n${reports.table(mark, page)}\n\n<!-- end -->`),
    );
    return tables.replace(FIGURE, (old, open, mark, _, close, at) => {
      const before = tables.slice(0, at);
      // GitHub takes a line that begins with a comment for HTML, in which no Markdown counts.
      if (/(^|\n)$/.test(before))
        complain(from + before.split("\n").length - 1, "a figure stands at the beginning of a line");
      return attempt(before, old, () => open + reports.figure(mark) + close);
    });
  });
}

/** The text of a page or of a file that is generated as a whole. */
function generate(root, page, text, reports, wrong) {
  try {
    if (page === PAPERS) return papers(root, reports, (message) => wrong.push(message));
    if (page === LINES) return methodLines(reports);
  } catch (error) {
    wrong.push(`${page}: ${error.message}`);
    return text;
  }
  return regenerate(page, text, reports, (line, message) => wrong.push(`${page}:${line}: ${message}`));
}

/** Rewrites the pages, or with `check` only compares. Returns complaints. */
export function pages(root, check) {
  const reports = new Reports(root);
  const wrong = [];
  for (const page of [...pagesOf(root), LINES]) {
    const file = path.join(root, page);
    if (!existsSync(file)) continue;
    const text = readFileSync(file, "utf8");
    const made = generate(root, page, text, reports, wrong);
    if (made === text) continue;
    if (!check) writeFileSync(file, made);
    else {
      const [old, now] = [text.split("\n"), made.split("\n")];
      const at = now.findIndex((one, i) => one !== old[i]);
      wrong.push(`${page}:${at + 1}: differs from its reports; run make docs-reports`);
    }
  }
  for (const name of reports.names())
    if (!reports.quoted.has(name)) wrong.push(`docs/reports/${name}.json: no page quotes it`);
  return wrong;
}

/** What tests and benchmarks reported, of the events of `go test -json`: { TEST: { KEY: VALUE } }. */
export function reported(output) {
  const tests = {};
  const printed = {};
  const events = output
    .split("\n")
    .filter((line) => line.startsWith("{"))
    .map((line) => JSON.parse(line));
  // Packages have attacks in common, so those tests go by their package too.
  const full = ({ Package, Test }) => `${Package.replace(/^foretoken\b\/?/, "") || "."} ${Test}`;
  const attacks = new Set(events.filter(({ Action, Key }) => Action === "attr" && Key === "attack").map(full));
  for (const event of events) {
    const name = attacks.has(full(event)) ? full(event) : event.Test;
    if (event.Action === "attr")
      (tests[name] ??= {})[event.Key] = Number.isNaN(Number(event.Value)) ? event.Value : Number(event.Value);
    if (event.Action === "output") printed[event.Package] = (printed[event.Package] ?? "") + event.Output;
  }
  for (const text of Object.values(printed)) {
    for (const [, name, , rest] of text.matchAll(/^(Benchmark\S+?)(-\d+)?\s+\d+\t(.+)$/gm)) {
      for (const [, value, unit] of rest.matchAll(/([\d.e+]+) (\S+)/g)) (tests[name] ??= {})[unit] = Number(value);
    }
  }
  return tests;
}

/** JSON with a line for each row of a report, and numbers of six digits: files that a diff can be read of. */
export function layout(value, depth = 0) {
  if (typeof value === "number" && !Number.isInteger(value)) return JSON.stringify(Number(value.toPrecision(6)));
  if (value === null || typeof value !== "object") return JSON.stringify(value);
  const inside = Array.isArray(value)
    ? value.map((one) => layout(one, depth + 1))
    : Object.entries(value).map(([key, one]) => `${JSON.stringify(key)}: ${layout(one, depth + 1)}`);
  const [open, close] = Array.isArray(value) ? "[]" : "{}";
  if (depth > 2 || inside.length === 0) return open + inside.join(", ") + close;
  const indent = " ".repeat(depth + 1);
  return `${open}\n${indent}${inside.join(`,\n${indent}`)}\n${" ".repeat(depth)}${close}`;
}

/** What the tests printed that failed, of the events of `go test -json`; the end of any other output. */
function failures(output) {
  const events = output
    .split("\n")
    .filter((line) => line.startsWith("{"))
    .map((line) => JSON.parse(line));
  const failed = new Set(events.filter((event) => event.Action === "fail").map((event) => event.Test ?? event.Package));
  const said = events
    .filter((event) => event.Output && failed.has(event.Test ?? event.Package))
    .map((event) => event.Output);
  return (said.length ? said.join("") : output).slice(-4000);
}

/** Runs a report's command and keeps what it measured. */
function make(root, name, command) {
  const file = path.join(root, "docs", "reports", `${name}.json`);
  const old = existsSync(file) ? JSON.parse(readFileSync(file, "utf8")) : {};
  command ||= old.command;
  const folder = mkdtempSync(path.join(os.tmpdir(), "foretoken-report-"));
  try {
    const labels = [...command.matchAll(/\{([\w.-]*)\}/g)].map(([, label]) => label);
    const line = command.replace(/\{([\w.-]*)\}/g, (_, label) => path.join(folder, `${label}.json`));
    const env = { ...process.env, PATH: `${path.join(root, "build")}:${process.env.PATH}` };
    const commit = execFileSync("git", ["rev-parse", "--short", "HEAD"], { cwd: root, encoding: "utf8" }).trim();
    const { status, stdout } = spawnSync("bash", ["-eo", "pipefail", "-c", line], {
      cwd: root,
      env,
      encoding: "utf8",
      maxBuffer: 1 << 28,
      stdio: ["ignore", "pipe", "inherit"],
    });
    if (status !== 0) throw new Error(`${failures(stdout)}\n${name}: the command ended with ${status}`);
    const read = (label) => JSON.parse(readFileSync(path.join(folder, `${label}.json`), "utf8"));
    let data = reported(stdout);
    if (labels.length === 1 && labels[0] === "") data = read("");
    else if (labels.length > 0) data = Object.fromEntries(labels.map((label) => [label, read(label)]));
    if (Object.keys(data).length === 0) throw new Error(`${name}: the command reported nothing`);
    const cpus = os.cpus();
    const machine = `${cpus.length} × ${cpus[0].model.trim()}`;
    const report = {
      command,
      elsewhere: old.elsewhere,
      machine,
      cores: cpus.length,
      load: os.loadavg()[1],
      date: new Date().toISOString().slice(0, 10),
      commit,
      prompts: readBy(command, hashes(root)),
      data,
    };
    // Of a benchmark's histograms the pages need these only.
    const figures = ({ estimates, logits, ratios }) => {
      const some = Object.entries({ estimates, ...(/--suite/.test(command) && { logits, ratios }) });
      const kept = some.filter(([, histogram]) => histogram?.n);
      return kept.length ? Object.fromEntries(kept) : undefined;
    };
    // A path of this machine is written as the command has it.
    const short = (value) =>
      env.MODELS && typeof value === "string" ? value.replaceAll(env.MODELS, "$MODELS") : value;
    const text = JSON.stringify(report, (key, value) => {
      if (value?.n === 0) return undefined; // not measured
      return key === "figures" && !Array.isArray(value) ? figures(value) : short(value);
    });
    writeFileSync(file, layout(JSON.parse(text)) + "\n");
  } finally {
    rmSync(folder, { recursive: true });
  }
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const root = path.dirname(path.dirname(fileURLToPath(import.meta.url)));
  const [action, name, , ...command] = process.argv.slice(2);
  let wrong = [];
  if (action === "make")
    for (const one of name ? [name] : new Reports(root).ofHere()) make(root, one, command.join(" "));
  else if (action === "write" || action === "check") wrong = pages(root, action === "check");
  else wrong = ["usage: reports.mjs make [NAME [-- COMMAND]] | write | check"];
  if (action === "check") {
    const reports = new Reports(root);
    wrong.push(...differences(root, reports.read("attacks")));
    const all = reports.names().map((name) => [name, reports.read(name)]);
    wrong.push(...complaints(root, reports.read("prompts"), all));
  }
  for (const one of wrong) console.error(`reports: ${one}`);
  process.exit(wrong.length ? 1 : 0);
}
