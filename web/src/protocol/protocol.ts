/**
 * The two interfaces of the worker: the object that Go installs on its global scope ({@link GoEngine}), and the
 * messages between worker and page. Go passes structured data as JSON text, once a round; the worker forwards the
 * text without parsing it, and the page parses it.
 */
import type { DeviceChoice } from "./devices.ts";
import type { Exactness, GenerateRequest, Result, Stats } from "./generation.ts";
import type { BenchMatrix, Measurement } from "./measurements.ts";
import type { RequestSettings } from "./settings.ts";

export type { DeviceChoice } from "./devices.ts";
export type * from "./generation.ts";
export type * from "./measurements.ts";
export type { RequestSettings } from "./settings.ts";

/**
 * Whether the browser caches a download. "first" reads a complete copy without a request; "check" asks the server
 * whether the file changed; "auto" means "check" for the page's own origin and this machine, else "first"; "off"
 * caches nothing.
 */
export type Keep = "auto" | "first" | "check" | "off";

/** Where a model's bytes come from, in a form that can be cloned. A URL may stand for all files of one model. */
export type SourceSpec =
  | { kind: "url"; url: string; sha256?: string; cache?: Keep; optional?: boolean }
  | { kind: "file"; file: Blob; name: string }
  | { kind: "files"; files: SourceSpec[] };

/** A file that Go reads by ranges. */
export interface Source {
  readonly name: string;
  readonly size: number;
  /** Reads exactly `length` bytes from `offset`, or rejects. The caller owns the array; Go may detach its buffer. */
  read(offset: number, length: number): Promise<Uint8Array>;
  /** Returns an array of `read` for reuse; without it, loading allocates a copy of the file as garbage. */
  release?(bytes: Uint8Array): void;
}

/** The files to open; only the target is required. `M` is the type of a model, which may have several files. */
export interface Sources<S, M = S> {
  target: M;
  draft: M | null;
  /** An EAGLE-3 head: its GGUF file, or its safetensors file and its config.json. */
  eagle3: S | null;
  eagle3_config: S | null;
  /** Calibrations, classifiers and acceptance heads trained for the pair. */
  calibrations: S[];
}

export type OpenedSources = Sources<Source, Source | Source[]>;

/** The sources passed to Go. `again` reopens the files, so that Go can reload the models after a lost device. */
export type OpenSources = OpenedSources & { again?: () => Promise<OpenedSources & { close(): void }> };

/** The object that Go installs as `foretokenEngine`. Every promise rejects with an Error of one line. */
export interface GoEngine {
  open(optionsJSON: string, sources: OpenSources, onProgress: (json: string) => void): Promise<string>;
  generate(requestJSON: string, onEvent: (json: string) => void, ask?: Ask): Promise<string>;
  /** Runs a {@link ChatAction}; resolves with a {@link ChatReply} for an answer, else with a {@link ChatState}. */
  chat(actionJSON: string, onEvent: (json: string) => void, ask?: Ask): Promise<string>;
  /** Resolves with the rounds of the last generation or answer: a trace in base64, as JSON. */
  trace(): Promise<string>;
  /**
   * Answers a request of OpenAI's API, independently of the conversation; resolves with an {@link OpenAIAnswer}.
   * `onLine` gets the lines of a stream.
   */
  openai(bodyJSON: string, path: string, onLine: (line: string) => void): Promise<string>;
  /** Embeds texts; resolves with a list of {@link Embedding}. */
  embed(requestJSON: string): Promise<string>;
  /** Runs a {@link BenchMatrix}; resolves with a {@link BenchReport}, which is partial if the run was stopped. */
  bench(planJSON: string, onUpdate: (json: string) => void): Promise<string>;
  /** Runs a {@link Measurement}; resolves with a {@link CostReport}, {@link ProfileReport} or {@link DoctorReport}. */
  measure(measurementJSON: string, onUpdate: (json: string) => void): Promise<string>;
  /** Resolves with the {@link Catalog}. */
  methods(): Promise<string>;
  /** Makes a running `generate` resolve with finish "aborted" within a round, and ends a running `bench`. */
  stop(): void;
  inspect(source: Source): Promise<string>;
  close(): Promise<void>;
}

/** Asks the page's {@link LogitsProcessor}: texts as JSON, resolves with the answer as JSON. */
export type Ask = (textsJSON: string) => Promise<string>;

/** A method's settings under Go's names; an empty name means "fixed", "model" or "match". */
export interface MethodConfig {
  drafter: string;
  source: string;
  adapt: string;
  verifier: string;
  depth: number;
  top_k: number;
  nodes: number;
  shape?: number[][] | undefined;
  ngram_max: number;
  ngram_min: number;
}

/** A method that a request's `policy` can name. */
export interface Method {
  name: string;
  title: string;
  lossy: boolean;
  config: MethodConfig;
  /** The method drafts with a model or an EAGLE-3 head. */
  uses_draft: boolean;
  /** The fields of its drafter's settings. */
  settings: string[];
}

