/**
 * Shares a run as a link: the prompt and the settings, in the fragment of the address, which browsers do not send to
 * servers. A link contains no generated text and no names of files or models.
 */
import { METHODS } from "../engine/methods.ts";
import type { GenerateRequest } from "../protocol/protocol.ts";
import { attributeOf, FIELDS, problemIn, quote } from "../widget/fields.ts";

const MARK = "#share?";
const VERSION = "1";
/** The limit of a prompt in characters; some chat programs truncate longer links. */
const MAX_PROMPT = 32_768;
const MAX_FRAGMENT = 4 * MAX_PROMPT;

/** The contents of a link; settings have the names of the widget's attributes. */
export interface Shared {
  prompt: string;
  settings: Map<string, string>;
}

/** Returns the address `base` with a request in its fragment. */
export function linkOf(request: GenerateRequest, base: string): string {
  const all = new URLSearchParams({ v: VERSION, prompt: request.prompt });
  if (request.policy) all.set("policy", request.policy);
  for (const field of FIELDS) {
    const value = request[field.name];
    if (value === undefined || value === null) continue;
    all.set(attributeOf(field), typeof value === "object" ? JSON.stringify(value) : String(value));
  }
  const link = new URL(base);
  link.search = "";
  link.hash = "";
  return `${link.href}${MARK}${all}`;
}

/** Whether a fragment belongs to a shared link. */
export function isShared(fragment: string): boolean {
  return fragment.startsWith(MARK);
}

/** Parses a fragment. Throws an error of one line if it is invalid. */
export function parseShared(fragment: string): Shared {
  if (!isShared(fragment)) throw new Error("link: does not start with #share?");
  if (fragment.length > MAX_FRAGMENT)
    throw new Error(`link: ${fragment.length} characters long, want at most ${MAX_FRAGMENT}`);
  const text = fragment.slice(MARK.length);
  try {
    decodeURIComponent(text.replaceAll("+", " "));
  } catch {
    throw new Error("link: invalid percent encoding; the link may be truncated");
  }
  const seen = new Map<string, string>();
  for (const [name, value] of new URLSearchParams(text)) {
    if (seen.has(name)) throw new Error(`link: ${quote(name)} occurs twice`);
    seen.set(name, value);
  }
  if (seen.get("v") !== VERSION)
    throw new Error(
      `link: version: want ${VERSION}, have ${quote(seen.get("v") ?? "none")}; open it on the page it was made with`,
    );
  const prompt = seen.get("prompt");
  if (prompt === undefined) throw new Error("link: prompt: missing");
  if (prompt.length > MAX_PROMPT)
    throw new Error(`link: prompt: ${prompt.length} characters, want at most ${MAX_PROMPT}`);
  if (/[\0-\x08\x0b\x0c\x0e-\x1f\x7f\ufffd]|[\ud800-\udbff](?![\udc00-\udfff])/.test(prompt))
    throw new Error("link: prompt: contains invalid characters");
  const settings = new Map<string, string>();
  for (const [name, value] of seen) {
    if (name === "v" || name === "prompt") continue;
    const field = FIELDS.find((f) => attributeOf(f) === name);
    let problem = field ? problemIn(field, value) : "is not a setting of this page";
    if (name === "policy")
      problem = METHODS.some((m) => m.name === value) ? undefined : "is not a method of this page";
    if (problem) throw new Error(`link: ${quote(name)}: ${quote(value)} ${problem}`);
    settings.set(name, value);
  }
  return { prompt, settings };
}
