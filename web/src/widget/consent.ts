/**
 * Asks the visitor before a widget with the attribute `confirm` loads from other hosts: on pages whose address sets the
 * attributes, a link could name any host. The host gets no request before a click that shows it. Where the size is not
 * known, one click asks the host for it and another one loads.
 */
import { PAIRS } from "../engine/pairs.ts";
import { hostOf } from "../sources/hosts.ts";
import { PART, resolve } from "../sources/hub.ts";
import { el, setText } from "./dom.ts";
import * as format from "./format.ts";

/** Whether a click is needed for an address. */
const isForeign = (url: string): boolean => hostOf(url) !== location.origin;

/** The name of a host without "https://", and with the scheme where it is another one. */
const short = (url: string): string => hostOf(url).replace(/^https:\/\//, "");

/** The addresses and sizes of the catalog's models. */
const catalog = (): Map<string, number | undefined> =>
  new Map(PAIRS.flatMap(({ target, draft }) => [target, draft]).map((of) => [addressOf(of.name), of.bytes]));

const addressOf = (name: string): string => resolve(name, document.baseURI).url;

export class Consent {
  readonly #confirmed = new Set<string>();
  readonly #text = el("p");
  readonly #button = el("button", { type: "button", id: "consent-load", class: "primary", part: "button" });
  readonly element = el(
    "div",
    { class: "notice", id: "consent", role: "alert", part: "notice", hidden: true },
    this.#text,
    this.#button,
  );

  constructor(readonly onAsk: () => void) {}

  /** Confirms addresses that a click has shown. */
  confirm(urls: readonly string[]): void {
    for (const url of urls) this.#confirmed.add(url);
  }

  /** Resolves with the hosts to ask once all addresses are confirmed. */
  async given(urls: readonly string[], signal: AbortSignal): Promise<string[]> {
    const open = [...new Set(urls)].filter((url) => isForeign(url) && !this.#confirmed.has(url));
    if (open.length > 0) {
      try {
        await this.#ask(open, signal);
      } finally {
        this.element.hidden = true;
      }
      this.confirm(open);
    }
    return [...new Set(urls.filter(isForeign).map(hostOf))];
  }

  async #ask(urls: readonly string[], signal: AbortSignal): Promise<void> {
    const hosts = [...new Set(urls.map(short))].join(" and ");
    const known = catalog();
    let sizes = urls.map((url) => known.get(url));
    const files = (): string => urls.map((url, i) => `${file(url)} (${sizeOf(sizes[i])})`).join(", ");
    this.onAsk();
    const say = (text: string, button: string): Promise<void> => {
      setText(this.#text, text);
      setText(this.#button, button);
      this.#button.disabled = false;
      this.element.hidden = false;
      return click(this.#button, signal);
    };
    const before = `This page was opened with files of ${hosts}`;
    if (sizes.includes(undefined) && urls.some(isOneFile)) {
      await say(`${before}: ${files()}. Nothing was asked of it yet.`, `Ask ${hosts} for the size`);
      this.#button.disabled = true;
      sizes = await Promise.all(urls.map((url, i) => sizes[i] ?? askSize(url, signal)));
    }
    signal.throwIfAborted();
    const total = sizes.reduce<number>((sum, size) => sum + (size ?? 0), 0);
    const more = sizes.includes(undefined) ? " or more" : "";
    await say(
      `${before}: ${files()}.`,
      total > 0 ? `Load ${format.bytes(total)}${more} from ${hosts}` : `Load from ${hosts}, size not known`,
    );
  }
}

/** Resolves with a click; rejects with the signal's reason. */
function click(button: HTMLElement, signal: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    const abort = (): void => reject(signal.reason);
    if (signal.aborted) return abort();
    signal.addEventListener("abort", abort, { once: true });
    button.addEventListener("click", () => resolve(), { once: true, signal });
  });
}

/** Whether an address names a single file, not a split or a safetensors model. */
const isOneFile = (url: string): boolean => /(?<!\.index)\.(gguf|json)$/i.test(pathOf(url)) && !PART.test(pathOf(url));

const pathOf = (url: string): string => new URL(url).pathname;

/** Returns the size that a confirmed host reports for a single file. */
async function askSize(url: string, signal: AbortSignal): Promise<number | undefined> {
  if (!isOneFile(url)) return undefined;
  try {
    const limit = AbortSignal.any([signal, AbortSignal.timeout(10_000)]);
    const response = await fetch(url, { method: "HEAD", signal: limit });
    const length = Number(response.headers.get("Content-Length") ?? NaN);
    return response.ok && Number.isSafeInteger(length) ? length : undefined;
  } catch {
    return undefined;
  }
}

const sizeOf = (size: number | undefined): string => (size === undefined ? "size not known" : format.bytes(size));

/** Returns a file's name as the address spells it: in ASCII, because other characters could disguise it. */
function file(url: string): string {
  const name = pathOf(url).replace(/^.*\//, "");
  return name.length > 60 ? `${name.slice(0, 59)}…` : name || "/";
}
