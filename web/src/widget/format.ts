/** Numbers for people. */
import type { DeviceInfo, ModelInfo, Progress } from "../protocol.ts";

/** Bytes in decimal units, as browsers and model hubs count them. */
export function bytes(n: number): string {
  if (n < 1000) return `${Math.round(n)} B`;
  if (n < 1e6) return `${(n / 1e3).toFixed(n < 1e4 ? 1 : 0)} kB`;
  if (n < 1e9) return `${(n / 1e6).toFixed(n < 1e7 ? 2 : 1)} MB`;
  return `${(n / 1e9).toFixed(2)} GB`;
}

/** Three significant digits, without an exponent. */
export function short(n: number): string {
  if (!Number.isFinite(n)) return "–";
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

/** A count of parameters: 2.4 M. */
export function parameters(n: number): string {
  if (n >= 1e9) return `${(n / 1e9).toFixed(1)} B`;
  if (n >= 1e6) return `${(n / 1e6).toFixed(1)} M`;
  return `${Math.round(n / 1e3)} k`;
}

export function model(info: ModelInfo): string {
  return `${info.name || "unnamed"} · ${info.architecture} ${parameters(info.parameters)} · ${info.quant}`;
}

/** Which device decodes: adapter, driver, and whether it is a real GPU. */
export function device(info: DeviceInfo): string {
  // A browser names no driver beyond WebGPU itself.
  const driver = info.driver === "WebGPU" ? "" : info.driver;
  const parts = [info.backend === "cpu" ? "CPU" : "WebGPU", info.adapter || [info.vendor, info.architecture].filter(Boolean).join(" "), driver];
  if (info.software && info.backend !== "cpu") parts.push("software adapter");
  return parts.filter(Boolean).join(" · ");
}

const STAGES: Record<Progress["stage"], string> = {
  download: "Downloading",
  memory: "Memory on the device",
  target: "Loading the target",
  draft: "Loading the draft",
  eagle3: "Loading the EAGLE-3 head",
  kernels: "Compiling kernels",
  tuning: "Timing kernel variants",
  ready: "Ready",
  lost: "The GPU was lost; loading the models again",
  notice: "Note",
};

/** A span of time to come, rounded to what a person waits by. */
export function duration(seconds: number): string {
  if (seconds < 90) return `${Math.max(1, Math.round(seconds))} s`;
  if (seconds < 5400) return `${Math.round(seconds / 60)} min`;
  return `${(seconds / 3600).toFixed(1)} h`;
}

/** What the progress line says; `rate` is bytes a second, 0 when not known. */
export function progress(p: Progress, rate: number): string {
  const parts = [STAGES[p.stage]];
  if (p.stage === "download" || p.stage === "target" || p.stage === "draft" || p.stage === "eagle3") {
    parts.push(`${bytes(p.done)} of ${bytes(p.total)}`);
    if (rate > 0) parts.push(`${bytes(rate)}/s`);
    if (rate > 0 && p.done < p.total) parts.push(`${duration((p.total - p.done) / rate)} left`);
  } else if (p.total > 0 && p.stage !== "ready" && p.stage !== "memory") {
    parts.push(`${p.done} of ${p.total}`);
  }
  if (p.note) parts.push(p.note);
  return parts.join(" · ");
}

/** Smooths the rate of a download over the last seconds. */
export class Rate {
  #samples: { at: number; done: number }[] = [];
  #stage = "";

  /** Bytes a second after this sample. */
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
