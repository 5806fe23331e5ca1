/** The page: a widget set up from the address, tabs around it, and what each of the others needs when it is opened. */
import { tabs } from "./page/tabs.ts";
import { tools } from "./page/tools.ts";
import { WidgetApp } from "./widget/app.ts";
import { ForetokenWidget } from "./widget.ts";

ForetokenWidget.app = WidgetApp; // here it is used at once

const widget = document.querySelector("foretoken-widget");
if (widget instanceof ForetokenWidget) {
  for (const [name, value] of new URLSearchParams(location.search)) {
    if (ForetokenWidget.observedAttributes.includes(name)) widget.setAttribute(name, value);
  }
  const loaded = widget.load().catch(() => undefined); // the widget shows the error
  tabs(widget);
  tools(widget);
  void loaded.then(() => import("./page/offline.ts")).then(({ keepOffline }) => keepOffline()).catch(() => undefined); // it works online all the same
}
