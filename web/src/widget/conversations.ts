/**
 * The conversations that this browser keeps, in IndexedDB, and their list. A conversation is kept once its first answer
 * has ended.
 *
 * No browser says whether a window is private. Firefox and Safari refuse such a window the private file system, so
 * there nothing is kept. Chromium and WebKitGTK do not, but hold all storage of private windows in memory and drop it
 * with the last of them. With the switch below the list off, nothing is kept in any window.
 */
import type { Message } from "../protocol/protocol.ts";
import { bytes } from "../sources/bytes.ts";
import { el, setText } from "./dom.ts";

export { default as conversationsStyle } from "../styles/conversations.css";

const DATABASE = "foretoken-conversations";
const STORE = "conversations";
/** The item of localStorage that says "no" if the visitor wants no conversations kept. */
const SWITCH = "foretoken-keep-conversations";
/** The characters of a title. */
const TITLE = 80;

/** A kept conversation. Times are milliseconds since 1970. */
export interface Kept {
  id: string;
  begun: number;
  changed: number;
  /** The name of the model of the last answer. */
  model: string;
  messages: readonly Message[];
}

/** A file of exported conversations. */
interface Exported {
  format: "foretoken-conversations";
  version: 1;
  exported: string;
  conversations: readonly Kept[];
}

/** Returns the first line of the first question. */
export function titleOf({ messages }: Pick<Kept, "messages">): string {
  const line = messages.find(({ role }) => role === "user")?.content.trim().split("\n", 1)[0] ?? "";
  return line.length > TITLE ? `${line.slice(0, TITLE)}…` : line || "Without a question";
}

/** Returns the size of a conversation's text in bytes. */
export function sizeOf(kept: Kept): number {
  return new TextEncoder().encode(JSON.stringify(kept)).byteLength;
}

function done<T>(request: IDBRequest<T>): Promise<T> {
  return new Promise((resolve, reject) => {
    request.onsuccess = () => resolve(request.result);
    request.onerror = () => reject(request.error ?? new Error("IndexedDB failed"));
  });
}

/** The database. */
class Database {
  private constructor(readonly db: IDBDatabase) {}

  /** Opens the database; undefined in windows that keep nothing, and in browsers without one. */
  static async open(): Promise<Database | undefined> {
    try {
      // Missing on insecure origins, and in WebKitGTK in any window.
      await navigator.storage?.getDirectory?.();
      const request = indexedDB.open(DATABASE, 1);
      request.onupgradeneeded = () => request.result.createObjectStore(STORE, { keyPath: "id" });
      const db = await done(request);
      db.onversionchange = () => db.close();
      return new Database(db);
    } catch {
      return undefined;
    }
  }

