/**
 * Compares our engine with others: a page each in one Chromium, with the same weights, prompt and adapter. Every engine
 * loads once and warms up; then this driver runs them in turn and times them from outside. The pages report only the
 * arrival of the first and the last token.
 */
import { execFile } from "node:child_process";
import { promises as fs } from "node:fs";
import os from "node:os";
import path from "node:path";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { chromium } from "playwright-core";
import { exportONNX } from "./export-onnx.mjs";
import { parseOptions, USAGE } from "./options.mjs";
import { markdown, rows } from "./report.mjs";
import { serve } from "./server.mjs";
import { agreement, rates, summary } from "./stats.mjs";
import { ENGINES } from "./engines.mjs";

const here = path.dirname(fileURLToPath(import.meta.url));
const web = path.dirname(here);
const root = path.dirname(web);
const REFERENCE = ENGINES[0];
const LOADING = 120_000;

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
    for (const name of [model.target, model.draft])
      await present(path.join(folders[`/${model.folder}/`], name), "make the test models first: make testmodels ALL=1");

  const server = await serve(folders);
  // Chromium on Linux uses Vulkan only with these flags.
  const gpu =
    options.adapter === "default"
      ? ["--enable-features=Vulkan", "--ignore-gpu-blocklist"]
      : [`--use-webgpu-adapter=${options.adapter}`];
  const browser = await chromium.launch({
    executablePath: process.env.CHROMIUM || "/usr/bin/chromium",
    args: [
      "--no-sandbox",
      "--enable-unsafe-webgpu",
      ...gpu,
      "--disable-background-networking",
      "--disable-component-update",
      "--disable-sync",
      "--no-first-run",
      "--disable-background-timer-throttling",
      "--disable-backgrounding-occluded-windows",
      "--disable-renderer-backgrounding",
    ],
  });
  try {
    const report = { ...(await circumstances(browser, server)), models: [] };
    for (const model of options.models) report.models.push(await measure(model, browser, server, folders, out));
    await fs.mkdir(out, { recursive: true });
    await fs.writeFile(path.join(out, "report.json"), JSON.stringify(report, null, 1));
    await fs.writeFile(path.join(out, "report.md"), markdown(report));
    if (options.json) await fs.writeFile(options.json, JSON.stringify(rows(report)));
    console.log(`\n${markdown(report)}`);
  } finally {
    await browser.close();
    await server.close();
  }
}

/** Describes the machine, the browser, the adapter that pages see, and the versions. */
async function circumstances(browser, server) {
  const page = await browser.newPage();
  await page.goto(`${server.url}pages/blank.html`);
  const adapter = await page.evaluate(async () => {
    const { info, features } = (await navigator.gpu?.requestAdapter()) ?? {};
    if (!info) return "none";
    const name = [info.vendor, info.architecture, info.description].filter(Boolean).join(" ");
    return [name, ...["shader-f16", "subgroups"].map((f) => `${features.has(f) ? "with" : "without"} ${f}`)].join(", ");
  });
  await page.close();
  const version = async (folder) => JSON.parse(await fs.readFile(path.join(folder, "package.json"), "utf8")).version;
  const commit = await promisify(execFile)("git", ["rev-parse", "--short", "HEAD"], {
    cwd: path.resolve(root, options.site),
  }).then(
    (r) => r.stdout.trim(),
    () => "",
  );
  const versions = { Foretoken: [await version(web), commit && `(${commit})`].filter(Boolean).join(" ") };
  for (const engine of options.engines)
    if (engine.package) versions[engine.package] = await version(path.join(here, "node_modules", engine.package));
  const [cpu] = os.cpus();
  const { repeat, tokens, seconds, warm } = options;
  return {
    date: new Date().toISOString(),
    machine: `${os.cpus().length} × ${cpu.model.trim()}`,
    chromium: browser.version(),
    adapter,
    versions,
    repeat,
    tokens,
    seconds,
    warm,
  };
}

