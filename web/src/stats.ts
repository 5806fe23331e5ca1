/** What an engine did since it was loaded, summed up. */
import type { DeviceInfo, EngineInfo, Stats } from "./protocol.ts";

/** {@link Engine.stats | What an engine did} since it was loaded: sums over its finished and stopped generations. */
export interface EngineStats {
  /** Generations, those of conversations and completions among them. */
  requests: number;
  /** Tokens of the prompts; of them, those held from earlier requests. */
  prompt_tokens: number;
  reused: number;
  /** How often the device was lost in the middle of a request, and replaced. */
  recoveries: number;
  /** Tokens generated, in how many rounds of drafting and verifying, by how many passes of the target. */
  tokens: number;
  rounds: number;
  calls: number;
  /** Tokens drafted, and those of them that the target accepted. */
  drafted: number;
  accepted: number;
  /** Tokens for each pass of the target: 1 is plain decoding. */
  acceptance_length: number;
  /** Accepted of drafted tokens, 0 to 1. */
  draft_acceptance: number;
  /** Tokens a second while decoding. */
  tok_s: number;
  /** Milliseconds: of loading, of generating in all, and what the rounds spent. `readback` is a part of `draft` and `verify`. */
  ms: { load: number; total: number; draft: number; verify: number; readback: number; host: number };
  /** Bytes that the models take on the device. */
  memory: { gpu_bytes: number };
  /** What the models run on. */
  device: DeviceInfo;
  /** The method of the latest request, or of one without settings. */
  method: string;
  /** Of the latest request, in full. */
  last: Stats | undefined;
}

/** Adds requests up. */
export class Totals {
  #requests = 0;
  #last: Stats | undefined;
  /** By field of {@link Stats}, those of `ms_per_round` times the rounds; `decode` is in seconds. */
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
      ms: { load: info.load_ms, total: sum("total_ms"), draft: sum("draft"), verify: sum("verify"), readback: sum("readback"), host: sum("host") },
      memory: { gpu_bytes: info.gpu_bytes },
      device: info.device,
      method,
      last: this.#last,
    };
  }
}
