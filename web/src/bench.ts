/**
 * bench.html: the engine without a page around it, for measurement from outside.
 * `?target=URL&draft=URL&device=webgpu|cpu`; without models the built-in pair.
 */
import { BUILTIN_PAIR } from "./builtin.ts";
import { Engine, type DeviceChoice, type EngineInfo, type GenerateRequest, type Policy, type Stats } from "./engine.ts";

/** Options of a measured generation; what is left out is the engine's default. */
export interface BenchOptions {
  maxTokens?: number;
  temperature?: number;
  seed?: number;
  policy?: Policy;
  depth?: number;
  topK?: number;
  nodes?: number;
  coupled?: boolean;
}

export interface BenchResult {
  text: string;
  /** Ids of the generated tokens. */
  tokens: number[];
  /** Wall time from the call to the whole result, as the page sees it. */
  ms: number;
  stats: Stats;
}

const query = new URLSearchParams(location.search);
const status = document.querySelector("#status")!;
let loading: Promise<Engine> | undefined;

async function load(): Promise<EngineInfo> {
  const target = query.get("target");
  const draft = query.get("draft");
  if (!target && draft) throw new Error("target: query: a draft needs a target, and none is given");
  loading ??= Engine.load({
    ...(target ? { target, draft } : BUILTIN_PAIR),
    device: (query.get("device") ?? "auto") as DeviceChoice,
    onProgress: (progress) => (status.textContent = `${progress.stage} ${progress.done}/${progress.total}`),
  });
  try {
    const { info } = await loading;
    status.textContent = `ready: ${info.device.backend} ${info.device.adapter}`;
    return info;
  } catch (cause) {
    loading = undefined;
    status.textContent = cause instanceof Error ? cause.message : String(cause);
    throw cause;
  }
}

async function generate(prompt: string, options: BenchOptions = {}): Promise<BenchResult> {
  await load();
  const engine = await loading!;
  const request: { prompt: string } & Partial<GenerateRequest> = { prompt };
  if (options.maxTokens !== undefined) request.max_tokens = options.maxTokens;
  if (options.temperature !== undefined) request.temperature = options.temperature;
  if (options.seed !== undefined) request.seed = options.seed;
  if (options.policy !== undefined) request.policy = options.policy;
  if (options.depth !== undefined) request.depth = options.depth;
  if (options.topK !== undefined) request.top_k = options.topK;
  if (options.nodes !== undefined) request.nodes = options.nodes;
  if (options.coupled !== undefined) request.coupled = options.coupled;
  const start = performance.now();
  const result = await engine.generate(request).result;
  return { text: result.text, tokens: result.token_ids, ms: performance.now() - start, stats: result.stats };
}

declare global {
  interface Window {
    engine: { load: typeof load; generate: typeof generate };
  }
}

window.engine = { load, generate };
status.textContent = "window.engine is there; nothing is loaded yet";
