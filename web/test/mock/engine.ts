/**
 * A scripted engine with the interface of the Go program, for unit tests and for work on the page. It generates text
 * that looks like Go code, or after "Repeat: " the rest of the prompt.
 */
import { ForetokenError } from "../../src/protocol/errors.ts";
import catalog from "foretoken:catalog";
import { configOf, exactnessOf } from "../../src/engine/methods.ts";
import type { ChatCompletionRequest } from "../../src/engine/completion-types.ts";
import { noCounts } from "./counts.ts";
import { TraceWriter } from "./trace.ts";
import type {
  BenchMatrix,
  BenchReport,
  BenchRow,
  BenchUpdate,
  ChatAction,
  ChatReply,
  ChatState,
  CostReport,
  EmbedRequest,
  EngineInfo,
  EventToken,
  EventTree,
  GenerateRequest,
  GoEngine,
  Measure,
  Measurement,
  Message,
  OpenAIAnswer,
  ProfileReport,
  Progress,
  Result,
  RoundEvent,
  Source,
  Stats,
} from "../../src/protocol/protocol.ts";

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
const TOKEN = /\s+|\w+|[^\s\w]+/g;
const TOKENS = TEXT.match(TOKEN)!;

export interface MockOptions {
  /** Milliseconds of a round, and of each step of loading. */
  roundMs?: number;
  loadMs?: number;
  /** If set, reports the CPU with this note, as without WebGPU. */
  cpuNote?: string;
}

const pause = (ms: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, ms));

