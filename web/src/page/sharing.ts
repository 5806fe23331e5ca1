/** Shares the last run as a link, a picture or a file, and opens shared links; loaded with the first of them. */
import type { ForetokenTree } from "../player/tree-player.ts";
import type { GenerateRequest, Result, RoundEvent } from "../protocol/protocol.ts";
import { readTrace } from "../protocol/trace.ts";
import { el } from "../widget/dom.ts";
import type { ForetokenWidget } from "../widget/element.ts";
import { linkOf, linkOfRun, readShared } from "./share.ts";
import { buildOf, byId, showMessage } from "./toolbar.ts";

/** The last run of the page; without `result` it has not ended. */
export interface LastRun {
  request: GenerateRequest;
  rounds: RoundEvent[];
  result?: Result;
  /** The trace and the verdict of a comparison, if the run was a part of one; the engine has other traces. */
  trace?: Uint8Array;
  verdict?: string;
}

/** Shows a link to the last run, or to prompt and settings if the prompt has changed, and the buttons that save it. */
export async function share(widget: ForetokenWidget, last: LastRun | undefined): Promise<void> {
  try {
    const app = await widget.open();
    const run = last?.result ? last : undefined;
    // The engine may have gone on to other work.
    const bytes = run && (run.trace ?? (await widget.trace().catch(() => undefined)));
    // An answer of a conversation has no prompt: it means nothing without the messages before it.
    const shown = run?.request.prompt === app.prompt && app.prompt !== "";
    const made = shown && bytes && (await linkOfRun(run.request, readTrace(bytes), location.href));
    const link = made ? made.link : linkOf(app.chosen, location.href);
    const field = el("input", { id: "link", readonly: true, "aria-label": "The link" });
    field.value = link;
    const copied = await navigator.clipboard?.writeText(link).then(
      () => true,
      () => false,
    );
    const holds = !made
      ? "contains only the prompt and the settings"
      : made.rounds === made.of
        ? `replays this run without a model: its prompt, its settings and its ${made.of} rounds`
        : `has the whole text and replays the first ${made.rounds} of ${made.of} rounds; more do not fit`;
    showMessage(`${copied ? "Copied. The" : "The"} link ${holds}.`, "note", field, ...saving(widget, run, bytes));
    if (!copied) field.select();
  } catch (cause) {
    showMessage((cause as Error).message, "error");
  }
}

/** Returns the buttons that save a run. */
function saving(widget: ForetokenWidget, run: LastRun | undefined, trace: Uint8Array | undefined): HTMLElement[] {
  const info = widget.engine?.info;
  const { request, rounds, result } = run ?? {};
  if (!request || !rounds || !result) return [];
  const button = (id: string, text: string, save: () => Promise<void>): HTMLElement => {
    const made = el("button", { type: "button", id }, text);
    made.addEventListener("click", () => void save().catch((cause: Error) => showMessage(cause.message, "error")));
    return made;
  };
  const name = (): string => `foretoken-run-${new Date().toISOString().replace(/[:.]/g, "-")}`;
  return [
    ...(trace
      ? [
          button("picture", "Save as picture", async () => {
            const { pictureOf, pngOf } = await import("./picture.ts");
            const theme = widget.shadowRoot!.querySelector(".foretoken")!;
            download(await pngOf(pictureOf(readTrace(trace), theme, { verdict: run?.verdict })), `${name()}.png`);
          }),
        ]
      : []),
    ...(info
      ? [
          button("export", "Save as JSON", async () => {
            const { runOf } = await import("./export.ts");
            const data = JSON.stringify(runOf(info, request, rounds, result, trace, buildOf()), null, 1);
            download(new Blob([data, "\n"], { type: "application/json" }), `${name()}.json`);
          }),
        ]
      : []),
  ];
}

function download(data: Blob, name: string): void {
  const link = el("a", { href: URL.createObjectURL(data), download: name });
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
}

/**
 * Sets the prompt and the settings of a shared link, and replays its rounds; after a reload, it only replays them. An
 * invalid link changes nothing.
 */
export async function openShared(widget: ForetokenWidget, fragment: string, reloaded: boolean): Promise<void> {
  const player = document.querySelector<ForetokenTree>("foretoken-tree")!;
  try {
    const { prompt, settings, trace } = await readShared(fragment);
    if (!reloaded) (await widget.open()).restore(prompt, settings);
    if (trace) {
      // The names are those of the page's own recording.
      for (const name of ["src", "plain", "draft", "target"]) player.removeAttribute(name);
      player.trace = trace;
      if (!matchMedia("(prefers-reduced-motion: reduce)").matches) player.play();
      const part = trace.rounds.length < trace.run ? `, its first ${trace.rounds.length} of ${trace.run} rounds` : "";
      byId("live").textContent = `This run comes from a link${part}. No model is loaded.`;
      showMessage("");
    } else if (!reloaded) showMessage("Prompt and settings come from the link. Generate runs it.");
  } catch (cause) {
    showMessage(`${(cause as Error).message}. Nothing was changed.`, "error");
    // The page waited for the run of the link, and has its own recording.
    if (widget.state === "idle" && player.hasAttribute("src")) void widget.load().catch(() => undefined);
  }
}
