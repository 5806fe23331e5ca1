/** The page's toolbar: sharing, exporting and installing, and the line for messages. */
import type { EngineInfo, GenerateRequest, Result, RoundEvent } from "../protocol/protocol.ts";
import type { ForetokenWidget } from "../widget/element.ts";

interface InstallPrompt extends Event {
  prompt(): Promise<unknown>;
}

export const byId = <E extends HTMLElement = HTMLElement>(id: string): E => document.getElementById(id) as E;

/** Shows a message below the tabs; an empty text hides it. */
export function showMessage(text: string, kind: "note" | "error" = "note", ...actions: Node[]): void {
  const box = byId("said");
  box.hidden = text === "";
  box.dataset["kind"] = kind;
  const close = document.createElement("button");
  close.type = "button";
  close.className = "close";
  close.textContent = "Close";
  close.addEventListener("click", () => showMessage(""));
  const line = document.createElement("span");
  line.textContent = text;
  box.replaceChildren(line, ...actions, close);
}

export function toolbar(widget: ForetokenWidget): void {
  let request: GenerateRequest | undefined;
  let rounds: RoundEvent[] = [];
  let result: Result | undefined;
  const exporting = byId<HTMLButtonElement>("export");
  widget.addEventListener("foretoken-start", (event) => {
    request = (event as CustomEvent<GenerateRequest>).detail;
    rounds = [];
    result = undefined;
    exporting.disabled = true;
  });
  widget.addEventListener("foretoken-round", (event) => rounds.push((event as CustomEvent<RoundEvent>).detail));
  widget.addEventListener("foretoken-done", (event) => {
    result = (event as CustomEvent<Result>).detail;
    exporting.disabled = false;
  });
  exporting.addEventListener("click", () => {
    const info = widget.engine?.info;
    if (!info || !request || !result) return;
    void save(widget, info, request, rounds, result);
  });
  byId("share").addEventListener("click", () => void share(widget));
  install();
  const open = (): void => void restore(widget, location.hash);
  addEventListener("hashchange", open);
  if (!isReload()) open(); // a reload keeps the visitor's changes
}

/** Whether this page is a reload of an earlier one. */
export const isReload = (): boolean =>
  (performance.getEntriesByType("navigation")[0] as PerformanceNavigationTiming | undefined)?.type === "reload";

/** Returns the hash of this page's build, or "" in development. */
export function buildOf(): string {
  return document.querySelector<HTMLMetaElement>('meta[name="foretoken-build"]')?.content ?? "";
}

/** Offers a run as a download, with its trees if the engine still has them. */
async function save(
  widget: ForetokenWidget,
  ...of: [EngineInfo, GenerateRequest, RoundEvent[], Result]
): Promise<void> {
  const trace = await widget.trace().catch(() => undefined);
  const { runOf, download } = await import("./export.ts");
  download(runOf(...of, trace, buildOf()));
}

async function share(widget: ForetokenWidget): Promise<void> {
  const { linkOf } = await import("./share.ts");
  try {
    const link = linkOf((await widget.open()).chosen, location.href);
    const field = document.createElement("input");
    field.readOnly = true;
    field.value = link;
    field.id = "link";
    field.setAttribute("aria-label", "The link");
    const copied = await navigator.clipboard?.writeText(link).then(
      () => true,
      () => false,
    );
    showMessage(`${copied ? "Copied. The" : "The"} link contains only the prompt and the settings.`, "note", field);
    if (!copied) field.select();
  } catch (cause) {
    showMessage((cause as Error).message, "error");
  }
}

/** Sets the prompt and the settings of a shared link; an invalid link changes nothing. */
async function restore(widget: ForetokenWidget, fragment: string): Promise<void> {
  if (!fragment.startsWith("#share?")) return;
  const { parseShared } = await import("./share.ts");
  try {
    const { prompt, settings } = parseShared(fragment);
    (await widget.open()).restore(prompt, settings);
    showMessage("Prompt and settings come from the link. Generate runs it.");
  } catch (cause) {
    showMessage(`${(cause as Error).message}. Nothing was changed.`, "error");
  }
}

/** Shows a button if the browser offers to install the page. */
function install(): void {
  const button = byId("install");
  let offer: InstallPrompt | undefined;
  addEventListener("beforeinstallprompt", (event) => {
    event.preventDefault();
    offer = event as InstallPrompt;
    button.hidden = false;
  });
  addEventListener("appinstalled", () => (button.hidden = true));
  button.addEventListener("click", () => void offer?.prompt());
}
