/**
 * The streamed text with a mark for the origin of each token. Rounds are queued and appended together, so a fast model
 * does not cause a layout for every token. They become text nodes, so model output is never parsed as HTML.
 */
import type { EventToken, RoundEvent } from "../protocol/protocol.ts";
import { el } from "./dom.ts";

/** A piece of text with one mark. */
export interface Piece {
  token: EventToken | undefined;
  text: string;
}

/**
 * Divides a round's text among its tokens. A token whose bytes end inside a character has no text yet. The last piece
 * gets the text that the tokens do not cover, so the pieces always add up to `event.text`.
 */
export function pieces(event: Pick<RoundEvent, "text" | "tokens">): Piece[] {
  const out: Piece[] = [];
  let rest = event.text;
  for (const token of event.tokens) {
    const taken = token.text !== "" && rest.startsWith(token.text) ? token.text : "";
    rest = rest.slice(taken.length);
    out.push({ token, text: taken });
  }
  const last = out.at(-1);
  if (last) last.text += rest;
  else if (rest) out.push({ token: undefined, text: rest });
  return out.filter((piece) => piece.text !== "");
}

/** The origin of a token, in the field's words. */
export const DESCRIPTION: Record<EventToken["kind"], string> = {
  plain: "decoded plainly",
  accepted: "drafted and accepted",
  relaxed: "drafted, and accepted although the target chose another (lossy)",
  corrected: "corrected by the target",
  bonus: "an extra token: the target's own, after guesses that were all accepted",
};

/** Returns the node of a token. */
export function tokenNode(piece: Piece): HTMLElement {
  const { token, text } = piece;
  if (!token) return el("span", {}, text);
  const depth = token.depth > 0 ? ` at depth ${token.depth}` : "";
  return el(
    "span",
    { class: `token ${token.kind}`, title: `${DESCRIPTION[token.kind]}${depth} · id ${token.id}` },
    text,
  );
}

/** The least number of tokens in a block of lines; the browser skips the layout of blocks out of view. */
const BLOCK = 48;

/** The least ms between two drawings: layout and paint take the processor from a model that runs on it. */
const PAUSE = 50;

/** Calls back in a frame, after `wait` ms. */
function inFrame(callback: () => void, wait: number): void {
  if (wait > 0) setTimeout(() => requestAnimationFrame(callback), wait);
  else requestAnimationFrame(callback);
}

/** The characters of a prompt that are shown. */
const MOST_PROMPT = 100_000;

/** Receives the rounds of a generation. */
export interface RoundSink {
  push(round: RoundEvent): void;
  /** Shows what is queued. */
  flush(): void;
}

/** Runs `change`, and keeps the end in view if the element was scrolled to its end. */
export function following(scroller: HTMLElement, change: () => void): void {
  const follow = scroller.scrollHeight - scroller.scrollTop - scroller.clientHeight < 24;
  change();
  if (follow) scroller.scrollTop = scroller.scrollHeight;
}

export class TokenStream implements RoundSink {
  readonly #box: HTMLElement;
  readonly #scroller: HTMLElement;
  readonly #schedule: (callback: () => void, wait: number) => void;
  #drawn = -Infinity; // when, in ms
  #queue: RoundEvent[] = [];
  #scheduled = false;
  #block: HTMLElement | undefined;
  #filled = 0;

  /** `scroller` is the element that scrolls, by default `box`. Tests replace `schedule`. */
  constructor(
    box: HTMLElement,
    schedule: (callback: () => void, wait: number) => void = inFrame,
    scroller: HTMLElement = box,
  ) {
    this.#box = box;
    this.#scroller = scroller;
    this.#schedule = schedule;
  }

  /** Shows a hint in the empty box. */
  invite(text: string): void {
    this.#block = undefined;
    this.#box.replaceChildren(el("span", { class: "invitation" }, text));
  }

  /** Clears the box and shows the prompt, or the end of one that would take the browser seconds to lay out. */
  start(prompt: string): void {
    this.#queue = [];
    this.#block = this.#fresh();
    const end = prompt.slice(-MOST_PROMPT);
    this.#block.append(el("span", { class: "prompt" }, end === prompt ? prompt : `… ${end}`));
    this.#box.replaceChildren(this.#block);
  }

  push(event: RoundEvent): void {
    this.#queue.push(event);
    if (this.#scheduled) return;
    this.#scheduled = true;
    this.#schedule(() => this.flush(), this.#drawn + PAUSE - performance.now());
  }

  /** Appends the queued rounds. Also called at the end, because a hidden tab has no frames. */
  flush(): void {
    this.#scheduled = false;
    if (this.#queue.length === 0) return;
    this.#drawn = performance.now();
    following(this.#scroller, () => {
      for (const piece of this.#queue.flatMap(pieces)) this.#append(piece);
      this.#queue = [];
    });
  }

  /** Ends a block at the end of a line, so that blocks do not change the layout. */
  #append(piece: Piece): void {
    if (!this.#block) this.#box.append((this.#block = this.#fresh()));
    const end = ++this.#filled < BLOCK ? 0 : piece.text.lastIndexOf("\n") + 1;
    this.#block.append(tokenNode(end > 0 ? { ...piece, text: piece.text.slice(0, end) } : piece));
    if (end === 0) return;
    this.#block.style.containIntrinsicBlockSize = `auto ${this.#block.textContent.split("\n").length - 1}lh`;
    this.#block.setAttribute("class", "lines done");
    this.#block = undefined;
    if (end < piece.text.length) this.#append({ ...piece, text: piece.text.slice(end) });
  }

  #fresh(): HTMLElement {
    this.#filled = 0;
    return el("div", { class: "lines" });
  }
}
