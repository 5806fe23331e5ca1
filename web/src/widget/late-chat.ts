/** The chat view's place: its code loads with the first model and tab that chat. */
import { isBuiltin } from "../engine/builtin.ts";
import type { Engine } from "../engine/engine.ts";
import type { ChatHost, ChatView, Mode, Talk } from "./chat.ts";
import { sheet } from "./dom.ts";

export class LateChat {
  readonly #element: HTMLElement;
  readonly #root: HTMLElement;
  readonly #host: ChatHost;
  readonly #refuse: (message: string) => void;
  #view: ChatView | undefined;
  #talk: Talk = { messages: [] }; // until the view is there
  #engine: Engine | undefined;
  #blocked = true;

  /** Adds the view below `root` of the widget `element`; calls `refuse` if its code does not load. */
  constructor(element: HTMLElement, root: HTMLElement, host: ChatHost, refuse: (message: string) => void) {
    this.#element = element;
    this.#root = root;
    this.#host = host;
    this.#refuse = refuse;
  }

  /** Loads the view if this engine needs it. */
  async prepare(engine: Engine): Promise<void> {
    const builtin = isBuiltin(engine.info) && this.#element.hasAttribute("tabs");
    // On the page, the built-in pair chats only in the tab for it.
    if (this.#view || !engine.info.chat.ok || (builtin && this.#element.getAttribute("mode") !== "chat")) return;
    const loaded = await import("./chat.ts").catch((cause: unknown) => this.#refuse(`chat: ${String(cause)}`));
    if (this.#view || !loaded) return;
    (this.#root.getRootNode() as ShadowRoot).adoptedStyleSheets.push(sheet(loaded.chatStyle));
    this.#view = new loaded.ChatView(this.#root, this.#host);
    this.#view.setMode(this.#element.getAttribute("mode"));
    this.#view.talk = this.#talk;
    if (this.#engine) this.#view.attach(this.#engine);
    this.#view.block(this.#blocked);
  }

  /** Uses another engine. */
  attach(engine: Engine): void {
    this.#engine = engine;
    this.#view?.attach(engine);
  }

  /** Takes the mode that the widget's attribute names. */
  setMode(): void {
    this.#view?.setMode(this.#element.getAttribute("mode"));
    if (this.#engine) void this.prepare(this.#engine);
  }

  /** Disables the view's buttons while the widget is working. */
  block(blocked: boolean): void {
    this.#blocked = blocked;
    this.#view?.block(blocked);
  }

  /** Sends a message. */
  async ask(text: string): Promise<void> {
    await this.#view?.ask(text);
  }

  get mode(): Mode {
    return this.#view?.mode ?? "complete";
  }

  get talk(): Talk {
    return this.#view?.talk ?? this.#talk;
  }

  set talk(talk: Talk) {
    if (this.#view) this.#view.talk = talk;
    else this.#talk = talk;
  }
}
