/** An answer of the model: rendered Markdown while it streams, or its tokens with the marks of their origin. */
import type { RoundEvent } from "../protocol/protocol.ts";
import { setText, sheet } from "./dom.ts";
import type { Markdown } from "./markdown.ts";
import { following, type RoundSink, TokenStream } from "./stream.ts";

/** Rendering takes at most this share of the time, because it must not slow down the model. */
const SHARE = 1 / 5;

/** Copies a text to the clipboard and says so on the button. */
export async function copy(text: string, button: HTMLElement): Promise<void> {
  const label = (button.dataset["label"] ??= button.textContent);
  // Browsers have no clipboard in insecure pages and in frames without the permission.
  const copied = await Promise.resolve(navigator.clipboard?.writeText(text).then(() => true)).catch(() => false);
  setText(button, copied ? "Copied" : "Not allowed here");
  setTimeout(() => setText(button, label), 2000);
}

let module: { Markdown: typeof Markdown; style: CSSStyleSheet } | undefined;

/** Loads the code that renders Markdown, with the first answer. */
async function load(): Promise<void> {
  const { Markdown, markdownStyle } = await import("./markdown.ts");
  module ??= { Markdown, style: sheet(markdownStyle) };
}

function adopt(root: Node, style: CSSStyleSheet): void {
  const sheets = root instanceof ShadowRoot ? root.adoptedStyleSheets : undefined;
  if (sheets && !sheets.includes(style)) sheets.push(style);
}

export class Answer implements RoundSink {
  readonly #box: HTMLElement;
  readonly #scroller: HTMLElement;
  #text = "";
  #rounds: RoundEvent[] = [];
  #ended = false;
  #origins: boolean;
  #tokens: TokenStream | undefined;
  #markdown: Markdown | undefined;
  #scheduled = false;
  #readyAt = 0;

  /** Shows the answer in `box`, inside `scroller`; with `origins`, the origin of its tokens. */
  constructor(box: HTMLElement, scroller: HTMLElement, origins: boolean) {
    this.#box = box;
    this.#scroller = scroller;
    this.#origins = origins;
    box.addEventListener("click", ({ target }) => {
      const button = (target as Element).closest<HTMLElement>(".copy-code");
      if (button) void copy(button.closest("figure")!.querySelector("pre")!.textContent, button);
    });
  }

  push(round: RoundEvent): void {
    this.#rounds.push(round);
    this.#text += round.text;
    if (!this.#origins) this.#schedule();
    else if (this.#tokens) this.#tokens.push(round);
    else this.#mark();
  }

  flush(): void {
    if (!this.#origins || !this.#marked) this.#render();
    else this.#tokens!.flush();
  }

  /** Completes the answer, whose text is the conversation's. */
  end(text: string): void {
    if (text !== this.#text) this.#markdown = undefined;
    this.#text = text;
    this.#ended = true;
    this.flush();
  }

  /** Shows the origin of its tokens, or rendered text. */
  set origins(shown: boolean) {
    if (this.#origins === shown) return;
    this.#origins = shown;
    if (!this.#marked) return;
    this.#tokens = this.#markdown = undefined;
    if (shown) this.#mark();
    else this.#render();
  }

  /** Whether the origins of its tokens are known: not those of an answer of another visit. */
  get #marked(): boolean {
    return this.#rounds.length > 0;
  }

  /** Shows the tokens so far with their marks. */
  #mark(): void {
    this.#box.classList.remove("rendered");
    this.#box.replaceChildren();
    this.#tokens = new TokenStream(this.#box, undefined, this.#scroller);
    for (const round of this.#rounds) this.#tokens.push(round);
    this.#tokens.flush();
  }

  /** Renders at the next frame, or later if rendering takes much time. */
  #schedule(): void {
    if (this.#scheduled) return;
    this.#scheduled = true;
    setTimeout(
      () => requestAnimationFrame(() => this.#scheduled && !this.#origins && this.#render()),
      Math.max(0, this.#readyAt - performance.now()),
    );
  }

  #render(): void {
    this.#scheduled = false;
    if (!module) {
      this.#box.classList.remove("rendered");
      setText(this.#box, this.#text);
      // Without its code, text remains.
      void load().then(() => this.#origins || this.#render(), () => undefined);
      return;
    }
    const begin = performance.now();
    following(this.#scroller, () => {
      if (!this.#markdown) {
        adopt(this.#scroller.getRootNode(), module!.style);
        this.#box.classList.add("rendered");
        this.#markdown = new module!.Markdown(this.#box);
      }
      this.#markdown.show(this.#text);
      if (this.#ended) this.#markdown.end();
    });
    const end = performance.now();
    this.#readyAt = end + (end - begin) * (1 / SHARE - 1);
  }
}
