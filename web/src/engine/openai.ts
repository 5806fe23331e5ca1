/**
 * Chat completions with OpenAI's API, answered by the loaded models, for code written for that API.
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
import { aborted } from "../protocol/errors.ts";
import { type CheckedRequest, read, seedAt } from "./completion-request.ts";
import type {
  AssistantMessage,
  ChatCompletion,
  ChatCompletionChunk,
  ChatCompletionRequest,
  ChatCompletionStream,
  ChoiceLogprobs,
  CompletionOptions,
  FinishReason,
  TokenLogprob,
  Usage,
} from "./completion-types.ts";
import { type Generation, Queue } from "./generation.ts";
import { checkFields, membersOf, randomId, SIGNAL } from "./options.ts";
import type {
  AnswerOptions,
  ChatReply,
  EventToken,
  Finish,
  GenerateRequest,
  RoundEvent,
  Stats,
} from "../protocol/protocol.ts";
import { type ToolCall, ToolCalls } from "./tool-calls.ts";
import type { Turns } from "./turns.ts";

export type * from "./completion-types.ts";

/** The part of the engine that completions use. @internal */
export interface Answerer {
  readonly model: string;
  readonly fingerprint: string;
  readonly turns: Turns;
  answer(chat: AnswerOptions, request: Omit<GenerateRequest, "prompt">): Generation<ChatReply>;
}

/** The type of `engine.chat.completions`. Requests queue, because an engine decodes one text at a time. */
export class ChatCompletions {
  readonly #engine: Answerer;

  /** @internal */
  constructor(engine: Answerer) {
    this.#engine = engine;
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
    const checked = read(request);
    if (signal?.aborted) throw aborted(signal);
    if (!checked.stream) return this.#complete(checked, this.#chunks(checked, signal));
    const left = new AbortController();
    const chunks = this.#chunks(checked, signal ? AbortSignal.any([signal, left.signal]) : left.signal);
    return stream(await chunks.next(), chunks, left);
  }

