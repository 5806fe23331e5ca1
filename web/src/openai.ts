/**
 * Chat completions in the shape of OpenAI's API, answered by the loaded models: what code
 * written for that API, or for engines that speak it, can be pointed at.
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
import { abortable, aborted, ForetokenError } from "./errors.ts";
import type { Generation } from "./generation.ts";
import type { AnswerOptions, ChatReply, EventToken, Finish, GenerateRequest, Message, RoundEvent, Stats } from "./protocol.ts";
import { type Tool, type ToolCall, ToolCalls } from "./tools.ts";

export type { Tool, ToolCall } from "./tools.ts";

/** What to answer and how. Names, meanings and ranges are the API's; settings left out are the engine's own. */
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
  /** Random unless given; the answer names it. */
  seed?: number | null;
  stop?: string | readonly string[] | null;
  /** Answers; above the first, the seed grows by one each. */
  n?: number | null;
  frequency_penalty?: number | null;
  presence_penalty?: number | null;
  logit_bias?: Readonly<Record<string, number>> | null;
  logprobs?: boolean | null;
  /** At most as many as the engine was loaded to tell (`candidates`). */
  top_logprobs?: number | null;
  response_format?: ResponseFormat | null;
  /** Functions that the model is told of, where its template tells of any; what it calls is in `tool_calls`. */
  tools?: readonly Tool[] | null;
  /** "none" tells the model of no functions. It cannot be made to call one: "required" and names are refused. */
  /** `required`, or a function's name: the answer is one call, held to the parameters of its function. */
  tool_choice?: "auto" | "none" | "required" | { type: "function"; function: { name: string } } | null;
  /** Accepted and not used, as are these. */
  user?: string | null;
  metadata?: object | null;
  store?: boolean | null;
  service_tier?: string | null;
  safety_identifier?: string | null;
  prompt_cache_key?: string | null;
  parallel_tool_calls?: boolean | null;
  /** A chat template in Jinja in place of the model's own, and further variables of it, as vLLM names them. */
  chat_template?: string | null;
  chat_template_kwargs?: Readonly<Record<string, unknown>> | null;
  /** Settings that only this engine has, such as `policy`, `depth`, `grammar` (GBNF), `min_p`. */
  foretoken?: Omit<GenerateRequest, "prompt"> | null;
}

/** One message of a request. */
export interface ChatMessage {
  role: "system" | "developer" | "user" | "assistant" | "tool";
  content: string | readonly { type: "text"; text: string }[] | null;
  name?: string;
  /** Of the assistant: the functions it called. */
  tool_calls?: readonly ToolCall[];
  /** Of a tool: the call that this is the answer to. */
  tool_call_id?: string;
}

/** What the text is held to. Speculation gives the text that plain decoding gives under the same format. */
export type ResponseFormat = { type: "text" } | { type: "json_object" } | { type: "json_schema"; json_schema: { name?: string; strict?: boolean | null; schema: object } };

/** A token, and ln of its probability. */
export interface TokenLogprob {
  token: string;
  logprob: number;
  bytes: null;
}

/** Log-probabilities of an answer's tokens, each with the likeliest in its place. */
export interface ChoiceLogprobs {
  content: (TokenLogprob & { top_logprobs: TokenLogprob[] })[];
  refusal: null;
}

/** Why an answer ended: by itself or at a stop string, at its limit or that of the context, or with calls of functions. */
export type FinishReason = "stop" | "length" | "tool_calls";

/** What an answer took, in tokens. */
export interface Usage {
  prompt_tokens: number;
  completion_tokens: number;
  total_tokens: number;
  prompt_tokens_details: { cached_tokens: number };
  /** The engine's own account of the last answer. */
  foretoken: Stats;
}

/** An answer that came whole. */
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

/** What the model said: `content` is null where it said nothing but calls. */
export interface AssistantMessage {
  role: "assistant";
  content: string | null;
  refusal: null;
  tool_calls?: ToolCall[];
}

