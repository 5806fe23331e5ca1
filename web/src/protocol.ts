/**
 * The two contracts of the worker: what Go installs on its global scope
 * ({@link GoEngine}), and the messages it exchanges with the page.
 * Structured data crosses from Go as JSON text, once a round; the worker passes
 * the text on unparsed and the page parses it.
 */
import type { BenchPlan, Measurement } from "./measuring.ts";

export type * from "./measuring.ts";

/**
 * Whether a download is kept in the browser. "first": once it is complete, no
 * server is asked again; "check": the server is asked whether the file changed;
 * "auto": "check" for files beside the page and on this machine, else "first".
 */
export type Keep = "auto" | "first" | "check" | "off";

/** Where a model's bytes come from; survives structured cloning. A URL may stand for several files that belong together. */
export type SourceSpec =
  | { kind: "url"; url: string; sha256?: string; cache?: Keep; optional?: boolean }
  | { kind: "file"; file: Blob; name: string }
  | { kind: "files"; files: SourceSpec[] };

/** Ranged bytes, as Go reads them. */
export interface Source {
  readonly name: string;
  readonly size: number;
  /** Reads exactly `length` bytes from `offset`, or rejects. The array is the caller's own: Go detaches its buffer. */
  read(offset: number, length: number): Promise<Uint8Array>;
  /** Takes an array back that `read` gave, to be given again: loading would leave a copy of the file as garbage. */
  release?(bytes: Uint8Array): void;
}

/** What a pair is opened with; everything but the target may be missing. `M`: a model may be several files. */
export interface Sources<S, M = S> {
  target: M;
  draft: M | null;
  /** An EAGLE-3 head's safetensors file, and the config.json published beside it. */
  eagle3: S | null;
  eagle3_config: S | null;
  /** Calibrations and classifiers fitted to the pair. */
  calibrations: S[];
}

/** What Go opens a pair with; `again` opens the files once more, for models that have to be loaded anew after the device was lost. */
export type OpenSources = Sources<Source, Source | Source[]> & { again?: () => Promise<Sources<Source, Source | Source[]> & { close(): void }> };

/** What Go installs as `foretokenEngine`. Every promise rejects with a one-line Error. */
export interface GoEngine {
  open(optionsJSON: string, sources: OpenSources, onProgress: (json: string) => void): Promise<string>;
  generate(requestJSON: string, onEvent: (json: string) => void): Promise<string>;
  /** Does a {@link ChatAction}; resolves with a {@link ChatState}, after an answer with a {@link ChatReply}. */
  chat(actionJSON: string, onEvent: (json: string) => void): Promise<string>;
  /** Measures a {@link BenchPlan}; resolves with a {@link BenchReport}, of what there is when stopped. */
  bench(planJSON: string, onUpdate: (json: string) => void): Promise<string>;
  /** Does a {@link Measurement}. */
  measure(measurementJSON: string, onUpdate: (json: string) => void): Promise<string>;
  /** The {@link Catalog}. */
  methods(): Promise<string>;
  /** Makes the running generate resolve with finish "aborted" within a round, or ends the running bench. */
  stop(): void;
  inspect(source: Source): Promise<string>;
  close(): Promise<void>;
}

export type DeviceChoice = "auto" | "webgpu" | "cpu";
export type Finish = "eos" | "length" | "context" | "stop" | "aborted";
/** "relaxed" tokens were drafted and accepted by a lossy verifier although the target chose another. */
export type TokenKind = "plain" | "accepted" | "relaxed" | "corrected" | "bonus";
/** Whether the output has plain decoding's tokens, only their distribution, or neither. */
export type Exactness = "exact" | "distribution" | "lossy";

/** A method's settings, as the Go program names them; empty names are "fixed", "model" and "match". */
export interface MethodConfig {
  drafter: string;
  source: string;
  adapt: string;
  verifier: string;
  depth: number;
  top_k: number;
  nodes: number;
  shape?: number[][];
  ngram_max: number;
  ngram_min: number;
}

/** A name that a request's `policy` may have. */
export interface Method {
  name: string;
  title: string;
  lossy: boolean;
  config: MethodConfig;
  /** It drafts with a model or an EAGLE-3 head. */
  uses_draft: boolean;
}

