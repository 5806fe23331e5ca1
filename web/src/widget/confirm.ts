/** Loads consent.ts, which asks the visitor before a load asks other hosts, for widgets with `confirm`. */
import type { Consent } from "./consent.ts";
import { setText } from "./dom.ts";
import type { View } from "./view.ts";

export class Confirm {
  #consent: Promise<Consent> | undefined;

  constructor(
    readonly host: Element,
    readonly view: View,
  ) {}

  /** Confirms addresses that a click has shown. */
  confirm(urls: readonly string[]): void {
    void this.#load()?.then((consent) => consent.confirm(urls));
  }

  /** Resolves with the hosts to ask once all addresses are confirmed; undefined if this widget does not ask. */
  async given(urls: readonly string[], signal: AbortSignal): Promise<string[] | undefined> {
    return (await this.#load())?.given(urls, signal);
  }

  #load(): Promise<Consent> | undefined {
    const { view } = this;
    if (!this.host.hasAttribute("confirm")) return undefined;
    this.#consent ??= import("./consent.ts").then(({ Consent }) => {
      const consent = new Consent(() => setText(view.status, "Waiting for a click"));
      view.error.before(consent.element);
      return consent;
    });
    return this.#consent;
  }
}
