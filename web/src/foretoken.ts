/**
 * The package entry: `import { Foretoken } from "foretoken"`. In a page, the import also defines
 * `<foretoken-widget>`; in a worker, which has no elements, it does not.
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
export * from "./engine/api.ts";
export { ForetokenWidget, type WidgetState } from "./widget/element.ts";
export type { Comparison } from "./widget/compare.ts";