/** The methods there are, and the request that one without settings is. */
export interface Catalog {
  default: Omit<Required<GenerateRequest>, "prompt" | "no_reuse">;
  methods: Method[];
  verifiers: { name: string; exactness: Exactness }[];
  adapts: string[];
  sources: string[];
  schedules: string[];
  modes: string[];
  variants: string[];
}

export interface OpenOptions {
  device: DeviceChoice;
  context?: number;
  /** The context may be longer than the models were trained for. */
  beyond_training?: boolean;
  kv?: "f32" | "f16" | "q8";
  /** Bytes that the models may take on the device; 0 or nothing: as many as it gives. */
  max_memory?: number;
  /** How many of the likeliest tokens can be told of every position. */
  candidates?: number;
  /** Seconds that a call waits for the device before it is taken to hang, and opened anew; 30 unless told. */
  device_timeout?: number;
  /** The largest tree that can be verified, the root included; 64 unless told. */
  max_nodes?: number;
  /** The models are the built-in pair, whose calibrations are part of the program. */
  builtin_calibrations?: boolean;
  /** The type that matrices are stored in, instead of the files' own. */
  quantise?: Quantise;
}

export type Quantise = "f32" | "f16" | "bf16" | "q8_0" | "q4_0";

/**
 * `done` and `total` are bytes for "download", "target", "draft" and "eagle3",
 * counts otherwise. Of "memory", before anything is loaded, `total` is the bytes that will be
 * taken on the device and the note says for what. "lost" comes at any time: the device was lost for the reason noted, and the models
 * are loaded again, up to another "ready". A "notice" has only its note: something the user should
 * know of a file, such as that a kept copy was out of date.
 */
export interface Progress {
  stage: "download" | "memory" | "target" | "draft" | "eagle3" | "kernels" | "tuning" | "ready" | "lost" | "notice";
  done: number;
  total: number;
  note?: string;
}

export interface DeviceInfo {
  backend: string;
  adapter: string;
  vendor: string;
  architecture: string;
  driver: string;
  software: boolean;
  features: string[];
  /** Why a fallback was taken; may be empty. */
  note: string;
}

export interface ModelInfo {
  name: string;
  architecture: string;
  parameters: number;
  quant: string;
  context: number;
  vocab: number;
}

export interface EngineInfo {
  device: DeviceInfo;
  target: ModelInfo;
  draft: ModelInfo | null;
  eagle3: ModelInfo | null;
  /** What was fitted to the pair: entropy bins by tree, a C2T classifier, an acceptance head. */
  fitted: { hetero: { depth: number; top_k: number; nodes: number }[]; c2t: boolean; acceptance: boolean };
  /** The kernel variant chosen for each tensor shape. */
  kernels: Record<string, string>;
  /** Whether the target's file has a chat template that can be rendered, and if not why not. */
  chat: { ok: boolean; problem: string };
  load_ms: number;
  gpu_bytes: number;
}

/** A request; what is left out is the default's, or the method's own where `policy` names one. */
export interface GenerateRequest {
  prompt: string;
  max_tokens?: number;
  temperature?: number;
  seed?: number;
  top_k_sampling?: number;
  top_p?: number;
  min_p?: number;
  /** A name of {@link Catalog.methods}; the fields after it override the method's own. */
  policy?: string;
  /** What adapts the draft. */
  adapt?: string;
  /** Where drafted tokens come from: "model" or "eagle3". */
  source?: string;
  /** "match" is exact, "rejection" and "without-replacement" in distribution, "mars" and "adasd" are lossy. */
  verifier?: string;
  /** Levels drafted per round, beams per level, and nodes verified (root included). */
  depth?: number;
  top_k?: number;
  nodes?: number;
  /** Of static and sampled trees: how many children the node of each rank has, level by level. */
  shape?: number[][];
  ngram_max?: number;
  ngram_min?: number;
  /** Draft with the target's own Gumbel noise at temperature > 0; on unless false. */
  coupled?: boolean | null;
  /** Assisted generation: confidence. AdaEDL: bound. C2T: β. Acceptance head: h, 0 for measured costs. */
  threshold?: number;
  /** AdaEDL's λ. */
  lambda?: number;
  /** Of assisted generation. */
  schedule?: string;
  /** The acceptance head stops as soon as one branch is hopeless. */
  any?: boolean;
  /** HeteroSpec without a part of it; `alpha` is added to its α. */
  no_extension?: boolean;
  no_pruning?: boolean;
  no_adaptation?: boolean;
  alpha?: number;
  /** C2T without its second pruning. */
  one_pruning?: boolean;
  /** MARS: θ, the cap on the gap in nats (0: none), and the mode. */
  theta?: number;
  gap?: number;
  mode?: string;
  /** AdaSD: how the threshold is made, and whether it is kept from request to request. */
  variant?: string;
  carry?: boolean;
  stop?: string[] | null;
  /** Tell the log-probability of each token, and of the likeliest ones in its place. */
  logprobs?: boolean;
  top_logprobs?: number;
  /** Hold the text to a grammar in GBNF, a JSON Schema or any JSON object: one of them. */
  grammar?: string;
  json_schema?: object;
  json_object?: boolean;
  /** Taken off a token's logit as often as the text holds it, and once if it does; -2 to 2. */
  frequency_penalty?: number;
  presence_penalty?: number;
  /** By token id, what is added to its logit: -100 (never) to 100. */
  logit_bias?: Record<string, number>;
  /** Prefill the whole prompt, whatever the models hold of earlier requests; the text is the same. */
  no_reuse?: boolean;
}

