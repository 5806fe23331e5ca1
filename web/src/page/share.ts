/**
 * Shares a run as a link: the prompt, the settings and, after a run, its recorded rounds, in the fragment of the
 * address, which browsers do not send to servers. A link contains no names of files or models. It may come from
 * anybody: the reader bounds what it unpacks, and takes nothing but text and numbers from it.
 */
import { METHODS } from "../engine/methods.ts";
import type { GenerateRequest } from "../protocol/protocol.ts";
import { readTrace, type Trace } from "../protocol/trace.ts";
import { encodeTrace } from "../protocol/trace-writer.ts";
import { attributeOf, FIELDS, problemIn, quote } from "../widget/fields.ts";

const MARK = "#share?";
/** The versions of links, by their parameter for the text: the prompt, or recorded rounds, which include the prompt. */
const VERSIONS: Readonly<Record<string, "prompt" | "run">> = { "1": "prompt", "2": "run" };
/** The limit of a prompt in characters; some chat programs truncate longer links. */
const MAX_PROMPT = 32_768;
const MAX_FRAGMENT = 4 * MAX_PROMPT;
/** The limits of a fragment with rounds; the second one applies if the text alone is longer than the first. */
const LENGTHS = [6_000, 24_000] as const;
/** The limit of a trace in bytes. */
const MAX_TRACE = 256 << 10;

/** The contents of a link; settings have the names of the widget's attributes. */
export interface Shared {
  prompt: string;
  settings: Map<string, string>;
  /** The recorded rounds, if the link has them. */
  trace?: Trace | undefined;
}

/** Returns the address `base` with a request in its fragment. */
export function linkOf(request: GenerateRequest, base: string): string {
  return `${bare(base)}${MARK}${parameters({ v: "1", prompt: request.prompt }, request)}`;
}

/**
 * Returns the address `base` with a run in its fragment: the settings of its request, its trace, and how many rounds
 * the link has. A long run keeps its text and its first rounds. Undefined if the text alone is too long for a link.
 */
export async function linkOfRun(
  request: GenerateRequest,
  trace: Trace,
  base: string,
): Promise<{ link: string; rounds: number; of: number } | undefined> {
  const { prompt, rounds, run } = trace;
  if (prompt !== request.prompt || prompt.length > MAX_PROMPT) return undefined;
  const head = `${MARK}${parameters({ v: "2" }, request)}&run=`;
  for (const length of LENGTHS) {
    let best: { link: string; rounds: number; of: number } | undefined;
    for (let least = 0, most = rounds.length, kept = most; least <= most; kept = (least + most) >> 1) {
      const short = encodeTrace(shortened(trace, kept));
      const fragment = short.length > MAX_TRACE ? undefined : head + toBase64(await deflate(short));
      if (!fragment || fragment.length > length) most = kept - 1;
      else {
        best = { link: bare(base) + fragment, rounds: kept, of: run };
        least = kept + 1;
      }
    }
    if (best) return best;
  }
  return undefined;
}

/**
 * Returns a trace with its first rounds. The text stays whole: the text of the other rounds joins the rest. What the
 * player does not draw is left out: entropies and the nodes that were not verified.
 */
function shortened({ rounds, rest, ...trace }: Trace, kept: number): Trace {
  const pruned = { tokens: [], texts: [], parents: [], scores: [], total: 0 };
  const bare = { entropies: [], draft_entropies: [], pruned };
  return {
    ...trace,
    rounds: rounds.slice(0, kept).map((round) => (round.tree ? { ...round, tree: { ...round.tree, ...bare } } : round)),
    rest: [...rounds.slice(kept).map(({ text }) => text), rest].join(""),
  };
}

/** Whether a fragment belongs to a shared link. */
export function isShared(fragment: string): boolean {
  return fragment.startsWith(MARK);
}

