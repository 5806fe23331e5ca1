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
import { abortable, aborted } from "../protocol/errors.ts";
import type { Generation } from "./generation.ts";
import { checkLimit, checkNames, wrong } from "./options.ts";
import type {
  AnswerOptions,
  ChatReply,
  EventToken,
  Finish,
  GenerateRequest,
  Message,
  RoundEvent,
  Stats,
} from "../protocol/protocol.ts";
import { type Tool, type ToolCall, ToolCalls } from "./tool-calls.ts";

export type { Tool, ToolCall } from "./tool-calls.ts";

/** A request. Names, meanings and ranges follow OpenAI's API; missing settings use the engine's defaults. */
export interface ChatCompletionRequest {
  messages: readonly ChatMessage[];
  /** Ignored: the engine has one model. */
  model?: string;
  stream?: boolean | null;
  stream_options?: { include_usage?: boolean } | null;
  max_tokens?: number | null;
  max_completion_tokens?: number | null;
  temperature?: number | null;
  top_p?: number | null;
  /** Default: random. The answer contains it. */
  seed?: number | null;
  stop?: string | readonly string[] | null;
  /** Tokens that end the text like the model's own end-of-text tokens, as in vLLM. */
  stop_token_ids?: readonly number[] | null;
  /** Number of answers; each uses a seed one higher than the previous. */
  n?: number | null;
  frequency_penalty?: number | null;
  presence_penalty?: number | null;
  logit_bias?: Readonly<Record<string, number>> | null;
  logprobs?: boolean | null;
  /** At most the `candidates` of {@link LoadOptions}. */
  top_logprobs?: number | null;
  response_format?: ResponseFormat | null;
  /** Functions that the chat template describes to the model; its calls are in `tool_calls`. */
  tools?: readonly Tool[] | null;
  /**
   * "none" hides the functions from the model. "required" or the name of a function constrains the answer to a call
   * whose arguments match the function's parameters. The call is compact, like JSON of `response_format`.
   */
  tool_choice?: "auto" | "none" | "required" | { type: "function"; function: { name: string } } | null;
  /**
   * False: at most one call. True: with a tool_choice of "required" the answer may also be a list of calls. Without a
   * value "required" gives one call, and a model that chooses may make several.
   */
  parallel_tool_calls?: boolean | null;
  /** Ignored, like the fields that follow. */
  user?: string | null;
  metadata?: object | null;
  store?: boolean | null;
  service_tier?: string | null;
  safety_identifier?: string | null;
  prompt_cache_key?: string | null;
  /** A chat template in Jinja that replaces the model's, and its variables, with the names that vLLM uses. */
  chat_template?: string | null;
  chat_template_kwargs?: Readonly<Record<string, unknown>> | null;
  /** Settings outside OpenAI's API, such as `policy`, `depth`, `grammar` (GBNF), `min_p`. */
  foretoken?: Omit<GenerateRequest, "prompt"> | null;
}

/** One message of a request. */
export interface ChatMessage {
  role: "system" | "developer" | "user" | "assistant" | "tool";
  content: string | readonly { type: "text"; text: string }[] | null;
  name?: string;
  /** Assistant: the functions that it called. */
  tool_calls?: readonly ToolCall[];
  /** Tool: the call that this message answers. */
  tool_call_id?: string;
}

/**
 * A constraint on the text. JSON is compact unless `foretoken: { json_compact: false }` says otherwise. Speculation
 * gives the text that plain decoding gives under the same constraint.
 */
export type ResponseFormat =
  | { type: "text" }
  | { type: "json_object" }
  | { type: "json_schema"; json_schema: { name?: string; strict?: boolean | null; schema: object } };

/** A token and ln of its probability. */
export interface TokenLogprob {
  token: string;
  logprob: number;
  bytes: null;
}

/** Log-probabilities of an answer's tokens, each with the likeliest alternatives at its position. */
export interface ChoiceLogprobs {
  content: (TokenLogprob & { top_logprobs: TokenLogprob[] })[];
  refusal: null;
}

/** Why an answer ended: end of text or stop string, limit of tokens or context, or function calls. */
export type FinishReason = "stop" | "length" | "tool_calls";

/** Token counts of an answer. */
export interface Usage {
  prompt_tokens: number;
  completion_tokens: number;
  total_tokens: number;
  prompt_tokens_details: { cached_tokens: number };
  /** The engine's statistics of the last answer. */
  foretoken: Stats;
}

/** A complete answer. */
export interface ChatCompletion {
  id: string;
  object: "chat.completion";
  /** Seconds since 1970. */
  created: number;
  model: string;
  system_fingerprint: string;
  seed: number;
  choices: { index: number; message: AssistantMessage; finish_reason: FinishReason; logprobs: ChoiceLogprobs | null }[];
  usage: Usage;
}

