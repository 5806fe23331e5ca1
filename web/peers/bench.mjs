/**
 * Compares our engine with others: pages in Chromium and in Firefox, and programs, with the same weights and prompt.
 * Every engine loads once and warms up; then this driver runs them in turn. Each is timed by the clock of its own
 * process.
 */
import { execFile } from "node:child_process";
import { promises as fs } from "node:fs";
import os from "node:os";
import path from "node:path";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { ENGINES } from "./engines.mjs";
import { exportONNX } from "./export-onnx.mjs";
import { HOMES, inspect, memory } from "./homes.mjs";
import { CONTEXT } from "./models.mjs";
import { parseOptions, USAGE } from "./options.mjs";
import { markdown, rows } from "./report.mjs";
import { serve } from "./server.mjs";
import { agreement, rates, summary } from "./stats.mjs";

const here = path.dirname(fileURLToPath(import.meta.url));
const web = path.dirname(here);
const root = path.dirname(web);

/** Milliseconds for a model to load, and for an engine to read a long prompt. */
const LOADING = 120_000;
const READING = 290_000;

const options = parseOptions(process.argv.slice(2));
if (options.help) console.log(USAGE);
else await bench();

async function bench() {
  const out = path.resolve(root, options.out);
  const folders = {
    "/site/": path.resolve(root, options.site),
    "/pages/": path.join(here, "pages"),
    "/wllama/": path.join(here, "node_modules", "@wllama", "wllama", "esm"),
    "/ort/": path.join(here, "node_modules", "onnxruntime-web", "dist"),
    "/onnx/": out,
    "/demo/": path.join(root, "models", "demo"),
    "/testmodels/": path.resolve(root, options.testmodels),
  };
  await present(path.join(folders["/site/"], "foretoken.js"), "build the site first: make site");
  for (const engine of options.engines.filter((e) => e.package))
    await present(
      path.join(here, "node_modules", engine.package),
      "install the engines first: npm ci --prefix web/peers",
    );
  for (const model of options.models)
    for (const name of [model.target, model.draft].filter(Boolean))
      await present(
        path.join(folders[`/${model.folder}/`], name),
        model.large ? "make largemodels" : "make the test models first: make testmodels ALL=1",
      );

  const server = await serve(folders);
  const homes = {};
  try {
    for (const name of new Set(options.engines.map((e) => e.home))) {
      const missing = HOMES[name].missing();
      if (missing) throw new Error(`peers: ${name}: ${missing}`);
      homes[name] = await HOMES[name].start({ server, adapter: options.adapter });
    }
    const report = { ...(await circumstances(homes)), models: [] };
    for (const model of options.models) report.models.push(await measure(model, homes, folders, out));
    await fs.mkdir(out, { recursive: true });
    await fs.writeFile(path.join(out, "report.json"), JSON.stringify(report, null, 1));
    await fs.writeFile(path.join(out, "report.md"), markdown(report));
    if (options.json) await fs.writeFile(options.json, JSON.stringify(rows(report)));
    console.log(`\n${markdown(report)}`);
  } finally {
    for (const home of Object.values(homes)) await home.stop();
    await server.close();
  }
}

/** Describes the machine and its memory, and the versions. */
async function circumstances(homes) {
  const version = async (folder) => JSON.parse(await fs.readFile(path.join(folder, "package.json"), "utf8")).version;
  const commit = await promisify(execFile)("git", ["rev-parse", "--short", "HEAD"], {
    cwd: path.resolve(root, options.site),
  }).then(
    (r) => r.stdout.trim(),
    () => "",
  );
  const versions = { Foretoken: [await version(web), commit && `(${commit})`].filter(Boolean).join(" ") };
  for (const home of Object.values(homes)) Object.assign(versions, home.versions);
  for (const engine of options.engines)
    if (engine.package) versions[engine.package] = await version(path.join(here, "node_modules", engine.package));
  const [cpu] = os.cpus();
  const { repeat, tokens, seconds, warm } = options;
  return {
    date: new Date().toISOString(),
    machine: `${os.cpus().length} × ${cpu.model.trim()}`,
    versions,
    memory: homes.native && (await memory()),
    repeat,
    tokens,
    seconds,
    warm,
  };
}

/** Whether an engine can run on a model. */
function runs(engine, model) {
  return !(model.native && HOMES[engine.home].browser) && !(engine.model === "pair" && !model.draft);
}

/**
 * The engine that gives the reference output and the ids of the prompt: our plain decoding, in a page, which gives the
 * texts of tokens too, if there is one.
 */
function referenceOf(engines, homes, model) {
  const plain = (e) => e.page === "ours.html" && e.load.policy === "none" && homes[e.home] && runs(e, model);
  return [...engines, ...ENGINES].find(plain) ?? engines.find((e) => !e.page);
}

