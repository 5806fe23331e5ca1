/**
 * Foretoken for other pages: `import { Foretoken } from "foretoken"`. Importing it defines `<foretoken-widget>` too,
 * where there are elements.
 *
 * ```ts
 * const engine = await Foretoken.load({ target: "owner/repo/target.gguf", draft: "owner/repo/draft.gguf" });
 * const run = engine.generate("func main() {", { max_tokens: 64 });
 * for await (const round of run) show(round.text);
 * const { stats } = await run.result;
 * await engine.dispose();
 * ```
 *
 * @packageDocumentation
 */
export * from "./api.ts";
export { ForetokenWidget, type WidgetState } from "./widget.ts";
export type { Comparison } from "./widget/compare.ts";
