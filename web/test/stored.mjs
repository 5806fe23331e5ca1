/** The helpers of the tests that load models into a page's widget and look at what the browser keeps of them. */
import assert from "node:assert/strict";
import { promises as fs } from "node:fs";
import os from "node:os";
import path from "node:path";
import { startFaults } from "./faults.mjs";
import { spread } from "./gguf.mjs";
import { openPage, root, startProfile, startServer, TIMEOUT, waitForState } from "./site.mjs";

/** The file of the built-in target. */
export const demo = path.join(root, "models", "demo", "target-q8_0.gguf");

/** The size of a stored file's chunks in bytes. */
export const CHUNK = 8 << 20;

/**
 * Starts a server with the site, one whose files fail as told, and a browser with a profile of its own. `data` is a
 * model of several chunks; `asked` returns the starts of the ranges that were requested of a file, in chunks.
 */
export async function startLoading(name) {
  const folder = await fs.mkdtemp(path.join(os.tmpdir(), `foretoken-${name}-`));
  const data = await spread(demo, 512 << 10, 5_000_000);
  const chunks = Math.ceil(data.length / CHUNK);
  assert.ok(chunks >= 4, `${data.length} bytes are too few chunks`);
  const server = await startServer(folder);
  const faults = await startFaults();
  const context = await startProfile(false, path.join(folder, "profile"), { viewport: { width: 1280, height: 1040 } });
  const asked = (file) =>
    faults.requests
      .filter((r) => r.path === `/${file}` && r.range && r.range !== "bytes=0-0")
      .map((r) => Number(/\d+/.exec(r.range)[0]) / CHUNK);
  const stop = async () => {
    await context.close();
    await faults.stop();
    await server.stop();
    await fs.rm(folder, { recursive: true, force: true, maxRetries: 5 });
  };
  return { folder, context, server, faults, data, chunks, asked, stop };
}

/** Starts to load an address or a name. */
export const begin = (page, target, attributes = {}) =>
  page.evaluate(
    ([target, attributes]) => {
      const widget = document.querySelector("foretoken-widget");
      for (const name of ["cache", "hub"]) widget.removeAttribute(name);
      for (const [name, value] of Object.entries({ ...attributes, target })) widget.setAttribute(name, value);
      window.told.length = 0;
      void widget.load().catch(() => undefined);
    },
    [target, attributes],
  );

/** Returns the state, the error, the notes and the status lines once a load has ended. */
export async function outcome(page, states = ["ready", "failed"]) {
  const state = await waitForState(page, states);
  const [error, notice, told] = await page.evaluate(() => {
    const shadow = document.querySelector("foretoken-widget").shadowRoot;
    const shown = (id) => (shadow.querySelector(id).hidden ? "" : shadow.querySelector(id).textContent);
    return [shown("#error"), shown("#notice"), window.told];
  });
  assert.ok(!error.includes("\n"), `one line: ${error}`);
  return { state, error, notice, told };
}

/** Waits until a status line matches; fails if the load ends first. */
export async function saw(page, line) {
  const seen = ({ source }) => {
    if (window.told.some((said) => new RegExp(source).test(said))) return true;
    return /ready|failed/.test(document.querySelector("foretoken-widget").dataset.state) && "ended";
  };
  const found = await page.waitForFunction(seen, { source: line.source });
  assert.equal(
    await found.jsonValue(),
    true,
    `no line was ${line}: ${await page.evaluate(() => window.told.join("\n"))}`,
  );
}

/** Waits until this many bytes of a file are stored. */
export async function waitForStored(page, name, bytes, timeout = TIMEOUT) {
  for (const end = Date.now() + timeout; ; await page.waitForTimeout(50)) {
    const have = (await storedFiles(page)).find((file) => file.name === name)?.have ?? 0;
    if (have >= bytes) return;
    assert.ok(Date.now() < end, `only ${have} of ${bytes} bytes of ${name} were kept in time`);
  }
}

/** Lists the stored files. */
export const storedFiles = (page) => page.evaluate(async () => (await import("./foretoken.js")).keptModels());

/** Lists the stored files once none is in use: the browser notices shortly after a worker closes its files. */
export async function idle(page) {
  for (const end = Date.now() + TIMEOUT; ; await page.waitForTimeout(50)) {
    const files = await storedFiles(page);
    if (!files.some((file) => file.busy)) return files;
    assert.ok(Date.now() < end, `still in use: ${JSON.stringify(files)}`);
  }
}

/** Waits until a tab queues for a file that another tab has open. */
export async function queued(page) {
  for (
    const end = Date.now() + TIMEOUT;
    !(await page.evaluate(async () => (await navigator.locks.query()).pending.length));
    await page.waitForTimeout(50)
  )
    assert.ok(Date.now() < end, "no tab waits for a file");
}

/** Returns a promise and the function that resolves it. */
export function gate() {
  let open;
  const opened = new Promise((resolve) => (open = resolve));
  return { open, opened };
}

/** Deletes all stored files. */
export const forget = (page) =>
  page.evaluate(async () => {
    const { keptModels, deleteKept } = await import("./foretoken.js");
    for (const end = Date.now() + 180_000; ;) {
      const left = await keptModels();
      if (left.length === 0) return;
      if (Date.now() > end) throw new Error(`still there: ${JSON.stringify(left)}`);
      for (const file of left) await deleteKept(file.key);
      await new Promise((resolve) => setTimeout(resolve, 50));
    }
  });

/** Flips a byte of the only stored file. */
export function damage(page, at) {
  return page.evaluate(async (at) => {
    const models = await (await navigator.storage.getDirectory()).getDirectoryHandle("foretoken-models");
    for await (const [name, handle] of models.entries()) {
      if (name.endsWith(".journal")) continue;
      const old = new Uint8Array(await (await handle.getFile()).slice(at, at + 1).arrayBuffer());
      const writer = await handle.createWritable({ keepExistingData: true });
      await writer.write({ type: "write", position: at, data: new Uint8Array([old[0] ^ 255]) });
      await writer.close();
    }
  }, at);
}

/** Opens a page whose widget has loaded nothing; `window.told` records its status lines. */
export async function openEmpty(context, url) {
  const { page } = await openPage(context);
  await page.goto(`${url}bench.html`);
  await page.evaluate(async () => {
    await import("./foretoken.js");
    const widget = document.createElement("foretoken-widget");
    widget.toggleAttribute("full", true);
    widget.setAttribute("device", "cpu");
    widget.setAttribute("max-tokens", "4");
    document.body.append(widget);
    await widget.open();
    window.told = [];
    const status = widget.shadowRoot.querySelector("#status");
    new MutationObserver(() => window.told.push(status.textContent)).observe(status, {
      childList: true,
      characterData: true,
      subtree: true,
    });
  });
  return page;
}

/**
 * Returns the memory of a process in bytes: total, and private (heaps of JavaScript and WebAssembly, compiled code).
 */
export async function memoryOf(pid) {
  const status = await fs.readFile(`/proc/${pid}/status`, "utf8").catch(() => "");
  const of = (field) => 1024 * Number(new RegExp(`${field}:\\s+(\\d+) kB`).exec(status)?.[1] ?? 0);
  return { rss: of("VmRSS"), own: of("RssAnon") };
}