  async #complete(
    checked: CheckedRequest,
    chunks: AsyncGenerator<ChatCompletionChunk, Usage>,
  ): Promise<ChatCompletion> {
    let head: ChatCompletionChunk | undefined;
    const choices = Array.from({ length: checked.n }, (_, index) => ({
      index,
      message: { role: "assistant", content: "", refusal: null } as AssistantMessage,
      finish_reason: "stop" as FinishReason,
      logprobs: checked.logprobs ? ({ content: [], refusal: null } as ChoiceLogprobs) : null,
    }));
    for (;;) {
      const { done, value } = await chunks.next();
      if (done) {
        const { id, created, model, system_fingerprint } = head!;
        for (const { message } of choices) if (message.tool_calls && !message.content) message.content = null;
        return {
          id,
          object: "chat.completion",
          created,
          model,
          system_fingerprint,
          seed: checked.seed,
          choices,
          usage: value,
        };
      }
      head ??= value;
      for (const { index, delta, finish_reason, logprobs } of value.choices) {
        const choice = choices[index]!;
        choice.message.content += delta.content ?? "";
        for (const { index: _, ...call } of delta.tool_calls ?? []) (choice.message.tool_calls ??= []).push(call);
        if (finish_reason) choice.finish_reason = finish_reason;
        if (logprobs) choice.logprobs?.content.push(...logprobs.content);
      }
    }
  }

  /** Yields all chunks; returns the usage. */
  async *#chunks(checked: CheckedRequest, signal: AbortSignal | undefined): AsyncGenerator<ChatCompletionChunk, Usage> {
    const leave = await this.#engine.turns.take(signal);
    try {
      const head = {
        id: `chatcmpl-${randomId()}`,
        object: "chat.completion.chunk" as const,
        created: Math.floor(Date.now() / 1000),
        model: this.#engine.model,
        system_fingerprint: this.#engine.fingerprint,
        ...(checked.usage ? { usage: null } : {}),
      };
      const usage: Usage = {
        prompt_tokens: 0,
        completion_tokens: 0,
        total_tokens: 0,
        prompt_tokens_details: { cached_tokens: 0 },
        foretoken: {} as Stats,
      };
      for (let index = 0; index < checked.n; index++) {
        if (signal?.aborted) throw aborted(signal);
        const run = this.#engine.answer(checked.chat, { ...checked.request, seed: seedAt(index, checked) });
        const stop = (): void => run.stop();
        signal?.addEventListener("abort", stop);
        const rounds = run[Symbol.asyncIterator]();
        try {
          // Wait for the first round: an invalid request fails before any chunk is sent.
          let next = await rounds.next();
          yield {
            ...head,
            choices: [{ index, delta: { role: "assistant", content: "" }, finish_reason: null, logprobs: null }],
          };
          const tools = checked.tools.length > 0 ? new ToolCalls(checked.tools, checked.single) : undefined;
          let calls = 0;
          let ended = false; // by the one call that is asked for
          const piece = (
            parsed: { content: string; calls: ToolCall[] },
            logprobs: ChoiceLogprobs | null,
          ): ChatCompletionChunk | undefined => {
            if (!parsed.content && parsed.calls.length === 0 && !logprobs?.content.length) return undefined;
            const delta = {
              ...(parsed.content || parsed.calls.length === 0 ? { content: parsed.content } : {}),
              ...(parsed.calls.length > 0
                ? { tool_calls: parsed.calls.map((call) => ({ index: calls++, ...call })) }
                : {}),
            };
            return { ...head, choices: [{ index, delta, finish_reason: null, logprobs }] };
          };
          for (; !next.done; next = await rounds.next()) {
            const round = next.value;
            const chunk = piece(
              tools?.push(round.text) ?? { content: round.text, calls: [] },
              checked.logprobs ? logprobsOf(round) : null,
            );
            if (chunk) yield chunk;
            if (checked.single && calls > 0 && !ended) {
              ended = true;
              stop();
            }
          }
          const { result } = await run.result;
          if (result.finish === "aborted" && (!ended || signal?.aborted)) throw aborted(signal);
          const rest = tools && piece(tools.end(), null);
          if (rest) yield rest;
          const finish = ended || result.finish === "aborted" ? "stop" : FINISH[result.finish];
          const reason = calls > 0 && finish === "stop" ? "tool_calls" : finish;
          yield { ...head, choices: [{ index, delta: {}, finish_reason: reason, logprobs: null }] };
          const { stats, unchecked } = result;
          if (index === 0) {
            usage.prompt_tokens = stats.prompt_tokens;
            usage.prompt_tokens_details.cached_tokens = stats.reused;
          }
          usage.completion_tokens += stats.output_tokens;
          usage.foretoken = unchecked ? { ...stats, unchecked } : stats;
        } finally {
          signal?.removeEventListener("abort", stop);
          await rounds.return?.();
          await run.result.catch(() => undefined); // the engine is idle only after that
        }
      }
      usage.total_tokens = usage.prompt_tokens + usage.completion_tokens;
      if (checked.usage || (checked.stream && usage.foretoken.unchecked)) yield { ...head, choices: [], usage };
      return usage;
    } finally {
      leave();
    }
  }
}

const FINISH: Record<Exclude<Finish, "aborted">, FinishReason> = {
  eos: "stop",
  stop: "stop",
  length: "length",
  context: "length",
};

/** Returns the chunks as they are made, and keeps them: generation does not wait for a slow or missing reader. */
function stream(
  first: IteratorResult<ChatCompletionChunk, Usage>,
  rest: AsyncGenerator<ChatCompletionChunk, Usage>,
  left: AbortController,
): ChatCompletionStream {
  const leave = (): Promise<void> => {
    chunks.drop();
    left.abort();
    return made;
  };
  const chunks = new Queue<ChatCompletionChunk>(leave);
  const made = (async () => {
    for (let next = first; !next.done; next = await rest.next()) chunks.push(next.value);
  })().then(
    () => chunks.end(),
    (cause: unknown) => chunks.end(cause),
  );
  return { abort: () => void leave(), [Symbol.asyncIterator]: () => chunks };
}

function logprobsOf(round: RoundEvent): ChoiceLogprobs {
  const one = (token: string, logprob: number): TokenLogprob => ({ token, logprob, bytes: null });
  const content = round.tokens
    .filter((token): token is EventToken & { logprob: number } => token.logprob !== undefined)
    .map((token) => ({
      ...one(token.piece ?? token.text, token.logprob),
      top_logprobs: (token.top ?? []).map((t) => one(t.text, t.logprob)),
    }));
  return { content, refusal: null };
}
