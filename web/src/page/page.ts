/** The page: configures the widget from the address and adds the tabs and the toolbar. */
import { restored } from "./restore.ts";
import { stage } from "./stage.ts";
import { tabs } from "./tabs.ts";
import { showMessage, toolbar } from "./toolbar.ts";
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
  // The widget shows the error.
  const loaded = restored(widget)
    .then(() => widget.load())
    .catch(() => undefined);
  stage(widget);
  tabs(widget);
  toolbar(widget);
  void loaded
    .then(() => import("./offline.ts"))
    .then(({ keepOffline }) => keepOffline())
    .catch(() => undefined); // the page still works online
}
