/**
 * The chat view: rendered answers, on demand with the same token marks as completions, editable messages, regeneration
 * of the last answer, and on the page the list of kept conversations.
 */
import type { ChatReply, Conversation, Engine, Generation, Message } from "../engine/engine.ts";
import { isBuiltin } from "../engine/builtin.ts";
import type { EngineInfo } from "../protocol/protocol.ts";
import { Answer, copy } from "./answer.ts";
import type { Conversations } from "./conversations.ts";
import { el, setText, sheet } from "./dom.ts";
import { questionsFor } from "./prompts.ts";
import { following, type RoundSink } from "./stream.ts";

/** The part of the widget that the chat view uses. */
export interface ChatHost {
  /**
   * Loads the models if necessary, runs the generation of `start` with the current settings and streams its rounds
   * into `stream`. Shows a failure and returns undefined.
   */
  answer(
    stream: RoundSink,
    start: (engine: Engine, request: ChatRequest) => Promise<Generation<ChatReply>>,
  ): Promise<ChatReply | undefined>;
  /** Returns the offers of models that can chat, for the place beside the built-in model. */
  offers(): Promise<HTMLElement>;
  /** Stops the answer. */
  stop(): void;
  /** Called when the visitor has deleted the conversation. */
  forgot(): void;
  /** Whether this browser may keep conversations: on the page, and not on pages that embed the widget. */
  readonly keeps: boolean;
}

/** A conversation, and its id if the browser keeps it. */
export interface Talk {
  id?: string | undefined;
  messages: readonly Message[];
}

export { default as chatStyle } from "../styles/chat.css";

export type ChatRequest = Parameters<Conversation["send"]>[1];

const NAMES: Record<Message["role"], string> = { system: "System", user: "You", assistant: "Model", tool: "Tool" };

export type Mode = "complete" | "chat";

export class ChatView {
  /** The switch between completion and chat, shown if the model has a chat template. */
  readonly modes = el(
    "fieldset",
    { class: "modes", id: "modes", hidden: true, "aria-label": "What the model does" },
    ...(["complete", "chat"] as const).map((mode) =>
      el(
        "label",
        {},
        el("input", { type: "radio", name: "mode", value: mode, id: `mode-${mode}`, checked: mode === "complete" }),
        mode === "chat" ? "Chat" : "Complete",
      ),
    ),
  );
  readonly log = el("div", {
    class: "transcript",
    id: "transcript",
    role: "log",
    "aria-label": "Conversation",
    tabindex: 0,
  });
  readonly message = el("textarea", {
    id: "message",
    rows: 2,
    autocomplete: "off",
    placeholder: "Enter sends, Shift+Enter starts a new line",
  });
  readonly send = el("button", { type: "button", id: "send", class: "primary" }, "Send");
  readonly stop = el("button", { type: "button", id: "stop-answer", hidden: true }, "Stop");
  readonly fresh = el("button", { type: "button", id: "new-chat" }, "New chat");
  /** Shows the origin of each token in place of rendered text. */
  readonly origins = el("button", { type: "button", id: "origins", "aria-pressed": "false" }, "Origin of tokens");
  readonly system = el("textarea", { id: "system", rows: 2, autocomplete: "off" });
  readonly note = el("p", { class: "chat-note", id: "chat-note", role: "note", hidden: true });
  readonly element: HTMLElement;
  readonly #host: ChatHost;
  #engine: Engine | undefined;
  #conversation: Conversation | undefined;
  #messages: Message[] = [];
  /** The answers that are shown, with their elements. */
  readonly #answers = new Map<Message, { answer: Answer; box: HTMLElement }>();
  #waiting: { answer: Answer; box: HTMLElement } | undefined; // the answer that is being written
  #drawn = 0; // messages
  #id: string | undefined; // of the conversation, if it is kept
  #opening: Promise<Conversations> | undefined;
  #list: Conversations | undefined;
  #unseen = 0;
  #busy = false;
  #blocked = false;
  readonly #root: HTMLElement;
  #chosen: Mode | undefined;

