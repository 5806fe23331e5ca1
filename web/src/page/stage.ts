/** The first screen: the recording plays until its button runs the models here, and then that run is replayed. */
import type { ForetokenError } from "../protocol/errors.ts";
import type { DeviceInfo, EngineInfo, RoundEvent } from "../protocol/protocol.ts";
import { readTrace, type Trace } from "../protocol/trace.ts";
import type { ForetokenWidget } from "../widget/element.ts";
import { initialPrompt } from "../widget/initial-prompt.ts";
import * as format from "../widget/format.ts";
import { counted, duration } from "../player/order.ts";
import type { ForetokenTree } from "../player/tree-player.ts";
import { byId } from "./toolbar.ts";

/** How long a run's text stands before it is replayed, in ms. */
const READING = 1500;

export function stage(widget: ForetokenWidget): void {
  const player = document.querySelector<ForetokenTree>("foretoken-tree")!;
  const button = byId<HTMLButtonElement>("run-here");
  const live = byId("live");
  let running = false;
  let recorded: string | undefined;

  widget.addEventListener("foretoken-ready", (event) => {
    const { device } = (event as CustomEvent<EngineInfo>).detail;
    live.textContent = `${player.hasAttribute("src") ? "A recording plays. " : ""}Here: ${place(device)}.`;
  });
  widget.addEventListener("foretoken-error", (event) => {
    if (widget.engine) return;
    const { message } = (event as CustomEvent<ForetokenError>).detail;
    live.textContent = `The recording plays, but nothing runs here: ${message}`;
  });
  // Drawing would disturb what the widget measures.
  new MutationObserver(() => {
    const busy = ["waiting", "generating", "comparing", "benchmarking"].includes(widget.state);
    if (busy && player.playing) player.pause();
    button.disabled = busy && !running;
  }).observe(widget, { attributeFilter: ["data-state"] });
  widget.addEventListener("foretoken-round", (event) => {
    if (running) player.add((event as CustomEvent<RoundEvent>).detail);
  });

  const run = async (): Promise<void> => {
    const app = await widget.open();
    const before = player.trace;
    recorded ??= before?.prompt;
    if (app.prompt === initialPrompt(widget) && recorded) app.prompt = recorded;
    running = true;
    button.textContent = "Stop";
    const begun = new AbortController();
    widget.addEventListener("foretoken-start", () => player.begin(app.prompt), { once: true, signal: begun.signal });
    try {
      const result = await widget.generate();
      const trace = readTrace(await widget.trace());
      const { draft, target } = widget.engine!.info;
      player.setAttribute("draft", draft?.name ?? "");
      player.setAttribute("target", target.name);
      player.removeAttribute("src"); // the recording's
      player.trace = trace;
      player.show(trace.rounds.length);
      live.textContent = said(result.token_ids.length, trace);
    } catch (cause) {
      if (!player.trace) player.trace = before;
      live.textContent = (cause as Error).message;
    } finally {
      begun.abort();
      running = false;
      button.textContent = "Run it again";
    }
    const { trace } = player;
    if (trace === before || matchMedia("(prefers-reduced-motion: reduce)").matches) return;
    await new Promise((resolve) => setTimeout(resolve, READING));
    if (player.trace === trace) player.play();
  };
  button.addEventListener("click", () => (running ? widget.stop() : void run()));
}

/** Where the models run, as a part of a sentence. */
function place(device: DeviceInfo): string {
  const text = format.runsOn(device);
  return text[0]!.toLowerCase() + text.slice(1).replace(": ", ", ");
}

/** Says what a run of `n` tokens took here, and how far it guessed. */
function said(n: number, { run, rounds }: Trace): string {
  const trees = rounds.flatMap(({ tree }) => tree ?? []);
  const shape = trees.every(({ parents }) => new Set(parents).size === parents.length) ? "a chain" : "a tree";
  const guesses = trees.reduce((most, { tokens }) => Math.max(most, tokens.length - 1), 0);
  const drafted = guesses > 0 ? `${shape} of up to ${counted(guesses, "guess", "guesses")}` : "no guesses";
  const took = duration(rounds.at(-1)?.elapsed_ms ?? 0);
  return `Written here in ${took}: ${counted(n, "token")} in ${counted(run, "pass", "passes")}, with ${drafted}.`;
}
