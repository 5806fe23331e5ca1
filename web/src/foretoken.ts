/**
 * The package entry: `import { Foretoken } from "foretoken"`. In a page, the import also defines
 * `<foretoken-widget>`; in a worker, which has no elements, it does not.
 *
 * ```ts
 * const engine = await Foretoken.load({ target: "owner/repo/target.gguf", draft: "owner/repo/draft.gguf" });
 * const run = engine.generate(prompt, { max_tokens: 64 });
 * for await (const round of run) show(round.text);
 * const { stats } = await run.result;
 * await engine.dispose();
 * ```
 *
 * @packageDocumentation
 */
import type { Foretoken as Entry } from "./engine/api.ts";
import { withBuiltin } from "./engine/builtin.ts";
import { loadInWorker } from "./engine/in-worker.ts";

export * from "./engine/api.ts";
export { BUILTIN_HEAD, BUILTIN_PAIR } from "./engine/builtin.ts";

/** The entry point of the API: {@link Entry.load | `Foretoken.load`}. */
export const Foretoken: Entry = { load: (options) => loadInWorker(options, withBuiltin) };

export { ForetokenWidget, type WidgetState } from "./widget/element.ts";
export type { CompareHooks, CompareProgress, Comparison, Verdict } from "./widget/compare.ts";