/** Runs all engines on one model. An engine that fails has a `problem`. */
async function measure(model, homes, folders, out) {
  const target = path.join(folders[`/${model.folder}/`], model.target);
  const url = (name) => name && `/${model.folder}/${name}`;
  const files = { path: target, target: url(model.target), context: model.context ?? CONTEXT };
  const engines = options.engines.filter((engine) => runs(engine, model));
  const unwritten = {}; // why weights cannot be exported
  for (const kind of new Set(engines.map((e) => e.model).filter((kind) => kind.startsWith("onnx")))) {
    files[kind] = `/onnx/${model.name}.${kind}`;
    try {
      files.config = await exportONNX(target, path.join(out, `${model.name}.${kind}`), {
        dequantise: kind === "onnx-f32",
      });
    } catch (cause) {
      unwritten[kind] = cause;
    }
  }
  const seats = [];
  const first = referenceOf(engines, homes, model);
  if (!first) throw new Error(`peers: none of --engines runs on ${model.name}`);
  let reference;
  for (const engine of [first, ...engines.filter((e) => e !== first)]) {
    const { name, title } = engine;
    const shown = `${model.name}: ${title}, ${HOMES[engine.home].name}`;
    const seat = { engine, runs: [], result: { name, title, home: HOMES[engine.home].name } };
    try {
      if (unwritten[engine.model]) throw unwritten[engine.model];
      const started = performance.now();
      seat.at = await homes[engine.home].open(engine);
      const draft = engine.model === "pair" ? url(model.draft) : null;
      const loaded = await within(
        LOADING,
        seat.at.load({ ...files, onnx: files[engine.model], draft, load: engine.load }),
      );
      seat.result.load_ms = performance.now() - started;
      seat.result.note = loaded.note;
      // Browsers compile what runs often while it runs: a large program is warm later than a small one.
      const warm = performance.now() + 1000 * options.warm;
      do {
        const { output } = await decode(seat, model.prompt, reference);
        reference ??= { ids: output.ids, texts: output.texts, prompt_ids: output.prompt_ids };
      } while (performance.now() < warm);
      console.log(`peers: ${shown}: loaded in ${(seat.result.load_ms / 1000).toFixed(1)} s`);
    } catch (cause) {
      if (engine === first) throw cause;
      seat.result.problem = problem(cause);
      console.log(`peers: ${shown}: ${seat.result.problem}`);
      await seat.at?.close();
    }
    seats.push(seat);
  }
  const timed = seats.filter((s) => !s.result.problem && engines.includes(s.engine));
  for (let i = 0; i < options.repeat; i++) {
    for (const seat of timed.filter((s) => !s.result.problem)) {
      try {
        const { times, output } = await decode(seat, model.prompt, reference);
        seat.runs.push(times);
        seat.result.agreement = worse(seat.result.agreement, agreement(reference, output));
        seat.result.last = { ...output, texts: undefined, prompt_ids: undefined };
      } catch (cause) {
        seat.result.problem = problem(cause);
      }
    }
  }
  for (const seat of timed) Object.assign(seat.result, summary(seat.runs), { runs: seat.runs });
  const readers = model.long ? timed.filter((s) => !s.result.problem && options.long.includes(s.engine)) : [];
  for (const seat of readers) await read(seat, model);
  for (const seat of seats) if (!seat.result.problem) await seat.at.close();
  return {
    name: model.name,
    prompt: model.prompt,
    prompt_tokens: reference.prompt_ids.length,
    weights: homes.native && (await weightsOf(target)),
    reference,
    engines: engines.map((engine) => seats.find((s) => s.engine === engine).result),
  };
}

/** Times the model's long prompt once. */
async function read(seat, model) {
  try {
    const request = { prompt: model.long, warm: model.prompt, tokens: 2, seconds: 1 };
    const { times, output } = await within(READING, seat.at.decode(request));
    const tokens = output.prompt_ids?.length ?? output.usage?.prompt_tokens;
    seat.result.read = { tokens, ttft_ms: rates({ ...times, tokens: output.tokens }).ttft_ms };
  } catch (cause) {
    seat.result.read = { problem: problem(cause) };
  }
}

/** Bytes of weights that a token reads: of an embedding that is not the output's matrix too, a row. */
async function weightsOf(file) {
  const { data_bytes, tensors } = await inspect(file);
  const of = (name) => tensors.find((tensor) => tensor.name === name);
  return data_bytes - (of("output.weight") ? of("token_embd.weight").bytes : 0);
}

/** Has an engine decode once. */
async function decode(seat, prompt, reference) {
  const { tokens, seconds } = options;
  const request = { prompt, prompt_ids: reference?.prompt_ids, tokens, seconds };
  const { times, output } = await within(1000 * seconds + LOADING, seat.at.decode(request));
  if (times.first === null) throw new Error("returned no token");
  return { output, times: { ...rates({ ...times, tokens: output.tokens }), tokens: output.tokens } };
}

/** Returns the more informative of two comparisons: a difference before agreement, then the earlier or shorter one. */
function worse(a, b) {
  if (!a || !b) return a ?? b;
  if (a.at < 0 && b.at >= 0) return b;
  if (b.at < 0) return a.at >= 0 || a.tokens <= b.tokens ? a : b;
  return a.at <= b.at ? a : b;
}

function within(ms, promise) {
  let timer;
  const late = new Promise(
    (_, reject) => (timer = setTimeout(() => reject(new Error(`did not end within ${ms / 1000} s`)), ms)),
  );
  return Promise.race([promise, late]).finally(() => clearTimeout(timer));
}

/** Returns the first line of an error, for a table. */
function problem(cause) {
  return String(cause?.message ?? cause)
    .replace(/^page\.evaluate: (Error: )?/, "")
    .split("\n")[0]
    .replaceAll("|", "/")
    .slice(0, 160);
}

async function present(file, fix) {
  await fs.access(file).catch(() => {
    throw new Error(`peers: ${path.relative(root, file)} is missing; ${fix}`);
  });
}