/** The bounds of a number in requests. `zero` says what 0 stands for; without it 0 is a value like others. */
export interface Limit {
  least: number;
  most: number;
  zero?: string;
}

/** A row of Go's table of settings. Only numbers whose `most` is above their `least` have bounds. */
export interface Setting extends Limit {
  name: keyof RequestSettings;
  group: "method" | "parts" | "sampling" | "filters" | "constraints" | "output";
  help: string;
  /** In TypeScript. */
  type: string;
  /** The numbers are whole. */
  whole?: true;
  choices?: string[];
  /** What a missing value stands for; without it the default request has the value. */
  unset?: string;
  /** The adapters and verifiers that read it; without it all methods do, or those that list it. */
  for?: string[];
  /** Adapters that ignore it. */
  except?: string[];
  /** In forms, which leave out settings without one. */
  label?: string;
  unit?: string;
  /** Of the arrows in forms. */
  step?: number;
}

/** All methods and settings, and the request that Go uses as default. */
export interface Catalog {
  default: Required<RequestSettings>;
  methods: Method[];
  verifiers: { name: string; exactness: Exactness }[];
  /** `need` says what has to be fitted to the models, and which command does it. */
  adapts: { name: string; need?: string }[];
  settings: Setting[];
}

export interface OpenOptions {
  device: DeviceChoice;
  context?: number;
  kv?: "f32" | "f16" | "q8";
  /** Limit of the models' memory on the device, in bytes; 0 or absent means no limit. */
  max_memory?: number;
  /** The most `top_logprobs` that a request can ask for. */
  candidates?: number;
  /** Seconds that a call waits before it treats the device as hung and reopens it; default 30, in software 300. */
  device_timeout?: number;
  /** Threads of the cpu device, 1 to 64; 0 or absent means one per core, at most eight. */
  threads?: number;
  /** Nodes of the largest tree that can be verified, including the root; default 64. */
  max_nodes?: number;
  /** The models are the built-in pair; the Go program contains its calibrations. */
  builtin_calibrations?: boolean;
  /** Converts matrices to this type, instead of storing them in the type of the file. */
  quantise?: Quantise;
  /** Converts the matrices of an EAGLE-3 head to this type. */
  eagle3_quantise?: HeadQuantise;
}

export type HeadQuantise = "q8_0" | "q4_k";

export type Quantise = "f32" | "f16" | "bf16" | "q8_0" | "q4_0";

/**
 * A step of loading. `done` and `total` are bytes for "download", "target", "draft" and "eagle3", and counts for
 * other stages; the total of a download is 0 while it is unknown. "memory" comes before any model is loaded: `total` is
 * the bytes that the models will take on the device, and the note lists them. "lost" can come at any time: the device
 * was lost for the reason in the note, and the models are reloaded, which ends with another "ready". A "notice" has
 * only a note for the user, for example that a cached file was out of date.
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
  /** Threads of the cpu device; 0 for other devices. */
  threads: number;
  features: string[];
  /** Why "auto" took no GPU, or empty: a few words, a colon and the details. */
  note: string;
}

export interface ModelInfo {
  name: string;
  architecture: string;
  parameters: number;
  quant: string;
  /** Of the hidden states and of embeddings. */
  width: number;
  context: number;
  vocab: number;
}

export interface EngineInfo {
  device: DeviceInfo;
  target: ModelInfo;
  draft: ModelInfo | null;
  eagle3: ModelInfo | null;
  /** What was trained for the pair: entropy bins for each tree, a C2T classifier, an acceptance head. */
  fitted: { hetero: { depth: number; top_k: number; nodes: number }[]; c2t: boolean; acceptance: boolean };
  /** The kernel variant selected for each tensor shape. */
  kernels: Record<string, string>;
  /** Whether the target's chat template can be rendered, and the reason if not. */
  chat: { ok: boolean; problem: string };
  /** Whether the target's vocabulary has tokens for filling in the middle, like most models for code. */
  code: boolean;
  load_ms: number;
  gpu_bytes: number;
}

export type Role = "system" | "user" | "assistant" | "tool";

export interface Message {
  role: Role;
  content: string;
  /** The content where it came as a list of texts; it takes the place of `content`. */
  parts?: string[];
  name?: string;
  tool_calls?: unknown[];
  tool_call_id?: string;
}

/** The start of a conversation. */
export interface ChatOptions {
  system?: string;
  /** Earlier messages to continue from, after the system message. */
  messages?: Message[];
  /** A chat template in Jinja that replaces the one in the target's file. */
  template?: string;
  /** Functions that the template describes to the model, and more variables of the template (`enable_thinking`). */
  tools?: object[];
  vars?: Record<string, unknown>;
  /** Positions of the context reserved for a reply; default a quarter of it, or `max_tokens` if that is less. */
  reserve?: number;
}