export function mockEngine(options: MockOptions = {}): GoEngine {
  let stopped = false;
  let draft = false;
  let generating = false;
  const roundMs = options.roundMs ?? 0;
  let messages: Message[] | undefined;
  let trace = new TraceWriter("");
  const state = (): ChatState => ({
    messages: messages!,
    unseen: Math.max(0, messages!.filter((m) => m.role !== "system").length - 8),
    note: "",
  });
  const engine: GoEngine = {
    async open(optionsJSON, sources, onProgress) {
      const { device } = JSON.parse(optionsJSON) as { device: string };
      const progress = (p: Progress): void => onProgress(JSON.stringify(p));
      for (const stage of ["target", "draft"] as const) {
        const [source] = [sources[stage]].flat();
        if (source) await load(source, stage, progress, options.loadMs ?? 0);
      }
      for (let i = 0; i <= 14; i++) progress({ stage: "kernels", done: i, total: 14 });
      draft = sources.draft !== null;
      const cpu = device === "cpu" || options.cpuNote !== undefined;
      const info: EngineInfo = {
        device: {
          backend: cpu ? "cpu" : "browser",
          adapter: cpu ? "WebAssembly SIMD" : "Mock adapter",
          vendor: "mock",
          architecture: "none",
          driver: cpu ? "" : "WebGPU",
          software: true,
          threads: cpu ? 2 : 0,
          features: cpu ? [] : ["shader-f16", "subgroups"],
          note: options.cpuNote ?? "",
        },
        target: {
          name: "go-code-2.4m",
          architecture: "llama",
          parameters: 2_400_000,
          quant: "Q8_0",
          width: 4,
          context: 512,
          vocab: 1024,
        },
        draft: draft
          ? {
              name: "go-code-0.4m",
              architecture: "llama",
              parameters: 420_000,
              quant: "Q8_0",
              width: 2,
              context: 512,
              vocab: 1024,
            }
          : null,
        eagle3: null,
        fitted: { hetero: [{ depth: 5, top_k: 10, nodes: 60 }], c2t: true, acceptance: false },
        kernels: { "1024x256": "tile-r4" },
        chat: { ok: true, problem: "" },
        code: false,
        load_ms: 640,
        gpu_bytes: 9_000_000,
      };
      progress({ stage: "ready", done: 1, total: 1 });
      return JSON.stringify(info);
    },

    async generate(requestJSON, onEvent) {
      const given = JSON.parse(requestJSON) as GenerateRequest;
      const request = { ...catalog.default, ...given, depth: configOf(given).depth || 4 };
      if (request.prompt === "panic")
        throw new ForetokenError("bad_option", "prompt: text: the mock was asked to fail");
      const said = /^Repeat: ([^]+)/.exec(request.prompt)?.[1];
      // A long text comes in a few hundred pieces.
      const repeated = said?.match(said.length < 4000 ? TOKEN : new RegExp(`[^]{1,${said.length >> 7}}`, "g"));
      const words = repeated ?? TOKENS;
      if (repeated) request.max_tokens = Math.min(request.max_tokens, repeated.length);
      stopped = false;
      generating = true;
      const begin = performance.now();
      let elapsed = 40;
      const ids: number[] = [];
      const counts = noCounts();
      let text = "";
      let round = 0;
      trace = new TraceWriter(request.prompt);
      const lossy = exactnessOf(given) === "lossy";
      let random = request.seed + 7;
      const next = (): number => (random = (random * 1103515245 + 12345) % 2 ** 31) / 2 ** 31;
      while (ids.length < request.max_tokens && !stopped) {
        // Long texts arrive without delays.
        if (request.max_tokens <= 1000) await pause(roundMs);
        else if (round % 8 === 0) await pause(0);
        const levels = request.policy === "none" ? 0 : request.depth;
        let run = 0;
        while (run < levels && next() < 0.78 - 0.06 * run) run++;
        run = Math.min(run, request.max_tokens - ids.length - 1);
        const tree = growTree(levels, Math.max(0, run), ids.length, request.policy === "chain" ? 1 : 3);
        for (let d = 0; d < levels; d++) {
          counts.depth_drafted[d] = (counts.depth_drafted[d] ?? 0) + 1;
          counts.depth_accepted[d] = (counts.depth_accepted[d] ?? 0) + Number(d < run);
        }
        const tokens: EventToken[] = [];
        for (let i = 0; i <= run; i++) {
          const at = ids.length;
          const kind =
            i < run
              ? lossy && next() < 0.2
                ? "relaxed"
                : "accepted"
              : levels === 0
                ? "plain"
                : run === levels
                  ? "bonus"
                  : "corrected";
          const token = words[at % words.length]!;
          const told = given.logprobs
            ? {
                piece: token,
                logprob: -0.25,
                top: Array.from({ length: given.top_logprobs ?? 0 }, (_, k) => ({
                  id: k,
                  text: `t${k}`,
                  logprob: -k - 0.25,
                })),
              }
            : {};
          tokens.push({ id: 100 + (at % words.length), text: token, kind, depth: i < run ? i + 1 : 0, ...told });
          ids.push(100 + (at % words.length));
        }
        for (const { kind } of tokens) counts[kind]++;
        counts.accepted += tokens.filter(({ kind }) => kind === "relaxed").length;
        counts.output_tokens = ids.length;
        counts.calls++;
        counts.drafted += tree.tokens.length - 1;
        counts.tokens_verified += tree.tokens.length;
        const ms = { draft: levels ? 3.1 + next() : 0, verify: 9.4 + next(), readback: 0.8, host: 0.4 + 0.2 * next() };
        elapsed += ms.draft + ms.verify + ms.host;
        const delta = tokens.map((t) => t.text).join("");
        text += delta;
        const event: Omit<RoundEvent, "tree"> & { tree?: string } = {
          round: round++,
          text: delta,
          tokens,
          pruned: tree.pruned.total,
          entropy: 0.3,
          draft_entropy: 0.4,
          ms,
          counts,
          elapsed_ms: elapsed,
        };
        if (given.policy === "hetero") Object.assign(event, { bin: 1 + (event.round % 4), phi: 0.4 + next() });
        if (ids.length >= request.max_tokens) event.finish = "length";
        const encoded = trace.add(event, tree);
        if (given.trace) event.tree = encoded;
        onEvent(JSON.stringify(event));
      }
      const stats: Stats = {
        ...counts,
        rounds: round,
        lossy,
        acceptance_length: ids.length / Math.max(round, 1),
        acceptance_per_depth: counts.depth_drafted.map((drafted, d) => counts.depth_accepted[d]! / drafted),
        draft_acceptance: counts.accepted / Math.max(counts.drafted, 1),
        draft_ms: 3.5,
        verify_ms: 9.9,
        readback_ms: 0.8,
        host_ms: 0.5,
        ttft_ms: 54,
        prompt_tokens: 3,
        reused: 0,
        prefilled: 2,
        prefill_tok_s: 900,
        decode_tok_s: (1000 * ids.length) / Math.max(elapsed - 40, 1),
        total_ms: performance.now() - begin,
      };
      const result: Result = {
        text,
        prompt_ids: [1, 2, 3],
        token_ids: ids,
        finish: stopped ? "aborted" : "length",
        stats,
        ...(given.unchecked ? { unchecked: ["/uniqueItems"] } : {}),
      };
      generating = false;
      return JSON.stringify(result);
    },

    async chat(actionJSON, onEvent) {
      const action = JSON.parse(actionJSON) as ChatAction;
      if (action.do === "open") {
        messages = [
          ...(action.system ? [{ role: "system", content: action.system } as const] : []),
          ...(action.messages ?? []),
        ];
        return JSON.stringify(state());
      }
      if (!messages) throw new Error("chat: no conversation is open");
      const before = state().unseen;
      let asked = messages;
      if (action.do === "send") asked = [...messages, action.message];
      else if (action.do === "edit")
        asked = [...messages.slice(0, action.index), { ...messages[action.index]!, content: action.content }];
      else if (messages.at(-1)?.role === "assistant") asked = messages.slice(0, -1);
      const prompt = asked.at(-1)!.content;
      const result = JSON.parse(
        await engine.generate(JSON.stringify({ ...action.request, prompt }), onEvent),
      ) as Result;
      messages = [...asked, { role: "assistant", content: result.text }];
      return JSON.stringify({ ...state(), result, dropped: Math.max(0, state().unseen - before) } satisfies ChatReply);
    },

    async openai(bodyJSON, _path, onLine) {
      const asked = JSON.parse(bodyJSON) as ChatCompletionRequest;
      const answer = (of: Partial<OpenAIAnswer>): string =>
        JSON.stringify({ status: 200, body: "", policy: "", ...of });
      if (asked.messages.length === 0) {
        const error = { message: "messages is empty", type: "invalid_request_error", param: "messages", code: "none" };
        return answer({ status: 400, body: JSON.stringify({ error }) });
      }
      const choices = [];
      let stats: Stats | undefined;
      for (let index = 0; index < (asked.n ?? 1); index++) {
        const request = { prompt: "x", max_tokens: asked.max_tokens ?? 16, policy: "chain", seed: index };
        const result = JSON.parse(
          await engine.generate(JSON.stringify(request), (json) => {
            const delta = { content: (JSON.parse(json) as RoundEvent).text };
            if (asked.stream) onLine(JSON.stringify({ choices: [{ index, delta }] }));
          }),
        ) as Result;
        if (result.finish === "aborted") throw new ForetokenError("aborted", "context canceled");
        choices.push({ index, message: { content: result.text } });
        stats = result.stats;
      }
      if (asked.stream) onLine("[DONE]");
      const body = asked.stream ? "" : JSON.stringify({ id: String(Math.random()), choices });
      return answer({ body, policy: "chain", stats: stats! });
    },

    async embed(requestJSON) {
      const { texts } = JSON.parse(requestJSON) as EmbedRequest;
      return JSON.stringify(texts.map((text) => ({ vector: [text.length, 0, 0, 1], tokens: text.length + 1 })));
    },

    async bench(matrixJSON, onUpdate) {
      const matrix = JSON.parse(matrixJSON) as BenchMatrix;
      const names = matrix.methods.split(",");
      const total = names.length * matrix.prompts.length * matrix.repeat;
      const measure = (mean: number): Measure => ({ mean, sd: matrix.repeat > 1 ? mean / 20 : 0, n: matrix.repeat });
      const uncounted = { k: 0, n: 0, low: 0, high: 0 };
      const rows: BenchRow[] = [];
      stopped = false;
      for (const [i, method] of names.entries()) {
        onUpdate(JSON.stringify({ done: (i * total) / names.length, total, now: method } satisfies BenchUpdate));
        await pause(roundMs);
        if (stopped) break;
        const row = {
          method: method === "none" ? "plain" : method,
          category: "",
          lossy: exactnessOf({ policy: method }) === "lossy",
          plain: method === "none",
          temperature: 0,
          prompts: matrix.prompts.length,
          exact: uncounted,
          parses: uncounted,
          type_checks: uncounted,
        };
        const keys = [
          "speedup",
          "speed_ratio",
          "decode_tok_s",
          "acceptance_length",
          "calls",
          "tokens",
          "output_tokens",
          "drafted",
          "accepted",
          "relaxed",
          "draft_ms",
          "verify_ms",
          "readback_ms",
          "host_ms",
          "same_prefix",
          "same_place",
          "edits",
          "loss",
        ] as const;
        rows.push({
          ...row,
          ...(Object.fromEntries(keys.map((key) => [key, measure(1 + 0.3 * i)])) as Record<
            (typeof keys)[number],
            Measure
          >),
        });
        onUpdate(JSON.stringify({ done: ((i + 1) * total) / names.length, total, rows } satisfies BenchUpdate));
      }
      return JSON.stringify({ device: "mock", target: "t", draft: "d", rows, stopped } satisfies BenchReport);
    },

    async measure(measurementJSON, onUpdate) {
      const { what } = JSON.parse(measurementJSON) as Measurement;
      onUpdate(JSON.stringify({ done: 1, total: 1 } satisfies BenchUpdate));
      const about = { device: "mock", target: "t", draft: "d", length: 64 };
      const traffic = { submits: 1, readbacks: 1, bytes_written: 1824, bytes_read: 32, creations: 0 };
      const best = { k: 2, tokens: 2.5, speedup: 1.5 };
      const cost = [1, 2, 4].map((n) => ({ n, ms: 10 * n, ratio: n }));
      if (what === "costs")
        return JSON.stringify({
          ...about,
          repeat: 9,
          verify: cost,
          chain: cost,
          chains: [best],
          best,
        } satisfies CostReport);
      const kernel = {
        kernel: "matmul/params unpack_q8_0 matmul/rows R=4 TM=1",
        groups: [16, 1, 1] as [number, number, number],
        calls: 5,
        ms: 2.5,
        mean_ms: 0.5,
        share: 1,
      };
      const round = {
        method: "auto",
        rounds: 9,
        tokens: 2,
        ms: 20,
        draft_ms: 5,
        verify_ms: 14,
        readback_ms: 18,
        host_ms: 1,
        cpu_ms: 2,
        allocs: 30,
        alloc_bytes: 900,
        ...traffic,
      };
      return JSON.stringify({
        ...about,
        clock: "timestamps",
        passes: [
          { name: "plain step", ms: 10, wait_ms: 9, kernel_ms: 2.5, dispatches: 5, ...traffic, kernels: [kernel] },
        ],
        rounds: [round],
      } satisfies ProfileReport);
    },

    async trace() {
      return JSON.stringify(trace.whole(stopped ? 5 : 3));
    },

    async methods() {
      return JSON.stringify(catalog);
    },

    stop() {
      stopped = true;
    },

    async inspect(source) {
      const magic = new TextDecoder().decode(await source.read(0, Math.min(4, source.size)));
      if (magic !== "GGUF") throw new ForetokenError("bad_model", `${source.name}: magic: not a GGUF file`);
      return JSON.stringify({ name: source.name, size: source.size });
    },

    async close() {
      stopped = true;
      while (generating) await pause(1);
    },
  };
  return engine;
}

