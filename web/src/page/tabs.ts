/** The tabs: the fragment of the address selects one, and arrow keys move between them. */
import { isBuiltin } from "../engine/builtin.ts";
import type { EngineInfo } from "../protocol/protocol.ts";
import type { ForetokenWidget } from "../widget/element.ts";
import { byId, showMessage } from "./toolbar.ts";

type Name = "run" | "chat" | "compare" | "playground" | "benchmark";
const NAMES: readonly Name[] = ["run", "chat", "compare", "playground", "benchmark"];

/** The tab that a fragment names; links from before Compare and Race became one name #race. */
const named = (fragment: string): Name | undefined =>
  NAMES.find((name) => fragment === `#${name}`) ?? (fragment === "#race" ? "compare" : undefined);

export function tabs(widget: ForetokenWidget): void {
  const tab = (name: Name): HTMLElement => byId(`tab-${name}`);
  const requested = (): Name | undefined => named(location.hash);
  let mode: Name = widget.getAttribute("mode") === "chat" ? "chat" : "run";
  let automatic = requested() === undefined && !widget.hasAttribute("mode"); // until the user selects a tab

  const show = async (): Promise<void> => {
    const name = requested() ?? mode;
    if (name === "chat" || name === "run") {
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
    await fill(name, widget);
  };

  widget.addEventListener("foretoken-ready", (event) => {
    const info = (event as CustomEvent<EngineInfo>).detail;
    if (automatic) mode = info.chat.ok && !isBuiltin(info) ? "chat" : "run";
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
  const open = (): void => void show().then(toTab);
  addEventListener("hashchange", open);
  open();

  /** The tabs are below the recording: an address that names one shows it. */
  function toTab(): void {
    if (requested()) byId("tabs").scrollIntoView({ block: "start" });
  }
}

/** An element that a tab shows; `refresh` follows the widget's settings and models. */
type Shown = HTMLElement & { widget: ForetokenWidget | undefined; refresh?(): void };

/** What the tabs besides the widget's show, loaded when they open. */
const SHOWN: Partial<Record<Name, () => Promise<new () => Shown>>> = {
  compare: async () => (await import("./compare.ts")).ForetokenCompare,
  playground: async () => (await import("../playground/element.ts")).ForetokenPlayground,
  benchmark: async () => (await import("../benchmark/element.ts")).ForetokenBenchmark,
};

/** Fills the panel of a tab with its element, or refreshes the one that it has. */
async function fill(name: Name, widget: ForetokenWidget): Promise<void> {
  const Element = await SHOWN[name]?.();
  if (!Element) return;
  const host = byId(`panel-${name}`);
  let shown = host.firstElementChild as Shown | null;
  if (!shown) {
    shown = new Element();
    shown.widget = widget;
    host.append(shown);
    widget.addEventListener("foretoken-ready", () => shown?.refresh?.());
  }
  shown.refresh?.();
}