/** The model's message; `content` is null if it consists only of calls. */
export interface AssistantMessage {
  role: "assistant";
  content: string | null;
  refusal: null;
  tool_calls?: ToolCall[];
}

/** A piece of a streamed answer. The last piece of each choice has a finish_reason. */
export interface ChatCompletionChunk {
  id: string;
  object: "chat.completion.chunk";
  created: number;
  model: string;
  system_fingerprint: string;
  choices: {
    index: number;
    delta: { role?: "assistant"; content?: string; tool_calls?: (ToolCall & { index: number })[] };
    finish_reason: FinishReason | null;
    logprobs: ChoiceLogprobs | null;
  }[];
  usage?: Usage | null;
}

/** The chunks of an answer as they arrive; leaving the loop or calling `abort` ends the answer within a round. */
export interface ChatCompletionStream extends AsyncIterable<ChatCompletionChunk> {
  abort(): void;
}

/** Options outside the request. */
export interface CompletionOptions {
  /** Aborting ends the answer within a round; the call rejects with code "aborted". */
  signal?: AbortSignal | undefined;
}

/** The part of the engine that completions use. @internal */
export interface Answerer {
  readonly model: string;
  readonly fingerprint: string;
  answer(chat: AnswerOptions, request: Omit<GenerateRequest, "prompt">): Generation<ChatReply>;
}

const KNOWN = (
  "messages model stream stream_options max_tokens max_completion_tokens temperature top_p seed stop stop_token_ids " +
  "n frequency_penalty presence_penalty logit_bias logprobs top_logprobs response_format tools " +
  "tool_choice user metadata store service_tier safety_identifier prompt_cache_key parallel_tool_calls " +
  "chat_template chat_template_kwargs foretoken"
).split(" ");

/** The type of `engine.chat.completions`. Requests queue, because an engine decodes one text at a time. */
export class ChatCompletions {
  readonly #engine: Answerer;
  #last: Promise<unknown> = Promise.resolve();

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
    const checked = read(request);
    if (options.signal?.aborted) throw aborted(options.signal);
    const chunks = this.#chunks(checked, options.signal);
    if (request.stream) {
      const first = await chunks.next();
      return stream(first, chunks);
    }
    return this.#complete(checked, chunks);
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
    const before = this.#last;
    let leave = (): void => undefined;
    this.#last = new Promise<void>((resolve) => (leave = resolve));
    try {
      await abortable(before, signal);
      const head = {
        id: `chatcmpl-${crypto.randomUUID()}`,
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
        const run = this.#engine.answer(checked.chat, { ...checked.request, seed: checked.seed + index });
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
          }
          const { result } = await run.result;
          if (result.finish === "aborted") throw aborted(signal);
          const rest = tools && piece(tools.end(), null);
          if (rest) yield rest;
          yield {
            ...head,
            choices: [
              { index, delta: {}, finish_reason: calls > 0 ? "tool_calls" : FINISH[result.finish], logprobs: null },
            ],
          };
          const { stats } = result;
          if (index === 0) {
            usage.prompt_tokens = stats.prompt_tokens;
            usage.prompt_tokens_details.cached_tokens = stats.reused;
          }
          usage.completion_tokens += stats.output_tokens;
          usage.foretoken = stats;
        } finally {
          signal?.removeEventListener("abort", stop);
          await rounds.return?.();
          await run.result.catch(() => undefined); // the engine is idle only after that
        }
      }
      usage.total_tokens = usage.prompt_tokens + usage.completion_tokens;
      if (checked.usage) yield { ...head, choices: [], usage };
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

