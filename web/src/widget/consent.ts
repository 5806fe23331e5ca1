/**
 * Asks the visitor before a widget with the attribute `confirm` loads from other hosts: on pages whose address sets the
 * attributes, a link could name any host. The host gets no request before the click, whose button shows it.
 */
import { MODELS, nameOf } from "../engine/known-models.ts";
import { hostOf } from "../sources/hosts.ts";
import { resolve } from "../sources/hub.ts";
import { el, setText } from "./dom.ts";
import * as format from "./format.ts";

/** Whether a click is needed for an address. */
const isForeign = (url: string): boolean => hostOf(url) !== location.origin;

/** The name of a host without "https://", and with the scheme where it is another one. */
const short = (url: string): string => hostOf(url).replace(/^https:\/\//, "");

/** The addresses and sizes of the catalog's models. */
const catalog = (): Map<string, number | undefined> =>
  new Map(MODELS.map((model) => [addressOf(nameOf(model)), model.bytes || undefined]));

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
    const sizes = urls.map((url) => known.get(url));
    const total = sizes.reduce<number>((sum, size) => sum + (size ?? 0), 0);
    const files = urls.map((url, i) => `${file(url)} (${sizeOf(sizes[i])})`).join(", ");
    const unknown = sizes.includes(undefined)
      ? " Their size is shown once the download begins, which you can pause."
      : "";
    setText(this.#text, `This page was opened with files of ${hosts}: ${files}.${unknown}`);
    setText(
      this.#button,
      total > 0 ? `Load ${format.bytes(total)}${unknown && " or more"} from ${hosts}` : `Load from ${hosts}`,
    );
    this.onAsk();
    this.element.hidden = false;
    await click(this.#button, signal);
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

const pathOf = (url: string): string => new URL(url).pathname;

const sizeOf = (size: number | undefined): string => (size === undefined ? "size not known" : format.bytes(size));

/** Returns a file's name as the address spells it: in ASCII, because other characters could disguise it. */
function file(url: string): string {
  const name = pathOf(url).replace(/^.*\//, "");
  return name.length > 60 ? `${name.slice(0, 59)}…` : name || "/";
}