  /** Returns all conversations, the last changed one first. */
  async all(): Promise<Kept[]> {
    const all = (await done(this.#store("readonly").getAll())) as Kept[];
    return all.sort((a, b) => b.changed - a.changed);
  }

  async get(id: string): Promise<Kept | undefined> {
    return done(this.#store("readonly").get(id)) as Promise<Kept | undefined>;
  }

  async put(kept: Kept): Promise<void> {
    await done(this.#store("readwrite").put(kept));
  }

  async delete(id: string): Promise<void> {
    await done(this.#store("readwrite").delete(id));
  }

  async clear(): Promise<void> {
    await done(this.#store("readwrite").clear());
  }

  #store(mode: IDBTransactionMode): IDBObjectStore {
    return this.db.transaction(STORE, mode).objectStore(STORE);
  }
}

/** What the list needs of the chat view. */
export interface ListHost {
  /** Returns the id of the conversation that is shown, if it is kept. */
  current(): string | undefined;
  /** Shows a conversation. */
  open(kept: Kept): void;
  /** Forgets the conversation that is shown. */
  forget(): void;
}

export class Conversations {
  readonly #host: ListHost;
  readonly #database: Database | undefined;
  readonly #count = el("small", { id: "conversations-total" });
  readonly #list = el("ul", { class: "conversations", id: "conversations" });
  readonly #said = el("p", { class: "conversations-said", id: "conversations-said", role: "status" });
  readonly #export = button("Export all");
  readonly #clear = button("Delete all");
  readonly #sure = el("span", { class: "conversations-sure", hidden: true });
  readonly #keep = el("input", { type: "checkbox", id: "keep-conversations" });
  readonly element: HTMLDetailsElement;
  #blocked = false;

  private constructor(host: ListHost, database: Database | undefined) {
    this.#host = host;
    this.#database = database;
    const yes = button("Delete", { class: "chip danger" });
    const no = button("Cancel");
    this.#sure.append(el("span", {}, "Delete every conversation?"), yes, no);
    this.#keep.checked = this.#wanted;
    this.#keep.disabled = !database;
    this.element = el(
      "details",
      { class: "kept-conversations", id: "kept-conversations" },
      el("summary", {}, "Conversations ", this.#count),
      this.#list,
      this.#said,
      el(
        "div",
        { class: "actions" },
        this.#export,
        this.#clear,
        this.#sure,
        el("label", { class: "switch", for: "keep-conversations" }, this.#keep, "Keep conversations in this browser"),
      ),
    );
    this.element.addEventListener("toggle", () => void this.refresh());
    this.#export.addEventListener("click", () => void database?.all().then((all) => download(all)));
    const ask = (asked: boolean): void => {
      this.#sure.hidden = !asked;
      this.#clear.hidden = asked;
      (asked ? no : this.#clear).focus();
    };
    this.#clear.addEventListener("click", () => ask(true));
    no.addEventListener("click", () => ask(false));
    yes.addEventListener("click", () => {
      ask(false);
      void this.#deleted(async () => database!.clear(), "Deleted all conversations.", host.current() !== undefined);
    });
    this.#keep.addEventListener("change", () => {
      try {
        if (this.#keep.checked) localStorage.removeItem(SWITCH);
        else localStorage.setItem(SWITCH, "no");
      } catch {
        // Without storage, the switch holds for this page.
      }
      void this.refresh();
    });
  }

  /** Opens the database and lists its conversations. */
  static async open(host: ListHost): Promise<Conversations> {
    const made = new Conversations(host, await Database.open());
    await made.refresh();
    return made;
  }

  get #wanted(): boolean {
    try {
      return localStorage.getItem(SWITCH) !== "no";
    } catch {
      return true;
    }
  }

  /** Keeps a conversation under its id, or a new one; returns the id, or undefined if it is not kept. */
  async keep(id: string | undefined, model: string, messages: readonly Message[]): Promise<string | undefined> {
    if (!this.#database || !this.#keep.checked) return id;
    const now = Date.now();
    try {
      const before = id === undefined ? undefined : await this.#database.get(id);
      const { begun } = before ?? { begun: now };
      const kept = { id: before?.id ?? `${now}-${Math.random()}`, begun, changed: now, model, messages };
      await this.#database.put(kept);
      setText(this.#said, "");
      await this.refresh();
      return kept.id;
    } catch (cause) {
      setText(this.#said, `This conversation was not kept: ${cause instanceof Error ? cause.message : String(cause)}.`);
      this.element.open = true;
      return id;
    }
  }

  /** Disables the buttons that change the conversation while an answer is written. */
  block(blocked: boolean): void {
    this.#blocked = blocked;
    for (const one of this.element.querySelectorAll<HTMLButtonElement>("button.opens, button.deletes"))
      one.disabled = blocked;
    this.#clear.disabled = blocked;
  }

  /** Updates the list. */
  async refresh(): Promise<void> {
    const all = (await this.#database?.all().catch(() => undefined)) ?? [];
    const total = all.reduce((sum, kept) => sum + sizeOf(kept), 0);
    setText(this.#count, all.length > 0 ? `${all.length} · ${bytes(total)}` : "");
    this.#export.hidden = this.#clear.hidden = all.length === 0;
    const rows = all.length > 0 ? all.map((kept) => this.#row(kept)) : [this.#none()];
    if (this.element.open) this.#list.replaceChildren(...rows);
    this.block(this.#blocked);
  }

  #none(): HTMLElement {
    const why = !this.#database
      ? "This window keeps nothing: a conversation ends with its tab."
      : this.#keep.checked
        ? "A conversation appears here after its first answer. It stays in this browser."
        : "Nothing is kept: a conversation ends with its tab.";
    return el("li", { class: "empty" }, why);
  }

  #row(kept: Kept): HTMLElement {
    const title = titleOf(kept);
    const count = kept.messages.filter(({ role }) => role !== "system").length;
    const changed = new Date(kept.changed).toLocaleString(undefined, { dateStyle: "medium", timeStyle: "short" });
    const open = button(title, { class: "quiet opens", "aria-label": `Open: ${title}` });
    const save = button("Export", { "aria-label": `Export: ${title}` });
    const remove = button("Delete", { class: "chip deletes", "aria-label": `Delete: ${title}` });
    const current = kept.id === this.#host.current();
    if (current) open.setAttribute("aria-current", "true");
    open.addEventListener("click", () => {
      this.element.open = false;
      this.#host.open(kept);
    });
    save.addEventListener("click", () => download([kept]));
    remove.addEventListener("click", () => {
      void this.#deleted(async () => this.#database!.delete(kept.id), `Deleted “${title}”.`, current);
    });
    return el(
      "li",
      {},
      el(
        "span",
        { class: "conversation-name" },
        open,
        el("small", {}, `${count} messages · ${bytes(sizeOf(kept))} · ${kept.model} · ${changed}`),
      ),
      save,
      remove,
    );
  }

  async #deleted(remove: () => Promise<void>, said: string, current: boolean): Promise<void> {
    try {
      await remove();
      if (current) this.#host.forget();
      setText(this.#said, said);
    } catch (cause) {
      setText(this.#said, `Not deleted: ${cause instanceof Error ? cause.message : String(cause)}.`);
    }
    await this.refresh();
    this.element.querySelector("summary")!.focus(); // the button is gone
  }
}

function button(text: string, attributes: Record<string, string> = {}): HTMLButtonElement {
  return el("button", { type: "button", class: "chip", ...attributes }, text);
}

function download(conversations: readonly Kept[]): void {
  const exported = new Date().toISOString();
  const file: Exported = { format: "foretoken-conversations", version: 1, exported, conversations };
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob([JSON.stringify(file, null, 1), "\n"], { type: "application/json" }));
  link.download = `foretoken-conversations-${exported.replace(/[:.]/g, "-")}.json`;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
}
