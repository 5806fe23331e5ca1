/** Reads requests of OpenAI's API: which names and values they take, and what they mean to the engine. */
import type { AnswerOptions, Message } from "../protocol/protocol.ts";
import { checkSeed, type Settings, settingsOf } from "./generation.ts";
import type { ChatCompletionRequest, ChatMessage, ResponseFormat } from "./completion-types.ts";
import {
  type Check,
  checkFields,
  checkLimit,
  FLAG,
  membersOf,
  namesOf,
  shown,
  TEXT,
  typeName,
  wrong,
} from "./options.ts";
import { plain } from "./plain.ts";
import type { Tool } from "./tool-calls.ts";

/** A request that was read. */
export interface CheckedRequest {
  chat: AnswerOptions;
  request: Settings;
  n: number;
  seed: number | bigint;
  stream: boolean;
  logprobs: boolean;
  usage: boolean;
  tools: readonly Tool[];
  /** At most one call. */
  single: boolean;
}

const isObject = (value: unknown): boolean => typeof value === "object" && value !== null && !Array.isArray(value);
const OBJECT: Check = ["an object", isObject];
const LIST: Check = ["a list", Array.isArray];

/** The fields, with the checks of those that the program does not read under the same name. */
const CHECKS: Record<keyof ChatCompletionRequest, Check | undefined> = {
  messages: LIST,
  model: TEXT,
  stream: FLAG,
  stream_options: OBJECT,
  max_tokens: undefined,
  max_completion_tokens: undefined,
  temperature: undefined,
  top_p: undefined,
  seed: undefined,
  stop: ["a string or a list of strings", (value) => TEXT[1](value) || Array.isArray(value)],
  stop_token_ids: LIST,
  n: undefined,
  frequency_penalty: undefined,
  presence_penalty: undefined,
  logit_bias: OBJECT,
  logprobs: FLAG,
  top_logprobs: undefined,
  response_format: OBJECT,
  tools: LIST,
  tool_choice: ["auto, none, required or a function", (value) => TEXT[1](value) || isObject(value)],
  user: undefined,
  metadata: undefined,
  store: undefined,
  service_tier: undefined,
  safety_identifier: undefined,
  prompt_cache_key: undefined,
  parallel_tool_calls: FLAG,
  chat_template: TEXT,
  chat_template_kwargs: OBJECT,
  foretoken: OBJECT,
};

/** Fields for the account of a service; their values are not read. */
const IGNORED = ["user", "metadata", "store", "service_tier", "safety_identifier", "prompt_cache_key"] as const;

/** Reads a request. Throws a `bad_option` that names the field. */
export function read(given: ChatCompletionRequest): CheckedRequest {
  const note = "; put settings of this engine into foretoken";
  const members = membersOf(given, Object.keys(CHECKS), "", note);
  for (const name of IGNORED) delete members[name];
  const from = plain(members);
  checkFields(from, CHECKS);
  const { request } = settingsOf(from.foretoken ?? {});
  for (const name of ["temperature", "top_p", "frequency_penalty", "presence_penalty"] as const) {
    const value = from[name];
    if (value === null || value === undefined) continue;
    checkLimit(name, value);
    request[name] = value;
  }
  const lengths = (["max_completion_tokens", "max_tokens"] as const).flatMap((name) => integer(name, from[name], 1));
  if (lengths[0] !== lengths.at(-1))
    throw wrong("max_tokens", `is ${lengths.at(-1)}, and max_completion_tokens is ${lengths[0]}; give one of them`);
  if (lengths.length > 0) request.max_tokens = lengths[0]!;
  if (from.stop !== null && from.stop !== undefined)
    request.stop = typeof from.stop === "string" ? [from.stop] : [...from.stop];
  if (from.stop_token_ids) request.stop_token_ids = [...from.stop_token_ids];
  if (from.logit_bias) request.logit_bias = from.logit_bias;
  const logprobs = from.logprobs ?? false;
  const [top] = integer("top_logprobs", from.top_logprobs, 0);
  if (top && !logprobs) throw wrong("top_logprobs", "needs logprobs: true");
  if (logprobs) Object.assign(request, { logprobs, top_logprobs: top ?? 0 });
  format(from.response_format, request);
  const [n = 1] = integer("n", from.n, 1);
  checkLimit("n", n, { least: 1, most: 16 });
  const stream = from.stream ?? false;
  if (from.stream_options) {
    if (!stream) throw wrong("stream_options", "needs stream: true");
    membersOf(from.stream_options, STREAM_OPTIONS, "stream_options");
    checkFields(from.stream_options, { include_usage: FLAG }, "stream_options");
  }
  return {
    chat: {
      ...functions(from, request),
      messages: messages(from.messages),
      ...(from.chat_template ? { template: from.chat_template } : {}),
      ...(from.chat_template_kwargs ? { vars: from.chat_template_kwargs } : {}),
    },
    request,
    n,
    seed: seedOf(from.seed ?? from.foretoken?.seed),
    stream,
    logprobs,
    usage: from.stream_options?.include_usage ?? false,
    tools: (from.tool_choice === "none" ? null : from.tools) ?? [],
    single: from.parallel_tool_calls === false,
  };
}

