/** The requests and answers of OpenAI's API for chat completions. */
import type { Result, Stats } from "../protocol/protocol.ts";
import type { GenerateOptions } from "./generation.ts";
import type { Tool, ToolCall } from "./tool-calls.ts";

export type { Tool, ToolCall } from "./tool-calls.ts";

/** A request. Names, meanings and ranges follow OpenAI's API; missing settings use the engine's defaults. */
export interface ChatCompletionRequest {
  messages: readonly ChatMessage[];
  /** Ignored: the engine has one model. */
  model?: string;
  stream?: boolean | null;
  stream_options?: { include_usage?: boolean; include_obfuscation?: boolean } | null;
  max_tokens?: number | null;
  max_completion_tokens?: number | null;
  temperature?: number | null;
  top_p?: number | null;
  /** 64 bits: a BigInt beyond 2^53, where numbers lose digits. Default: random. The answer contains it. */
  seed?: number | bigint | null;
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
  foretoken?: Omit<GenerateOptions, "signal" | "logits_processor"> | null;
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
  | {
      type: "json_schema";
      json_schema: { name?: string; description?: string; strict?: boolean | null; schema: object };
    };

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
  /** The engine's statistics of the last answer, and what {@link Result.unchecked} says of it. */
  foretoken: Stats & Pick<Result, "unchecked">;
}

/** A complete answer. */
export interface ChatCompletion {
  id: string;
  object: "chat.completion";
  /** Seconds since 1970. */
  created: number;
  model: string;
  system_fingerprint: string;
  seed: number | bigint;
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

/**
 * The chunks of an answer as they arrive; leaving the loop or calling `abort` ends the answer within a round. An answer
 * runs to its end without a reader, and its chunks are kept for one: at most one for each token, and two more.
 */
export interface ChatCompletionStream extends AsyncIterable<ChatCompletionChunk> {
  abort(): void;
}

/** Options outside the request. */
export interface CompletionOptions {
  /** Aborting ends the answer within a round; the call rejects with code "aborted". */
  signal?: AbortSignal | undefined;
}
