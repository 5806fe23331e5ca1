/** Two lanes on one axis of passes of the large model: one token at a time, and the run that is shown. */
import { el, setText } from "../widget/dom.ts";
import { counted, duration, type Order } from "./order.ts";

export class Lanes {
  readonly #single = el("div", { class: "lane single" }, el("i"));
  readonly #several = el("div", { class: "lane several" });
  readonly #after = [el("span", { class: "count" }), el("span", { class: "count" })] as const;
  readonly #about = el("p", { class: "about" });
  readonly #relaxed = el("span", { class: "relaxed", hidden: true }, "guess kept, may differ (lossy)");
  readonly element = el(
    "div",
    { class: "below" },
    el(
      "div",
      { class: "lanes" },
      el("span", {}, "One token at a time"),
      el("div", { "aria-hidden": "true" }, this.#single),
      this.#after[0],
      el("span", {}, "Foretoken"),
      el("div", { "aria-hidden": "true" }, this.#several),
      this.#after[1],
    ),
    this.#about,
    el(
      "p",
      { class: "key" },
      el("span", { class: "kept" }, "guessed by the small model, kept by the large one"),
      el("span", { class: "own" }, "written by the large model"),
      this.#relaxed,
    ),
  );
  #order: Order | undefined;

  /** Shows the passes up to `round`, an index from 0; -1 shows none. */
  show(order: Order | undefined, round: number): void {
    if (order !== this.#order) this.#begin((this.#order = order));
    [...this.#several.children].forEach((pass, i) => pass.classList.toggle("done", i <= round));
    const { tokens, passes, rows, ms } = order?.figures(round) ?? { tokens: 0, passes: 0, rows: 1, ms: 0 };
    const all = order?.trace.rounds.reduce((sum, one) => sum + one.tokens.length, 0) ?? 0;
    (this.#single.firstElementChild as HTMLElement).style.width = `${(100 * passes) / Math.max(all, 1)}%`;
    const after = `after ${counted(passes, "pass", "passes")}`;
    setText(this.#after[0], `${counted(passes, "token")} ${after}`);
    setText(this.#after[1], `${counted(tokens, "token")} ${after}`);
    const about = `A pass of ${rows} rows takes longer than a pass of one, so fewer passes may not be less time.`;
    const wide = rows > 1 ? ` of up to ${rows} rows. ${about}` : ".";
    const when = `${counted(tokens, "token")} ${duration(ms)} after the start`; // which has read the prompt, too
    setText(this.#about, passes === 0 ? "\u00a0" : `${when}, in ${counted(passes, "pass", "passes")}${wide}`);
  }

  #begin(order: Order | undefined): void {
    const rounds = order?.trace.rounds ?? [];
    const all = rounds.reduce((sum, { tokens }) => sum + tokens.length, 0);
    this.#single.style.setProperty("--tokens", String(Math.max(all, 1)));
    this.#relaxed.hidden = !rounds.some(({ tokens }) => tokens.some(({ kind }) => kind === "relaxed"));
    this.#several.replaceChildren(
      ...rounds.map(({ tokens }) => {
        const kept = tokens.filter(({ kind }) => kind === "accepted" || kind === "relaxed").length;
        const pass = el("i");
        pass.style.flexGrow = String(tokens.length);
        pass.style.setProperty("--kept", `${(100 * kept) / tokens.length}%`);
        return pass;
      }),
    );
  }
}