  /** Adds the chat view to the widget's elements below `root`. */
  constructor(root: HTMLElement, host: ChatHost) {
    this.#root = root;
    this.#host = host;
    this.element = el(
      "div",
      { class: "chat", id: "chat", role: "group", "aria-label": "Chat" },
      el(
        "div",
        { class: "chat-head" },
        el(
          "details",
          { class: "chat-system" },
          el("summary", {}, "System message"),
          el(
            "div",
            { class: "field" },
            el("label", { for: "system" }, "Instructions for the model, from the next new chat on"),
            this.system,
          ),
        ),
        this.origins,
        this.fresh,
      ),
      el("div", { class: "card chat-log" }, this.log, this.note),
      el(
        "div",
        { class: "composer" },
        el("div", { class: "field" }, el("label", { for: "message" }, "Message"), this.message),
        this.send,
        this.stop,
      ),
    );
    this.modes.addEventListener("change", () => {
      this.#chosen = this.modes.querySelector<HTMLInputElement>("#mode-chat")!.checked ? "chat" : "complete";
      this.#choose();
    });
    this.send.addEventListener("click", () => void this.#send());
    this.stop.addEventListener("click", () => host.stop());
    this.origins.addEventListener("click", () => {
      const shown = this.#origins;
      this.origins.setAttribute("aria-pressed", String(!shown));
      root.toggleAttribute("data-origins", !shown);
      for (const { answer } of this.#answers.values()) answer.origins = !shown;
      if (this.#waiting) this.#waiting.answer.origins = !shown;
    });
    this.fresh.addEventListener("click", () => {
      this.reset();
      this.message.focus();
    });
    this.message.addEventListener("keydown", (event) => {
      if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
      event.preventDefault();
      if (!this.send.disabled) void this.#send();
    });
    const work = root.querySelector(".work")!;
    const actions = work.querySelector(":scope > .actions")!;
    work.prepend(this.modes);
    actions.before(this.element);
    this.#choose();
    this.#draw();
  }

  /** Sets the mode that the host requests; null leaves it to the model. */
  setMode(mode: string | null): void {
    this.#chosen = mode === "chat" || mode === "complete" ? mode : undefined;
    this.#choose();
  }

  /** The current mode: completion if the model has no chat template. */
  get mode(): Mode {
    const info = this.#engine?.info;
    if (!info?.chat.ok) return "complete";
    return this.#chosen ?? (isBuiltin(info) ? "complete" : "chat");
  }

  #choose(): void {
    const { mode } = this;
    const info = this.#engine?.info;
    this.modes.hidden = !info?.chat.ok || (isBuiltin(info) && !this.#chosen);
    this.modes.querySelector<HTMLInputElement>(`#mode-${mode}`)!.checked = true;
    this.#root.dataset["mode"] = mode;
    if (mode === "chat") void this.#lists();
  }

  /** Loads the list of kept conversations, with the first look at the chat. */
  async #lists(): Promise<Conversations | undefined> {
    if (!this.#host.keeps) return undefined;
    this.#opening ??= import("./conversations.ts").then(async ({ Conversations, conversationsStyle }) => {
      const list = await Conversations.open({
        current: () => this.#id,
        open: (kept) => {
          this.talk = kept;
          this.log.focus();
        },
        forget: () => {
          this.reset();
          this.#host.forgot();
        },
      });
      (this.#root.getRootNode() as ShadowRoot).adoptedStyleSheets.push(sheet(conversationsStyle));
      this.element.querySelector(".chat-head")!.prepend(list.element);
      this.#list = list;
      this.#refresh();
      return list;
    });
    try {
      return await this.#opening;
    } catch {
      return (this.#opening = undefined); // the next look tries again
    }
  }

  get #origins(): boolean {
    return this.origins.getAttribute("aria-pressed") === "true";
  }

  /** The conversation so far. */
  get talk(): Talk {
    return { id: this.#id, messages: this.#messages };
  }

  /** Shows another conversation, which the next message continues. */
  set talk({ id, messages }: Talk) {
    this.reset();
    this.#id = id;
    this.#messages = [...messages];
    this.#draw();
  }

  /** Uses another engine; the next message continues the transcript on it. */
  attach(engine: Engine): void {
    this.#engine = engine;
    this.#conversation = undefined;
    this.#choose();
    if (this.#messages.length === 0) this.#draw(); // models have their own questions
  }

  /** Disables the buttons while the widget is working. */
  block(blocked: boolean): void {
    this.#blocked = blocked;
    this.#refresh();
  }

  /** Clears the conversation; the next message starts a new one. */
  reset(): void {
    this.#conversation = this.#id = undefined;
    this.#messages = [];
    this.#answers.clear();
    this.#unseen = 0;
    setText(this.note, "");
    this.note.hidden = true;
    this.#draw();
  }

  /** Returns the engine's conversation, and starts one with the transcript if necessary. */
  async #open(engine: Engine): Promise<Conversation> {
    if (this.#conversation && this.#engine === engine) return this.#conversation;
    const system = this.system.value.trim();
    const messages =
      this.#messages.length > 0 ? this.#messages : system ? [{ role: "system", content: system } as const] : [];
    this.#engine = engine;
    const conversation = (this.#conversation = await engine.chat({ messages }));
    this.#take(conversation);
    return conversation;
  }

  /** Sends a message from outside the message field. */
  async ask(text: string): Promise<void> {
    this.message.value = text;
    await this.#send();
  }

  async #send(): Promise<void> {
    const text = this.message.value;
    if (text.trim() === "") {
      this.message.focus();
      return;
    }
    this.message.value = "";
    const before = [...this.#messages];
    const replied = await this.#answer([...before, { role: "user", content: text }], async (conversation, request) =>
      conversation.send(text, request),
    );
    if (!replied && this.message.value === "") this.message.value = text; // restore the unsent text
    this.message.focus();
  }

  async #regenerate(): Promise<void> {
    const last = this.#messages.at(-1);
    const question = last?.role === "assistant" ? this.#messages.slice(0, -1) : [...this.#messages];
    await this.#answer(question, async (conversation, request) => {
      // Greedy answers repeat; above temperature 0 another seed gives another answer.
      const seed = request?.temperature ? { seed: Number(request.seed ?? 1) + this.#again++ } : {};
      return conversation.regenerate({ ...request, ...seed });
    });
    this.log.querySelector<HTMLElement>(".again")?.focus();
  }

  #again = 1;

  async #edit(index: number, text: string): Promise<void> {
    const question = [...this.#messages.slice(0, index), { ...this.#messages[index]!, content: text }];
    await this.#answer(question, async (conversation, request) => conversation.edit(index, text, request));
    this.message.focus();
  }

  /** Shows the question with an empty answer that streams in, and then the state of the conversation. */
  async #answer(
    question: Message[],
    ask: (conversation: Conversation, request: ChatRequest) => Promise<Generation<ChatReply>>,
  ): Promise<boolean> {
    const shown = this.#messages;
    // If this call starts the conversation, the answer may add a system message at the front.
    const { answer, box } = this.#written();
    this.#busy = true;
    let reply: ChatReply | undefined;
    try {
      reply = await this.#host.answer(answer, async (engine, request) => {
        const conversation = await this.#open(engine);
        const head = this.#messages.slice(0, this.#messages.length - shown.length);
        this.#waiting = { answer, box };
        this.#draw([...head, ...question]);
        return ask(conversation, request);
      });
    } finally {
      this.#busy = false;
      this.#waiting = undefined;
      const last = reply?.messages.at(-1);
      if (last) {
        answer.end(last.content);
        this.#answers.set(last, { answer, box });
      }
      if (reply && this.#conversation) this.#take(this.#conversation, reply.messages);
      this.#draw();
    }
    if (reply) await this.#keep();
    return reply !== undefined;
  }

