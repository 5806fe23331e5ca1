/** Parses the prompts of a benchmark, and formats its report as bars, tables and CSV. */
import { isNoise } from "../widget/compare.ts";
import { attributeOf, FIELDS } from "../widget/fields.ts";
import type { BenchPrompt, BenchReport, BenchRow, GenerateRequest, Measure } from "../protocol/protocol.ts";

/** Parses one JSON object per line: {"prompt": …, "id": …, "category": …}. Errors name the line. */
export function parsePrompts(text: string, file = "the prompts"): BenchPrompt[] {
  const prompts: BenchPrompt[] = [];
  text.split(/\r?\n/).forEach((line, i) => {
    if (line.trim() === "") return;
    const where = `${file}: line ${i + 1}`;
    let value: unknown;
    try {
      value = JSON.parse(line);
    } catch {
      throw new Error(`${where}: not JSON; want one object per line, {"prompt": "…"}`);
    }
    const { prompt, id, category } = (value ?? {}) as Record<string, unknown>;
    if (typeof prompt !== "string" || prompt === "")
      throw new Error(`${where}: prompt: want a string that is not empty`);
    if (id !== undefined && (typeof id !== "string" || id === ""))
      throw new Error(`${where}: id: want a string that is not empty`);
    if (category !== undefined && typeof category !== "string") throw new Error(`${where}: category: want a string`);
    prompts.push({ prompt, id: id ?? `line-${i + 1}`, ...(category ? { category } : {}) });
  });
  return prompts;
}

/** Formats a request as an item of a method list: hetero:depth=4,theta=0.84. The matrix sets length and sampling. */
export function methodRow(request: GenerateRequest): string {
  const settings = FIELDS.filter(
    (f) => f.group !== "sampling" && request[f.name] !== undefined && request[f.name] !== null,
  ).map((f) => {
    const value = request[f.name];
    return `${attributeOf(f)}=${typeof value === "string" ? value : JSON.stringify(value)}`;
  });
  return [request.policy ?? "", ...settings].filter(Boolean).join(",").replace(",", ":");
}

const NOT_MEASURED = "not measured";

/** A figure that is drawn as bars. */
export interface Metric {
  key: "speedup" | "acceptance_length" | "calls" | "tokens";
  title: string;
  hint: string;
  show: (x: number) => string;
}

const count = (x: number): string => (Number.isInteger(x) ? String(x) : x.toFixed(1));

export const METRICS: readonly Metric[] = [
  {
    key: "speedup",
    title: "Speedup",
    hint: "over plain decoding, which alternates with the methods; a gain is one whose 95 % interval is above 1",
    show: (x) => `${x.toFixed(2)}×`,
  },
  {
    key: "acceptance_length",
    title: "Acceptance length τ",
    hint: "tokens per target pass, including its own extra one; more is better",
    show: (x) => x.toFixed(2),
  },
  { key: "calls", title: "Calls", hint: "target passes; fewer is better", show: count },
  { key: "tokens", title: "Tokens", hint: "verified in those passes; fewer is better", show: count },
];

export interface Bar {
  method: string;
  lossy: boolean;
  plain: boolean;
  /** Length relative to the longest bar, 0 to 1. */
  length: number;
  /** The label of the bar. */
  text: string;
  /** Whether the speedup is neither a gain nor a loss. */
  unclear: boolean;
}

/** Returns the bars of a metric for the rows of one category. */
export function bars(rows: readonly BenchRow[], metric: Metric): Bar[] {
  const most = Math.max(...rows.map((row) => row[metric.key].mean), 1e-9);
  const plain = rows.find((row) => row.plain);
  return rows.map((row) => {
    const m = row[metric.key];
    const gain = metric.key === "speedup" && !row.plain ? gainOf(row, plain) : undefined;
    return {
      method: row.method,
      lossy: row.lossy,
      plain: row.plain,
      length: m.n > 0 ? Math.max(0, m.mean / most) : 0,
      text: gain?.text ?? spread(m, metric.show),
      unclear: gain?.kind === "unclear",
    };
  });
}

/** The 0.975 quantiles of Student's t distribution, by degrees of freedom from 1 on. */
const QUANTILES = [12.71, 4.3, 3.18, 2.78, 2.57, 2.45, 2.36, 2.31, 2.26, 2.23, 2.2, 2.18, 2.16, 2.14, 2.13, 2.12];

/** Returns the 95 % confidence interval of a mean over repetitions; undefined for a single one. */
export function intervalOf({ mean, sd, n }: Measure): [low: number, high: number] | undefined {
  if (n < 2) return undefined;
  const half = ((QUANTILES[n - 2] ?? 2.11) * sd) / Math.sqrt(n);
  return [mean - half, mean + half];
}

export interface Gain {
  kind: "gain" | "loss" | "unclear";
  text: string;
}

/**
 * Says whether a method is faster than plain decoding: it is if the interval of its speedup is above 1, unless the
 * speedup exceeds the tokens a pass, so that the passes of plain decoding took longer for another reason.
 */
