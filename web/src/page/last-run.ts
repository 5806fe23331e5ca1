/** Keeps the last run for the button that shares it, and opens shared links. */
import type { GenerateRequest, Result, RoundEvent } from "../protocol/protocol.ts";
import type { Comparison } from "../widget/compare.ts";
import type { ForetokenWidget } from "../widget/element.ts";
import type { LastRun } from "./sharing.ts";
import { byId, isReload, showMessage } from "./toolbar.ts";

export function lastRun(widget: ForetokenWidget): void {
  let last: LastRun | undefined;
  widget.addEventListener("foretoken-start", (event) => {
    last = { request: (event as CustomEvent<GenerateRequest>).detail, rounds: [] };
  });
  widget.addEventListener("foretoken-round", (event) => last?.rounds.push((event as CustomEvent<RoundEvent>).detail));
  widget.addEventListener("foretoken-done", (event) => {
    if (last) last.result = (event as CustomEvent<Result>).detail;
  });
  widget.addEventListener("foretoken-compared", (event) => {
    const { rounds, speculative, traces, verdict } = (event as CustomEvent<Comparison>).detail;
    const trace = traces.speculative;
    last = { request: widget.request, rounds: [...rounds], result: speculative, trace, verdict: verdict.line };
  });
  byId("share").addEventListener("click", () => void sharing(({ share }) => share(widget, last)));
  const open = (reloaded: boolean): void => {
    if (location.hash.startsWith("#share?"))
      void sharing(({ openShared }) => openShared(widget, location.hash, reloaded));
  };
  addEventListener("hashchange", () => open(false));
  open(isReload());
}

/** Whether the address has a shared run, which is replayed without models. */
export const hasSharedRun = (): boolean => location.hash.startsWith("#share?v=2&");

/** Loads the code of sharing, which few visits need. */
async function sharing(work: (module: typeof import("./sharing.ts")) => Promise<void>): Promise<void> {
  await import("./sharing.ts").then(work).catch((cause: Error) => showMessage(cause.message, "error"));
}