const STREAM_OPTIONS = ["include_usage", "include_obfuscation"]; // streams are never obfuscated

/** Returns the whole number of a field, at least `low`, or an empty list if it is absent. */
function integer(param: string, value: unknown, low: number): number[] {
  if (value === null || value === undefined) return [];
  if (!Number.isSafeInteger(value) || (value as number) < low)
    throw wrong(param, `is ${typeName(value)}; want an integer of ${low} or more`);
  return [value as number];
}

/** Returns the seed, or a random one. As over HTTP it has 64 bits and may be negative. */
function seedOf(seed: number | bigint | null | undefined): number | bigint {
  if (seed === null || seed === undefined) return crypto.getRandomValues(new Uint32Array(1))[0]!;
  checkSeed(seed);
  const whole = typeof seed === "bigint" || Number.isInteger(seed);
  if (!whole || seed < -(2n ** 63n) || seed >= 2n ** 64n)
    throw wrong("seed", `is ${typeof seed === "bigint" ? seed : typeName(seed)}; want a whole number of 64 bits`);
  return seed;
}

/** Returns the seed of an answer: of each one higher than of the previous. */
export function seedAt(index: number, { seed }: CheckedRequest): number {
  const own = BigInt.asUintN(64, BigInt(seed) + BigInt(index));
  // Requests take a BigInt where a number would lose digits.
  return Number.isSafeInteger(Number(own)) ? Number(own) : (own as unknown as number);
}

/** Reads the tools and which of them to call. */
function functions(
  from: ChatCompletionRequest,
  request: Settings,
): Pick<AnswerOptions, "tools" | "tool_choice" | "parallel_tool_calls"> {
  (from.tools ?? []).forEach((tool, i) => {
    const at = `tools[${i}]`;
    const { type, function: of } = membersOf(tool, namesOf<Tool>({ type: true, function: true }), at);
    if (type !== "function" || !of) throw wrong(at, "must be a function with a name");
    membersOf(of, FUNCTION, `${at}.function`);
    if (!TEXT[1](of.name) || of.name === "") throw wrong(at, "must be a function with a name");
    checkFields(of, { description: TEXT, parameters: OBJECT, strict: FLAG }, `${at}.function`);
  });
  const choice = from.tool_choice ?? "auto";
  const tools = (choice === "none" ? null : from.tools) ?? [];
  if (typeof choice === "object") {
    membersOf(choice, ["type", "function"], "tool_choice");
    if (choice.function) membersOf(choice.function, ["name"], "tool_choice.function");
  }
  if (choice === "auto" || choice === "none") return tools.length > 0 ? { tools: [...tools] } : {};
  const named = typeof choice === "object" && choice.type === "function" ? choice.function?.name : undefined;
  if (choice !== "required" && !tools.some((tool) => tool.function.name === named))
    throw wrong("tool_choice", `is ${JSON.stringify(choice)}; want auto, none, required or one of the tools' names`);
  if (tools.length === 0) throw wrong("tool_choice", "requires a call, but there are no tools");
  if (request.json_object || request.json_schema || request.grammar)
    throw wrong("tool_choice", "requires a call, but the request already constrains the text; remove one of the two");
  return { tools: [...tools], tool_choice: choice, parallel_tool_calls: from.parallel_tool_calls === true };
}

