/** The page: one widget, set up from the address. */
import { ForetokenWidget } from "./widget.ts";
import { attributeOf, NUMBER_FIELDS } from "./widget/settings.ts";

/** Query parameters that are attributes of the widget. */
const NAMES = ["target", "draft", "device", "policy", "prompt", ...NUMBER_FIELDS.map(attributeOf)];

const widget = document.querySelector("foretoken-widget");
if (widget instanceof ForetokenWidget) {
  for (const [name, value] of new URLSearchParams(location.search)) {
    if (NAMES.includes(name)) widget.setAttribute(name, value);
  }
  void widget.load().catch(() => undefined); // the widget shows the error
}
