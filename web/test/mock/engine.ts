/**
 * A scripted engine with the contract of the Go program, for the unit tests and
 * for work on the page. It makes Go-looking text up and never leaves test/.
 */
import type { EngineInfo, EventToken, GenerateRequest, GoEngine, Progress, Result, RoundEvent, Source, Stats } from "../../src/protocol.ts";

const TEXT = `	}{
		{"empty", "", nil},
		{"one", "<b>a</b>", []string{"a"}},
		{"many", "a,b & c", []string{"a", "b"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := Parse(tt.in); !reflect.DeepEqual(got, tt.want) {
				t.Errorf("Parse() = %v, want %v", got, tt.want)
			}
		})
	}
}
`;
const TOKENS = TEXT.match(/\s+|\w+|[^\s\w]+/g)!;

export interface MockOptions {
  /** Time of a round in ms, and how long each chunk of loading takes. */
  roundMs?: number;
  loadMs?: number;
  /** Reports the CPU with this note, as without WebGPU. */
  cpuNote?: string;
}

const pause = (ms: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, ms));

export function mockEngine(options: MockOptions = {}): GoEngine {
  let stopped = false;
  let draft = false;
  let generating = false;
  const roundMs = options.roundMs ?? 0;
  return {
    async open(optionsJSON, sources, onProgress) {
      const { device } = JSON.parse(optionsJSON) as { device: string };
      const progress = (p: Progress): void => onProgress(JSON.stringify(p));
      for (const stage of ["target", "draft"] as const) {
        const source = sources[stage];
        if (source) await load(source, stage, progress, options.loadMs ?? 0);
      }
      for (let i = 0; i <= 14; i++) progress({ stage: "kernels", done: i, total: 14 });
      draft = sources.draft !== null;
      const cpu = device === "cpu" || options.cpuNote !== undefined;
      const info: EngineInfo = {
        device: {
          backend: cpu ? "cpu" : "browser",
          adapter: cpu ? "Go reference kernels" : "Mock adapter",
          vendor: "mock",
          architecture: "none",
          driver: cpu ? "" : "WebGPU",
          software: true,
          features: cpu ? [] : ["shader-f16", "subgroups"],
          note: options.cpuNote ?? "",
        },
        target: { name: "go-code-2.4m", architecture: "llama", parameters: 2_400_000, quant: "Q8_0", context: 512, vocab: 1024 },
        draft: draft ? { name: "go-code-0.4m", architecture: "llama", parameters: 420_000, quant: "Q8_0", context: 512, vocab: 1024 } : null,
        kernels: { "1024x256": "tile-r4" },
        load_ms: 640,
        gpu_bytes: 9_000_000,
      };
      progress({ stage: "ready", done: 1, total: 1 });
      return JSON.stringify(info);
    },

    async generate(requestJSON, onEvent) {
      const request = JSON.parse(requestJSON) as GenerateRequest;
      if (request.prompt === "panic") throw new Error("prompt: text: the mock was asked to fail");
      stopped = false;
      generating = true;
      const begin = performance.now();
      let elapsed = 40;
      const ids: number[] = [];
      const depths: { drafted: number; accepted: number }[] = [];
      let text = "";
      let accepted = 0;
      let drafted = 0;
      let verified = 0;
      let round = 0;
      let random = request.seed + 7;
      const next = (): number => (random = (random * 1103515245 + 12345) % 2 ** 31) / 2 ** 31;
      while (ids.length < request.max_tokens && !stopped) {
        await pause(roundMs);
        const levels = request.policy === "none" ? 0 : request.depth;
        let run = 0;
        while (run < levels && next() < 0.78 - 0.06 * run) run++;
        run = Math.min(run, request.max_tokens - ids.length - 1);
        const tree = growTree(levels, Math.max(0, run), ids.length, request.policy === "chain" ? 1 : 3);
        for (let d = 0; d < levels; d++) {
          depths[d] ??= { drafted: 0, accepted: 0 };
          depths[d]!.drafted++;
          if (d < run) depths[d]!.accepted++;
        }
        const tokens: EventToken[] = [];
        for (let i = 0; i <= run; i++) {
          const at = ids.length;
          const kind = i < run ? "accepted" : levels === 0 ? "plain" : run === levels ? "bonus" : "corrected";
          tokens.push({ id: 100 + (at % TOKENS.length), text: TOKENS[at % TOKENS.length]!, kind, depth: i < run ? i + 1 : 0 });
          ids.push(100 + (at % TOKENS.length));
        }
        accepted += run;
        drafted += tree.tokens.length;
        verified += tree.tokens.length + 1;
        const ms = { draft: levels ? 3.1 + next() : 0, verify: 9.4 + next(), readback: 0.8, host: 0.4 + 0.2 * next() };
        elapsed += ms.draft + ms.verify + ms.host;
        const delta = tokens.map((t) => t.text).join("");
        text += delta;
        const event: RoundEvent = { round: round++, text: delta, tokens, tree, ms, elapsed_ms: elapsed };
        if (ids.length >= request.max_tokens) event.finish = "length";
        onEvent(JSON.stringify(event));
      }
      const stats: Stats = {
        calls: round,
        rounds: round,
        tokens_verified: verified,
        committed: ids.length,
        drafted,
        accepted,
        acceptance_length: ids.length / Math.max(round, 1),
        acceptance_per_depth: depths.map((d) => d.accepted / d.drafted),
        draft_acceptance: accepted / Math.max(drafted, 1),
        ms_per_round: { draft: 3.5, verify: 9.9, readback: 0.8, host: 0.5 },
        ttft_ms: 54,
        prefill_tok_s: 900,
        decode_tok_s: (1000 * ids.length) / Math.max(elapsed - 40, 1),
        total_ms: performance.now() - begin,
      };
      const result: Result = { text, prompt_ids: [1, 2, 3], token_ids: ids, finish: stopped ? "aborted" : "length", stats };
      generating = false;
      return JSON.stringify(result);
    },

    stop() {
      stopped = true;
    },

    async inspect(source) {
      const magic = new TextDecoder().decode(await source.read(0, Math.min(4, source.size)));
      if (magic !== "GGUF") throw new Error(`${source.name}: magic: not a GGUF file`);
      return JSON.stringify({ name: source.name, size: source.size });
    },

    async close() {
      stopped = true;
      while (generating) await pause(1);
    },
  };
}

