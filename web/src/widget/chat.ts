/**
 * The chat view: a transcript with the same token marks as completions, editable messages, and regeneration of the
 * last answer.
 */
import type { ChatReply, Conversation, Engine, Generation, Message } from "../engine/engine.ts";
import { isBuiltin } from "../engine/builtin.ts";
import { el, setText } from "./dom.ts";
import { QUESTIONS } from "./examples.ts";
import { pieces, TokenStream, tokenNode } from "./stream.ts";
import type { RoundEvent } from "../protocol/protocol.ts";

/** The part of the widget that the chat view uses. */
export interface ChatHost {
  /**
   * Loads the models if necessary, runs the generation of `start` with the current settings and streams its rounds
   * into `stream`. Shows a failure and returns undefined.
   */
  answer(
    stream: TokenStream,
    start: (engine: Engine, request: ChatRequest) => Promise<Generation<ChatReply>>,
  ): Promise<ChatReply | undefined>;
  /** Returns the offers of models that can chat, for the place beside the built-in model. */
  offers(): Promise<HTMLElement>;
}

export { default as chatStyle } from "../styles/chat.css";

export type ChatRequest = Parameters<Conversation["send"]>[1];

const NAMES: Record<Message["role"], string> = { system: "System", user: "You", assistant: "Model", tool: "Tool" };

/** A token stream that records its rounds. */
class RecordingStream extends TokenStream {
  readonly rounds: RoundEvent[] = [];

  override push(round: RoundEvent): void {
    this.rounds.push(round);
    super.push(round);
  }
}

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
    rows: 3,
    autocomplete: "off",
    placeholder: "Enter sends, Shift+Enter starts a new line",
  });
  readonly send = el("button", { type: "button", id: "send", class: "primary" }, "Send");
  readonly fresh = el("button", { type: "button", id: "new-chat" }, "New chat");
  readonly system = el("textarea", { id: "system", rows: 2, autocomplete: "off" });
  readonly note = el("p", { class: "chat-note", id: "chat-note", role: "note", hidden: true });
  readonly element: HTMLElement;
  readonly #host: ChatHost;
  #engine: Engine | undefined;
  #conversation: Conversation | undefined;
  #messages: Message[] = [];
  /** The rounds of each answer, for its token marks. */
  #rounds = new Map<Message, RoundEvent[]>();
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
        "details",
        { class: "card chat-system" },
        el("summary", {}, "System message"),
        el(
          "div",
          { class: "field" },
          el("label", { for: "system" }, "Instructions for the model, from the next new chat on"),
          this.system,
        ),
      ),
      el("div", { class: "card chat-log" }, this.log, this.note),
      el("div", { class: "field" }, el("label", { for: "message" }, "Message"), this.message),
    );
    this.modes.addEventListener("change", () => {
      this.#chosen = this.modes.querySelector<HTMLInputElement>("#mode-chat")!.checked ? "chat" : "complete";
      this.#choose();
    });
    this.send.addEventListener("click", () => void this.#send());
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
    actions.prepend(this.send);
    actions.querySelector("#stop")!.after(this.fresh);
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
  }

  /** The conversation so far. */
  get messages(): readonly Message[] {
    return this.#messages;
  }

  /** Shows another conversation, which the next message continues. */
  set messages(messages: readonly Message[]) {
    this.reset();
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
    this.#conversation = undefined;
    this.#messages = [];
    this.#rounds.clear();
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
    const waiting = el("div", { class: "message-text" });
    const stream = new RecordingStream(waiting, undefined, this.log);
    this.#busy = true;
    let reply: ChatReply | undefined;
    try {
      reply = await this.#host.answer(stream, async (engine, request) => {
        const conversation = await this.#open(engine);
        const head = this.#messages.slice(0, this.#messages.length - shown.length);
        this.#draw([...head, ...question], waiting);
        return ask(conversation, request);
      });
    } finally {
      this.#busy = false;
      if (reply) this.#rounds.set(reply.messages.at(-1)!, stream.rounds);
      if (reply && this.#conversation) this.#take(this.#conversation, reply.messages);
      this.#draw();
    }
    return reply !== undefined;
  }

  /** Takes over the engine's messages; unchanged messages keep their rounds. */
  #take(conversation: Conversation, messages: readonly Message[] = conversation.messages): void {
    const known = this.#messages;
    this.#messages = messages.map((message, i) => {
      const old = known[i];
      return old && old.role === message.role && old.content === message.content && !this.#rounds.has(message)
        ? old
        : message;
    });
    for (const message of this.#rounds.keys()) if (!this.#messages.includes(message)) this.#rounds.delete(message);
    this.#unseen = conversation.unseen;
    setText(this.note, conversation.note);
    this.note.hidden = conversation.note === "";
  }

  #refresh(): void {
    const idle = !this.#busy && !this.#blocked;
    this.send.disabled = !idle;
    this.fresh.disabled = !idle || this.#messages.length === 0;
    for (const button of this.log.querySelectorAll("button")) button.disabled = !idle;
    // A screen reader waits for the complete answer.
    this.log.setAttribute("aria-busy", String(this.#busy));
  }

  /** Draws the messages, and `waiting`, the element that an answer streams into. */
  #draw(messages: readonly Message[] = this.#messages, waiting?: HTMLElement): void {
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
          el("div", { class: "message-role" }, NAMES.assistant),
          waiting,
        ),
      );
    if (nodes.length === 0)
      nodes.push(
        el(
          "p",
          { class: "invitation" },
          "The conversation appears here; marks show the origin of each token of an answer.",
        ),
        ...(this.#engine && isBuiltin(this.#engine.info) ? this.#questions() : []),
      );
    this.log.replaceChildren(...nodes);
    this.log.scrollTop = this.log.scrollHeight;
    this.#refresh();
  }

  /** Says what the built-in model is, and offers questions. */
  #questions(): HTMLElement[] {
    const about = "The built-in model is a toy that knows Go's library a little, and is often wrong. Ask it:";
    const offers = el("div", {});
    this.#host.offers().then((list) => offers.replaceWith(list), () => undefined);
    const chips = QUESTIONS.map((question) => {
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
    const text = el("div", { class: "message-text" }, ...this.#text(message));
    const actions = el("div", { class: "message-actions" });
    const node = el(
      "article",
      {
        class: `message ${message.role}${unseen ? " unseen" : ""}`,
        "aria-label": `${NAMES[message.role]}${unseen ? ", no longer seen by the model" : ""}`,
      },
      el("div", { class: "message-role" }, NAMES[message.role], actions),
      text,
    );
    if (message.role === "user") {
      const edit = el("button", { type: "button", class: "quiet edit", "aria-label": "Edit this message" }, "Edit");
      edit.addEventListener("click", () => this.#editor(index, message, text, edit));
      actions.append(edit);
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

  #text(message: Message): (Node | string)[] {
    const rounds = this.#rounds.get(message);
    return rounds ? rounds.flatMap((round) => pieces(round).map(tokenNode)) : [message.content];
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
