/** The tabs: the one shown is named by the address's fragment, and arrow keys move between them. */
import type { EngineInfo } from "../protocol.ts";
import type { ForetokenWidget } from "../widget.ts";
import { byId, say } from "./tools.ts";

type Name = "chat" | "completion" | "race" | "benchmark";
const NAMES: readonly Name[] = ["chat", "completion", "race", "benchmark"];

export function tabs(widget: ForetokenWidget): void {
  const tab = (name: Name): HTMLElement => byId(`tab-${name}`);
  const asked = (): Name | undefined => NAMES.find((name) => location.hash === `#${name}`);
  /** Why the model cannot talk; undefined once it can. */
  let silent: string | undefined = "chat: no model is loaded yet";
  let mode: Name = widget.getAttribute("mode") === "chat" ? "chat" : "completion";
  let following = asked() === undefined && !widget.hasAttribute("mode"); // nobody chose yet

  const show = async (): Promise<void> => {
    let name = asked() ?? mode;
    if (name === "chat" && silent !== undefined) name = "completion";
    if (name === "chat" || name === "completion") {
      mode = name;
      byId("panel-widget").setAttribute("aria-labelledby", `tab-${name}`);
      const wanted = name === "chat" ? "chat" : "complete";
      if (widget.getAttribute("mode") !== wanted) widget.setAttribute("mode", wanted);
    }
    for (const one of NAMES) {
      tab(one).setAttribute("aria-selected", String(one === name));
      tab(one).tabIndex = one === name ? 0 : -1;
    }
    const panel = tab(name).getAttribute("aria-controls");
    for (const one of document.querySelectorAll<HTMLElement>("[role=tabpanel]")) one.hidden = one.id !== panel;
    if (name === "race") await race(widget);
    else if (name === "benchmark") await benchmark(widget);
  };

  widget.addEventListener("foretoken-ready", (event) => {
    const { chat } = (event as CustomEvent<EngineInfo>).detail;
    silent = chat.ok ? undefined : `chat: ${chat.problem || "the model has no chat template"}`;
    tab("chat").setAttribute("aria-disabled", String(!chat.ok));
    byId("chat-reason").textContent = silent ?? "The model has a chat template.";
    tab("chat").title = silent ?? "";
    // A model that can be talked to is.
    if (following && chat.ok) mode = "chat";
    void show();
  });
  for (const name of NAMES) {
    tab(name).addEventListener("click", (event) => {
      following = false;
      if (name !== "chat" || silent === undefined) return say("");
      event.preventDefault();
      say(`${silent}. Load a model that was trained to talk, under Models.`);
    });
    tab(name).addEventListener("keydown", (event) => {
      const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
      if (!step) return;
      const next = tab(NAMES[(NAMES.indexOf(name) + step + NAMES.length) % NAMES.length]!);
      next.focus();
      if (next.getAttribute("aria-disabled") !== "true") next.click();
    });
  }
  addEventListener("hashchange", () => void show());
  void show();
}

async function benchmark(widget: ForetokenWidget): Promise<void> {
  const host = byId("panel-benchmark");
  const { ForetokenBenchmark } = await import("../benchmark.ts");
  if (host.childElementCount > 0) return;
  const benchmark = new ForetokenBenchmark();
  benchmark.widget = widget;
  host.append(benchmark);
  benchmark.refresh();
  widget.addEventListener("foretoken-ready", () => benchmark.refresh());
}

async function race(widget: ForetokenWidget): Promise<void> {
  const host = byId("panel-race");
  const { ForetokenRace } = await import("./race.ts");
  if (host.childElementCount > 0) return void (host.firstElementChild as InstanceType<typeof ForetokenRace>).refresh();
  const made = new ForetokenRace();
  made.widget = widget;
  host.append(made);
  made.refresh();
}