function stream(
  first: IteratorResult<ChatCompletionChunk, Usage>,
  rest: AsyncGenerator<ChatCompletionChunk, Usage>,
): ChatCompletionStream {
  async function* all(): AsyncGenerator<ChatCompletionChunk> {
    try {
      if (!first.done) yield first.value;
      yield* rest;
    } finally {
      await rest.return({} as Usage);
    }
  }
  const chunks = all();
  return {
    abort: () => void chunks.return(undefined).then(() => rest.return({} as Usage)),
    [Symbol.asyncIterator]: () => chunks,
  };
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

/** A validated request. */
interface CheckedRequest {
  chat: AnswerOptions;
  request: Omit<GenerateRequest, "prompt">;
  n: number;
  seed: number;
  logprobs: boolean;
  usage: boolean;
  tools: readonly Tool[];
  single: boolean;
}

function read(from: ChatCompletionRequest): CheckedRequest {
  checkNames(from, KNOWN, "; put settings of this engine into foretoken");
  if (!Array.isArray(from.messages) || from.messages.length === 0)
    throw wrong("messages", "must be a list of at least one message");
  const request: Omit<GenerateRequest, "prompt"> = { ...from.foretoken };
  for (const name of ["temperature", "top_p", "frequency_penalty", "presence_penalty"] as const) {
    const value = from[name];
    if (value === null || value === undefined) continue;
    checkLimit(name, value);
    request[name] = value;
  }
  const length = from.max_completion_tokens ?? from.max_tokens;
  if (length !== null && length !== undefined) request.max_tokens = integer("max_tokens", length, 1);
  if (from.stop !== null && from.stop !== undefined)
    request.stop = typeof from.stop === "string" ? [from.stop] : [...from.stop];
  if (from.stop_token_ids) request.stop_token_ids = [...from.stop_token_ids];
  if (from.logit_bias) request.logit_bias = { ...from.logit_bias };
  const logprobs = from.logprobs === true;
  if (from.top_logprobs && !logprobs) throw wrong("top_logprobs", "needs logprobs: true");
  if (logprobs)
    Object.assign(request, { logprobs: true, top_logprobs: integer("top_logprobs", from.top_logprobs ?? 0, 0) });
  format(from.response_format, request);
  const choice = from.tool_choice ?? "auto";
  const tools = (choice === "none" ? null : from.tools) ?? [];
  const forced = choice !== "auto" && choice !== "none";
  if (forced && choice !== "required" && !tools.some((tool) => tool?.function?.name === choice.function?.name))
    throw wrong("tool_choice", `is ${JSON.stringify(choice)}; want auto, none, required or one of the tools' names`);
  if (forced && tools.length === 0) throw wrong("tool_choice", "requires a call, but there are no tools");
  if (forced && (request.json_object || request.json_schema || request.grammar))
    throw wrong("tool_choice", "requires a call, but the request already constrains the text; remove one of the two");
  tools.forEach((tool, i) => {
    if (tool?.type !== "function" || typeof tool.function?.name !== "string" || tool.function.name === "")
      throw wrong(`tools[${i}]`, "must be a function with a name");
  });
  const n = integer("n", from.n ?? 1, 1);
  checkLimit("n", n);
  const seed = from.seed ?? from.foretoken?.seed ?? crypto.getRandomValues(new Uint32Array(1))[0]!;
  return {
    chat: {
      messages: from.messages.map(message),
      ...(tools.length ? { tools: [...tools] } : {}),
      ...(forced ? { tool_choice: choice, parallel_tool_calls: from.parallel_tool_calls === true } : {}),
      ...(from.chat_template ? { template: from.chat_template } : {}),
      ...(from.chat_template_kwargs ? { vars: { ...from.chat_template_kwargs } } : {}),
    },
    request,
    n,
    seed: integer("seed", seed, 0),
    logprobs,
    usage: Boolean(from.stream && from.stream_options?.include_usage),
    tools,
    single: from.parallel_tool_calls === false,
  };
}

function integer(param: string, value: number, low: number): number {
  if (!Number.isSafeInteger(value) || value < low)
    throw wrong(param, `is ${String(value)}; want an integer of ${low} or more`);
  return value;
}

function format(from: ResponseFormat | null | undefined, to: Omit<GenerateRequest, "prompt">): void {
  switch (from?.type) {
    case undefined:
      if (from) throw wrong("response_format", "has no type; want text, json_object or json_schema");
      return;
    case "text":
      return;
    case "json_object":
      to.json_compact ??= true;
      to.json_object = true;
      return;
    case "json_schema":
      if (!from.json_schema?.schema) throw wrong("response_format", "has no json_schema.schema");
      to.json_compact ??= true;
      to.json_schema = from.json_schema.schema;
      return;
    default:
      throw wrong(
        "response_format",
        `has the type ${String((from as { type: unknown }).type)}; want text, json_object or json_schema`,
      );
  }
}

function message(from: ChatMessage, index: number): Message {
  const at = `messages[${index}]`;
  if (!["system", "developer", "user", "assistant", "tool"].includes(from?.role))
    throw wrong(at, "must have the role system, developer, user, assistant or tool");
  const parts = from.content ?? "";
  const content =
    typeof parts === "string"
      ? parts
      : parts
          .map((part) => {
            if (part.type !== "text" || typeof part.text !== "string") throw wrong(at, "has a part that is not text");
            return part.text;
          })
          .join("");
  return {
    role: from.role === "developer" ? "system" : from.role,
    content,
    ...(from.name === undefined ? {} : { name: from.name }),
    ...(from.tool_calls === undefined ? {} : { tool_calls: [...from.tool_calls] }),
    ...(from.tool_call_id === undefined ? {} : { tool_call_id: from.tool_call_id }),
  };
}
