/**
 * The two contracts of the worker: what Go installs on its global scope
 * ({@link GoEngine}), and the messages it exchanges with the page.
 * Structured data crosses from Go as JSON text, once a round; the worker passes
 * the text on unparsed and the page parses it.
 */

/** Where a model's bytes come from; survives structured cloning. */
export type SourceSpec = { kind: "url"; url: string } | { kind: "file"; file: Blob; name: string };

/** Ranged bytes, as Go reads them. */
export interface Source {
  readonly name: string;
  readonly size: number;
  /** Reads exactly `length` bytes from `offset`, or rejects. */
  read(offset: number, length: number): Promise<Uint8Array>;
}

/** What Go installs as `foretokenEngine`. Every promise rejects with a one-line Error. */
export interface GoEngine {
  open(optionsJSON: string, sources: { target: Source; draft: Source | null }, onProgress: (json: string) => void): Promise<string>;
  generate(requestJSON: string, onEvent: (json: string) => void): Promise<string>;
  /** Makes the running generate resolve with finish "aborted" within a round. */
  stop(): void;
  inspect(source: Source): Promise<string>;
  close(): Promise<void>;
}

export type DeviceChoice = "auto" | "webgpu" | "cpu";
export type Policy = "none" | "chain" | "eagle2" | "ngram";
export type Verifier = "match" | "rejection";
export type Finish = "eos" | "length" | "context" | "stop" | "aborted";
export type TokenKind = "plain" | "accepted" | "corrected" | "bonus";

export interface OpenOptions {
  device: DeviceChoice;
  context?: number;
  kv?: "f32" | "f16";
}

/** `done` and `total` are bytes for "target" and "draft", counts otherwise. */
export interface Progress {
  stage: "target" | "draft" | "kernels" | "tuning" | "ready";
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
  /** The kernel variant chosen for each tensor shape. */
  kernels: Record<string, string>;
  load_ms: number;
  gpu_bytes: number;
}

export interface GenerateRequest {
  prompt: string;
  max_tokens: number;
  temperature: number;
  seed: number;
  top_k_sampling?: number;
  top_p?: number;
  min_p?: number;
  policy: Policy;
  /** Levels drafted per round, beams per level, and nodes verified (root included). */
  depth: number;
  top_k: number;
  nodes: number;
  verifier: Verifier;
  /** Draft with the target's own Gumbel noise at temperature > 0; on unless false. */
  coupled?: boolean;
  stop?: string[];
}

/** One committed token and where it came from. `depth` is its depth in the draft tree, 0 for none. */
export interface EventToken {
  id: number;
  text: string;
  kind: TokenKind;
  depth: number;
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
  /** Committed tokens per target pass, bonus included. */
  acceptance_length: number;
  acceptance_per_depth: number[];
  draft_acceptance: number;
  ms_per_round: RoundTimes;
  ttft_ms: number;
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

/** Page to worker. Every message but "stop" is answered once with its id. */
export type ToWorker =
  | { op: "open"; id: number; options: OpenOptions; target: SourceSpec; draft: SourceSpec | null }
  | { op: "generate"; id: number; request: GenerateRequest }
  | { op: "inspect"; id: number; source: SourceSpec }
  | { op: "close"; id: number }
  | { op: "stop" };

/** Worker to page. "update" carries a progress or round as JSON; "crash" ends the engine. */
export type FromWorker =
  | { type: "update"; id: number; json: string }
  | { type: "done"; id: number; json: string }
  | { type: "error"; id: number; error: WireError }
  | { type: "crash"; error: WireError };

export interface WireError {
  code?: string;
  message: string;
}

/** What both ends of a worker offer; MessagePort and Worker fit. */
export interface Channel<In, Out> {
  postMessage(message: Out): void;
  addEventListener(type: "message", listener: (event: { data: In }) => void): void;
}
