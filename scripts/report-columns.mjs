/** The kinds of reports: what their rows are, and how each column is called and written. */

const fixed = (digits) => (x) =>
  x.toLocaleString("en-US", { minimumFractionDigits: digits, maximumFractionDigits: digits });
const sign = (text) => text.replace("-", "−");
const percent = (digits) => (x) => `${sign(fixed(digits)(100 * x))} %`;
const times = (x) => `${fixed(2)(x)}×`;
const small = (x) => (x === 0 ? "0" : x < 0.01 ? x.toExponential(1) : x.toPrecision(2));
const bytes = (x) => (x < 1e6 ? `${fixed(1)(x / 1e3)} kB` : `${fixed(2)(x / 1e6)} MB`);

const WIDTH = 120;

/** Breaks a paragraph at spaces, but no row of a table; its lines never begin with what Markdown takes for a list. */
export function wrap(text) {
  if (/^(\||<!--)/.test(text)) return text;
  const lines = [""];
  for (const word of text.split(" ")) {
    if (lines.at(-1) && lines.at(-1).length + 1 + word.length > WIDTH && !/^([-+*>#|]|\d+[.)])$/.test(word))
      lines.push(word);
    else lines[lines.length - 1] += (lines.at(-1) ? " " : "") + word;
  }
  return lines.join("\n");
}

/** Columns by name: title and how a value is written. Others are written as they are. */
const COLUMNS = {
  speedup: ["speedup", times],
  low: ["95 %: from", times],
  high: ["to", times],
  median: ["median prompt", times],
  worst: ["worst prompt", times],
  slow: ["prompts below 0.95×", percent(0)],
  tau: ["τ", fixed(2)],
  rows_a_pass: ["rows a pass", fixed(1)],
  calls: ["Calls", fixed(0)],
  tokens: ["Tokens", fixed(0)],
  relaxed: ["relaxed", fixed(0)],
  same: ["same tokens", percent(0)],
  loss: ["loss, nats", fixed(3)],
  edits: ["edits", percent(0)],
  exact: ["equal to plain", String],
  parses: ["parses", percent(0)],
  complete: ["completed", percent(0)],
  type_checks: ["type-checks", percent(0)],
  distinct_4grams: ["distinct 4-grams", fixed(2)],
  f1: ["F1", fixed(2)],
  f1_of_another: ["F1 of another", fixed(2)],
  trained: ["tokens read", (x) => `${fixed(1)(x / 1e6)} million`],
  epochs: ["epochs", fixed(1)],
  hours: ["hours", fixed(1)],
  held_out_256: ["held out, 256 tokens, nats a byte", fixed(3)],
  held_out_1024: ["held out, 1,024 tokens, nats a byte", fixed(3)],
  auc: ["AUC", fixed(2)],
  recall: ["recall", fixed(2)],
  phi: ["Φ, nats", String],
  accepted: ["accepted paths", fixed(0)],
  tcr: ["mean TCR", fixed(1)],
  calls_ratio: ["Calls, of its baseline (95 %)", String],
  tokens_ratio: ["Tokens (95 %)", String],
  tau_ratio: ["τ (95 %)", String],
  speed_ratio: ["speed (95 %)", String],
  at_equal_length: ["Tokens a pass, of the curve's at equal τ (95 %)", String],
  calls_name: ["Calls", String],
  tokens_name: ["Tokens", String],
  tau_name: ["τ", String],
  speed_name: ["speed", String],
  at_equal_length_name: ["Tokens at equal τ", String],
  distance_accepted: ["D of accepted tokens", fixed(3)],
  distance_rejected: ["D of rejected tokens", fixed(3)],
  close: ["nodes with z2/z1 above 0.9", percent(0)],
  z1: ["median z1", fixed(0)],
  pairs: ["prompts × seeds", String],
  change: ["", (x) => (x > 0 ? "+" : "") + percent(1)(x)],
  times: ["", times],
  prompts: ["prompts", fixed(0)],
  lines: ["lines of 40 characters", fixed(0)],
  lines_found: ["lines found", fixed(0)],
  prompts_found: ["prompts found", fixed(0)],
  samples: ["samples", fixed(0)],
  turns: ["turns", fixed(0)],
  answers: ["answers", fixed(0)],
  plain_tok_s: ["plain, tok/s", fixed(0)],
  auto_tok_s: ["auto, tok/s", fixed(0)],
  ceiling: ["fixed chains at best", times],
  visits: ["profiles", fixed(0)],
  cold: ["address to first token, ms", fixed(0)],
  ready: ["ready after, ms", fixed(0)],
  least_tau: ["lowest τ", fixed(2)],
  compared: ["the first Compare", times],
  least_compared: ["lowest Compare", times],
  replies: ["later replies", times],
  lowest_end: ["lowest interval, to", times],
  unclear: ["no clear result", percent(0)],
  slower: ["slower", percent(0)],
  slowest: ["slowest first reply", times],
  again1: ["plain again, reply 1", times],
  again_slowest: ["plain again, slowest", times],
  settling: ["plain, reply 1 over the last", times],
  drafted: ["drafted in the first", fixed(0)],
  best_fixed: ["best fixed, of plain", times],
  which: ["which", String],
  auto: ["auto, of plain", times],
  of_best: ["auto, of best fixed", fixed(2)],
  of_hindsight: ["of the best for each text", fixed(2)],
  worst_text: ["worst text", fixed(2)],
  settled: ["after 32 tokens, of plain", fixed(2)],
  "submits/round": ["submits", fixed(1)],
  "reads/round": ["readbacks", fixed(1)],
  "B-in/round": ["bytes written", fixed(0)],
  "B-out/round": ["bytes read", fixed(0)],
  "made/round": ["objects made", fixed(1)],
  bound: ["bound", String],
  measured: ["measured", String],
  raw: ["size", bytes],
  parameters: ["parameters", (x) => `${(x / 1e6).toPrecision(2)} million`],
  head: ["elements a head", String],
  gzip: ["gzipped", bytes],
  now: ["JavaScript at first, gzipped", bytes],
  later: ["later, at most", bytes],
  before: ["before the click", bytes],
  clicked: ["after it, without models", bytes],
  models: ["models", bytes],
  first: ["warm", fixed(0)],
  last: ["at the end", fixed(0)],
  performance: ["performance", fixed(0)],
  accessibility: ["accessibility", fixed(0)],
  "best-practices": ["best practices", fixed(0)],
  "largest-contentful-paint": ["largest paint", String],
  "total-blocking-time": ["blocking", String],
  registers: ["registers", fixed(0)],
  spills: ["spilled", fixed(0)],
  scratch: ["scratch, bytes", fixed(0)],
  lds: ["LDS, bytes", fixed(0)],
  waves: ["waves", fixed(0)],
  cycles: ["cycles of a wave", fixed(0)],
  row_cycles: ["cycles a weight row", fixed(0)],
  byte_cycles: ["cycles a byte", fixed(2)],
  row_bytes: ["bytes a weight row", fixed(0)],
  kernels: ["kernels", fixed(0)],
  spilling: ["that spill", fixed(0)],
  with_scratch: ["with scratch", fixed(0)],
  below_8_waves: ["below 8 waves", fixed(0)],
  least_waves: ["fewest waves", fixed(0)],
  most_registers: ["most registers", fixed(0)],
  schemas: ["schemas", fixed(0)],
  like_llama: ["texts as llama.cpp", String],
  vocabulary: ["vocabulary", fixed(0)],
  own_texts: ["texts that come with it", String],
  english: ["English", String],
  go: ["Go", String],
  mixed: ["many languages", String],
  compiled: ["compiled", percent(1)],
  right: ["all tests right", fixed(0)],
  right_share: ["share", percent(1)],
  not_compiled: ["not compiled", fixed(0)],
  refusing: ["refuse a valid instance", fixed(0)],
  allowing: ["allow an invalid one", fixed(0)],
  valid: ["valid instances", fixed(0)],
  valid_refused: ["refused in any order", fixed(0)],
  valid_other_order: ["in another order only", fixed(0)],
  invalid: ["invalid ones", fixed(0)],
  invalid_allowed: ["allowed", fixed(0)],
  compile_median_us: ["compiling, median, µs", fixed(0)],
  compile_p99_us: ["99 %, µs", fixed(0)],
  compile_max_us: ["slowest, µs", fixed(0)],
  compile_within_20ms: ["within 20 ms", percent(1)],
  refused_open: ["json_open", fixed(0)],
  refused: ["default", fixed(0)],
  masks: ["masks", fixed(0)],
  mask_mean_us: ["mean, µs", fixed(1)],
  mask_median_us: ["median, µs", fixed(1)],
  mask_p99_us: ["99 %, µs", fixed(0)],
  mask_max_us: ["slowest, µs", fixed(0)],
  median_of_before: ["median, of before", times],
  p99_of_before: ["99 %, of before", times],
  arithmetic: ["arithmetic over reading, 1 row", fixed(2)],
};

/** What is compared in gpu-tint. */
const TINT = { naga: "naga", tint: "Tint", clamped: "all clamps", plain: "no safeguards" };

/** Columns whose names have a part that varies: pattern, title and how a value is written. */
const PATTERNS = [
  [/^t1$/, () => "T(1), ms", (x) => fixed(x < 10 ? 2 : 1)(x)],
  [/^gb1$/, () => "GB/s at one row", fixed(0)],
  [/^r(\d+)$/, (n) => `T(${n})/T(1)`, fixed(2)],
  [/^after(\d+)$/, (n) => `T(1) after ${Number(n).toLocaleString("en-US")}, ms`, fixed(1)],
  [/^reply(\d+)$/, (n) => `reply ${n}`, times],
  [/^kept$/, () => "rate kept", fixed(2)],
  [/^(.+):rate$/, (model) => `${model}, tok/s`, (x) => (x < 10 ? fixed(2)(x) : fixed(0)(x))],
  [/^(.+):ratio$/, (model) => `${model}, of plain on one thread`, times],
  [/^(.+):first$/, (model) => `${model}, first token, ms`, fixed(0)],
  [/^(.+):range$/, (model) => `${model}, tok/s (least – most)`, String],
  [/^(.+):prompt$/, (model) => `${model}, prompt tok/s`, (x) => fixed(x < 10 ? 1 : 0)(x)],
  [/^(.+):memory$/, (model) => `${model}, of what memory gives`, percent(0)],
  [/^(naga|tint|clamped|plain):(registers|waves|cycles)$/, (of, what) => `${TINT[of]}, ${what}`, fixed(0)],
  [/^(naga|tint|clamped|plain):code$/, (of) => `${TINT[of]}, bytes of code`, fixed(0)],
  [/^(naga|tint|clamped|plain):of_naga$/, (of) => `${TINT[of]}, cycles of naga's`, times],
  [/^(none|ngram|chain|auto):a_round$/, (policy) => policy, fixed(2)],
  [/^(cpu|native|browser):(f32|f16|q8)$/, (device, kv) => `${device}, ${kv}`, small],
];

export function columnOf(name) {
  const known = COLUMNS[name];
  if (known) return { title: known[0], write: known[1] };
  for (const [pattern, title, write] of PATTERNS) {
    const found = pattern.exec(name);
    if (found) return { title: title(...found.slice(1)), write };
  }
  return { title: name, write: String };
}

/** A value of a column as pages have it; nothing where there is none. */
export function format(column, value) {
  if (value === undefined || value === null) return "";
  return typeof value === "number" ? columnOf(column).write(value) : String(value);
}

/** The rows of a report, or of a file that was fitted to a pair: Map of name → { column: value }. */
export function rowsOf(report) {
  if (report.calibrations?.[0].label) return heads(report.calibrations);
  if (report.calibrations) return fitted(report.calibrations[0]);
  if (report.made) return fitted(report);
  const { data } = report;
  if (data.rows) return bench(data);
  if (data.pairs) return pairs(data);
  if (data.models) return peers(data);
  if (data.gpus) return auditedGPUs(data);
  if (data.products) return products(data);
  const [first] = Object.values(data);
  if (data.verify || first?.verify) return costs(data.verify ? { [data.target]: data } : data);
  if (first?.rows) return benches(data);
  if (first?.scores) return scores(data);
  if (Object.values(data).some(({ attack }) => attack)) return attacks(data);
  return tests(data);
}

/** What held for all rows, for the line below a table. */
export function setting(data) {
  const [first] = data.rows || data.models || data.pairs || data.products ? [data] : Object.values(data);
  const repeated = (n, what) => (n === 1 ? `one ${what}` : `${n} interleaved ${what}s`);
  const pair = data.rows && `${data.target} with ${data.draft}`;
  const bench = data.rows && repeated(Math.max(...data.rows.map((r) => r.calls.n)), "repetition");
  const passes = first?.verify && `${first.length} tokens in the cache, medians of ${first.repeat} passes in turn`;
  const peers = data.models && `greedy, ${data.tokens} tokens, medians of ${repeated(data.repeat, "repetition")}`;
  const gb = (of) => `${fixed(1)(data.memory[of])} GB/s`;
  const memory = data.memory && `memory ${gb("one_gb_s")} by one thread, ${gb("all_gb_s")} by all`;
  const versions = Object.entries(data.versions ?? {}).filter(([name]) => name !== "Foretoken");
  const chromium = data.chromium && [`Chromium ${data.chromium}`, data.adapter].filter(Boolean).join(", ");
  const adapter = data.adapter?.backend && `${data.adapter.name}, ${data.adapter.driver}`;
  const others = versions.map(([name, version]) => `${name} ${version}`).join(", ");
  const note = data.note ?? (first?.tables && first.note);
  const all = [first?.device, adapter, data.driver, pair, chromium, others, note, passes, bench, peers, memory];
  return all.filter(Boolean).join("; ");
}

/** `foretoken bench --json`: a row a method, and METHOD/CATEGORY for each category. */
export function bench({ rows }) {
  const mean = (measure) => (measure?.n > 0 ? measure.mean : undefined);
  const share = (x) => fixed(0)(100 * x);
  const counted = (of) =>
    of?.k >= 0 && of.n > 0 ? `${of.k} of ${of.n} (${share(of.low)} – ${share(of.high)} %)` : undefined;
  return new Map(
    rows.map((r) => [
      r.category ? `${r.method}/${r.category}` : r.method,
      {
        prompts: r.prompts,
        speedup: mean(r.speedup),
        median: r.category ? undefined : r.median_speedup || undefined,
        worst: r.worst?.speedup,
        slow: r.category ? undefined : r.slow,
        tau: mean(r.acceptance_length),
        rows_a_pass: mean(r.tokens) / mean(r.calls),
        calls: mean(r.calls),
        tokens: mean(r.tokens),
        relaxed: mean(r.relaxed),
        same: mean(r.same_prefix),
        loss: mean(r.loss),
        edits: mean(r.edits),
        exact: counted(r.exact),
        parses: counted(r.parses),
        type_checks: counted(r.type_checks),
        auc: areaUnder(r.figures?.estimates),
        distance_accepted: mean(r.distance_accepted),
        distance_rejected: mean(r.distance_rejected),
        close: above(r.figures?.ratios, 0.9),
        z1: median(r.figures?.logits),
        ...compared(r.ratios?.at(-1)),
      },
    ]),
  );
}

/**
 * Whether a ratio with its interval shows what a paper claims, that it is at most, or at least, some bound: reproduced
 * where it does and the interval leaves out 1, not reproduced where the interval leaves out the bound.
 */
export function verdict({ ratio, low, high }, which, bound) {
  const [value, near, far, limit] = which === "most" ? [ratio, low, high, bound] : [-ratio, -high, -low, -bound];
  const none = which === "most" ? 1 : -1;
  if (near > limit) return "not reproduced";
  return value <= limit && (limit >= none || far < none) ? "reproduced" : "undecided";
}

/** A ratio as a change with its interval. */
export function interval({ ratio, low, high }) {
  const change = (x) => format("change", x - 1);
  return `${change(ratio)} (${change(low)} to ${change(high)})`;
}

/** The ratios of a row to a baseline: changes with their intervals. */
export function compared(ratios) {
  if (!ratios) return {};
  return {
    calls_ratio: interval(ratios.calls),
    tokens_ratio: interval(ratios.tokens),
    tau_ratio: interval(ratios.tau),
    speed_ratio: ratios.speed?.n > 0 ? interval(ratios.speed) : undefined,
    pairs: `${ratios.calls.n} × ${ratios.seeds}`,
    ratios,
  };
}

/** Several of them: a row each, of auto beside plain decoding; of other methods, LABEL, METHOD. */
function benches(data) {
  return new Map(
    Object.entries(data).flatMap(([name, { rows }]) => {
      const rate = (method) => rows.find((r) => r.method === method && !r.category)?.decode_tok_s?.mean;
      const of = bench({ rows });
      const methods = [...of.keys()].filter((method) => method !== "none" && !method.includes("/"));
      return methods.map((method) => [
        method === "auto" ? name : `${name}, ${method}`,
        { ...of.get(method), plain_tok_s: rate("none"), auto_tok_s: rate(method) },
      ]);
    }),
  );
}

/** `foretoken doctor --json`: a row a format and family, with the speed for each number of rows of activations. */
function products({ products: all }) {
  return new Map(
    all.map(({ format: of, family, rows }) => {
      const cells = { gb1: rows[0]?.gb_s };
      for (const { m, ratio } of rows) cells[`r${m}`] = ratio;
      return [`${of} ${family}`, cells];
    }),
  );
}

/** The area under the ROC curve of a histogram of estimates, of which `hits` were right; ties count half. */
function areaUnder(histogram) {
  if (!histogram?.n) return undefined;
  let [hits, area, misses] = [0, 0, 0];
  for (const [i, n] of histogram.n.entries()) {
    const hit = histogram.hits[i];
    area += hit * (misses + (n - hit) / 2);
    [hits, misses] = [hits + hit, misses + n - hit];
  }
  return area / (hits * misses);
}

/** The share of a histogram's values above a bound, from the intervals that begin there. */
function above(histogram, bound) {
  const total = histogram?.n?.reduce((sum, n) => sum + n, 0);
  if (!total) return undefined;
  return histogram.n.slice(Math.round(bound / histogram.width)).reduce((sum, n) => sum + n, 0) / total;
}

/** The median of a histogram's values, to the middle of an interval. */
function median(histogram) {
  let left = (histogram?.n?.reduce((sum, n) => sum + n, 0) ?? 0) / 2;
  if (!left) return undefined;
  const at = histogram.n.findIndex((n) => (left -= n) <= 0);
  return (at + 0.5) * histogram.width;
}

/** `foretoken bench verify-cost --json`, of one or several models. */
function costs(data) {
  return new Map(
    Object.entries(data).map(([name, of]) => {
      const cells = { t1: of.verify[0].ms };
      for (const { n, ratio } of of.verify) cells[`r${n}`] = ratio;
      for (const { length, verify } of [...(of.after ?? []), of]) cells[`after${length}`] = verify[0].ms;
      if (of.after?.length) cells.kept = of.after[0].verify[0].ms / of.verify[0].ms;
      if (of.best?.speedup) cells.ceiling = of.best.speedup;
      return [name, cells];
    }),
  );
}

/** `make bench-auto` and test/first.mjs: a row a pair, and PAIR/CATEGORY. */
function pairs({ pairs: all }) {
  return new Map(
    all.flatMap(({ title, rows }) =>
      rows.map(({ category, ...cells }) => [category ? `${title}/${category}` : title, cells]),
    ),
  );
}

/** `make bench-peers`: a row an engine, with its home where reports have several, the models in columns. */
function peers({ models }) {
  const rows = new Map();
  const several = new Set(models.flatMap(({ engines }) => engines.map((e) => e.home))).size > 1;
  const tokens = (x) => fixed(x < 10 ? 2 : 0)(x);
  for (const { name, engines } of models) {
    const plain = engines.find((e) => e.name === "ours-1")?.decode_tok_s?.median;
    for (const e of engines) {
      const title = several ? `${e.title}, ${e.home}` : e.title;
      const row = rows.get(title) ?? {};
      rows.set(title, row);
      const { decode_tok_s: rate } = e;
      row[`${name}:rate`] = row[`${name}:range`] = e.problem ? "does not run" : rate?.median;
      if (e.problem || !rate) continue;
      row[`${name}:range`] = `${tokens(rate.median)} (${tokens(rate.min)} – ${tokens(rate.max)})`;
      row[`${name}:first`] = e.ttft_ms?.median;
      row[`${name}:prompt`] = e.prompt_tok_s;
      row[`${name}:memory`] = e.of_memory;
      if (e.name !== "ours-1") row[`${name}:ratio`] = rate.median / plain;
    }
  }
  return rows;
}

/** `make gpu-audit`: a row a GPU, and of each the kernels and, in its own report, their roofline. */
function auditedGPUs({ gpus, kernels, columns, roofline = {} }) {
  const rows = new Map(Object.entries(gpus).map(([name, cells]) => [`GPU ${name}`, cells]));
  for (const [name, cells] of Object.entries(roofline)) rows.set(`roofline ${name}`, cells);
  for (const [kernel, of] of Object.entries(kernels))
    for (const [gpu, values] of Object.entries(of))
      rows.set(`${gpu} ${kernel}`, Object.fromEntries(values.map((value, i) => [columns[i], value])));
  return rows;
}

/** Lighthouse: a row a page. */
function scores(data) {
  return new Map(Object.entries(data).map(([name, { scores: of, metrics }]) => [name, { ...of, ...metrics }]));
}

/**
 * What tests reported: a row by the last part of a test's name, its parts before that in the columns' names. A key of
 * ROW/COLUMN has a row of its own.
 */
function tests(data) {
  const rows = new Map();
  for (const [test, cells] of Object.entries(data)) {
    const parts = test.split("/").slice(1);
    const name = parts.pop() ?? test;
    const before = parts.map((part) => `${part}:`).join("");
    for (const [key, value] of Object.entries(cells)) {
      const slash = key.startsWith("B/") || key.endsWith("/op") || key.endsWith("/round") ? -1 : key.indexOf("/");
      const row = slash < 0 ? name : key.slice(0, slash).replaceAll("-", " ");
      rows.set(row, { ...rows.get(row), [slash < 0 ? before + key : key.slice(slash + 1)]: value });
    }
  }
  return rows;
}

/** Tests that state an attack: a row an attack, and the test that tries it. */
function attacks(data) {
  const rows = new Map();
  for (const [name, { attack, ...cells }] of Object.entries(data)) {
    const [, folder, test] = /^(\S+) (.+)$/.exec(name);
    if (!attack || !cells.bound)
      throw new Error(`${name} states an attack without a bound, or a bound without an attack`);
    if (rows.has(attack)) throw new Error(`${name} states "${attack}", and so does ${rows.get(attack).test}`);
    const shown = test.includes(" ") ? test : `\`${test}\``; // a title, or the name of a function
    rows.set(String(attack), { ...cells, test: folder === "." ? shown : `\`${folder}\` ${shown}` });
  }
  return rows;
}

/** A set of acceptance heads: one row each, by source and temperature. */
function heads(all) {
  return new Map(
    all.map(({ source = "draft", made }) => [
      `${source}-${made.temperature}`,
      { auc: Number(made.settings.AUC) },
    ]),
  );
}

/** A file of models/demo that was fitted to the built-in pair: what it was made with, and the bins of entropy bins. */
function fitted({ made: { settings, ...made }, fits: [greedy] = [] }) {
  const number = (x) => (typeof x === "string" && x !== "" && !Number.isNaN(Number(x)) ? Number(x) : x);
  const rows = new Map([["made", { ...made, auc: number(settings.AUC), recall: number(settings.recall) }]]);
  const phi = (x) => (x === undefined ? "" : fixed(2)(x));
  for (const [i, accepted] of (greedy?.counts ?? []).entries()) {
    const [from, to] = [greedy.edges[i - 1] ?? 0, greedy.edges[i]];
    rows.set(`bin ${i}`, { phi: `${phi(from)} – ${phi(to)}`, accepted, tcr: greedy.means[i] });
  }
  return rows;
}
