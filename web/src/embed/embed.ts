/**
 * embed.html: the widget as a page for a frame on another site. The address sets its attributes, as for index.html.
 * `origin=https://docs.example` in the address allows that origin to send messages ({@link ToFrame}); without it, no
 * origin may. `data-origins` on the html element of embed.html limits the origins that an address can allow.
 */
import {
  allowedOrigins,
  type FromFrame,
  isOurs,
  type MessageId,
  MessageError,
  readMessage,
  SETTABLE,
  type ToFrame,
  VERSION,
} from "./messages.ts";
import type { ForetokenError, EngineInfo, Result, RoundEvent } from "../engine/engine.ts";
import { ForetokenWidget } from "../widget/element.ts";

type Reply = FromFrame extends infer M ? (M extends unknown ? Omit<M, "foretoken"> : never) : never;

class Frame {
  readonly #widget: ForetokenWidget;
  readonly #allowed: readonly string[];
  /** The origin to answer: the only one allowed, or the first that sent a message. */
  #peer: string | undefined;
  /** The id of the running request. */
  #id: MessageId | undefined;
  #running = false;

  constructor(widget: ForetokenWidget, allowed: readonly string[]) {
    this.#widget = widget;
    this.#allowed = allowed;
    if (allowed.length === 1) this.#peer = allowed[0];
  }

  listen(): void {
    addEventListener("message", (event) => this.#receive(event));
    const on = <D>(name: string, reply: (detail: D) => Reply): void =>
      this.#widget.addEventListener(name, (event) => this.#send(reply((event as CustomEvent<D>).detail)));
    on<EngineInfo>("foretoken-ready", (info) => ({ type: "ready", info, ...this.#of }));
    on<RoundEvent>("foretoken-round", ({ round, text, tokens, ms, elapsed_ms }) => ({
      type: "round",
      round,
      text,
      tokens,
      ms,
      elapsed_ms,
      ...this.#of,
    }));
    on<Result>("foretoken-done", (result) => ({ type: "done", result, ...this.#of }));
    on<ForetokenError>("foretoken-error", ({ code, message }) => ({
      type: "error",
      code: code ?? "load",
      message,
      ...this.#of,
    }));
    new ResizeObserver(() => this.#resize()).observe(document.body);
    this.#send({ type: "hello" });
  }

  get #of(): { id?: MessageId } {
    return this.#id === undefined ? {} : { id: this.#id };
  }

  #resize(): void {
    this.#send({ type: "resize", height: Math.ceil(document.body.getBoundingClientRect().height) });
  }

  #send(message: Reply): void {
    if (this.#peer !== undefined) parent.postMessage({ foretoken: VERSION, ...message }, this.#peer);
  }

  #receive(event: MessageEvent): void {
    if (!isOurs(event.data)) return;
    if (event.source !== parent || !this.#allowed.includes(event.origin)) {
      console.warn(
        `embed: ignored a message from ${event.origin}: ` +
          (this.#allowed.length > 0
            ? `only ${this.#allowed.join(", ")} may send messages`
            : "the address allows no origin (?origin=…)"),
      );
      return;
    }
    this.#peer = event.origin;
    let message: ToFrame;
    try {
      message = readMessage(event.data);
    } catch (cause) {
      const { message, id } = cause as MessageError;
      return this.#send({ type: "error", code: "message", message, ...(id === undefined ? {} : { id }) });
    }
    this.#do(message).catch((cause: unknown) => {
      const code = (cause as Partial<ForetokenError>).code ?? "generate";
      const id = message.id === undefined ? {} : { id: message.id };
      this.#send({ type: "error", code, message: cause instanceof Error ? cause.message : String(cause), ...id });
    });
  }

  async #do(message: ToFrame): Promise<void> {
    const widget = this.#widget;
    switch (message.type) {
      case "hello":
        this.#send({ type: "hello", ...(message.id === undefined ? {} : { id: message.id }) });
        return this.#resize(); // the parent may not have listened yet when the height was sent
      case "abort":
        return widget.stop();
      case "set-attributes":
        for (const [name, value] of Object.entries(message.attributes)) {
          if (value === null) widget.removeAttribute(name);
          else widget.setAttribute(name, value);
        }
        return;
    }
    if (this.#running)
      throw Object.assign(new Error("embed: a request is running; abort it or wait for its end"), { code: "busy" });
    this.#running = true;
    this.#id = message.id;
    let reported = false;
    const onError = (): void => void (reported = true);
    widget.addEventListener("foretoken-error", onError);
    try {
      if (message.type === "load") await widget.load();
      else {
        if (message.prompt !== undefined) (await widget.open()).prompt = message.prompt;
        await widget.generate();
      }
    } catch (cause) {
      if (!reported) throw cause; // the widget reports all errors except aborts
    } finally {
      widget.removeEventListener("foretoken-error", onError);
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
    if (SETTABLE.includes(name)) widget.setAttribute(name, value);
  }
  if (query.has("autoload")) void widget.load().catch(() => undefined); // the widget shows the error
}