  /** Returns a new answer with its element. */
  #written(): { answer: Answer; box: HTMLElement } {
    const box = el("div", { class: "message-text" });
    return { answer: new Answer(box, this.log, this.#origins), box };
  }

  async #keep(): Promise<void> {
    const messages = this.#messages;
    const list = await this.#lists();
    const id = await list?.keep(this.#id, this.#engine?.info.target.name ?? "", messages);
    if (this.#messages === messages) this.#id = id;
  }

  /** Takes over the engine's messages; unchanged messages keep their answers' elements. */
  #take(conversation: Conversation, messages: readonly Message[] = conversation.messages): void {
    const known = this.#messages;
    this.#messages = messages.map((message, i) => {
      const old = known[i];
      return old && old.role === message.role && old.content === message.content && !this.#answers.has(message)
        ? old
        : message;
    });
    for (const message of this.#answers.keys()) if (!this.#messages.includes(message)) this.#answers.delete(message);
    this.#unseen = conversation.unseen;
    setText(this.note, conversation.note);
    this.note.hidden = conversation.note === "";
  }

  #refresh(): void {
    const idle = !this.#busy && !this.#blocked;
    this.send.disabled = !idle;
    const focused = this.send.matches(":focus");
    this.send.hidden = this.#busy;
    this.stop.hidden = !this.#busy;
    if (focused && this.#busy) this.stop.focus();
    this.#list?.block(!idle);
    this.fresh.disabled = !idle || this.#messages.length === 0;
    for (const button of this.log.querySelectorAll<HTMLButtonElement>("button:not(.copies, .copy-code)"))
      button.disabled = !idle;
    // A screen reader waits for the complete answer.
    this.log.setAttribute("aria-busy", String(this.#busy));
  }

  /** Draws the messages, and the answer that is being written. */
  #draw(messages: readonly Message[] = this.#messages): void {
    const waiting = this.#waiting?.box;
    const nodes: HTMLElement[] = [];
    const head = messages.findIndex((m) => m.role !== "system");
    messages.forEach((message, i) => {
      if (this.#unseen > 0 && i === head + this.#unseen)
        nodes.push(
          el(
            "p",
            { class: "unseen-line" },
            "The context is full: the model no longer sees the messages above this line.",
          ),
        );
      const unseen = i >= head && i < head + this.#unseen;
      nodes.push(this.#node(message, i, unseen, !waiting && i === messages.length - 1));
    });
    if (waiting)
      nodes.push(
        el(
          "article",
          { class: "message assistant", "aria-label": NAMES.assistant },
          el("div", { class: "message-role" }, el("h2", {}, NAMES.assistant)),
          waiting,
        ),
      );
    if (nodes.length === 0 && this.#engine) nodes.push(...this.#questions(this.#engine.info));
    this.#root.toggleAttribute("data-answered", messages.length > 0);
    const grown = messages.length > this.#drawn; // otherwise the reader may have scrolled up
    this.#drawn = messages.length;
    following(this.log, () => this.log.replaceChildren(...nodes));
    if (grown) this.log.scrollTop = this.log.scrollHeight;
    this.#refresh();
  }

  /** Offers questions that fit the model, and beside the built-in one models that can chat. */
  #questions(info: EngineInfo): HTMLElement[] {
    const { about, questions } = questionsFor(info);
    const offers = el("div", {});
    if (isBuiltin(info)) this.#host.offers().then((list) => offers.replaceWith(list), () => undefined);
    const chips = questions.map((question) => {
      const chip = el("button", { type: "button", class: "chip" }, question);
      chip.addEventListener("click", () => void this.ask(question));
      return chip;
    });
    return [
      el("p", { class: "invitation" }, about),
      el("div", { class: "chips", role: "group", "aria-label": "Example questions" }, ...chips),
      offers,
    ];
  }

  #node(message: Message, index: number, unseen: boolean, last: boolean): HTMLElement {
    const text = this.#text(message);
    const actions = el("div", { class: "message-actions" });
    const node = el(
      "article",
      {
        class: `message ${message.role}${unseen ? " unseen" : ""}`,
        "aria-label": `${NAMES[message.role]}${unseen ? ", no longer seen by the model" : ""}`,
      },
      el("div", { class: "message-role" }, el("h2", {}, NAMES[message.role]), actions),
      text,
    );
    if (message.role === "user") {
      const edit = el("button", { type: "button", class: "quiet edit", "aria-label": "Edit this message" }, "Edit");
      edit.addEventListener("click", () => this.#editor(index, message, text, edit));
      actions.append(edit);
    }
    if (message.role === "assistant") {
      const copies = el("button", { type: "button", class: "quiet copies" }, "Copy");
      copies.addEventListener("click", () => void copy(message.content, copies));
      actions.append(copies);
    }
    if (last && (message.role === "assistant" || message.role === "user")) {
      const again = el(
        "button",
        { type: "button", class: "quiet again" },
        message.role === "user" ? "Answer" : "Regenerate",
      );
      again.addEventListener("click", () => void this.#regenerate());
      actions.append(again);
    }
    return node;
  }

  #text(message: Message): HTMLElement {
    if (message.role !== "assistant") return el("div", { class: "message-text" }, message.content);
    let shown = this.#answers.get(message);
    if (!shown) {
      this.#answers.set(message, (shown = this.#written()));
      shown.answer.end(message.content);
    }
    return shown.box;
  }

  /** Replaces a message by a text field. */
  #editor(index: number, message: Message, text: HTMLElement, edit: HTMLButtonElement): void {
    const field = el("textarea", { rows: 3, "aria-label": "New text of the message" });
    field.value = message.content;
    const save = el("button", { type: "button", class: "primary" }, "Send again");
    const cancel = el("button", { type: "button" }, "Cancel");
    const form = el("div", { class: "message-editor" }, field, el("div", { class: "actions" }, save, cancel));
    const close = (): void => {
      form.replaceWith(text);
      edit.hidden = false;
      edit.focus();
    };
    const commit = (): void => {
      if (field.value.trim() !== "") void this.#edit(index, field.value);
    };
    cancel.addEventListener("click", close);
    save.addEventListener("click", commit);
    field.addEventListener("keydown", (event) => {
      if (event.key === "Escape") {
        event.stopPropagation();
        close();
      } else if (event.key === "Enter" && !event.shiftKey && !event.isComposing) {
        event.preventDefault();
        if (!save.disabled) commit();
      }
    });
    text.replaceWith(form);
    edit.hidden = true;
    field.focus();
  }
}