/** A piece of an answer that is streamed. The last one with a choice has its finish_reason. */
export interface ChatCompletionChunk {
  id: string;
  object: "chat.completion.chunk";
  created: number;
  model: string;
  system_fingerprint: string;
  choices: { index: number; delta: { role?: "assistant"; content?: string; tool_calls?: (ToolCall & { index: number })[] }; finish_reason: FinishReason | null; logprobs: ChoiceLogprobs | null }[];
  usage?: Usage | null;
}

/** The chunks of an answer as they come; leaving the loop, or `abort`, ends the answer within a round. */
export interface ChatCompletionStream extends AsyncIterable<ChatCompletionChunk> {
  abort(): void;
}

/** What is not part of the request. */
export interface CompletionOptions {
  /** Aborting ends the answer within a round; it rejects with code "aborted". */
  signal?: AbortSignal | undefined;
}

/** What the completions need of an engine. @internal */
export interface Answerer {
  readonly model: string;
  readonly fingerprint: string;
  answer(chat: AnswerOptions, request: Omit<GenerateRequest, "prompt">): Generation<ChatReply>;
}

const KNOWN = new Set(
  "messages model stream stream_options max_tokens max_completion_tokens temperature top_p seed stop n frequency_penalty presence_penalty logit_bias logprobs top_logprobs response_format tools tool_choice user metadata store service_tier safety_identifier prompt_cache_key parallel_tool_calls chat_template chat_template_kwargs foretoken".split(" "),
);

/** `engine.chat.completions`. Requests wait for each other: an engine decodes one text at a time. */
export class ChatCompletions {
  readonly #engine: Answerer;
  #last: Promise<unknown> = Promise.resolve();

  /** @internal */
  constructor(engine: Answerer) {
    this.#engine = engine;
  }

  create(request: ChatCompletionRequest & { stream: true }, options?: CompletionOptions): Promise<ChatCompletionStream>;
  create(request: ChatCompletionRequest & { stream?: false | null }, options?: CompletionOptions): Promise<ChatCompletion>;
  create(request: ChatCompletionRequest, options?: CompletionOptions): Promise<ChatCompletion | ChatCompletionStream>;
  async create(request: ChatCompletionRequest, options: CompletionOptions = {}): Promise<ChatCompletion | ChatCompletionStream> {
    const asked = read(request);
    if (options.signal?.aborted) throw aborted(options.signal);
    const chunks = this.#chunks(asked, options.signal);
    if (request.stream) {
      const first = await chunks.next();
      return stream(first, chunks);
    }
    return this.#whole(asked, chunks);
  }

