/** The module other sites load: the JavaScript API, and `<foretoken-widget>` defined. */
export * from "./engine.ts";
export { BUILTIN_PAIR } from "./builtin.ts";
export { ForetokenWidget, type WidgetState } from "./widget.ts";
export type { Comparison } from "./widget/compare.ts";
