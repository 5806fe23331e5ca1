/** The page's line for messages, and its button to install. */
interface InstallPrompt extends Event {
  prompt(): Promise<unknown>;
}

export const byId = <E extends HTMLElement = HTMLElement>(id: string): E => document.getElementById(id) as E;

/** Shows a message at the top of the page; an empty text hides it. */
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
  box.replaceChildren(...(text === "" ? [] : [line, ...actions, close]));
}

/** Whether this page is a reload of an earlier one. */
export const isReload = (): boolean =>
  (performance.getEntriesByType("navigation")[0] as PerformanceNavigationTiming | undefined)?.type === "reload";

/** Returns the hash of this page's build, or "" in development. */
export function buildOf(): string {
  return document.querySelector<HTMLMetaElement>('meta[name="foretoken-build"]')?.content ?? "";
}

/** Shows a button if the browser offers to install the page. */
export function install(): void {
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
