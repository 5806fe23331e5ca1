/** Formats numbers for display. */
import { bytes } from "../sources/bytes.ts";
import { hostLabel } from "../protocol/devices.ts";
import type { ForetokenError } from "../protocol/errors.ts";
import type { DeviceInfo, ModelInfo, Progress, Result } from "../protocol/protocol.ts";

export { bytes };

/** Formats a finite number with three significant digits, without an exponent. */
export function short(n: number): string {
  const size = Math.abs(n);
  if (size >= 100) return Math.round(n).toString();
  return n.toFixed(size >= 10 ? 1 : 2);
}

export function milliseconds(n: number): string {
  return n >= 10_000 ? `${short(n / 1000)} s` : `${short(n)} ms`;
}

export function percent(part: number): string {
  return `${Math.round(part * 100)}%`;
}

/** Formats a number of parameters: 7.3 M. */
export function parameters(n: number): string {
  if (n >= 1e9) return `${(n / 1e9).toFixed(1)} B`;
  if (n >= 1e6) return `${(n / 1e6).toFixed(1)} M`;
  return `${Math.round(n / 1e3)} k`;
}

export function model(info: ModelInfo): string {
  return `${info.name || "unnamed"} · ${info.architecture} ${parameters(info.parameters)} · ${info.quant}`;
}

/** Describes the device: threads, adapter, driver, and whether the adapter is software. */
export function device(info: DeviceInfo): string {
  // Browsers report no driver except WebGPU.
  const driver = info.driver === "WebGPU" ? "" : info.driver;
  const parts = [
    hostLabel(info.backend) ?? "WebGPU",
    info.threads > 0 ? threads(info.threads) : "",
    info.adapter || [info.vendor, info.architecture].filter(Boolean).join(" "),
    driver,
  ];
  if (info.software && !hostLabel(info.backend)) parts.push("software adapter");
  return parts.filter(Boolean).join(" · ");
}

const threads = (n: number): string => (n === 1 ? "1 thread" : `${n} threads`);

/** Says where the models run, and why "auto" took the CPU. */
export function runsOn(info: DeviceInfo): string {
  if (!hostLabel(info.backend)) return `Running on this machine's GPU${info.software ? ", a software one" : ""}`;
  const cpu = info.threads > 0 ? threads(info.threads).replace(" ", " CPU ") : "the CPU";
  const why = info.note.split(":", 1)[0]!;
  return why ? `${why.charAt(0).toUpperCase()}${why.slice(1)}: running on ${cpu}` : `Running on ${cpu}`;
}

const STAGES: Record<Progress["stage"], string> = {
  download: "Downloading",
  memory: "Making room on the device",
  target: "Loading the target",
  draft: "Loading the draft",
  eagle3: "Loading the EAGLE-3 head",
  kernels: "Compiling kernels",
  tuning: "Timing kernel variants",
  ready: "Ready",
  lost: "The device was lost; reloading the models",
  notice: "Note",
};

/** Formats a remaining time, rounded for display. */
export function duration(seconds: number): string {
  if (seconds < 90) return `${Math.max(1, Math.round(seconds))} s`;
  if (seconds < 5400) return `${Math.round(seconds / 60)} min`;
  return `${(seconds / 3600).toFixed(1)} h`;
}

/** Returns the text of the progress line; `rate` is bytes per second, or 0 if unknown. */
export function progress(p: Progress, rate: number): string {
  const parts = [STAGES[p.stage]];
  if (p.stage === "download" || p.stage === "target" || p.stage === "draft" || p.stage === "eagle3") {
    parts.push(p.total > 0 ? `${bytes(p.done)} of ${bytes(p.total)}` : bytes(p.done));
    if (rate > 0) parts.push(`${bytes(rate)}/s`);
    if (rate > 0 && p.done < p.total) parts.push(`${duration((p.total - p.done) / rate)} left`);
  } else if (p.total > 0 && p.stage !== "ready" && p.stage !== "memory") {
    parts.push(`${p.done} of ${p.total}`);
  }
  if (p.note && p.stage !== "memory") parts.push(p.note);
  return parts.join(" · ");
}

/** Returns the message of an error for a visitor: of a model, which file cannot be used and why, without flags. */
export function forVisitors({ code, message }: Pick<ForetokenError, "code" | "message">): string {
  if (code !== "bad_model") return message;
  const plain = message.replace(/^foretoken: /, "").replace(/ \([^()]*--[^()]*\)/g, "");
  // A pair that does not fit is named by its message.
  return plain.replace(/^(?!.+? do not fit )(.+?): (header: |content-type: )?/, "$1 cannot be used: ");
}

/** Averages the rate of a download over the last seconds. */
export class Rate {
  #samples: { at: number; done: number }[] = [];
  #stage = "";

  /** Adds a sample and returns the rate in bytes per second. */
  add(stage: string, done: number, at: number): number {
    if (stage !== this.#stage || done < (this.#samples.at(-1)?.done ?? 0)) {
      this.#stage = stage;
      this.#samples = [];
    }
    this.#samples.push({ at, done });
    while (this.#samples.length > 2 && at - this.#samples[0]!.at > 2000) this.#samples.shift();
    const first = this.#samples[0]!;
    return at > first.at ? ((done - first.done) / (at - first.at)) * 1000 : 0;
  }
}

/** Says in a sentence how many steps of the large model a result took. */
export function steps({ token_ids, stats }: Result): string {
  const n = token_ids.length;
  const took = `${n} token${n === 1 ? "" : "s"} in ${stats.calls} step${stats.calls === 1 ? "" : "s"}`;
  return stats.calls < n ? `${took} of the large model instead of ${n}` : `${took}: no guess was used`;
}

/** Summarises a result for the status line. */
export function summary(result: Result): string {
  const n = result.token_ids.length;
  const why = {
    eos: "the model ended the text",
    length: "the token limit",
    context: "the context is full",
    stop: "a stop string",
    aborted: "stopped",
  }[result.finish];
  const { reused, prompt_tokens } = result.stats;
  const cached = reused > 0 ? ` · ${reused} of ${prompt_tokens} prompt tokens reused` : "";
  const tokens = `${n} token${n === 1 ? "" : "s"} in ${milliseconds(result.stats.total_ms)}`;
  return `${tokens} · ended by: ${why}${cached}`;
}
