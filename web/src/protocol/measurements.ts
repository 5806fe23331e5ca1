/** Plans and reports of benchmarks, cost measurements and profiles; protocol.ts passes them as JSON. */
import type { GenerateRequest } from "./generation.ts";

/** A prompt of a benchmark. The default category is the id up to its last dash. */
export interface BenchPrompt {
  id: string;
  prompt: string;
  category?: string;
}

/** A benchmark of methods × prompts × repetitions, each compared with plain decoding in the same run. */
export interface BenchMatrix {
  /** Method names with settings after a colon, as on the command line: "none,eagle2:depth=4,mars:theta=0.84". */
  methods: string;
  prompts: BenchPrompt[];
  repeat: number;
  /** Length and sampling for methods that do not set them. */
  request?: Omit<GenerateRequest, "prompt">;
  /** Skips measuring the target's loss on the outputs. */
  no_score?: boolean;
}

/** A mean over repetitions; `n` is 0 if it was not measured. */
export interface Measure {
  mean: number;
  sd: number;
  n: number;
}

/** A count `k` among `n` outputs with its interval of 95 %; `n` is 0 if it was not measured. */
export interface Proportion {
  k: number;
  n: number;
  low: number;
  high: number;
}

/** A method's figures for one category, or for all prompts (""). */
export interface BenchRow {
  method: string;
  category: string;
  lossy: boolean;
  plain: boolean;
  temperature: number;
  prompts: number;
  speedup: Measure;
  speed_ratio: Measure;
  decode_tok_s: Measure;
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
  edits: Measure;
  loss: Measure;
  exact: Proportion;
  parses: Proportion;
  type_checks: Proportion;
  /** Measurements excluded from times and speeds because the device was lost during them. */
  lost?: number;
}

export interface BenchReport {
  device: string;
  target: string;
  draft: string;
  note?: string;
  rows: BenchRow[];
  /** Failed methods (no prompt if before the first one), and prompts too long for the context (no method). */
  missing?: { method?: string; prompt?: string; reason: string }[] | null;
  stopped: boolean;
}

/** Progress of a benchmark; `rows` is set when there are new results. */
export interface BenchUpdate {
  done: number;
  total: number;
  /** The method that runs now. */
  now?: string;
  rows?: BenchRow[];
}

/**
 * A measurement of the cost of passes ({@link CostReport}), of its parts ({@link ProfileReport}), or of the device
 * ({@link DoctorReport}). Go supplies defaults for missing fields.
 */
export interface Measurement {
  what: "costs" | "profile" | "doctor";
  /** Rows of the target's passes, ascending. A profile takes one number: the rows of its verification. */
  rows?: number[];
  /** Costs: length of the draft's longest chain. */
  tokens?: number;
  /** Profile: beams of a level of the draft; the methods to profile, as in {@link BenchMatrix}; their prompt. */
  beams?: number;
  methods?: string;
  prompt?: string;
  /** Timed passes of each kind; the kinds alternate, and the report has medians. */
  repeat?: number;
  /** Tokens in the KV cache before a pass. */
  length?: number;
  /** Costs: shorter cache lengths at which the target's passes are timed too. */
  shorter?: number[];
  /** Prompts to continue greedily, to count the tokens that the draft predicts. */
  prompts?: BenchPrompt[];
  max_tokens?: number;
  /** Doctor: the browser's name for itself. */
  browser?: string;
}

/** A target pass of `n` rows or a draft chain of `n` tokens; `ratio` is relative to a target pass of one row. */
export interface PassCost {
  n: number;
  ms: number;
  ratio: number;
}

/** Upper bounds for chains of `k` tokens: tokens per round, and speedup over plain decoding. */
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
  /** The costs at each cache length of {@link Measurement.shorter}. */
  after?: { length: number; verify: PassCost[] }[];
  chain?: PassCost[];
  texts?: number;
  chains?: ChainCeiling[];
  best: ChainCeiling;
  prompts?: { prompt: string; category: string; best: ChainCeiling; chains: ChainCeiling[] | null }[];
}

/** Mean traffic of a pass or a round with the device. */
export interface Traffic {
  submits: number;
  readbacks: number;
  bytes_written: number;
  bytes_read: number;
  /** Buffers, kernels and programs created. */
  creations: number;
}

/** Times of a pass in milliseconds; `kernel_ms` sums the kernels, each timed alone. */
export interface PassProfile extends Traffic {
  name: string;
  ms: number;
  wait_ms: number;
  kernel_ms: number;
  dispatches: number;
  kernels: {
    kernel: string;
    groups: [number, number, number];
    calls: number;
    ms: number;
    mean_ms: number;
    share: number;
  }[];
}

/** Means over a method's rounds; `cpu_ms` is the round without the wait for the device. */
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
  /** Allocations on Go's heap. */
  allocs: number;
  alloc_bytes: number;
}

export interface ProfileReport {
  device: string;
  target: string;
  draft?: string;
  length: number;
  /** "timestamps" of the device, "replays" of one kernel many times in a submit, or "host" for kernels on the CPU. */
  clock: string;
  passes: PassProfile[];
  rounds: RoundProfile[];
}

/** A device, the choices for it and its speed; `foretoken doctor` writes the same report. */
export interface DoctorReport {
  format: string;
  program: { version: string; revision?: string; go: string; os: string; arch: string };
  browser?: string;
  adapter: {
    backend: string;
    name: string;
    vendor?: string;
    architecture?: string;
    driver?: string;
    type: "gpu" | "software";
    threads?: number;
    features: string[];
    limits: Record<string, number>;
  };
  /** The report in lines for people. */
  summary: string[];
  /** Kernels against references in float64: the largest difference as a part of the largest result. */
  checks: { kernel: string; worst: number; allowed: number; ok: boolean; error?: string }[];
  /** Products of a large matrix with `m` rows, by family of kernels. */
  products: {
    format: string;
    family: string;
    bytes: number;
    rows: { m: number; ms: number; ratio: number; gb_s: number; gflop_s: number }[];
    error?: string;
  }[];
  /**
   * Cpu device: how fast one thread and all threads read memory outside the caches; the bytes of weights that the
   * target's pass over one row reads, how fast it reads them, and the ratio of this speed to all threads' speed.
   */
  memory?: {
    bytes: number;
    one_gb_s: number;
    all_gb_s: number;
    weights: number;
    pass_gb_s: number;
    share: number;
    error?: string;
  };
  /** The kernels chosen for the matrices of each model, by class. */
  choices: Record<string, Record<string, string>>;
  costs: CostReport;
}
