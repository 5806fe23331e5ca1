/** What benchmarks and measurements of costs are asked for and tell, as JSON text in the contracts of protocol.ts. */
import type { GenerateRequest } from "./protocol.ts";

/** A text for a benchmark; without a category it is the id up to its last dash. */
export interface BenchPrompt {
  id: string;
  prompt: string;
  category?: string;
}

/** A benchmark: methods × prompts × repetitions, each against plain decoding in the same run. */
export interface BenchPlan {
  /** Names with settings after a colon, as the command line takes them: "none,eagle2:depth=4,mars:theta=0.84". */
  methods: string;
  prompts: BenchPrompt[];
  repeat: number;
  /** Length and sampling of methods that do not set their own. */
  request?: Omit<GenerateRequest, "prompt">;
  /** Leaves out the target's loss on the outputs. */
  no_score?: boolean;
}

/** A mean over repetitions; not measured where `n` is 0. */
export interface Measure {
  mean: number;
  sd: number;
  n: number;
}

/** A method on one category, or on all prompts ("" ). */
export interface BenchRow {
  method: string;
  category: string;
  lossy: boolean;
  plain: boolean;
  temperature: number;
  prompts: number;
  speedup: Measure;
  speed_ratio: Measure;
  tok_s: Measure;
  acceptance_length: Measure;
  calls: Measure;
  tokens: Measure;
  output_tokens: Measure;
  drafted: Measure;
  accepted: Measure;
  relaxed: Measure;
  draft_ms: Measure;
  verify_ms: Measure;
  readback_ms: Measure;
  host_ms: Measure;
  same_prefix: Measure;
  same_place: Measure;
  loss: Measure;
  parses: Measure;
  judged: number;
  /** Cells that are in none of the times and speeds: the device was lost while they were measured. */
  lost?: number;
}

export interface BenchReport {
  device: string;
  target: string;
  draft: string;
  note?: string;
  rows: BenchRow[];
  missing?: { method: string; reason: string }[] | null;
  stopped: boolean;
}

/** How far a benchmark is; `rows` only where results have arrived. */
export interface BenchUpdate {
  done: number;
  total: number;
  /** The policy that runs. */
  now?: string;
  rows?: BenchRow[];
}

/**
 * What passes of the pair cost, for {@link CostReport}, or where their time goes, for
 * {@link ProfileReport}; what is left out is the program's default.
 */
export interface Measurement {
  what: "costs" | "profile";
  /** Rows of the target's passes, ascending; for a profile, of the one verification. */
  rows?: number[];
  /** Costs: of the draft's longest chain. */
  tokens?: number;
  /** Profile: of a level of the draft; methods whose rounds are counted, as in a {@link BenchPlan}, and what they continue. */
  beams?: number;
  methods?: string;
  prompt?: string;
  /** Timed passes of each kind, in turn; the median counts. */
  repeat?: number;
  /** Tokens that a pass finds in the cache. */
  length?: number;
  /** Costs: fewer tokens than `length`, after which the target's passes are timed too, in turn with the others. */
  shorter?: number[];
  /** Continued greedily, to see how many tokens the draft foresees. */
  prompts?: BenchPrompt[];
  max_tokens?: number;
}

/** A pass of `n` rows of the target, or a chain of `n` tokens of the draft; `ratio` is to the target's of one row. */
export interface PassCost {
  n: number;
  ms: number;
  ratio: number;
}

/** What chains of `k` tokens bring at most: tokens a round, and the speed over plain decoding. */
export interface ChainCeiling {
  k: number;
  tokens: number;
  speedup: number;
}

export interface CostReport {
  device: string;
  target: string;
  draft?: string;
  length: number;
  repeat: number;
  verify: PassCost[];
  /** The same after fewer tokens, for each of {@link Measurement.shorter}. */
  after?: { length: number; verify: PassCost[] }[];
  chain?: PassCost[];
  texts?: number;
  chains?: ChainCeiling[];
  best: ChainCeiling;
  prompts?: { prompt: string; category: string; best: ChainCeiling; chains: ChainCeiling[] | null }[];
}

/** What a pass or a round exchanges with the device, in the mean. */
export interface Traffic {
  submits: number;
  readbacks: number;
  bytes_written: number;
  bytes_read: number;
  /** Buffers, kernels and programs made. */
  creations: number;
}

/** Milliseconds; `kernel_ms` is the sum of the kernels, each timed alone. */
export interface PassProfile extends Traffic {
  name: string;
  ms: number;
  wait_ms: number;
  kernel_ms: number;
  dispatches: number;
  kernels: { kernel: string; groups: [number, number, number]; calls: number; ms: number; mean_ms: number; share: number }[];
}

/** A method's rounds in the mean; `cpu_ms` is the round less the wait for the device. */
export interface RoundProfile extends Traffic {
  method: string;
  rounds: number;
  tokens: number;
  ms: number;
  draft_ms: number;
  verify_ms: number;
  readback_ms: number;
  host_ms: number;
  cpu_ms: number;
  /** On Go's heap. */
  allocs: number;
  alloc_bytes: number;
}

export interface ProfileReport {
  device: string;
  target: string;
  draft?: string;
  length: number;
  /** "timestamps" are the device's own, "replays" submits of many of one kernel, "host" the host's references. */
  clock: string;
  passes: PassProfile[];
  rounds: RoundProfile[];
}
