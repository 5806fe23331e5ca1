/** The list of downloaded models, with buttons to delete them or to protect them from automatic deletion. */
import { brief, listed } from "../sources/hub.ts";
import { deleteKept, keptModels, type KeptModel, persist, space } from "../sources/kept-models.ts";
import { el, setText } from "./dom.ts";
import * as format from "./format.ts";

export class KeptList {
  readonly #total = el("small", { id: "kept-total" });
  readonly #list = el("ul", { class: "kept", id: "kept-list" });
  readonly #said = el("p", { class: "kept-said", id: "kept-said", role: "status" });
  readonly #all = chip("Delete all", { id: "kept-clear" });
  readonly #persist = chip("Protect from automatic deletion", {
    id: "kept-persist",
    title: "Asks the browser not to delete these files automatically when the disk is full",
  });
  readonly element = el(
    "section",
    { class: "kept-models", tabindex: -1, "aria-label": "Kept models" },
    el("h2", {}, "Kept models", this.#total),
    this.#list,
    this.#said,
    el("div", { class: "file-actions" }, this.#all, this.#persist),
  );
  /** The stored files at the last refresh. */
  files: readonly KeptModel[] = [];
  /** The bytes that the browser has left for the page at the last refresh, if it says so. */
  free: number | undefined;

  constructor() {
    this.#all.addEventListener("click", () => void this.#delete(this.files));
    this.#persist.addEventListener("click", () => void this.#protect());
  }

  /** Updates the list. */
  async refresh(): Promise<void> {
    const [files, room] = await Promise.all([keptModels().catch(() => undefined), space()]);
    this.files = files ?? [];
    this.#list.replaceChildren(
      ...(this.files.length > 0
        ? this.files.map((file) => this.#row(file))
        : [el("li", { class: "empty" }, files ? "No models yet." : "This browser gives the page no file storage.")]),
    );
    const total = this.files.reduce((sum, file) => sum + file.size, 0);
    const used = this.files.length > 0 ? [`${format.bytes(total)} in all`] : [];
    this.free = room?.quota ? Math.max(0, room.quota - room.used) : undefined;
    const free =
      room && this.free !== undefined ? [`${format.bytes(this.free)} free of ${format.bytes(room.quota)}`] : [];
    setText(this.#total, [...used, ...free].join(", "));
    this.#all.hidden = this.files.length === 0;
    this.#persist.hidden = this.files.length === 0 || room === undefined || room.persistent;
  }

  #row(file: KeptModel): HTMLElement {
    const part = file.done ? "" : ` · ${Math.floor((100 * file.have) / Math.max(file.size, 1))}% downloaded`;
    const used = new Date(file.used).toLocaleString(undefined, { dateStyle: "medium", timeStyle: "short" });
    const name = brief(file.name);
    const remove = chip("Delete", { "aria-label": `Delete ${name}` });
    remove.disabled = file.busy;
    remove.addEventListener("click", () => void this.#delete([file]));
    return el(
      "li",
      {},
      el(
        "span",
        { class: "kept-name", title: brief(file.url) },
        el("b", {}, name),
        el("small", {}, `${format.bytes(file.size)}${part} · ${file.busy ? "in use" : `last used ${used}`}`),
      ),
      remove,
    );
  }

  async #delete(files: readonly KeptModel[]): Promise<void> {
    const busy: string[] = [];
    for (const file of files) if (!(await deleteKept(file.key))) busy.push(file.name);
    setText(
      this.#said,
      busy.length > 0
        ? `Still in use, in this or another tab: ${listed(busy)}.`
        : `Deleted ${listed(files.map((file) => file.name))}.`,
    );
    await this.refresh();
  }

  async #protect(): Promise<void> {
    const granted = await persist();
    setText(
      this.#said,
      granted
        ? "The browser will not delete them automatically."
        : "The browser refused; it may agree once you visit this page often, or bookmark it.",
    );
    await this.refresh();
  }
}

function chip(text: string, attributes: Record<string, string> = {}): HTMLButtonElement {
  return el("button", { type: "button", class: "chip", ...attributes }, text);
}
