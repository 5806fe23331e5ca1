/** Tables of a profile: where the time of passes and rounds goes. */
import type { CostReport, PassProfile, ProfileReport, Traffic } from "../protocol/protocol.ts";
import { el } from "../widget/dom.ts";

const CLOCKS: Record<string, string> = {
  timestamps: "each kernel alone, repeated, by the device's timestamps",
  replays: "each kernel alone, by the time of submits that repeat it: this device has no timestamps",
  host: "each kernel alone, on the CPU",
};

const ms = (x: number): string => x.toFixed(x < 1 ? 3 : 2);
const count = (x: number): string => (Number.isInteger(x) || x >= 100 ? x.toFixed(0) : x.toFixed(2));
const traffic = (t: Traffic): string[] =>
  [t.submits, t.readbacks, t.bytes_written, t.bytes_read, t.creations].map(count);
const TRAFFIC = ["submits", "readbacks", "B written", "B read", "created"];

/** Shortens a kernel's name to the distinguishing parts: its last source, the format, its constants. */
export function kernelName(name: string): string {
  const words = name.split(" ");
  const sources = words.filter((w) => !w.includes("="));
  const format = sources.find((w) => w.startsWith("unpack_"))?.slice(7);
  const main = sources.filter((w) => !w.startsWith("unpack_") && !w.endsWith("params")).at(-1) ?? name;
  return [main, ...(format ? [format] : []), ...words.filter((w) => w.includes("="))].join(" ");
}

export function table(head: readonly string[], rows: readonly (readonly string[])[]): HTMLElement {
  const cell = (kind: "th" | "td", text: string, i: number): HTMLElement =>
    i === 0
      ? el("th", { scope: kind === "th" ? "col" : "row" }, text)
      : el(kind, kind === "th" ? { scope: "col" } : {}, text);
  return el(
    "div",
    { class: "scroll", tabindex: 0, role: "group", "aria-label": `${head[0]}, scrolls` },
    el(
      "table",
      {},
      el("thead", {}, el("tr", {}, ...head.map((text, i) => cell("th", text, i)))),
      el("tbody", {}, ...rows.map((row) => el("tr", {}, ...row.map((text, i) => cell("td", text, i))))),
    ),
  );
}

function pass(p: PassProfile): HTMLElement {
  const rows = p.kernels.map((k) => [
    kernelName(k.kernel),
    k.groups.join("×"),
    String(k.calls),
    ms(k.ms),
    `${(100 * k.share).toFixed(1)} %`,
    k.mean_ms.toFixed(4),
  ]);
  const [submits, readbacks, written, read, created] = traffic(p);
  return el(
    "details",
    { "data-pass": p.name },
    el(
      "summary",
      {},
      `${p.name}: ${ms(p.ms)} ms, including ${ms(p.wait_ms)} waiting; ` +
        `${p.dispatches} dispatches, ${ms(p.kernel_ms)} ms when timed alone`,
    ),
    el(
      "p",
      {},
      `${submits} submits, ${readbacks} readbacks, ${written} bytes written, ${read} read, ${created} created`,
    ),
    table(["kernel", "workgroups", "calls", "ms", "share", "ms a call"], rows),
  );
}

/** Returns the cards of a profile and of the costs of passes. */
export function profileCards(profile: ProfileReport, costs: CostReport): HTMLElement[] {
  const rounds = profile.rounds.map((r) => [
    r.method,
    count(r.rounds),
    r.tokens.toFixed(2),
    ...[r.ms, r.draft_ms, r.verify_ms, r.readback_ms, r.host_ms, r.cpu_ms].map(ms),
    ...traffic(r),
    count(Math.round(r.allocs)),
  ]);
  const chains = (costs.chain ?? []).map((c, i) => [
    String(c.n),
    ms(c.ms),
    c.ratio.toFixed(2),
    costs.chains?.[i]?.tokens.toFixed(2) ?? "",
    costs.chains?.[i]?.speedup.toFixed(2) ?? "",
  ]);
  return [
    el(
      "div",
      { class: "card", id: "bench-rounds" },
      el(
        "h2",
        {},
        "Rounds",
        el("small", {}, "in ms; draft and verify include readback; cpu is the round without the wait for the device"),
      ),
      table(
        [
          "method",
          "rounds",
          "tokens",
          "round",
          "draft",
          "verify",
          "readback",
          "host",
          "cpu",
          ...TRAFFIC,
          "allocations",
        ],
        rounds,
      ),
    ),
    el(
      "div",
      { class: "card", id: "bench-kernels" },
      el(
        "h2",
        {},
        "Kernels",
        el("small", {}, `${CLOCKS[profile.clock] ?? profile.clock}; ${profile.length} tokens in the cache`),
      ),
      ...profile.passes.map(pass),
    ),
    el(
      "div",
      { class: "card", id: "bench-costs" },
      el(
        "h2",
        {},
        "Costs of passes",
        el(
          "small",
          {},
          `medians of ${costs.repeat} passes` +
            (costs.chains ? `; chains of ${costs.best.k} could reach ${costs.best.speedup.toFixed(2)}×` : ""),
        ),
      ),
      table(
        ["rows", "T(M) ms", "T(M)/T(1)"],
        costs.verify.map((c) => [String(c.n), ms(c.ms), c.ratio.toFixed(2)]),
      ),
      ...(chains.length > 0 ? [table(["K drafted", "ms", "of T(1)", "tokens a round", "ceiling ×"], chains)] : []),
    ),
  ];
}
