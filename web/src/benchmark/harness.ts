/**
 * bench.html: exposes the engine as window.engine to measurement scripts, without a user interface. The address sets
 * the models and options; without models it loads the built-in pair:
 *
 *     ?target=URL&draft=URL&calibrations=URLs&eagle3=URL&eagle3-config=URL&max-nodes=N
 *     &device=auto|webgpu|cpu|reference&threads=N&device-timeout=SECONDS
 *     &context=N&kv=f32|f16|q8
 */
import { BUILTIN_HEAD, BUILTIN_PAIR } from "../engine/builtin.ts";
import { METHODS } from "../engine/methods.ts";
import {
  Engine,
  type BenchMatrix,
  type BenchReport,
  type BenchUpdate,
  type CostReport,
  type DeviceChoice,
  type DoctorReport,
  type EngineInfo,
  type GenerateOptions,
  type LoadOptions,
  type Measurement,
  type Method,
  type ProfileReport,
  type Stats,
} from "../engine/engine.ts";

/** Options of a measured generation; missing ones use the engine's defaults. */
export interface BenchOptions extends GenerateOptions {
  /** Aliases of max_tokens and top_k. */
  maxTokens?: number;
  topK?: number;
}

export interface BenchResult {
  text: string;
  /** Ids of the generated tokens. */
  tokens: number[];
  /** Wall time in the page from the call to the result. */
  ms: number;
  stats: Stats;
}

const query = new URLSearchParams(location.search);
const status = document.querySelector("#status")!;
let loading: Promise<Engine> | undefined;

/** Splits addresses of calibrations, separated by spaces. */
const list = (text: string | null): string[] | undefined => text?.split(/\s+/).filter(Boolean);

async function load(): Promise<EngineInfo> {
  const target = query.get("target");
  const draft = query.get("draft");
  if (!target && draft) throw new Error("target: query: missing; a draft needs a target");
  loading ??= Engine.load({
    ...(target ? { target, draft, calibrations: list(query.get("calibrations")) } : BUILTIN_PAIR),
    ...(query.get("eagle3") === "builtin"
      ? BUILTIN_HEAD
      : { eagle3: query.get("eagle3"), eagle3_config: query.get("eagle3-config") }),
    max_nodes: query.has("max-nodes") ? Number(query.get("max-nodes")) : undefined,
    device_timeout: query.has("device-timeout") ? Number(query.get("device-timeout")) : undefined,
    threads: query.has("threads") ? Number(query.get("threads")) : undefined,
    context: query.has("context") ? Number(query.get("context")) : undefined,
    kv: (query.get("kv") as LoadOptions["kv"]) ?? undefined,
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
  const { maxTokens, topK, ...rest } = options;
  const request: GenerateOptions = rest;
  if (maxTokens !== undefined) request.max_tokens = maxTokens;
  if (topK !== undefined) request.top_k = topK;
  const start = performance.now();
  const result = await engine.generate(prompt, request).result;
  return { text: result.text, tokens: result.token_ids, ms: performance.now() - start, stats: result.stats };
}

const onUpdate = ({ done, total }: BenchUpdate): void => {
  status.textContent = `${done}/${total}`;
};

async function bench(matrix: BenchMatrix): Promise<BenchReport> {
  await load();
  return (await loading!).bench(matrix, { onUpdate }).result;
}

async function costs(measurement: Omit<Measurement, "what"> = {}): Promise<CostReport> {
  await load();
  return (await loading!).costs(measurement, { onUpdate });
}

async function profile(measurement: Omit<Measurement, "what"> = {}): Promise<ProfileReport> {
  await load();
  return (await loading!).profile(measurement, { onUpdate });
}

async function doctor(measurement: Omit<Measurement, "what"> = {}): Promise<DoctorReport> {
  await load();
  return (await loading!).doctor(measurement, { onUpdate });
}

declare global {
  interface Window {
    engine: {
      load: typeof load;
      generate: typeof generate;
      bench: typeof bench;
      costs: typeof costs;
      profile: typeof profile;
      doctor: typeof doctor;
      methods: readonly Method[];
    };
  }
}

window.engine = { load, generate, bench, costs, profile, doctor, methods: METHODS };
status.textContent = "window.engine is ready; nothing is loaded yet";
