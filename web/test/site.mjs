/**
 * What the end-to-end tests stand on: the dev server, Chromium with or without
 * WebGPU, a record of what a page asked for and complained about, and model
 * files that are broken on purpose.
 */
import { execFile, spawn } from "node:child_process";
import { promises as fs } from "node:fs";
import os from "node:os";
import path from "node:path";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { chromium } from "playwright-core";

export const web = path.dirname(path.dirname(fileURLToPath(import.meta.url)));
export const root = path.dirname(web);
export const dist = path.join(web, "dist");

/** Builds and starts the dev server on a free port. */
export async function startServer(models) {
  for (const file of ["index.html", "foretoken.wasm", "worker.js"]) {
    await fs.access(path.join(dist, file)).catch(() => {
      throw new Error(`web/dist/${file} is missing: build the site first (npm run build)`);
    });
  }
  const folder = await fs.mkdtemp(path.join(os.tmpdir(), "foretoken-e2e-"));
  const binary = path.join(folder, "devserver");
  await promisify(execFile)("go", ["build", "-o", binary, "./cmd/devserver"], { cwd: root });
  const child = spawn(binary, ["--addr", "127.0.0.1:0", "--dir", dist, "--models", models], { stdio: ["ignore", "pipe", "inherit"] });
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

/** Starts Chromium; with `webgpu` on its software adapter, so that every machine runs the same. */
export function startBrowser(webgpu) {
  const gpu = webgpu ? ["--enable-unsafe-webgpu", "--use-webgpu-adapter=swiftshader"] : ["--disable-gpu"];
  return chromium.launch({
    executablePath: process.env.CHROMIUM || "/usr/bin/chromium",
    args: [
      "--no-sandbox",
      ...gpu,
      "--disable-background-networking",
      "--disable-component-update",
      "--disable-sync",
      "--disable-quic",
      "--no-first-run",
    ],
  });
}

/** A page whose requests, console errors and uncaught exceptions are kept. */
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

/** Waits until the widget is in one of these states and returns it. */
export async function waitForState(page, states, timeout = 120_000) {
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

/** Writes the broken models and returns their folder. */
export async function brokenModels() {
  const folder = await fs.mkdtemp(path.join(os.tmpdir(), "foretoken-models-"));
  const target = await fs.readFile(path.join(root, "models", "demo", "target-q8_0.gguf"));
  const draft = await fs.readFile(path.join(root, "models", "demo", "draft-q8_0.gguf"));
  const write = (name, data) => fs.writeFile(path.join(folder, name), data);
  await write("truncated.gguf", target.subarray(0, Math.floor(target.length * 0.6)));
  await write("header-only.gguf", target.subarray(0, 40));
  await write("magic.gguf", Buffer.concat([Buffer.from("ELF!"), target.subarray(4)]));
  // The same draft, but two words of its vocabulary have changed places: a
  // sound model whose ids mean something else.
  const swapped = Buffer.from(draft);
  const place = (word) => {
    const at = draft.indexOf(Buffer.concat([Buffer.from([word.length, 0, 0, 0, 0, 0, 0, 0]), Buffer.from(word)]));
    if (at < 0) throw new Error(`the draft's vocabulary has no token ${word}`);
    return at + 8;
  };
  swapped.write("type", place("func"));
  swapped.write("func", place("type"));
  await write("mismatched.gguf", swapped);
  return folder;
}

/** The mean of numbers. */
export const mean = (list) => list.reduce((sum, x) => sum + x, 0) / Math.max(list.length, 1);
