/**
 * The common setup of the end-to-end tests: the dev server, Chromium with or without WebGPU, records of a page's
 * requests and errors, and broken model files.
 */
import { execFile, spawn } from "node:child_process";
import { promises as fs } from "node:fs";
import os from "node:os";
import path from "node:path";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { chromium } from "playwright-core";
import { named } from "./gguf.mjs";

/**
 * The limit of a wait in milliseconds. It only has to exceed the time that a busy machine takes; a condition that never
 * holds fails after any limit.
 */
export const TIMEOUT = 300_000;

/** Skips a test that misses something, which make test then lists; with FORETOKEN_REQUIRE_DATA=1 the test fails. */
export async function notRun(t, missing) {
  if (process.env.FORETOKEN_REQUIRE_DATA === "1")
    throw new Error(`${missing} is missing, and FORETOKEN_REQUIRE_DATA=1 asks for it`);
  await fs.mkdir(path.dirname(NOT_RUN), { recursive: true });
  await fs.appendFile(NOT_RUN, `NOT RUN: web/test ${t.name}: ${missing} is missing\n`);
  t.skip(`NOT RUN: ${missing} is missing`);
}

/** The limit of a test: it ends a test that hangs, and exceeds the time that the slowest machine takes. */
const { FORETOKEN_FULL, FORETOKEN_SOAK } = process.env;
export const limit = { timeout: (FORETOKEN_FULL || FORETOKEN_SOAK ? 60 : 10) * 60_000 };

export const web = path.dirname(path.dirname(fileURLToPath(import.meta.url)));
export const root = path.dirname(web);
export const dist = path.join(web, "dist");
/** The list of the tests that {@link notRun} skipped. */
export const NOT_RUN = path.join(root, "build", "notrun", "e2e");

/** Builds and starts the dev server on a free port; `more` are further flags. */
export async function startServer(models, more = []) {
  for (const file of ["index.html", "foretoken.wasm", "worker.js"]) {
    await fs.access(path.join(dist, file)).catch(() => {
      throw new Error(`web/dist/${file} is missing: build the site first (npm run build)`);
    });
  }
  const folder = await fs.mkdtemp(path.join(os.tmpdir(), "foretoken-e2e-"));
  const binary = path.join(folder, "devserver");
  await promisify(execFile)("go", ["build", "-o", binary, "./cmd/devserver"], { cwd: root });
  const child = spawn(binary, ["--addr", "127.0.0.1:0", "--dir", dist, "--models", models, ...more], {
    stdio: ["ignore", "pipe", "inherit"],
  });
  const url = await new Promise((resolve, reject) => {
    child.once("exit", (code) => reject(new Error(`the dev server ended with ${code}`)));
    child.stdout.on("data", (text) => {
      const match = /http:\/\/[\d.:]+\//.exec(String(text));
      if (match) resolve(match[0]);
    });
  });
  return {
    url,
    async stop() {
      child.removeAllListeners("exit");
      const ended = new Promise((resolve) => child.once("exit", resolve));
      child.kill("SIGINT");
      await ended;
      await fs.rm(folder, { recursive: true });
    },
  };
}

/**
 * Starts Chromium; with `webgpu` on its software adapter, so that every machine runs the same, or on an `adapter`,
 * where "gpu" is the machine's own. Contexts wait up to TIMEOUT, and by default block service workers, so that pages
 * come from the server, and reduce motion, because a recording that moves keeps a processor busy. `more` are further
 * flags.
 */
export async function startBrowser(webgpu, more = [], adapter = "swiftshader") {
  const options = browserOptions(webgpu, adapter);
  const browser = await chromium.launch({ ...options, args: [...options.args, ...more] });
  const make = browser.newContext.bind(browser);
  browser.newContext = async (options) =>
    patient(await make({ serviceWorkers: "block", reducedMotion: "reduce", ...options }));
  return browser;
}

/** Starts Chromium as startBrowser does, with a profile on disk, as users do: sites store files, and quotas apply. */
export async function startProfile(webgpu, folder, { adapter, ...options } = {}) {
  const { args, ...rest } = browserOptions(webgpu, adapter);
  return patient(
    await chromium.launchPersistentContext(folder, {
      serviceWorkers: "block",
      ...rest,
      ...options,
      args: [...args, ...(options.args ?? [])],
    }),
  );
}

function patient(context) {
  context.setDefaultTimeout(TIMEOUT);
  return context;
}

/**
 * Features that Playwright switches off, and the address bar's two pop-ups, which are pages: without them a new window
 * takes a quarter less processor time. Chromium reads the last such flag only.
 */
const WITHOUT =
  "AvoidUnnecessaryBeforeUnloadCheckSync,DestroyProfileOnBrowserClose,HttpsUpgrades,HttpsFirstBalancedModeAutoEnable," +
  "LensOverlay,MediaRouter,PaintHolding,ThirdPartyStoragePartitioning,AvoidCorsURLLoaderRestartOnRedirect," +
  "OptimizationHints,NetworkTimeServiceQuerying,AimEnabled,PreconnectToSearch,WebUIOmniboxPopup,WebUIOmniboxAimPopup";