/** One committed token and where it came from. `depth` is its depth in the draft tree, 0 for none. */
export interface EventToken {
  id: number;
  text: string;
  kind: TokenKind;
  depth: number;
  /** Where log-probabilities were asked for: the token's own text, ln of its probability, and the likeliest in its place, best first. */
  piece?: string;
  logprob?: number;
  top?: { id: number; text: string; logprob: number }[];
}

/** The tree verified in a round; `parents` are node indices, -1 below the root. */
export interface EventTree {
  tokens: number[];
  texts: string[];
  parents: number[];
  depths: number[];
  scores: number[];
  /** Indices of the accepted nodes. */
  accepted: number[];
  /** Those of them that the target had not chosen. */
  relaxed: number[];
  /** Of what the target says after each node, in nats; empty where the verifier does not tell. */
  entropies: number[];
  /** Likewise of the draft, -1 for nodes that it was not asked about. */
  draft_entropies: number[];
  /**
   * The best of what was drafted and not verified, by score, each after its parent: a node of the tree or, from the
   * tree's length on, one of this list. `total` is how many there were.
   */
  pruned: { tokens: number[]; texts: string[]; parents: number[]; scores: number[]; total: number };
}

/** Milliseconds; `readback`, the wait for results, is a part of `draft` and `verify`. */
export interface RoundTimes {
  draft: number;
  verify: number;
  readback: number;
  host: number;
}

/**
 * What one round brought; `text` never ends inside a UTF-8 sequence. The last
 * event may close a generation without a round, with no tokens and no tree.
 */
export interface RoundEvent {
  round: number;
  text: string;
  tokens: EventToken[];
  tree: EventTree;
  /** HeteroSpec's entropy bin of the round, from 1, and Φ of its meta-path in nats. */
  bin?: number;
  phi?: number;
  /** It decoded plainly because drafting was still being prepared. */
  warming?: boolean;
  ms: RoundTimes;
  elapsed_ms: number;
  finish?: Finish;
}

export interface Stats {
  calls: number;
  rounds: number;
  tokens_verified: number;
  committed: number;
  drafted: number;
  accepted: number;
  /** Accepted although the target had chosen another token. */
  relaxed: number;
  /** Rounds that decoded plainly because the kernels of drafting were still being compiled. */
  warming?: number;
  /** How often the device was lost and replaced meanwhile. */
  recoveries?: number;
  /** What that took, with the steps that failed; in none of the other times. */
  recovery_ms?: number;
  /** A verifier took part that may commit tokens that the target would not have chosen. */
  lossy: boolean;
  /** What fell in each of HeteroSpec's entropy bins. `tcr` counts rounds by rank of the last accepted node. */
  bins?: { rounds: number; tokens_verified: number; accepted: number; full: number; tcr: number[]; phi: number[] }[];
  /** Committed tokens per target pass, bonus included. */
  acceptance_length: number;
  acceptance_per_depth: number[];
  draft_acceptance: number;
  ms_per_round: RoundTimes;
  ttft_ms: number;
  /** Tokens of the prompt; of them, those held from an earlier request, and those prefilled. */
  prompt_tokens: number;
  reused: number;
  prefilled: number;
  prefill_tok_s: number;
  decode_tok_s: number;
  total_ms: number;
}