  async #whole(asked: Asked, chunks: AsyncGenerator<ChatCompletionChunk, Usage>): Promise<ChatCompletion> {
    let head: ChatCompletionChunk | undefined;
    const choices = Array.from({ length: asked.n }, (_, index) => ({
      index,
      message: { role: "assistant", content: "", refusal: null } as AssistantMessage,
      finish_reason: "stop" as FinishReason,
      logprobs: asked.logprobs ? ({ content: [], refusal: null } as ChoiceLogprobs) : null,
    }));
    for (;;) {
      const { done, value } = await chunks.next();
      if (done) {
        const { id, created, model, system_fingerprint } = head!;
        for (const { message } of choices) if (message.tool_calls && !message.content?.trim()) message.content = null;
        return { id, object: "chat.completion", created, model, system_fingerprint, seed: asked.seed, choices, usage: value };
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

  /** All chunks, but for the usage that a stream may ask for; returns the usage. */
  async *#chunks(asked: Asked, signal: AbortSignal | undefined): AsyncGenerator<ChatCompletionChunk, Usage> {
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
        ...(asked.usage ? { usage: null } : {}),
      };
      const usage: Usage = { prompt_tokens: 0, completion_tokens: 0, total_tokens: 0, prompt_tokens_details: { cached_tokens: 0 }, foretoken: {} as Stats };
      for (let index = 0; index < asked.n; index++) {
        if (signal?.aborted) throw aborted(signal);
        const run = this.#engine.answer(asked.chat, { ...asked.request, seed: asked.seed + index });
        const stop = (): void => run.stop();
        signal?.addEventListener("abort", stop);
        const rounds = run[Symbol.asyncIterator]();
        try {
          // What is wrong with a request shows in its first round: nothing was told yet.
          let next = await rounds.next();
          yield { ...head, choices: [{ index, delta: { role: "assistant", content: "" }, finish_reason: null, logprobs: null }] };
          const tools = asked.tools.length > 0 ? new ToolCalls(asked.tools) : undefined;
          let calls = 0;
          const piece = (said: { content: string; calls: ToolCall[] }, logprobs: ChoiceLogprobs | null): ChatCompletionChunk | undefined => {
            if (!said.content && said.calls.length === 0 && !logprobs?.content.length) return undefined;
            const delta = { content: said.content, ...(said.calls.length > 0 ? { tool_calls: said.calls.map((call) => ({ index: calls++, ...call })) } : {}) };
            return { ...head, choices: [{ index, delta, finish_reason: null, logprobs }] };
          };
          for (; !next.done; next = await rounds.next()) {
            const round = next.value;
            const chunk = piece(tools?.push(round.text) ?? { content: round.text, calls: [] }, asked.logprobs ? logprobsOf(round) : null);
            if (chunk) yield chunk;
          }
          const { result } = await run.result;
          if (result.finish === "aborted") throw aborted(signal);
          const rest = tools && piece(tools.end(), null);
          if (rest) yield rest;
          yield { ...head, choices: [{ index, delta: {}, finish_reason: calls > 0 ? "tool_calls" : FINISH[result.finish], logprobs: null }] };
          const { stats } = result;
          if (index === 0) {
            usage.prompt_tokens = stats.prompt_tokens;
            usage.prompt_tokens_details.cached_tokens = stats.reused;
          }
          usage.completion_tokens += stats.committed;
          usage.foretoken = stats;
        } finally {
          signal?.removeEventListener("abort", stop);
          await rounds.return?.();
          await run.result.catch(() => undefined); // the engine is free for the next one after that only
        }
      }
      usage.total_tokens = usage.prompt_tokens + usage.completion_tokens;
      if (asked.usage) yield { ...head, choices: [], usage };
      return usage;
    } finally {
      leave();
    }
  }
}

const FINISH: Record<Exclude<Finish, "aborted">, FinishReason> = { eos: "stop", stop: "stop", length: "length", context: "length" };

function stream(first: IteratorResult<ChatCompletionChunk, Usage>, rest: AsyncGenerator<ChatCompletionChunk, Usage>): ChatCompletionStream {
  async function* all(): AsyncGenerator<ChatCompletionChunk> {
    try {
      if (!first.done) yield first.value;
      yield* rest;
    } finally {
      await rest.return({} as Usage);
    }
  }
  const chunks = all();
  return { abort: () => void chunks.return(undefined).then(() => rest.return({} as Usage)), [Symbol.asyncIterator]: () => chunks };
}

function logprobsOf(round: RoundEvent): ChoiceLogprobs {
  const one = (token: string, logprob: number): TokenLogprob => ({ token, logprob, bytes: null });
  const content = round.tokens
    .filter((token): token is EventToken & { logprob: number } => token.logprob !== undefined)
    .map((token) => ({ ...one(token.piece ?? token.text, token.logprob), top_logprobs: (token.top ?? []).map((t) => one(t.text, t.logprob)) }));
  return { content, refusal: null };
}

/** A request that was checked. */
interface Asked {
  chat: AnswerOptions;
  request: Omit<GenerateRequest, "prompt">;
  n: number;
  seed: number;
  logprobs: boolean;
  usage: boolean;
  tools: readonly Tool[];
}

function wrong(param: string, message: string): ForetokenError {
  return new ForetokenError("bad_option", `${param} ${message}`, param);
}