const FUNCTION = ["name", "description", "parameters", "strict"];
const SCHEMA = ["name", "description", "strict", "schema"];

function format(from: ResponseFormat | null | undefined, to: Settings): void {
  if (!from) return;
  const { type, ...rest } = from as { type?: unknown; json_schema?: unknown };
  const types = ["text", "json_object", "json_schema"];
  if (typeof type !== "string" || !types.includes(type))
    throw wrong("response_format", `has the type ${typeName(type)}; want text, json_object or json_schema`);
  membersOf(rest, type === "json_schema" ? ["json_schema"] : [], "response_format", ` with the type ${type}`);
  if (type === "text") return;
  to.json_compact ??= true;
  if (type === "json_object") {
    to.json_object = true;
    return;
  }
  checkFields(rest, { json_schema: OBJECT }, "response_format");
  const of = membersOf<{ schema?: object }>(rest.json_schema ?? {}, SCHEMA, "response_format.json_schema");
  checkFields(of, { name: TEXT, description: TEXT, strict: FLAG, schema: OBJECT }, "response_format.json_schema");
  if (!of.schema) throw wrong("response_format", "has no json_schema.schema");
  to.json_schema = of.schema;
}

const ROLES = ["system", "developer", "user", "assistant", "tool"];

function messages(from: ChatCompletionRequest["messages"] | undefined): Message[] {
  if (!from?.length) throw wrong("messages", "must be a list of at least one message");
  return from.map(message);
}

const MESSAGE = ["role", "content", "name", "tool_calls", "tool_call_id"];

/** Reads a message. Other members are left out, because clients send back what an answer had. */
function message(from: ChatMessage, index: number): Message {
  const at = `messages[${index}]`;
  const { role, content, name, tool_calls, tool_call_id } = membersOf(from, undefined, at);
  for (const other of Object.keys(from)) {
    const known = other.toLowerCase();
    if (other !== known && MESSAGE.includes(known)) throw wrong(at, `has ${shown(other)}; did you mean ${known}?`);
  }
  if (!ROLES.includes(role)) throw wrong(at, `has the role ${typeName(role)}; want ${ROLES.join(", ")}`);
  checkFields({ name, tool_calls, tool_call_id }, { name: TEXT, tool_calls: LIST, tool_call_id: TEXT }, at);
  const text = (part: { type?: unknown; text?: unknown; refusal?: unknown } | null): string => {
    const said = part?.type === "text" ? part.text : part?.type === "refusal" ? part.refusal : undefined;
    if (typeof said !== "string") throw wrong(at, "has a part that is not text");
    return said;
  };
  const parts: unknown = content ?? "";
  if (typeof parts !== "string" && !Array.isArray(parts))
    throw wrong(at, `has the content ${typeName(parts)}, want a string or a list of parts`);
  return {
    role: role === "developer" ? "system" : role,
    ...(typeof parts === "string" ? { content: parts } : { content: "", parts: parts.map(text) }),
    ...(name == null ? {} : { name }),
    ...(tool_calls == null ? {} : { tool_calls: [...tool_calls] }),
    ...(tool_call_id == null ? {} : { tool_call_id }),
  };
}
