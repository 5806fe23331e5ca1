/**
 * Chat completions with OpenAI's API, answered by the loaded models, for code written for that API. The Go program
 * reads the request and writes the answer, with the package that answers for `foretoken serve`.
 *
 * ```ts
 * const stream = await engine.chat.completions.create({
 *   messages: [{ role: "user", content: "Three colours, as JSON." }],
 *   response_format: { type: "json_object" },
 *   stream: true,
 * });
 * for await (const chunk of stream) show(chunk.choices[0]?.delta.content ?? "");
 * ```
 */
import { aborted, ForetokenError, type ForetokenErrorCode } from "../protocol/errors.ts";
import type { JSONText, OpenAIAnswer } from "../protocol/protocol.ts";
import type {
  ChatCompletion,
  ChatCompletionChunk,
  ChatCompletionRequest,
  ChatCompletionStream,
  CompletionOptions,
} from "./completion-types.ts";
import { checkSeed, Queue } from "./generation.ts";
import { checkFields, membersOf, SIGNAL } from "./options.ts";
import { textOf } from "./plain.ts";

export type * from "./completion-types.ts";

/**
 * Has the engine answer a request of OpenAI's API in its turn. `onLine` gets the lines of a stream. It rejects once the
 * signal aborts, and with errors of the engine. @internal
 */
export type Answerer = (
  path: string,
  body: JSONText,
  onLine: (line: string) => void,
  signal: AbortSignal | undefined,
) => Promise<OpenAIAnswer>;

/** The type of `engine.chat.completions`. Requests queue, because an engine decodes one text at a time. */
export class ChatCompletions {
  readonly #answer: Answerer;

  /** @internal */
  constructor(answer: Answerer) {
    this.#answer = answer;
  }

  create(request: ChatCompletionRequest & { stream: true }, options?: CompletionOptions): Promise<ChatCompletionStream>;
  create(
    request: ChatCompletionRequest & { stream?: false | null },
    options?: CompletionOptions,
  ): Promise<ChatCompletion>;
  create(request: ChatCompletionRequest, options?: CompletionOptions): Promise<ChatCompletion | ChatCompletionStream>;
  async create(
    request: ChatCompletionRequest,
    options: CompletionOptions = {},
  ): Promise<ChatCompletion | ChatCompletionStream> {
    const { signal } = membersOf(options, ["signal"]);
    checkFields({ signal }, { signal: SIGNAL });
    const { stream, seed } = membersOf(request);
    checkSeed(seed);
    const body = textOf(request);
    if (signal?.aborted) throw aborted(signal);
    if (stream !== true) return JSON.parse(await this.#text(body, () => undefined, signal ?? undefined));
    return this.#stream(body, signal ?? undefined);
  }

  /** Resolves with the first chunk, and keeps all: generation does not wait for a slow or missing reader. */
  async #stream(body: JSONText, signal: AbortSignal | undefined): Promise<ChatCompletionStream> {
    const left = new AbortController();
    const leave = (): Promise<unknown> => {
      chunks.drop();
      left.abort();
      return ended;
    };
    const chunks = new Queue<ChatCompletionChunk>(leave);
    let begun = (): void => undefined;
    const first = new Promise<void>((resolve) => (begun = resolve));
    const onLine = (line: string): void => {
      if (line !== "[DONE]") chunks.push(JSON.parse(line) as ChatCompletionChunk);
      begun();
    };
    const all = this.#text(body, onLine, signal ? AbortSignal.any([signal, left.signal]) : left.signal);
    const ended = all.then(
      () => chunks.end(),
      (cause: unknown) => chunks.end(cause),
    );
    await Promise.race([first, all]); // an invalid request rejects before any chunk
    return { abort: () => void leave(), [Symbol.asyncIterator]: () => chunks };
  }

  /** Resolves with the answer's JSON, which is empty for a stream. */
  async #text(body: JSONText, onLine: (line: string) => void, signal: AbortSignal | undefined): Promise<string> {
    const answer = await this.#answer("/v1/chat/completions", body, onLine, signal);
    if (answer.status >= 400) throw errorIn(answer.body);
    return answer.body;
  }
}

/** The codes of errors that have their own. */
const CODES: Readonly<Record<string, ForetokenErrorCode>> = {
  context_length_exceeded: "context_full",
  no_chat_template: "no_chat",
};

/** Converts an error of the API. */
function errorIn(body: string): ForetokenError {
  const { message, param, code } = (
    JSON.parse(body) as { error: { message: string; param: string | null; code: string } }
  ).error;
  return new ForetokenError(CODES[code] ?? "bad_option", message, param ?? undefined);
}