function read(from: ChatCompletionRequest): Asked {
  for (const [name, value] of Object.entries(from)) {
    if (value !== null && value !== undefined && !KNOWN.has(name)) throw wrong(name, "is not known; settings of this engine's own go into foretoken");
  }
  if (!Array.isArray(from.messages) || from.messages.length === 0) throw wrong("messages", "is empty or no list; give at least one message");
  const request: Omit<GenerateRequest, "prompt"> = { ...from.foretoken };
  const number = (name: keyof ChatCompletionRequest & keyof GenerateRequest, low: number, high: number): void => {
    const value = from[name];
    if (value === null || value === undefined) return;
    if (typeof value !== "number" || !(value >= low && value <= high)) throw wrong(name, `is ${String(value)}; want a number from ${low} to ${high}`);
    (request as Record<string, unknown>)[name] = value;
  };
  number("temperature", 0, 2);
  number("top_p", 0, 1);
  number("frequency_penalty", -2, 2);
  number("presence_penalty", -2, 2);
  const length = from.max_completion_tokens ?? from.max_tokens;
  if (length !== null && length !== undefined) request.max_tokens = whole("max_tokens", length, 1);
  if (from.stop !== null && from.stop !== undefined) request.stop = typeof from.stop === "string" ? [from.stop] : [...from.stop];
  if (from.logit_bias) request.logit_bias = { ...from.logit_bias };
  const logprobs = from.logprobs === true;
  if (from.top_logprobs && !logprobs) throw wrong("top_logprobs", "is given without logprobs; set logprobs to true");
  if (logprobs) Object.assign(request, { logprobs: true, top_logprobs: whole("top_logprobs", from.top_logprobs ?? 0, 0) });
  format(from.response_format, request);
  const choice = from.tool_choice ?? "auto";
  const tools = (choice === "none" ? null : from.tools) ?? [];
  const forced = choice !== "auto" && choice !== "none";
  if (forced && choice !== "required" && !tools.some((tool) => tool?.function?.name === choice.function?.name)) throw wrong("tool_choice", `is ${JSON.stringify(choice)}; want auto, none, required or one of the tools' names`);
  if (forced && tools.length === 0) throw wrong("tool_choice", "asks for a call, and there are no tools");
  if (forced && (request.json_object || request.json_schema || request.grammar)) throw wrong("tool_choice", "asks for a call, and the text is held to another form already; leave one of them out");
  tools.forEach((tool, i) => {
    if (tool?.type !== "function" || typeof tool.function?.name !== "string" || tool.function.name === "") throw wrong(`tools[${i}]`, "is no function with a name");
  });
  const seed = from.seed ?? from.foretoken?.seed ?? crypto.getRandomValues(new Uint32Array(1))[0]!;
  return {
    chat: {
      messages: from.messages.map(message),
      ...(tools.length ? { tools: [...tools] } : {}),
      ...(forced ? { tool_choice: choice } : {}),
      ...(from.chat_template ? { template: from.chat_template } : {}),
      ...(from.chat_template_kwargs ? { vars: { ...from.chat_template_kwargs } } : {}),
    },
    request,
    n: whole("n", from.n ?? 1, 1),
    seed: whole("seed", seed, 0),
    logprobs,
    usage: Boolean(from.stream && from.stream_options?.include_usage),
    tools,
  };
}

function whole(param: string, value: number, low: number): number {
  if (!Number.isSafeInteger(value) || value < low) throw wrong(param, `is ${String(value)}; want a whole number of ${low} or more`);
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
      to.json_object = true;
      return;
    case "json_schema":
      if (!from.json_schema?.schema) throw wrong("response_format", "has no json_schema.schema");
      to.json_schema = from.json_schema.schema;
      return;
    default:
      throw wrong("response_format", `has the type ${String((from as { type: unknown }).type)}; want text, json_object or json_schema`);
  }
}

function message(from: ChatMessage, index: number): Message {
  const at = `messages[${index}]`;
  if (!["system", "developer", "user", "assistant", "tool"].includes(from?.role)) throw wrong(at, "has no role of system, developer, user, assistant or tool");
  const parts = from.content ?? "";
  const content = typeof parts === "string" ? parts : parts.map((part) => {
    if (part.type !== "text" || typeof part.text !== "string") throw wrong(at, "has a part that is no text");
    return part.text;
  }).join("");
  return {
    role: from.role === "developer" ? "system" : from.role,
    content,
    ...(from.name === undefined ? {} : { name: from.name }),
    ...(from.tool_calls === undefined ? {} : { tool_calls: [...from.tool_calls] }),
    ...(from.tool_call_id === undefined ? {} : { tool_call_id: from.tool_call_id }),
  };
}
