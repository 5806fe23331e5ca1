/** Remembers the models of a download that has not ended, so that a later visit can go on with it. */
import { ForetokenError } from "../protocol/errors.ts";
import { resolve } from "../sources/hub.ts";
import type { Models } from "./picker.ts";

/** The name in localStorage. */
const UNFINISHED = "foretoken-unfinished";

const FIELDS = ["target", "draft", "eagle3", "eagle3_config"] as const;

/** Addresses of models, with checksums. */
export type Unfinished = { target: string } & Partial<Record<(typeof FIELDS)[number], string>>;

/** Returns the addresses of models; undefined if one of them is a local file. */
export function addressed(models: Models, hub: string | undefined): Unfinished | undefined {
  const all: Record<string, string> = {};
  for (const name of FIELDS) {
    const of = models[name];
    if (!of) continue;
    if (typeof of !== "string") return undefined;
    const { url, sha256 } = resolve(of, document.baseURI, hub);
    if (!/^https?:/.test(url)) return undefined;
    all[name] = sha256 ? `${url}#sha256=${sha256}` : url;
  }
  return all["target"] ? (all as Unfinished) : undefined;
}

/** Whether models are remembered. */
export function isUnfinished(): boolean {
  try {
    return localStorage.getItem(UNFINISHED) !== null;
  } catch {
    return false; // the browser gives the page no storage
  }
}

/** Remembers models until {@link forget}. */
export function remember(models: Unfinished): void {
  try {
    localStorage.setItem(UNFINISHED, JSON.stringify(models));
  } catch {
    // The browser gives the page no storage: the next visit finds the chunks, and not the names.
  }
}

export function forget(): void {
  try {
    localStorage.removeItem(UNFINISHED);
  } catch {
    // nothing was remembered
  }
}

/** Returns the remembered models; undefined if there are none that can be loaded. */
export function recalled(): Unfinished | undefined {
  try {
    const read: unknown = JSON.parse(localStorage.getItem(UNFINISHED) ?? "null");
    if (typeof read !== "object" || read === null) return undefined;
    const given = FIELDS.map((name) => [name, (read as Record<string, unknown>)[name]] as const);
    return addressed(Object.fromEntries(given.filter(([, of]) => typeof of === "string")) as Models, undefined);
  } catch (cause) {
    if (cause instanceof SyntaxError || cause instanceof ForetokenError || cause instanceof DOMException)
      return undefined;
    throw cause;
  }
}
