/** Totals over the generations of an engine. */
import type { DeviceInfo, EngineInfo, Stats } from "../protocol/protocol.ts";

/** The result of {@link Engine.stats}: totals over all finished and stopped generations since loading. */
export interface EngineStats {
  /** Generations, including answers of conversations and completions. */
  requests: number;
  /** Tokens of the prompts; of these, the tokens reused from the KV cache. */
  prompt_tokens: number;
  reused: number;
  /** How often the device was lost during a request and reopened. */
  recoveries: number;
  /** Generated tokens, rounds of drafting and verifying, and passes of the target. */
  tokens: number;
  rounds: number;
  calls: number;
  /** Drafted tokens, and how many of them the target accepted. */
  drafted: number;
  accepted: number;
  /** Tokens per pass of the target; 1 in plain decoding. */
  acceptance_length: number;
  /** Ratio of accepted to drafted tokens, 0 to 1. */
  draft_acceptance: number;
  /** Tokens per second of decoding. */
  tok_s: number;
  /** Milliseconds of loading, of generation, and of the phases of rounds; `draft` and `verify` include `readback`. */
  ms: { load: number; total: number; draft: number; verify: number; readback: number; host: number };
  /** Bytes of the models on the device. */
  memory: { gpu_bytes: number };
  /** The device that runs the models. */
  device: DeviceInfo;
  /** The method of the latest request, or the default method. */
  method: string;
  /** All statistics of the latest request. */
  last: Stats | undefined;
}

/** Adds up the statistics of requests. */
export class Totals {
  #requests = 0;
  #last: Stats | undefined;
  /** Sums by field of {@link Stats}; `ms_per_round` is multiplied by the rounds, and `decode` is in seconds. */
  readonly #sum: Record<string, number> = {};

  add(of: Stats): void {
    const { ms_per_round, decode_tok_s, ...rest } = of;
    const add = (name: string, value: unknown): void => {
      if (typeof value === "number") this.#sum[name] = (this.#sum[name] ?? 0) + value;
    };
    for (const name in rest) add(name, rest[name as keyof typeof rest]);
    for (const name in ms_per_round) add(name, ms_per_round[name as keyof typeof ms_per_round] * of.rounds);
    if (decode_tok_s > 0) add("decode", of.committed / decode_tok_s);
    this.#requests++;
    this.#last = of;
  }

  of(info: EngineInfo, method: string): EngineStats {
    const sum = (name: string): number => this.#sum[name] ?? 0;
    const ratio = (a: string, b: string): number => (sum(b) ? sum(a) / sum(b) : 0);
    return {
      requests: this.#requests,
      prompt_tokens: sum("prompt_tokens"),
      reused: sum("reused"),
      recoveries: sum("recoveries"),
      tokens: sum("committed"),
      rounds: sum("rounds"),
      calls: sum("calls"),
      drafted: sum("drafted"),
      accepted: sum("accepted"),
      acceptance_length: ratio("committed", "calls"),
      draft_acceptance: ratio("accepted", "drafted"),
      tok_s: ratio("committed", "decode"),
      ms: {
        load: info.load_ms,
        total: sum("total_ms"),
        draft: sum("draft"),
        verify: sum("verify"),
        readback: sum("readback"),
        host: sum("host"),
      },
      memory: { gpu_bytes: info.gpu_bytes },
      device: info.device,
      method,
      last: this.#last,
    };
  }
}
