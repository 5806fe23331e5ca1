/** Conversations with the target, turn by turn. */
import type { GenerateOptions, Generation } from "./generation.ts";
import type { ChatAction, ChatReply, ChatState, Message } from "./protocol.ts";

/** What a conversation asks to be answered. */
export type Answerable = Exclude<ChatAction, { do: "open" | "complete" }>;

/** Begins an answer; `keep` is told how it left the conversation, even if it was aborted. */
type Ask = (action: Answerable, signal: AbortSignal | undefined, keep: (state: ChatState) => void) => Generation<ChatReply>;

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
 * An answer that was stopped or aborted stays in the conversation as far as it came; one that failed
 * leaves the conversation as it was.
 */
export class Conversation {
  #state: ChatState;
  readonly #ask: Ask;

  /** @internal */
  constructor(state: ChatState, ask: Ask) {
    this.#state = state;
    this.#ask = ask;
  }

  /** All messages, dropped ones included. */
  get messages(): readonly Message[] {
    return this.#state.messages;
  }

  /** How many messages after the system's the model no longer sees: the context is full. */
  get unseen(): number {
    return this.#state.unseen;
  }

  /** What is to be known of the template, or empty. */
  get note(): string {
    return this.#state.note;
  }

  /** Adds a message, a user's where it is a text, and answers it. */
  send(message: string | Message, options: GenerateOptions = {}): Generation<ChatReply> {
    return this.#answer((request) => ({ do: "send", message: typeof message === "string" ? { role: "user", content: message } : message, request }), options);
  }

  /** Answers the last message again; above temperature 0 another seed gives another answer. */
  regenerate(options: GenerateOptions = {}): Generation<ChatReply> {
    return this.#answer((request) => ({ do: "regenerate", request }), options);
  }

  /** Gives a user's message another text, drops what came after it, and answers. */
  edit(index: number, content: string, options: GenerateOptions = {}): Generation<ChatReply> {
    return this.#answer((request) => ({ do: "edit", index, content, request }), options);
  }

  #answer(action: (request: Omit<GenerateOptions, "signal">) => Answerable, { signal, ...request }: GenerateOptions): Generation<ChatReply> {
    return this.#ask(action(request), signal, (state) => (this.#state = state));
  }
}