/** What Chromium on Linux needs to use a GPU without a screen. */
const HEADLESS_GPU = [
  "--use-angle=vulkan",
  "--enable-features=Vulkan,WebGPUService",
  "--disable-vulkan-surface",
  "--ignore-gpu-blocklist",
  "--disable-gpu-sandbox",
];

function browserOptions(webgpu, adapter = "swiftshader") {
  const own = adapter === "gpu" ? HEADLESS_GPU : [`--use-webgpu-adapter=${adapter}`];
  const gpu = webgpu ? ["--enable-unsafe-webgpu", ...own] : ["--disable-gpu"];
  return {
    executablePath: process.env.CHROMIUM || "/usr/bin/chromium",
    args: [
      "--no-sandbox",
      ...gpu,
      "--disable-background-networking",
      "--disable-component-update",
      "--disable-sync",
      "--disable-quic",
      "--no-first-run",
      `--disable-features=${WITHOUT}`,
    ],
  };
}

/** Opens a page and records its requests, console errors and uncaught exceptions. */
export async function openPage(context) {
  const page = await context.newPage();
  const record = { requests: [], errors: [] };
  page.on("request", (request) => record.requests.push(request.url()));
  page.on("pageerror", (error) => record.errors.push(error.message));
  page.on("console", (message) => {
    if (message.type() === "error") record.errors.push(`${message.text()} (${message.location().url})`);
  });
  return { page, record };
}

/** Runs `code` in the page's workers before their script. */
export async function beforeWorker(page, code) {
  await page.route("**/worker.js", async (route) => {
    const response = await route.fetch();
    await route.fulfill({ response, body: code + (await response.text()) });
  });
}

/**
 * Runs `act`, which starts a generation, and waits for its end, or for another event of the widget. Listens first,
 * because a short one may end at once.
 */
export async function generated(page, act, event = "foretoken-done") {
  await page.evaluate((event) => {
    const widget = document.querySelector("foretoken-widget");
    window.ended = new Promise((resolve, reject) => {
      widget.addEventListener(event, ({ detail }) => resolve(detail), { once: true });
      widget.addEventListener("foretoken-error", ({ detail }) => reject(detail), { once: true });
    });
  }, event);
  await act();
  return page.evaluate(() => window.ended);
}

/**
 * Waits until the widget is in one of these states and returns it. It can miss a short state; see {@link generated}.
 */
export async function waitForState(page, states, timeout = TIMEOUT) {
  const handle = await page.waitForFunction(
    (wanted) => {
      const state = document.querySelector("foretoken-widget")?.dataset.state;
      return wanted.includes(state) && state;
    },
    [states].flat(),
    { timeout, polling: 20 },
  );
  return handle.jsonValue();
}

/** Unfolds the settings, which are closed at first. */
export const openSettings = (page) => page.click("details.settings > summary");

/** Unfolds the lab, the figures that are closed at first. */
export const openLab = (page) => page.click("details.lab > summary");

/** Writes the broken models and returns their folder. */
export async function brokenModels() {
  const folder = await fs.mkdtemp(path.join(os.tmpdir(), "foretoken-models-"));
  const target = await fs.readFile(path.join(root, "models", "demo", "target-q8_0.gguf"));
  const draft = await fs.readFile(path.join(root, "models", "demo", "draft-q8_0.gguf"));
  const write = (name, data) => fs.writeFile(path.join(folder, name), data);
  await write("truncated.gguf", target.subarray(0, Math.floor(target.length * 0.6)));
  await write("header-only.gguf", target.subarray(0, 40));
  await write("magic.gguf", Buffer.concat([Buffer.from("ELF!"), target.subarray(4)]));
  // The same draft with two words of its vocabulary swapped: a valid model whose ids have other meanings.
  const swapped = Buffer.from(draft);
  const place = (word) => {
    const at = draft.indexOf(Buffer.concat([Buffer.from([word.length, 0, 0, 0, 0, 0, 0, 0]), Buffer.from(word)]));
    if (at < 0) throw new Error(`the draft's vocabulary has no token ${word}`);
    return at + 8;
  };
  swapped.write("type", place("func"));
  swapped.write("func", place("type"));
  await write("mismatched.gguf", swapped);
  const template = "tokenizer.chat_template";
  await write("silent.gguf", named(target, "silent", { [template]: null }));
  await write(
    "talking.gguf",
    named(target, "talking", {
      [template]:
        "{% for m in messages %}// {{ m.role }}: {{ m.content }}\n{% endfor %}" +
        "{% if add_generation_prompt %}// assistant: {% endif %}",
    }),
  );
  return folder;
}
