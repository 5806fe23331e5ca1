/**
 * `foretoken/api`: the JavaScript API alone. A bundle of it has neither the widget nor the built-in pair, so every load
 * names a target.
 *
 * ```ts
 * import { Foretoken } from "foretoken/api";
 * const engine = await Foretoken.load({ target: "owner/repo/target.gguf", draft: "owner/repo/draft.gguf" });
 * ```
 *
 * @packageDocumentation
 */
import type { Foretoken as Entry } from "./engine/api.ts";
import { loadInWorker } from "./engine/in-worker.ts";

export * from "./engine/api.ts";

/** The entry point of the API: {@link Entry.load | `Foretoken.load`}. */
export const Foretoken: Entry = { load: (options) => loadInWorker(options) };
