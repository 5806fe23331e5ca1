/** Shows notes about a load, and errors in the settings of the element's attributes. */
import { el } from "./dom.ts";
import type { View } from "./view.ts";

export class Notices {
  readonly #view: View;
  /** The notes of loading, with their titles. */
  readonly #notes = new Map<string, string>();

  constructor(view: View) {
    this.#view = view;
    view.settings.onRefresh = () => this.draw();
  }

  /** Adds a note about the load to those shown, with details in its title. */
  add(note: string, title = ""): void {
    this.#notes.set(note, title);
    this.draw();
  }

  /** Forgets the notes of the load before. */
  clear(): void {
    this.#notes.clear();
    this.draw();
  }

  draw(): void {
    const { notice, settings } = this.#view;
    const all = [...settings.problems.map((problem) => [problem, ""] as const), ...this.#notes];
    notice.hidden = all.length === 0;
    notice.replaceChildren(...all.map(([text, title]) => el("p", { title }, text)));
  }
}
