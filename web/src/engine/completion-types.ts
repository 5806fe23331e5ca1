/** The requests and answers of OpenAI's API for chat completions. */
import type { GenerateRequest, Result, Stats } from "../protocol/protocol.ts";

/** A request, with the names, meanings, ranges and defaults of OpenAI's API. */
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
  /** Sampling's top-k and min-p, with the names that vLLM uses; 0 is off. */
  top_k?: number | null;
  min_p?: number | null;
  /** 64 bits: a BigInt beyond 2^53, where numbers lose digits. Default: random; the usage has it. */
  seed?: number | bigint | null;
  stop?: string | readonly string[] | null;
  /** Whether the text contains the stop string that ended it, as in vLLM. */
  include_stop_str_in_output?: boolean | null;
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
  /** Instead of it, as in llama.cpp: a grammar in GBNF, or a JSON Schema. */
  grammar?: string | null;
  json_schema?: object | null;
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
  /** Settings outside OpenAI's API, such as `policy`, `depth`, `json_open`. */
  foretoken?: Omit<GenerateRequest, "prompt" | "seed" | "top_k_sampling" | "echo" | "json_object" | AlsoOpenAI> | null;
}

/** The settings of the engine that requests have under the same name. */
type AlsoOpenAI = keyof GenerateRequest & keyof Omit<ChatCompletionRequest, "foretoken" | "top_k">;

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
  /** In UTF-8; null for a token that shows no text. */
  bytes: number[] | null;
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
  foretoken: Account;
}

/** How an answer was decoded; `stats` are summed over its texts. */
export interface Account extends Pick<Result, "unchecked"> {
  policy: string;
  /** Of the first text; the next ones have the numbers after it. */
  seed: number;
  device: string;
  /** The server's wait for its turns; 0 here. */
  queue_ms: number;
  stats: Stats;
}

/** A complete answer. */
export interface ChatCompletion {
  id: string;
  object: "chat.completion";
  /** Seconds since 1970. */
  created: number;
  model: string;
  /** Of what decides the bits: model, types, device. */
  system_fingerprint: string;
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

/** A function that the model may call. */
export interface Tool {
  type: "function";
  function: {
    name: string;
    description?: string;
    /** JSON Schema of the arguments. The model sees it; decoding enforces it only if `tool_choice` requires a call. */
    parameters?: object;
    /** Ignored. */
    strict?: boolean | null;
  };
}

/** A call that the model made. */
export interface ToolCall {
  id: string;
  type: "function";
  /** `arguments` is the JSON text that the model wrote, without white space; validate it before use. */
  function: { name: string; arguments: string };
}
