/**
 * The page's side of a framed widget: sends messages, checks the origin of answers, and adjusts the height of the
 * frame to the widget.
 *
 * ```ts
 * import { ForetokenFrame } from "https://models.example/foretoken/foretoken-frame.js";
 * const frame = new ForetokenFrame(document.querySelector("iframe"));
 * const result = await frame.generate(prompt, { onRound: (round) => console.log(round.text) });
 * ```
 */
import { type FromFrame, isOurs, type ToFrame, VERSION } from "./messages.ts";
import type { EngineInfo, Result } from "../protocol/protocol.ts";

export type { FromFrame, ToFrame } from "./messages.ts";
export type FrameRound = Extract<FromFrame, { type: "round" }>;

/** An error of the frame; `code` is a `ForetokenError`'s, "message" for an invalid message, or "sandboxed". */
export class FrameError extends Error {
  constructor(
    readonly code: string,
    message: string,
  ) {
    super(message);
    this.name = "FrameError";
  }
}

export interface FrameOptions {
  onRound?: ((round: FrameRound) => void) | undefined;
  signal?: AbortSignal | undefined;
}

interface Pending {
  ends: FromFrame["type"];
  resolve(message: FromFrame): void;
  reject(error: FrameError): void;
  onRound?: FrameOptions["onRound"];
}

/** A frame that shows embed.html, whose address names this page's origin: `embed.html?origin=https://docs.example`. */
export class ForetokenFrame {
  readonly #frame: HTMLIFrameElement;
  readonly #origin: string;
  readonly #pending = new Map<number, Pending>();
  readonly #ended = new AbortController();
  readonly #connected: Promise<void>;
  #hello!: () => void;
  #next = 1;

  constructor(frame: HTMLIFrameElement) {
    this.#frame = frame;
    this.#origin = new URL(frame.src, document.baseURI).origin;
    this.#connected = new Promise((resolve) => (this.#hello = resolve));
    const { signal } = this.#ended;
    addEventListener("message", (event) => this.#receive(event), { signal });
    const greet = (): void => this.#post({ foretoken: VERSION, type: "hello" });
    frame.addEventListener("load", greet, { signal });
    // A document of another origin is not accessible, so it has loaded. Before that, the frame has an empty document.
    if (
      !frame.contentDocument ||
      (frame.contentDocument.URL !== "about:blank" && frame.contentDocument.readyState === "complete")
    )
      greet();
  }

  /** Loads the models. Rejects with a {@link FrameError}. */
  async load(options: Pick<FrameOptions, "signal"> = {}): Promise<EngineInfo> {
    return ((await this.#ask({ type: "load" }, "ready", options)) as Extract<FromFrame, { type: "ready" }>).info;
  }

  /** Continues a prompt, by default the widget's. After an abort it resolves with the text so far, finish "aborted". */
  async generate(prompt?: string, options: FrameOptions = {}): Promise<Result> {
    return (
      (await this.#ask({ type: "generate", ...(prompt === undefined ? {} : { prompt }) }, "done", options)) as Extract<
        FromFrame,
        { type: "done" }
      >
    ).result;
  }

  /** Ends the running request of the frame. */
  abort(): void {
    void this.#connected.then(() => this.#post({ foretoken: VERSION, type: "abort" }));
  }

  /** Sets attributes of the widget; null removes one. */
  setAttributes(attributes: Record<string, string | null>): void {
    void this.#connected.then(() => this.#post({ foretoken: VERSION, type: "set-attributes", attributes }));
  }

  /** Stops listening; the frame stays in the page. */
  dispose(): void {
    this.#ended.abort();
    for (const { reject } of this.#pending.values()) reject(new FrameError("disposed", "the frame was disposed"));
    this.#pending.clear();
  }

  async #ask(
    message: { type: "load" } | { type: "generate"; prompt?: string },
    ends: FromFrame["type"],
    { onRound, signal }: FrameOptions,
  ): Promise<FromFrame> {
    // The frame's origin is then none that its messages could come from.
    if (this.#frame.hasAttribute("sandbox") && !this.#frame.sandbox.contains("allow-same-origin"))
      throw new FrameError("sandboxed", "the frame is sandboxed; its sandbox attribute needs allow-same-origin");
    const id = this.#next++;
    let sent = false;
    const stop = (): void => {
      if (sent) this.abort();
      else this.#pending.get(id)?.reject(new FrameError("aborted", "aborted before the start"));
    };
    signal?.addEventListener("abort", stop);
    try {
      return await new Promise<FromFrame>((resolve, reject) => {
        this.#pending.set(id, { ends, resolve, reject, onRound });
        if (signal?.aborted) stop();
        void this.#connected.then(() => {
          if (!this.#pending.has(id)) return;
          sent = true;
          this.#post({ foretoken: VERSION, id, ...message });
        });
      });
    } finally {
      this.#pending.delete(id);
      signal?.removeEventListener("abort", stop);
    }
  }

  #post(message: ToFrame): void {
    this.#frame.contentWindow?.postMessage(message, this.#origin);
  }

  #receive(event: MessageEvent): void {
    if (
      event.source !== this.#frame.contentWindow ||
      event.origin !== this.#origin ||
      !isOurs(event.data) ||
      event.data.foretoken !== VERSION
    )
      return;
    const message = event.data as FromFrame;
    if (message.type === "hello") this.#hello();
    else if (message.type === "resize") {
      if (Number.isFinite(message.height) && message.height > 0)
        this.#frame.style.height = `${Math.min(message.height, 20_000)}px`;
    } else {
      const pending = this.#pending.get(message.id as number);
      if (!pending) return;
      if (message.type === "round") pending.onRound?.(message);
      else if (message.type === "error") pending.reject(new FrameError(message.code, message.message));
      else if (message.type === pending.ends) pending.resolve(message);
    }
  }
}
