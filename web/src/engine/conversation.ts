/** Multi-turn conversations with the target. */
import { begun, settingsOf } from "./generation.ts";
import type { GenerateOptions, Generation, PageSide, Settings } from "./generation.ts";
import { membersOf, typeName, wrong } from "./options.ts";
import type { ChatAction, ChatReply, ChatState, Message } from "../protocol/protocol.ts";

/** The actions that generate an answer. */
export type Answerable = Exclude<ChatAction, { do: "open" }>;

/** Starts an answer; `keep` receives the new state of the conversation, even after an abort. */
type Ask = (action: Answerable, own: PageSide, keep: (state: ChatState) => void) => Generation<ChatReply>;

/**
 * A conversation with the target, made by {@link Engine.chat}.
 *
 * ```ts
 * const chat = await engine.chat({ system: "Answer in one sentence." });
 * const run = chat.send("What is a slot table?", { max_tokens: 200 });
 * for await (const round of run) show(round.text);
 * const { result, dropped } = await run.result;
 * ```
 *
 * A stopped or aborted answer stays in the conversation with the text so far; a failed answer leaves the conversation
 * unchanged.
 */
export class Conversation {
  #state: ChatState;
  readonly #ask: Ask;

  /** @internal */
  constructor(state: ChatState, ask: Ask) {
    this.#state = state;
    this.#ask = ask;
  }

  /** All messages, including those dropped from the context. */
  get messages(): readonly Message[] {
    return this.#state.messages;
  }

  /** How many messages after the system message were dropped from the context because it is full. */
  get unseen(): number {
    return this.#state.unseen;
  }

  /** A note for the user about the chat template, or empty. */
  get note(): string {
    return this.#state.note;
  }

  /** Adds a message and answers it; a string becomes a message of the user. */
  send(message: string | Message, options: GenerateOptions = {}): Generation<ChatReply> {
    return this.#answer((request) => {
      const said: Message = typeof message === "string" ? { role: "user", content: message } : message;
      return { do: "send", message: membersOf(said, undefined, "message"), request };
    }, options);
  }

  /** Regenerates the last answer; above temperature 0 a different seed gives a different answer. */
  regenerate(options: GenerateOptions = {}): Generation<ChatReply> {
    return this.#answer((request) => ({ do: "regenerate", request }), options);
  }

  /** Replaces the text of a user's message, drops the messages after it, and answers. */
  edit(index: number, content: string, options: GenerateOptions = {}): Generation<ChatReply> {
    return this.#answer((request) => {
      if (!Number.isSafeInteger(index)) throw wrong("index", `is ${typeName(index)}, want a whole number`);
      if (typeof content !== "string") throw wrong("content", `is ${typeName(content)}, want a string`);
      return { do: "edit", index, content, request };
    }, options);
  }

  #answer(action: (request: Settings) => Answerable, options: GenerateOptions): Generation<ChatReply> {
    return begun(() => {
      const { request, own } = settingsOf(options);
      return this.#ask(action(request), own, (state) => (this.#state = state));
    });
  }
}
