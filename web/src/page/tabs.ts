/** The tabs: the fragment of the address selects one, and arrow keys move between them. */
import { isBuiltin } from "../engine/builtin.ts";
import type { EngineInfo } from "../protocol/protocol.ts";
import type { ForetokenWidget } from "../widget/element.ts";
import { byId, showMessage } from "./toolbar.ts";

type Name = "chat" | "completion" | "race" | "benchmark";
const NAMES: readonly Name[] = ["chat", "completion", "race", "benchmark"];

export function tabs(widget: ForetokenWidget): void {
  const tab = (name: Name): HTMLElement => byId(`tab-${name}`);
  const requested = (): Name | undefined => NAMES.find((name) => location.hash === `#${name}`);
  let mode: Name = widget.getAttribute("mode") === "chat" ? "chat" : "completion";
  let automatic = requested() === undefined && !widget.hasAttribute("mode"); // until the user selects a tab

  const show = async (): Promise<void> => {
    const name = requested() ?? mode;
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
    const info = (event as CustomEvent<EngineInfo>).detail;
    if (automatic) mode = info.chat.ok && !isBuiltin(info) ? "chat" : "completion";
    void show();
  });
  for (const name of NAMES) {
    tab(name).addEventListener("click", () => {
      automatic = false;
      showMessage("");
    });
    tab(name).addEventListener("keydown", (event) => {
      const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
      if (!step) return;
      const next = tab(NAMES[(NAMES.indexOf(name) + step + NAMES.length) % NAMES.length]!);
      next.focus();
      next.click();
    });
  }
  addEventListener("hashchange", () => void show());
  void show();
}

async function benchmark(widget: ForetokenWidget): Promise<void> {
  const host = byId("panel-benchmark");
  const { ForetokenBenchmark } = await import("../benchmark/element.ts");
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
