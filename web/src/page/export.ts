/** Exports the last run as a file: request, models, every round with its tree, and the result. */
import type { EngineInfo, GenerateRequest, Result, RoundEvent } from "../protocol/protocol.ts";

/** The contents of the exported file. */
export interface Run {
  format: "foretoken-run";
  version: 2;
  /** The time of the export, and the build of the page. */
  exported: string;
  build: string;
  device: EngineInfo["device"];
  target: EngineInfo["target"];
  draft: EngineInfo["draft"];
  eagle3: EngineInfo["eagle3"];
  request: GenerateRequest;
  rounds: readonly Omit<RoundEvent, "tree">[];
  /** The trees of the rounds: a trace in base64; missing if the engine has gone on to other work. */
  trace?: string;
  result: Result;
}

export function runOf(
  info: EngineInfo,
  request: GenerateRequest,
  rounds: readonly RoundEvent[],
  result: Result,
  trace: Uint8Array | undefined,
  build: string,
): Run {
  const { device, target, draft, eagle3 } = info;
  return {
    format: "foretoken-run",
    version: 2,
    exported: new Date().toISOString(),
    build,
    device,
    target,
    draft,
    eagle3,
    request,
    rounds: rounds.map(({ tree: _, ...round }) => round),
    ...(trace ? { trace: btoa(Array.from(trace, (byte) => String.fromCharCode(byte)).join("")) } : {}),
    result,
  };
}