/** Reads a fragment. Throws an error of one line if it is invalid. */
export async function readShared(fragment: string): Promise<Shared> {
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
  const version = seen.get("v") ?? "none";
  if (!Object.hasOwn(VERSIONS, version))
    throw new Error(`link: version: want 1 or 2, have ${quote(version)}; open it on the page it was made with`);
  const part = VERSIONS[version]!;
  const value = seen.get(part);
  if (value === undefined) throw new Error(`link: ${part}: missing`);
  const trace = part === "run" ? await unpack(value) : undefined;
  const prompt = trace?.prompt ?? value;
  if (prompt.length > MAX_PROMPT)
    throw new Error(`link: prompt: ${prompt.length} characters, want at most ${MAX_PROMPT}`);
  if (/[\0-\x08\x0b\x0c\x0e-\x1f\x7f\ufffd]|[\ud800-\udbff](?![\udc00-\udfff])/.test(prompt))
    throw new Error("link: prompt: contains invalid characters");
  const settings = new Map<string, string>();
  for (const [name, value] of seen) {
    if (name === "v" || name === part) continue;
    const field = FIELDS.find((f) => attributeOf(f) === name);
    let problem = field ? problemIn(field, value) : "is not a setting of this page";
    if (name === "policy")
      problem = METHODS.some((m) => m.name === value) ? undefined : "is not a method of this page";
    if (problem) throw new Error(`link: ${quote(name)}: ${quote(value)} ${problem}`);
    settings.set(name, value);
  }
  return { prompt, settings, trace };
}

/** Returns an address without query and fragment. */
function bare(address: string): string {
  const link = new URL(address);
  link.search = "";
  link.hash = "";
  return link.href;
}

/** Returns the settings of a request as parameters, after the `first` ones. */
function parameters(first: Record<string, string>, request: GenerateRequest): URLSearchParams {
  const all = new URLSearchParams(first);
  if (request.policy) all.set("policy", request.policy);
  for (const field of FIELDS) {
    const value = request[field.name];
    if (value === undefined || value === null) continue;
    all.set(attributeOf(field), typeof value === "object" ? JSON.stringify(value) : String(value));
  }
  return all;
}

/** Unpacks the rounds of a link. */
async function unpack(text: string): Promise<Trace> {
  if (text.length > LENGTHS[1])
    throw new Error(`link: run: ${text.length} characters long, want at most ${LENGTHS[1]}`);
  let bytes;
  try {
    bytes = await inflate(fromBase64(text));
  } catch {
    throw new Error("link: run: cannot be unpacked; the link may be truncated");
  }
  if (!bytes) throw new Error(`link: run: more than ${MAX_TRACE} bytes`);
  try {
    return readTrace(bytes);
  } catch (cause) {
    throw new Error(`link: run: ${(cause as Error).message}`);
  }
}

async function deflate(bytes: Uint8Array): Promise<Uint8Array> {
  const packed = streamOf(bytes).pipeThrough(new CompressionStream("deflate-raw"));
  return new Uint8Array(await new Response(packed).arrayBuffer());
}

/** Returns the unpacked bytes; undefined if there are more than MAX_TRACE. */
async function inflate(bytes: Uint8Array): Promise<Uint8Array | undefined> {
  const reader = streamOf(bytes).pipeThrough(new DecompressionStream("deflate-raw")).getReader();
  const parts: Uint8Array<ArrayBuffer>[] = [];
  let length = 0;
  for (let part = await reader.read(); !part.done; part = await reader.read()) {
    parts.push(part.value);
    if ((length += part.value.length) <= MAX_TRACE) continue;
    void reader.cancel().catch(() => undefined);
    return undefined;
  }
  return new Uint8Array(await new Blob(parts).arrayBuffer());
}

const streamOf = (bytes: Uint8Array): ReadableStream<Uint8Array<ArrayBuffer>> =>
  new Blob([bytes as Uint8Array<ArrayBuffer>]).stream();

function toBase64(bytes: Uint8Array): string {
  const text = btoa(Array.from(bytes, (byte) => String.fromCharCode(byte)).join(""));
  return text.replaceAll("+", "-").replaceAll("/", "_").replaceAll("=", "");
}

/** Throws if the text is not base64url. */
function fromBase64(text: string): Uint8Array {
  if (!/^[\w-]*$/.test(text)) throw new Error("not base64url");
  return Uint8Array.from(atob(text.replaceAll("-", "+").replaceAll("_", "/")), (one) => one.charCodeAt(0));
}
