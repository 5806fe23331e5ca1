/**
 * The widget as a page of its own, for a frame on another site (embed.html). The address gives its attributes, as
 * index.html's does, and `origin=https://docs.example` who may speak to it by messages ({@link ToFrame}): nobody
 * unless told. `data-origins` on embed.html's html element bounds whom an address can name.
 */
import { allowedOrigins, type FromFrame, isOurs, type MessageId, MessageError, readMessage, SETTABLE, type ToFrame, VERSION } from "./embed/messages.ts";
import type { ForetokenError, EngineInfo, Result, RoundEvent } from "./engine.ts";
import { ForetokenWidget } from "./widget.ts";

type Said = FromFrame extends infer M ? (M extends unknown ? Omit<M, "foretoken"> : never) : never;

class Frame {
  readonly #widget: ForetokenWidget;
  readonly #allowed: readonly string[];
  /** Whom to answer: the only one allowed, or else the first of them that spoke. */
  #peer: string | undefined;
  /** The request that runs. */
  #id: MessageId | undefined;
  #running = false;

  constructor(widget: ForetokenWidget, allowed: readonly string[]) {
    this.#widget = widget;
    this.#allowed = allowed;
    if (allowed.length === 1) this.#peer = allowed[0];
  }

  listen(): void {
    addEventListener("message", (event) => this.#hear(event));
    const on = <D>(name: string, say: (detail: D) => Said): void => this.#widget.addEventListener(name, (event) => this.#say(say((event as CustomEvent<D>).detail)));
    on<EngineInfo>("foretoken-ready", (info) => ({ type: "ready", info, ...this.#of }));
    on<RoundEvent>("foretoken-round", ({ round, text, tokens, ms, elapsed_ms }) => ({ type: "round", round, text, tokens, ms, elapsed_ms, ...this.#of }));
    on<Result>("foretoken-done", (result) => ({ type: "done", result, ...this.#of }));
    on<ForetokenError>("foretoken-error", ({ code, message }) => ({ type: "error", code: code ?? "load", message, ...this.#of }));
    new ResizeObserver(([entry]) => this.#say({ type: "resize", height: Math.ceil(entry!.borderBoxSize[0]!.blockSize) })).observe(document.body);
    this.#say({ type: "hello" });
  }

  get #of(): { id?: MessageId } {
    return this.#id === undefined ? {} : { id: this.#id };
  }

  #say(message: Said): void {
    if (this.#peer !== undefined) parent.postMessage({ foretoken: VERSION, ...message }, this.#peer);
  }

  #hear(event: MessageEvent): void {
    if (!isOurs(event.data)) return;
    if (event.source !== parent || !this.#allowed.includes(event.origin)) {
      console.warn(`embed: a message from ${event.origin} was refused: ${this.#allowed.length > 0 ? `only ${this.#allowed.join(", ")} may speak` : "the address names no origin that may speak (?origin=…)"}`);
      return;
    }
    this.#peer = event.origin;
    let message: ToFrame;
    try {
      message = readMessage(event.data);
    } catch (cause) {
      const { message, id } = cause as MessageError;
      return this.#say({ type: "error", code: "message", message, ...(id === undefined ? {} : { id }) });
    }
    this.#do(message).catch((cause: unknown) => {
      const code = (cause as Partial<ForetokenError>).code ?? "generate";
      const id = message.id === undefined ? {} : { id: message.id };
      this.#say({ type: "error", code, message: cause instanceof Error ? cause.message : String(cause), ...id });
    });
  }

  async #do(message: ToFrame): Promise<void> {
    const widget = this.#widget;
    switch (message.type) {
      case "hello":
        return this.#say({ type: "hello", ...(message.id === undefined ? {} : { id: message.id }) });
      case "abort":
        return widget.stop();
      case "set-attributes":
        for (const [name, value] of Object.entries(message.attributes)) {
          if (value === null) widget.removeAttribute(name);
          else widget.setAttribute(name, value);
        }
        return;
    }
    if (this.#running) throw Object.assign(new Error("embed: a request runs already; abort it, or wait for its end"), { code: "busy" });
    this.#running = true;
    this.#id = message.id;
    let told = false;
    const tell = (): void => void (told = true);
    widget.addEventListener("foretoken-error", tell);
    try {
      if (message.type === "load") await widget.load();
      else {
        if (message.prompt !== undefined) (await widget.open()).prompt = message.prompt;
        await widget.generate();
      }
    } catch (cause) {
      if (!told) throw cause; // the widget tells of all but what was stopped
    } finally {
      widget.removeEventListener("foretoken-error", tell);
      this.#running = false;
      this.#id = undefined;
    }
  }
}

const widget = document.querySelector("foretoken-widget");
if (widget instanceof ForetokenWidget) {
  const query = new URLSearchParams(location.search);
  try {
    const allowed = allowedOrigins(query.getAll("origin"), document.documentElement.getAttribute("data-origins"));
    if (parent !== window) new Frame(widget, allowed).listen();
  } catch (cause) {
    console.error((cause as Error).message);
  }
  for (const [name, value] of query) {
    if (name === "compact" && value === "false") widget.removeAttribute(name);
    else if (SETTABLE.includes(name)) widget.setAttribute(name, value);
  }
  if (query.has("autoload")) void widget.load().catch(() => undefined); // the widget shows it
}