export interface Result {
  text: string;
  prompt_ids: number[];
  token_ids: number[];
  finish: Finish;
  stats: Stats;
}

export type Role = "system" | "user" | "assistant" | "tool";

export interface Message {
  role: Role;
  content: string;
  name?: string;
  tool_calls?: unknown[];
  tool_call_id?: string;
}

/** What a conversation begins with. */
export interface ChatOptions {
  system?: string;
  /** A conversation to go on with, after the system message. */
  messages?: Message[];
  /** A chat template in Jinja, instead of the one in the target's file. */
  template?: string;
  /** Functions that the model is told of, and further variables of the template (`enable_thinking`). */
  tools?: object[];
  vars?: Record<string, unknown>;
  /** Positions of the context that a reply is given at least; a quarter of it, or `max_tokens` if that is less, unless told. */
  reserve?: number;
}

/** What one answer beside a conversation is made of. */
export interface AnswerOptions extends ChatOptions {
  /** The answer is one call: of any of the tools, or of the one that is named. */
  tool_choice?: "required" | { type: "function"; function: { name: string } };
}

/** What a conversation can be asked for; an engine has one conversation at a time. */
export type ChatAction =
  | ({ do: "open" } & ChatOptions)
  /** Answers the last of the messages, beside the conversation there may be. */
  | ({ do: "complete"; request: Omit<GenerateRequest, "prompt"> } & AnswerOptions)
  | { do: "send"; message: Message; request: Omit<GenerateRequest, "prompt"> }
  | { do: "regenerate"; request: Omit<GenerateRequest, "prompt"> }
  | { do: "edit"; index: number; content: string; request: Omit<GenerateRequest, "prompt"> };

export interface ChatState {
  messages: Message[];
  /** How many messages after the system's the model no longer sees: the context is full. */
  unseen: number;
  /** What is to be known of the template, or empty. */
  note: string;
}

export interface ChatReply extends ChatState {
  /** Of the answer; `text` is the last message's content. */
  result: Result;
  /** How many turns this answer was the first not to see. */
  dropped: number;
}

/** A model file's header, as {@link Engine.inspect} tells it. */
export interface Inspection {
  name: string;
  /** Bytes of the file. */
  size: number;
  /** Of the GGUF format. */
  version: number;
  /** What the header says, each value in words; long lists are cut. */
  metadata: Record<string, string>;
  /** `dims` begins with the fastest one; `size` is in bytes. */
  tensors: { name: string; type: string; dims: number[]; size: number }[];
  /** Why the model cannot be run, or empty. */
  problem: string;
}

/** Page to worker. Every message but "start" and "stop" is answered once with its id. */
export type ToWorker =
  /** Starts the engine, and opens WebGPU, before there is anything to open. */
  | { op: "start"; webgpu: boolean }
  /** `lock` names a Web Lock that the worker holds from now on, if it can: see "alive". */
  | { op: "open"; id: number; options: OpenOptions; sources: Sources<SourceSpec>; lock?: string | undefined }
  | { op: "generate"; id: number; request: GenerateRequest }
  | { op: "chat"; id: number; action: ChatAction }
  | { op: "bench"; id: number; plan: BenchPlan }
  | { op: "measure"; id: number; measurement: Measurement }
  | { op: "methods"; id: number }
  | { op: "inspect"; id: number; source: SourceSpec }
  | { op: "close"; id: number }
  | { op: "stop" };

/**
 * Worker to page. "update" carries a progress or round as JSON; "crash" ends the engine; "alive" says that the worker
 * holds the lock it was given: whoever gets the lock knows that the worker is gone.
 */
export type FromWorker =
  | { type: "update"; id: number; json: string }
  | { type: "done"; id: number; json: string }
  | { type: "error"; id: number; error: WireError }
  | { type: "crash"; error: WireError }
  | { type: "alive"; lock: string };

/** A failure on its way to the page: what {@link ForetokenError} is made of. */
export interface WireError {
  code?: string;
  message: string;
  param?: string;
}

/** What both ends of a worker offer; MessagePort and Worker fit. */
export interface Channel<In, Out> {
  postMessage(message: Out): void;
  addEventListener(type: "message", listener: (event: { data: In }) => void): void;
}