/** Runs all engines on one model. An engine that fails has a `problem`. */
async function measure(model, browser, server, folders, out) {
  const target = path.join(folders[`/${model.folder}/`], model.target);
  const files = { target: `/${model.folder}/${model.target}` };
  const unwritten = {}; // why weights cannot be exported
  for (const kind of new Set(options.engines.map((e) => e.model).filter((kind) => kind.startsWith("onnx")))) {
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
  // Plain decoding gives the reference output and the ids of the prompt.
  const engines = [REFERENCE, ...options.engines.filter((e) => e !== REFERENCE)];
  const context = await browser.newContext();
  let reference;
  for (const engine of engines) {
    const { name, title } = engine;
    const seat = { engine, runs: [], result: { name, title } };
    try {
      if (unwritten[engine.model]) throw unwritten[engine.model];
      const started = performance.now();
      await open(seat, context, server);
      const draft = engine.model === "pair" ? `/${model.folder}/${model.draft}` : null;
      const loaded = await within(
        LOADING,
        seat.page.evaluate((o) => peer.load(o), { ...files, onnx: files[engine.model], draft, load: engine.load }),
      );
      seat.result.load_ms = performance.now() - started;
      seat.result.note = loaded.note;
      // Browsers compile what runs often while it runs: a large program is warm later than a small one.
      const warm = performance.now() + 1000 * options.warm;
      do {
        const { output } = await decode(seat, model, reference);
        reference ??= { ids: output.ids, texts: output.texts, prompt_ids: output.prompt_ids };
      } while (performance.now() < warm);
      console.log(`peers: ${model.name}: ${title}: loaded in ${(seat.result.load_ms / 1000).toFixed(1)} s`);
    } catch (cause) {
      if (engine === REFERENCE) throw cause;
      seat.result.problem = problem(cause);
      console.log(`peers: ${model.name}: ${title}: ${seat.result.problem}`);
      await seat.page?.close();
    }
    seats.push(seat);
  }
  const timed = seats.filter((s) => !s.result.problem && options.engines.includes(s.engine));
  for (let i = 0; i < options.repeat; i++) {
    for (const seat of timed.filter((s) => !s.result.problem)) {
      try {
        const { times, output } = await decode(seat, model, reference);
        seat.runs.push(times);
        seat.result.agreement = worse(seat.result.agreement, agreement(reference, output));
        seat.result.last = { ...output, texts: undefined, prompt_ids: undefined };
      } catch (cause) {
        seat.result.problem = problem(cause);
      }
    }
  }
  await context.close();
  for (const seat of timed) Object.assign(seat.result, summary(seat.runs), { runs: seat.runs });
  return {
    name: model.name,
    prompt: model.prompt,
    prompt_tokens: reference.prompt_ids.length,
    reference,
    engines: seats.filter((s) => options.engines.includes(s.engine)).map((s) => s.result),
  };
}

/** Opens an engine's page; it calls `seat.first` with its first tokens. */
async function open(seat, context, server) {
  const { engine } = seat;
  const page = (seat.page = await context.newPage());
  await page.exposeFunction("reportFirst", (tokens) => seat.first(tokens));
  await page.addInitScript(() => {
    globalThis.first = (tokens) => {
      globalThis.firstAt = performance.now();
      reportFirst(tokens);
    };
  });
  page.on("console", (message) => {
    if (message.type() === "error") console.error(`peers: ${engine.name}: ${message.text()}`);
  });
  await page.goto(`${server.url}pages/${engine.page}`);
  await page.waitForFunction(() => globalThis.peer);
  return seat;
}

/** Brings an engine's page to the front, and times one decode. */
async function decode(seat, model, reference) {
  const { tokens, seconds } = options;
  await seat.page.bringToFront();
  let first = null;
  let firstTokens = 0;
  seat.first = (n) => {
    first ??= performance.now();
    firstTokens ||= n;
  };
  const request = { prompt: model.prompt, prompt_ids: reference?.prompt_ids, tokens, seconds };
  const asked = performance.now();
  const decoding = seat.page.evaluate(
    async (o) => ({ output: await peer.decode(o), sinceFirst: performance.now() - firstAt }),
    request,
  );
  const { output, sinceFirst } = await within(1000 * seconds + LOADING, decoding);
  const end = performance.now();
  if (first === null) throw new Error("returned no token");
  return {
    output,
    times: { ...rates({ asked, first, end, sinceFirst, tokens: output.tokens, firstTokens }), tokens: output.tokens },
  };
}

/** Returns the more informative of two comparisons: a difference before agreement, then the earlier or shorter one. */
function worse(a, b) {
  if (!a || (a.at < 0 && b.at >= 0)) return b;
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