export function gainOf(row: BenchRow, plain: BenchRow | undefined): Gain {
  const { speedup, acceptance_length, verify_ms } = row;
  if (speedup.n === 0) return { kind: "unclear", text: NOT_MEASURED };
  const passes = plain ? `: ${verify_ms.mean.toFixed(1)} ms a pass, plain ${plain.verify_ms.mean.toFixed(1)}` : "";
  if (isNoise(speedup.mean, acceptance_length.mean)) return { kind: "unclear", text: `not clear${passes}` };
  const interval = intervalOf(speedup);
  if (!interval) return { kind: "unclear", text: "not clear: one repetition" };
  const [low, high] = interval.map((x) => Math.max(0, x)) as [number, number];
  const range = `${low.toFixed(2)} to ${high.toFixed(2)}`;
  if (low > 1) return { kind: "gain", text: `${speedup.mean.toFixed(2)}× (${range})` };
  if (high < 1) return { kind: "loss", text: `${speedup.mean.toFixed(2)}× (${range})` };
  return { kind: "unclear", text: `not clear (${range})` };
}

/** Formats a mean, with the standard deviation if repetitions differ. */
export function spread(m: Measure, show: (x: number) => string): string {
  if (m.n === 0) return NOT_MEASURED;
  return m.n > 1 && show(m.sd) !== show(0) ? `${show(m.mean)} ± ${show(m.sd)}` : show(m.mean);
}

/** The columns of the table. */
export const COLUMNS: readonly {
  title: string;
  hint: string;
  of: (row: BenchRow, plain: BenchRow | undefined) => string;
}[] = (() => {
  const column = (title: string, hint: string, key: keyof BenchRow, show: (x: number) => string) => ({
    title,
    hint,
    of: (row: BenchRow) => spread(row[key] as Measure, show),
  });
  const percent = (x: number): string => `${(100 * x).toFixed(0)}%`;
  const fine = (x: number): string => x.toFixed(2);
  const ms = (x: number): string => x.toFixed(1);
  return [
    {
      title: "Speedup",
      hint: "Over plain decoding of the same prompt in the same run, mean over prompts, and its 95 % interval",
      of: (row, plain) => (row.plain ? spread(row.speedup, (x) => `${fine(x)}×`) : gainOf(row, plain).text),
    },
    column("tok/s", "Output tokens per second of decoding", "decode_tok_s", ms),
    column("τ", "Acceptance length: tokens per target pass, including its own extra one", "acceptance_length", fine),
    column("Calls", "Target passes", "calls", count),
    column("Tokens", "Verified nodes, including roots", "tokens", count),
    column("Drafted", "Drafted tokens that were verified", "drafted", count),
    column("Accepted", "Drafted tokens that were committed", "accepted", count),
    column("Relaxed", "Accepted although the target chose another token", "relaxed", count),
    column("Draft ms", "Per round", "draft_ms", ms),
    column("Verify ms", "Per round", "verify_ms", ms),
    column("Host ms", "Per round", "host_ms", ms),
    column("Same prefix", "Share of tokens before the first difference from plain decoding", "same_prefix", percent),
    column("Same position", "Share of tokens equal to plain decoding's at the same position", "same_place", percent),
    column("Loss", "The target's loss on the output, in nats per token", "loss", fine),
  ];
})();

/** Returns notes about rows whose times exclude measurements. */
export function lostNotes(rows: readonly BenchRow[]): { method: string; text: string }[] {
  return rowsOf(rows, "")
    .filter((row) => (row.lost ?? 0) > 0)
    .map((row) => ({
      method: row.method,
      text: `the GPU was lost during ${row.lost} of its measurements; its times and speeds exclude them`,
    }));
}

/** Returns the rows of a category ("" for all prompts) in order. */
export function rowsOf(rows: readonly BenchRow[], category: string): BenchRow[] {
  return rows.filter((row) => row.category === category);
}

/** Returns the categories of the rows. */
export function categoriesOf(rows: readonly BenchRow[]): string[] {
  return [...new Set(rows.map((row) => row.category))].filter((category) => category !== "");
}

const MEASURES = [
  "speedup",
  "speed_ratio",
  "decode_tok_s",
  "acceptance_length",
  "calls",
  "tokens",
  "output_tokens",
  "drafted",
  "accepted",
  "relaxed",
  "draft_ms",
  "verify_ms",
  "readback_ms",
  "host_ms",
  "same_prefix",
  "same_place",
  "edits",
  "loss",
] as const;

const COUNTS = ["exact", "parses", "type_checks"] as const;

/** Formats a report as CSV with the columns of `foretoken bench --csv`; missing figures are empty. */
export function toCSV(report: BenchReport): string {
  const lines: (string | number | boolean)[][] = [
    [
      "device",
      "target",
      "draft",
      "method",
      "lossy",
      "temperature",
      "category",
      "prompts",
      "repetitions",
      ...MEASURES.flatMap((name) => [name, `${name}_sd`]),
      ...COUNTS.flatMap((name) => [name, `${name}_of`, `${name}_low`, `${name}_high`]),
    ],
  ];
  for (const row of report.rows) {
    lines.push([
      report.device,
      report.target,
      report.draft,
      row.method,
      row.lossy,
      row.temperature,
      row.category || "all",
      row.prompts,
      row.calls.n,
      ...MEASURES.flatMap((name) => [row[name].n > 0 ? row[name].mean : "", row[name].n > 1 ? row[name].sd : ""]),
      ...COUNTS.flatMap((name): (string | number)[] => {
        const { k, n, low, high } = row[name];
        return n > 0 ? [k, n, low, high] : ["", "", "", ""];
      }),
    ]);
  }
  return lines.map((line) => line.map(cell).join(",") + "\n").join("");
}

function cell(value: string | number | boolean): string {
  const text = String(value);
  return /[",\n\r]/.test(text) || /^[\s]|[\s]$/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}