async function load(
  source: Source,
  stage: "target" | "draft",
  progress: (p: Progress) => void,
  loadMs: number,
): Promise<void> {
  const magic = new TextDecoder().decode(await source.read(0, Math.min(4, source.size)));
  if (magic !== "GGUF")
    throw new ForetokenError(
      "bad_model",
      `${source.name}: magic: want "GGUF", the file begins with ${JSON.stringify(magic)}`,
    );
  const chunk = Math.max(1, Math.ceil(source.size / 12));
  for (let at = 0; at < source.size; at += chunk) {
    const bytes = await source.read(at, Math.min(chunk, source.size - at));
    progress({ stage, done: at + bytes.byteLength, total: source.size });
    if (loadMs) await pause(loadMs);
  }
}

/** Returns a tree of `levels` levels, whose first branch is accepted to depth `run`, with some pruned nodes. */
function growTree(levels: number, run: number, at: number, width: number): EventTree {
  const tree: EventTree = {
    tokens: [99],
    texts: ["^"],
    parents: [-1],
    depths: [0],
    scores: [0],
    accepted: [],
    relaxed: [],
    entropies: [0.25],
    draft_entropies: [0.5],
    pruned: { tokens: [], texts: [], parents: [], scores: [], total: 0 },
  };
  const pruned: { token: number; text: string; parent: number; score: number }[] = [];
  let parent = 0;
  for (let level = 1; level <= levels; level++) {
    const first = tree.tokens.length;
    for (let i = 0; i < width; i++) {
      const token = (at + level - 1 + i * 5) % TOKENS.length;
      tree.tokens.push(100 + token);
      tree.texts.push(TOKENS[token]!);
      tree.parents.push(parent);
      tree.depths.push(level);
      tree.scores.push(-0.3 * level - 0.7 * i);
      tree.entropies.push(0.15 * level + 0.6 * i);
      tree.draft_entropies.push(i === 0 && level < levels ? 0.2 * level : -1);
    }
    for (let i = width; width > 1 && i < width + 2; i++) {
      const token = (at + level - 1 + i * 5) % TOKENS.length;
      pruned.push({ token: 100 + token, text: TOKENS[token]!, parent, score: -0.3 * level - 0.7 * i });
    }
    if (level <= run) tree.accepted.push(first);
    parent = first;
  }
  pruned.sort((a, b) => b.score - a.score);
  tree.pruned = {
    tokens: pruned.map((one) => one.token),
    texts: pruned.map((one) => one.text),
    parents: pruned.map((one) => one.parent),
    scores: pruned.map((one) => one.score),
    total: 3 * pruned.length,
  };
  return tree;
}
