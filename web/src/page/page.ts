/** The page: configures the widget from the address and adds the tabs and the toolbar. */
import { hasSharedRun, lastRun } from "./last-run.ts";
import { restored } from "./restore.ts";
import { stage } from "./stage.ts";
import { tabs } from "./tabs.ts";
import { install, showMessage } from "./toolbar.ts";
import type { ForetokenError } from "../engine/engine.ts";
import { WidgetApp } from "../widget/app.ts";
import { ForetokenWidget } from "../widget/element.ts";

ForetokenWidget.app = WidgetApp; // loaded already, because this page uses it at once

const widget = document.querySelector("foretoken-widget");
if (widget instanceof ForetokenWidget) {
  for (const [name, value] of new URLSearchParams(location.search)) {
    if (ForetokenWidget.observedAttributes.includes(name)) widget.setAttribute(name, value);
  }
  widget.addEventListener("foretoken-error", (event) => {
    const { message } = (event as CustomEvent<ForetokenError>).detail;
    if (!/^(foretoken\.wasm: |the worker failed)/.test(message)) return;
    const link = Object.assign(document.createElement("a"), { href: "reset.html", textContent: "Reset this page" });
    showMessage("The page's program does not run. If loading it again does not help:", "error", link);
  });
  const ready = new Promise((resolve) => widget.addEventListener("foretoken-ready", resolve, { once: true }));
  // A shared run needs no models. The widget shows the error of a load.
  const loaded = restored(widget)
    .then(() => (hasSharedRun() ? ready : widget.load()))
    .catch(() => undefined);
  stage(widget);
  tabs(widget);
  lastRun(widget);
  install();
  void loaded
    .then(() => import("./offline.ts"))
    .then(({ keepOffline }) => keepOffline())
    .catch(() => undefined); // the page still works online
}