async function load(source: Source, stage: "target" | "draft", progress: (p: Progress) => void, loadMs: number): Promise<void> {
  const magic = new TextDecoder().decode(await source.read(0, Math.min(4, source.size)));
  if (magic !== "GGUF") throw new Error(`${source.name}: magic: want "GGUF", the file begins with ${JSON.stringify(magic)}`);
  const chunk = Math.max(1, Math.ceil(source.size / 12));
  for (let at = 0; at < source.size; at += chunk) {
    const bytes = await source.read(at, Math.min(chunk, source.size - at));
    progress({ stage, done: at + bytes.byteLength, total: source.size });
    if (loadMs) await pause(loadMs);
  }
}

/** A tree of `levels` levels whose first branch is accepted `run` deep. */
function growTree(levels: number, run: number, at: number, width: number): RoundEvent["tree"] {
  const tree: RoundEvent["tree"] = { tokens: [], texts: [], parents: [], depths: [], scores: [], accepted: [] };
  let parent = -1;
  for (let level = 1; level <= levels; level++) {
    const first = tree.tokens.length;
    for (let i = 0; i < width; i++) {
      const token = (at + level - 1 + i * 5) % TOKENS.length;
      tree.tokens.push(100 + token);
      tree.texts.push(TOKENS[token]!);
      tree.parents.push(parent);
      tree.depths.push(level);
      tree.scores.push(-0.3 * level - 0.7 * i);
    }
    if (level <= run) tree.accepted.push(first);
    parent = first;
  }
  return tree;
}
