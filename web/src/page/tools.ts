/** The page's own buttons: a link to share, the run as a file, installing, and what the page has to say. */
import type { GenerateRequest, Result, RoundEvent } from "../protocol.ts";
import type { ForetokenWidget } from "../widget.ts";

interface InstallPrompt extends Event {
  prompt(): Promise<unknown>;
}

export const byId = <E extends HTMLElement = HTMLElement>(id: string): E => document.getElementById(id) as E;

/** Says something below the tabs; an empty text takes it away. */
export function say(text: string, kind: "note" | "error" = "note", ...actions: Node[]): void {
  const box = byId("said");
  box.hidden = text === "";
  box.dataset["kind"] = kind;
  const close = document.createElement("button");
  close.type = "button";
  close.className = "close";
  close.textContent = "Close";
  close.addEventListener("click", () => say(""));
  const line = document.createElement("span");
  line.textContent = text;
  box.replaceChildren(line, ...actions, close);
}

export function tools(widget: ForetokenWidget): void {
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
    const parts = [info, request, rounds, result, buildOf()] as const;
    void import("./run.ts").then(({ runOf, download }) => download(runOf(...parts)));
  });
  byId("share").addEventListener("click", () => void share(widget));
  install();
  const open = (): void => void restore(widget, location.hash);
  addEventListener("hashchange", open);
  open();
}

/** The build that this page is of, "" for one that is being worked on. */
export function buildOf(): string {
  return document.querySelector<HTMLMetaElement>('meta[name="foretoken-build"]')?.content ?? "";
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
    const copied = await navigator.clipboard?.writeText(link).then(() => true, () => false);
    say(`${copied ? "Copied. The" : "The"} link holds the prompt and the settings, and nothing else.`, "note", field);
    if (!copied) field.select();
  } catch (cause) {
    say((cause as Error).message, "error");
  }
}

/** Puts what a shared link holds in place; one that is not sound is refused, and nothing is changed. */
async function restore(widget: ForetokenWidget, fragment: string): Promise<void> {
  if (!fragment.startsWith("#share?")) return;
  const { parseShared } = await import("./share.ts");
  try {
    const { prompt, settings } = parseShared(fragment);
    (await widget.open()).restore(prompt, settings);
    say("Prompt and settings are those of the link. Generate runs it.");
  } catch (cause) {
    say(`${(cause as Error).message}. Nothing was changed.`, "error");
  }
}

/** A button where the browser offers to install the page. */
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
