/**
 * The streamed text, each token marked by where it came from. Rounds are queued
 * and appended once a frame, as text nodes: what a model writes is never parsed
 * as HTML, and a fast model does not cause a layout for every token.
 */
import type { EventToken, RoundEvent } from "../protocol.ts";
import { el } from "./dom.ts";

/** A stretch of text to be shown with one mark. */
export interface Piece {
  token: EventToken | undefined;
  text: string;
}

/**
 * Divides a round's text among its tokens. A token whose bytes end inside a
 * character has no text of its own yet; whatever the tokens' texts do not
 * cover goes to the last of them, so that the pieces always add up to
 * `event.text`.
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

const DESCRIPTION: Record<EventToken["kind"], string> = {
  plain: "decoded plainly",
  accepted: "drafted and accepted",
  corrected: "corrected by the target",
  bonus: "bonus token of the target",
};

/** One token as a node. */
export function tokenNode(piece: Piece): HTMLElement {
  const { token, text } = piece;
  if (!token) return el("span", {}, text);
  const depth = token.depth > 0 ? ` at depth ${token.depth}` : "";
  return el("span", { class: `token ${token.kind}`, title: `${DESCRIPTION[token.kind]}${depth} · id ${token.id}` }, text);
}

export class TokenStream {
  readonly #box: HTMLElement;
  readonly #schedule: (callback: () => void) => void;
  #queue: RoundEvent[] = [];
  #scheduled = false;

  /** `box` scrolls; `schedule` is requestAnimationFrame unless a test says otherwise. */
  constructor(box: HTMLElement, schedule: (callback: () => void) => void = (callback) => requestAnimationFrame(callback)) {
    this.#box = box;
    this.#schedule = schedule;
  }

  /** Says what will appear, before there is anything. */
  invite(text: string): void {
    this.#box.replaceChildren(el("span", { class: "invitation" }, text));
  }

  /** Empties the box and shows the prompt the text continues. */
  start(prompt: string): void {
    this.#queue = [];
    this.#box.replaceChildren(el("span", { class: "prompt" }, prompt));
  }

  push(event: RoundEvent): void {
    this.#queue.push(event);
    if (this.#scheduled) return;
    this.#scheduled = true;
    this.#schedule(() => this.flush());
  }

  /** Appends what is queued; called at the end too, as frames do not run in a hidden tab. */
  flush(): void {
    this.#scheduled = false;
    if (this.#queue.length === 0) return;
    const nodes = this.#queue.flatMap((event) => pieces(event).map(tokenNode));
    this.#queue = [];
    // Follow the text only while the reader is at its end.
    const follow = this.#box.scrollHeight - this.#box.scrollTop - this.#box.clientHeight < 24;
    this.#box.append(...nodes);
    if (follow) this.#box.scrollTop = this.#box.scrollHeight;
  }
}