/** The actions of a conversation; an engine has one conversation at a time. */
export type ChatAction =
  | ({ do: "open" } & ChatOptions)
  | { do: "send"; message: Message; request: AnswerRequest }
  | { do: "regenerate"; request: AnswerRequest }
  | { do: "edit"; index: number; content: string; request: AnswerRequest };

/** `asks` as in "generate". */
type AnswerRequest = Omit<GenerateRequest, "prompt"> & { asks?: true };

export interface ChatState {
  messages: Message[];
  /** How many messages after the system message were dropped from the context because it is full. */
  unseen: number;
  /** A note for the user about the chat template, or empty. */
  note: string;
}

export interface ChatReply extends ChatState {
  /** The result of the answer; `text` is the content of the last message. */
  result: Result;
  /** How many turns were dropped from the context for this answer. */
  dropped: number;
}

/** How {@link Engine.embed} makes one vector of a text's hidden states. */
export interface Pooling {
  /** The mean over all positions, or the last one; default what the target's file says (pooling_type), or "mean". */
  pooling?: "mean" | "last" | undefined;
  /** Leaves the vector's length as it is; otherwise it is 1. */
  raw?: boolean | undefined;
}

export interface EmbedRequest extends Pooling {
  texts: readonly string[];
}

/** A text as a vector. */
export interface Embedding {
  /** `info.target.width` numbers. */
  vector: number[];
  /** Tokens of the text. */
  tokens: number;
}

/** The header of a model file, from {@link Engine.inspect}. */
export interface Inspection {
  name: string;
  /** Bytes of the file. */
  size: number;
  /** The version of the GGUF format. */
  version: number;
  /** The header's metadata as text; long lists are truncated. */
  metadata: Record<string, string>;
  /** `dims` starts with the fastest dimension; `size` is in bytes. */
  tensors: { name: string; type: string; dims: number[]; size: number }[];
  /** Why the model is not supported, or empty. */
  problem: string;
}

/** The answer to a request of OpenAI's API. */
export interface OpenAIAnswer {
  /** As HTTP has it. */
  status: number;
  /** JSON; empty for a stream, whose lines came before. */
  body: string;
  /** The method that drafted, and the statistics of all texts; of a request that generated. */
  policy: string;
  stats?: Stats;
}

declare const written: unique symbol;

/** JSON text of what a caller passed, made and checked by textOf. */
export type JSONText = string & { readonly [written]: true };

/** Messages from page to worker. The worker answers each message once, with its id, except "start" and "stop". */
export type ToWorker =
  /** Starts the engine and opens WebGPU before any model is known. */
  | { op: "start"; webgpu: boolean }
  /**
   * `hosts` are the origins that the worker may ask besides its own. `lock` names a Web Lock that the worker takes and
   * keeps, if it can; see "alive".
   */
  | {
      op: "open";
      id: number;
      /** {@link OpenOptions}. */
      options: JSONText;
      sources: Sources<SourceSpec>;
      hosts: readonly string[];
      lock?: string | undefined;
    }
  /**
   * `request` is a {@link GenerateRequest}, whose `asks` says that the page answers "ask" with its
   * {@link LogitsProcessor}, `action` a {@link ChatAction}, and so on.
   */
  | { op: "generate"; id: number; request: JSONText }
  | { op: "chat"; id: number; action: JSONText }
  | { op: "trace"; id: number }
  /** A request of OpenAI's API, to be sent to `path`; each "update" carries lines of a stream. */
  | { op: "openai"; id: number; path: string; body: JSONText }
  | { op: "embed"; id: number; request: JSONText }
  | { op: "bench"; id: number; matrix: JSONText }
  | { op: "measure"; id: number; measurement: JSONText }
  | { op: "methods"; id: number }
  | { op: "inspect"; id: number; source: SourceSpec; hosts: readonly string[] }
  | { op: "close"; id: number }
  | { op: "answer"; id: number; json: string }
  | { op: "answer"; id: number; error: string }
  | { op: "stop" };

/**
 * Messages from worker to page. "update" carries progress or rounds, each as JSON; "crash" ends the engine; "alive"
 * says that the worker holds its lock. When the page gets that lock, the worker has ended.
 */
export type FromWorker =
  | { type: "update"; id: number; json: string[] }
  | { type: "ask"; id: number; json: string }
  | { type: "done"; id: number; json: string }
  | { type: "error"; id: number; error: WireError }
  | { type: "crash"; error: WireError }
  | { type: "alive"; lock: string };

/** An error in a message; the page makes a {@link ForetokenError} of it. */
export interface WireError {
  code?: string;
  message: string;
  param?: string;
}

/** The common interface of both ends of a worker; MessagePort and Worker satisfy it. */
export interface Channel<In, Out> {
  postMessage(message: Out): void;
  addEventListener(type: "message", listener: (event: { data: In }) => void): void;
}
