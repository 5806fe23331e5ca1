/**
 * Where engines run: pages of Chromium or Firefox, our program, llama.cpp. A home's `start` resolves with its
 * `versions` and with
 *
 *   open(engine)      a seat with `load(files)` and `decode(request)`, as pages/publish.js has them, and `close`
 *   stop()            ends all
 *
 * `name` is how reports call a home.
 */
import { execFile, fork } from "node:child_process";
import { existsSync, promises as fs, readFileSync } from "node:fs";
import os from "node:os";
import path from "node:path";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { chromium } from "playwright-core";
import { BROWSERS } from "../test/drivers.mjs";

const here = path.dirname(fileURLToPath(import.meta.url));
const root = path.dirname(path.dirname(here));
const PROGRAM = path.join(root, "build", "foretoken");
const LLAMA = path.join(root, "build", "llama", "node_modules", "node-llama-cpp");

/** Milliseconds for a page's engine to appear. */
const APPEARING = 60_000;

const run = async (...args) => {
  const { stdout } = await promisify(execFile)(PROGRAM, args, { maxBuffer: 1 << 28 });
  return stdout;
};

/** What `foretoken inspect` and `foretoken doctor` say of a model and of this machine's memory. */
export const inspect = async (file) => JSON.parse(await run("inspect", "--json", file));
export const memory = async () => JSON.parse(await run("doctor", "--device", "cpu", "--repeat", "3", "--json")).memory;

async function startChromium({ server, adapter }) {
  // Chromium on Linux uses Vulkan only with these flags.
  const gpu =
    adapter === "default"
      ? ["--enable-features=Vulkan", "--ignore-gpu-blocklist"]
      : [`--use-webgpu-adapter=${adapter}`];
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
  return {
    versions: { Chromium: browser.version(), WebGPU: await adapterOf(browser, server) },
    async open(engine) {
      const page = await browser.newPage();
      page.on("console", (message) => {
        if (message.type() === "error") console.error(`peers: ${engine.name}: ${message.text()}`);
      });
      await page.goto(`${server.url}pages/${engine.page}`);
      await page.waitForFunction(() => globalThis.peer, null, { timeout: APPEARING });
      return {
        load: (given) => page.evaluate((o) => peer.load(o), given),
        async decode(request) {
          await page.bringToFront();
          return page.evaluate((o) => peer.decode(o), request);
        },
        close: () => page.close(),
      };
    },
    stop: () => browser.close(),
  };
}

/** Describes the adapter that pages see. */
async function adapterOf(browser, server) {
  const page = await browser.newPage();
  await page.goto(`${server.url}pages/blank.html`);
  const adapter = await page.evaluate(async () => {
    const { info, features } = (await navigator.gpu?.requestAdapter()) ?? {};
    if (!info) return "none";
    const name = [info.vendor, info.architecture, info.description].filter(Boolean).join(" ");
    return [name, ...["shader-f16", "subgroups"].map((f) => `${features.has(f) ? "with" : "without"} ${f}`)].join(", ");
  });
  await page.close();
  return adapter;
}

/** Firefox stops between its turns: without a screen it takes most of a processor, which the others would lack. */
async function startFirefox({ server }) {
  const browser = await BROWSERS.firefox.start();
  browser.pause();
  const turn = async (work) => {
    browser.resume();
    try {
      return await work();
    } finally {
      browser.pause();
    }
  };
  return {
    versions: { Firefox: browser.version },
    async open(engine) {
      const page = await turn(() => browser.open(`${server.url}pages/${engine.page}`));
      return {
        load: (given) => turn(() => page.evaluate((o) => window.peer.load(o), given)),
        decode: (request) => turn(() => page.evaluate((o) => window.peer.decode(o), request)),
        close: () => turn(page.close),
      };
    },
    async stop() {
      browser.resume();
      await browser.stop();
    },
  };
}

/** Our program decodes in a process of its own each time, which loads the model and first decodes once untimed. */
async function startProgram() {
  return {
    versions: {},
    async open({ load: { threads } }) {
      let file;
      let rate = Infinity; // tokens a second of the time before
      return {
        async load({ path }) {
          file = path;
          return { note: threads ? "" : `${os.availableParallelism()} threads` };
        },
        async decode({ prompt, warm = prompt, tokens, seconds }) {
          const folder = await fs.mkdtemp(path.join(os.tmpdir(), "foretoken-peers-"));
          try {
            const prompts = path.join(folder, "prompts.jsonl");
            const lines = [warm, prompt].map((prompt, i) => JSON.stringify({ id: `prompt ${i}`, prompt }));
            await fs.writeFile(prompts, lines.join("\n"));
            const most = Math.max(2, Math.min(tokens, Math.ceil(rate * seconds)));
            const flags = ["--target", file, "--draft", "none", "--device", "cpu", "--policy", "none", "--json"];
            flags.push("--max-tokens", String(most), "--prompt-file", prompts, "--no-reuse");
            if (threads) flags.push("--threads", String(threads));
            const out = await run("generate", ...flags);
            const { token_ids: ids, prompt_ids, stats } = JSON.parse(out.trim().split("\n")[1]);
            rate = Math.min(rate, ...(stats.decode_tok_s > 0 ? [stats.decode_tok_s] : []));
            const times = { asked: 0, first: stats.ttft_ms, firstTokens: 1, end: stats.total_ms };
            return { output: { ids, prompt_ids, tokens: ids.length }, times };
          } finally {
            await fs.rm(folder, { recursive: true, force: true });
          }
        },
        close: () => undefined,
      };
    },
    stop: () => undefined,
  };
}

/** llama.cpp runs in a process for each engine. */
async function startLlama() {
  const { version } = JSON.parse(readFileSync(path.join(LLAMA, "package.json"), "utf8"));
  const { tag } = JSON.parse(readFileSync(path.join(LLAMA, "llama", "llama.cpp.info.json"), "utf8"));
  return {
    versions: { "llama.cpp": `${tag} (node-llama-cpp ${version})` },
    async open({ load: { threads } }) {
      const child = fork(path.join(here, "llama.mjs"), [LLAMA, String(threads || os.availableParallelism())]);
      const ask = (call, given) =>
        new Promise((resolve, reject) => {
          child.once("message", ({ value, error }) => {
            child.off("exit", ended);
            if (error) reject(new Error(error));
            else resolve(value);
          });
          const ended = (code) => reject(new Error(`llama.cpp ended with ${code}`));
          child.once("exit", ended);
          child.send({ call, given }, (error) => error && reject(error)); // the child may have ended
        });
      return {
        load: (given) => ask("load", given),
        decode: (request) => ask("decode", request),
        close: () => child.kill("SIGKILL"),
      };
    },
    stop: () => undefined,
  };
}

const withoutFirefox = () => {
  const missing = BROWSERS.firefox.missing();
  return missing && `${missing} is missing; make deps`;
};
const need = (file, fix) => (existsSync(file) ? undefined : `${path.relative(root, file)} is missing; ${fix}`);

/** The homes by name. `missing` says what has to be made first. */
export const HOMES = {
  chromium: { name: "Chromium", browser: true, missing: () => undefined, start: startChromium },
  firefox: { name: "Firefox", browser: true, missing: withoutFirefox, start: startFirefox },
  native: { name: "native", missing: () => need(PROGRAM, "make bench-peers builds it"), start: startProgram },
  llama: { name: "native", missing: () => need(LLAMA, "make bench-peers installs it"), start: startLlama },
};
