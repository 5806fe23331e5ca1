/**
 * What AMD's compiler makes of llama.cpp's Vulkan shaders, for GPUs that need not be there. Writes a report in the form
 * of the audit of our kernels, made with the same driver of null hardware and Mesa 25's compiler:
 *
 *   node scripts/gpullama.mjs FILE
 *
 * llama.cpp compiles a pipeline when it first needs it, so it reads prompts of several lengths with each model. Null
 * hardware computes nothing. A product that has a pipeline for each number of rows has that number in its name here.
 * `make gpu-audit` installs what this needs.
 */
import { execFileSync, spawnSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import os from "node:os";
import path from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";

const self = fileURLToPath(import.meta.url);
const root = path.dirname(path.dirname(self));
const installed = path.join(root, "build", "llama", "node_modules", "node-llama-cpp");
const GPUS = ["navi31", "navi21", "vega10", "renoir"];
const MODELS = ["x26m-q8_0", "x26m-q4_0", "x26m-q4_k"]; // the last has Q6_K too
const ROWS = [1, 2, 4, 8, 16, 128];

// The compiler's names of what the report has of a pipeline.
const COLUMNS = {
  registers: ["VGPRs"],
  spills: ["Spilled VGPRs", "Spilled SGPRs"],
  scratch: ["Scratch size"],
  lds: ["LDS size"],
  waves: ["Subgroups per SIMD"],
  cycles: ["Inverse Throughput"],
};

/** Reads prompts with a model, in a process whose only GPU is null hardware. */
async function readPrompts(name) {
  const modelPath = path.join(root, "build", "testmodels", `${name}.gguf`);
  const { getLlama, LlamaLogLevel } = await import(pathToFileURL(path.join(installed, "dist", "index.js")).href);
  const llama = await getLlama({ gpu: "vulkan", build: "never", logLevel: LlamaLogLevel.error });
  const all = { ignoreMemorySafetyChecks: true };
  const model = await llama.loadModel({ modelPath, gpuLayers: "max", ...all });
  const context = await model.createContext({ contextSize: 256, batchSize: Math.max(...ROWS), ...all });
  const sequence = context.getSequence();
  for (const length of ROWS) {
    await sequence.clearHistory();
    console.error(`ROWS ${length}`);
    await sequence.evaluateWithoutGeneratingNewTokens(Array.from({ length }, (_, i) => i + 5));
  }
  process.exit(0); // null hardware cannot free everything
}

/** Builds the driver of null hardware in a folder and returns the variables that make it a process's only one. */
function nullHardware(folder, radv) {
  const [driver, manifest] = ["libnullgpu.so", "icd.json"].map((name) => path.join(folder, name));
  const shim = path.join(root, "audit", "nullgpu", "shim.c");
  execFileSync("cc", ["-shared", "-fPIC", "-O1", `-DREAL=${JSON.stringify(radv)}`, "-o", driver, shim, "-ldl"]);
  const ICD = { library_path: driver, api_version: "1.3.230" };
  writeFileSync(manifest, JSON.stringify({ file_format_version: "1.0.0", ICD }));
  const cache = { XDG_CACHE_HOME: folder, XDG_RUNTIME_DIR: folder };
  return { VK_ICD_FILENAMES: manifest, VK_DRIVER_FILES: manifest, RADV_DEBUG: "shaderstats,nocache", ...cache };
}

/** The statistics of the pipelines that a process compiled, [name, values] each, of its standard error. */
export function pipelines(text) {
  const names = new Map();
  const found = [];
  let rows;
  let stats = {};
  for (const line of text.split("\n")) {
    const [, stat, value] = /^([A-Za-z -]+): (\d+)$/.exec(line) ?? [];
    const [, mark, of, name] = /^(ROWS|PIPELINE|NAMED) (\w+) ?(.*)$/.exec(line) ?? [];
    if (stat) stats[stat] = Number(value);
    if (mark === "ROWS") rows = of;
    if (mark === "NAMED") names.set(of, name);
    if (mark === "PIPELINE") {
      found.push({ handle: of, rows, stats });
      stats = {};
    }
  }
  return found.map(({ handle, rows, stats }) => {
    const name = names.get(handle);
    const values = Object.values(COLUMNS).map((all) => all.reduce((sum, stat) => sum + stats[stat], 0));
    if (!name || values.some(Number.isNaN)) throw new Error(`a pipeline lacks a name or statistics: ${name}`);
    return [/^mul_mat_vec_q/.test(name) ? `${name} M=${rows}` : name, values];
  });
}

/** The pipelines of all models on a GPU: Map of name → values. */
function compiled(gpu, hardware) {
  const all = new Map();
  const env = { ...process.env, ...hardware, RADV_FORCE_FAMILY: gpu, GGML_VK_DEBUG_MARKERS: "1" };
  for (const model of MODELS) {
    const { status, signal, stderr } = spawnSync(process.execPath, [self, "--read", model], {
      env,
      encoding: "utf8",
      maxBuffer: 1 << 26,
      stdio: ["ignore", "ignore", "pipe"],
      timeout: 120_000,
    });
    if (status !== 0) throw new Error(`${model} for ${gpu} ended with ${signal ?? status}: ${stderr.slice(-2000)}`);
    for (const [name, values] of pipelines(stderr)) {
      if (all.has(name) && String(all.get(name)) !== String(values))
        throw new Error(`${gpu} has two pipelines "${name}": ${all.get(name)} and ${values}`);
      all.set(name, values);
    }
  }
  return all;
}

/** Writes the report. */
function measure(out) {
  const radv = execFileSync("sh", ["scripts/radv.sh"], { cwd: root, encoding: "utf8" }).trim();
  const folder = mkdtempSync(path.join(os.tmpdir(), "foretoken-gpullama-"));
  const [gpus, kernels] = [{}, {}];
  try {
    const hardware = nullHardware(folder, radv);
    for (const gpu of GPUS) {
      const all = compiled(gpu, hardware);
      const column = (name) => [...all.values()].map((values) => values[Object.keys(COLUMNS).indexOf(name)]);
      const count = (name, test) => column(name).filter(test).length;
      gpus[gpu] = {
        kernels: all.size,
        spilling: count("spills", (n) => n > 0),
        with_scratch: count("scratch", (n) => n > 0),
        least_waves: Math.min(...column("waves")),
        most_registers: Math.max(...column("registers")),
        below_8_waves: count("waves", (n) => n < 8),
      };
      for (const name of [...all.keys()].sort(new Intl.Collator("en", { numeric: true }).compare))
        (kernels[name] ??= {})[gpu] = all.get(name);
    }
  } finally {
    rmSync(folder, { recursive: true });
  }
  const read = (name) => JSON.parse(readFileSync(path.join(installed, name), "utf8"));
  const release = read("llama/llama.cpp.info.json").tag;
  const versions = { "llama.cpp": release, "node-llama-cpp": read("package.json").version };
  const mesa = /Mesa (\d[\w.~+-]+)/.exec(readFileSync(radv, "latin1"))[0];
  const report = { driver: `Vulkan, ${mesa}`, versions, columns: Object.keys(COLUMNS), gpus, kernels };
  writeFileSync(out, JSON.stringify(report));
}

if (process.argv[1] === self) {
  const [out, model] = process.argv.slice(2);
  if (out === "--read") await readPrompts(model);
  else measure(out);
}
