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
  output_tokens: number;
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
  decode_tok_s: number;
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
  /** Sums by field of {@link Stats}; the means of rounds are multiplied by the rounds, and `decode` is in seconds. */
  readonly #sum: Record<string, number> = {};

  add(of: Stats): void {
    const { draft_ms, verify_ms, readback_ms, host_ms, decode_tok_s, ...rest } = of;
    const add = (name: string, value: unknown): void => {
      if (typeof value === "number") this.#sum[name] = (this.#sum[name] ?? 0) + value;
    };
    for (const name in rest) add(name, rest[name as keyof typeof rest]);
    const means = { draft: draft_ms, verify: verify_ms, readback: readback_ms, host: host_ms };
    for (const name in means) add(name, means[name as keyof typeof means] * of.rounds);
    if (decode_tok_s > 0) add("decode", of.output_tokens / decode_tok_s);
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
      output_tokens: sum("output_tokens"),
      rounds: sum("rounds"),
      calls: sum("calls"),
      drafted: sum("drafted"),
      accepted: sum("accepted"),
      acceptance_length: ratio("output_tokens", "calls"),
      draft_acceptance: ratio("accepted", "drafted"),
      decode_tok_s: ratio("output_tokens", "decode"),
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
