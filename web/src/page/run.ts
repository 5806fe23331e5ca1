/** The last run as a file: what was asked, of what, every round, and what came of it. */
import type { EngineInfo, GenerateRequest, Result, RoundEvent } from "../protocol.ts";

/** A run as it is exported. */
export interface Run {
  format: "foretoken-run";
  version: 1;
  /** When it was exported, and the build of the page. */
  exported: string;
  build: string;
  device: EngineInfo["device"];
  target: EngineInfo["target"];
  draft: EngineInfo["draft"];
  eagle3: EngineInfo["eagle3"];
  request: GenerateRequest;
  rounds: readonly RoundEvent[];
  result: Result;
}

export function runOf(info: EngineInfo, request: GenerateRequest, rounds: readonly RoundEvent[], result: Result, build: string): Run {
  const { device, target, draft, eagle3 } = info;
  return { format: "foretoken-run", version: 1, exported: new Date().toISOString(), build, device, target, draft, eagle3, request, rounds, result };
}

/** Hands a run to the browser as a download. */
export function download(run: Run): void {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob([JSON.stringify(run, null, 1), "\n"], { type: "application/json" }));
  link.download = `foretoken-run-${run.exported.replace(/[:.]/g, "-")}.json`;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
}
