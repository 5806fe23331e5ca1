/**
 * Damaged files of the page: in the service worker's cache, in the HTTP cache and on the way. The page heals by itself,
 * and where it cannot start it shows the way to reset.html.
 */
import assert from "node:assert/strict";
import { promises as fs } from "node:fs";
import os from "node:os";
import path from "node:path";
import { after, before, test } from "node:test";
import { startHost } from "./host.mjs";
import { dist, limit, openPage, TIMEOUT, startBrowser, waitForState } from "./site.mjs";

let browser, host, folder, url;

before(async () => {
  folder = await fs.mkdtemp(path.join(os.tmpdir(), "foretoken-damaged-"));
  await fs.cp(dist, folder, { recursive: true, filter: (file) => !/\.(br|gz)$/.test(file) });
  host = await startHost({ folders: { "/app/": folder } });
  url = `${host.url}app/`;
  browser = await startBrowser(false);
});

after(async () => {
  await browser?.close();
  await host?.stop();
  if (folder) await fs.rm(folder, { recursive: true });
});

const query = "?device=cpu&policy=none&max-tokens=4";
const alert = (page) =>
  page.evaluate(() => document.querySelector("foretoken-widget")?.shadowRoot?.querySelector("#error")?.textContent);

/** Opens the page and waits until it is ready. */
async function visit(page) {
  await page.goto(url + query);
  assert.equal(await waitForState(page, ["ready", "failed"]), "ready", await alert(page));
}

/** Opens the page with its files stored. */
async function stored() {
  const context = await browser.newContext({ serviceWorkers: "allow" });
  const { page } = await openPage(context);
  await visit(page);
  await page.waitForSelector("html[data-offline=ready]");
  return { context, page };
}

/** Replaces the stored bytes of a file; `damage` has the bytes and returns what to store. */
const damage = (page, name, how) =>
  page.evaluate(
    async ([url, name, how]) => {
      for (const key of await caches.keys()) {
        const cache = await caches.open(key);
        for (const request of await cache.keys()) {
          if (!request.url.startsWith(`${url}${name}?`)) continue;
          const response = await cache.match(request);
          const bytes = new Uint8Array(await response.arrayBuffer());
          const bad = {
            truncated: () => bytes.slice(0, bytes.length / 2),
            empty: () => new Uint8Array(),
            flipped: () => bytes.map((byte, i) => (i === bytes.length >> 1 ? byte ^ 1 : byte)),
          }[how]();
          await cache.put(request, new Response(bad, { headers: response.headers }));
          return bytes.length;
        }
      }
      throw new Error(`${name} is not stored`);
    },
    [url, name, how],
  );

/** Returns the size of a stored file. */
const sizeOf = (page, name) =>
  page.evaluate(
    async ([url, name]) => {
      for (const key of await caches.keys()) {
        const cache = await caches.open(key);
        for (const request of await cache.keys())
          if (request.url.startsWith(`${url}${name}?`))
            return (await (await cache.match(request)).arrayBuffer()).byteLength;
      }
      return -1;
    },
    [url, name],
  );

/** Waits until an async condition in Node holds. */
async function until(what, condition) {
  for (const end = Date.now() + TIMEOUT; !(await condition()); await new Promise((go) => setTimeout(go, 50)))
    assert.ok(Date.now() < end, what);
}

/**
 * Attack: a file of the offline cache that is truncated, flipped or empty
 * Bound: compared with its hash before each use; the server's replaces it in the same visit
 */
test("damaged files of the offline cache are replaced, and the visit works", limit, async (t) => {
  const { context, page } = await stored();
  for (const [name, how] of [
    ["foretoken.wasm", "truncated"],
    ["foretoken.wasm", "flipped"],
    ["worker.js", "truncated"],
    ["page.js", "empty"],
    ["start.js", "truncated"],
    ["wasm_exec.js", "flipped"],
    ["models/demo/target-q8_0.gguf", "truncated"],
    ["index.html", "empty"],
  ])
    await t.test(`${name} ${how}`, async () => {
      const size = await damage(page, name, how);
      await visit(page);
      await until(`${name} is not replaced`, async () => (await sizeOf(page, name)) === size);
      host.down(true);
      await visit(page);
      host.down(false);
    });
  await t.test("the list of tabs of a newer build", async () => {
    await page.evaluate(async () => {
      for (const key of await caches.keys())
        if (key.startsWith("foretoken-site:"))
          await (await caches.open(key)).put(`${key.slice("foretoken-site:".length)}?newer`, new Response("[trunc"));
    });
    const session = await context.newCDPSession(page);
    await session.send("ServiceWorker.enable");
    await session.send("ServiceWorker.stopAllWorkers"); // it holds the list in memory
    await visit(page);
  });
  await context.close();
});

/**
 * Attack: a program damaged in the HTTP cache or on the way
 * Bound: fetched again past the cache
 */
test("a program damaged in the HTTP cache, or once on the way, is fetched again", limit, async () => {
  const context = await browser.newContext();
  const { page } = await openPage(context);
  const whole = await fs.readFile(path.join(folder, "foretoken.wasm"));
  let asked = 0; // first to see whether the server compresses, then without a compressed copy, then past the cache
  await page.route("**/foretoken.wasm", (route) => {
    const body = asked++ < 2 ? whole.subarray(0, whole.length / 2) : whole;
    return route.fulfill({ contentType: "application/wasm", body });
  });
  await visit(page);
  assert.ok(asked >= 3, `asked ${asked} times`);
  await context.close();
});

/**
 * Attack: a page whose script does not start
 * Bound: a link to reset.html, which needs no other file of the page and deletes nothing without the server
 */
test("a page whose script does not start shows the way to reset.html, which removes what is stored",
  limit, async () => {
  const { context, page } = await stored();
  // The server's own file is broken, and the stored one: nothing helps until the server is mended.
  const script = path.join(folder, "page.js");
  const whole = await fs.readFile(script);
  await damage(page, "page.js", "empty");
  await fs.writeFile(script, "throw new Error('damaged');");
  await page.goto(url + query);
  const link = page.locator("foretoken-widget > p a");
  await link.waitFor(); // visible after some seconds
  await fs.writeFile(script, whole);
  await link.click();
  await page.waitForURL(/reset\.html$/);
  host.down(true);
  await page.click("#reset");
  await page.locator("#said").waitFor();
  assert.match(await page.locator("#said").innerText(), /Nothing was deleted/);
  assert.ok(await page.evaluate(async () => (await caches.keys()).length > 0));
  host.down(false);
  await page.click("#reset");
  await page.waitForURL(url);
  assert.equal(await waitForState(page, ["ready", "failed"]), "ready", await alert(page));
  await page.waitForSelector("html[data-offline=ready]"); // and the files are stored again
  await context.close();
});

/**
 * Attack: a worker whose script does not start
 * Bound: the error has a link to reset.html
 */
test("a worker that does not start leads to reset.html", limit, async () => {
  const worker = path.join(folder, "worker.js");
  const whole = await fs.readFile(worker);
  await fs.writeFile(worker, "throw new Error('damaged');");
  const context = await browser.newContext();
  const { page } = await openPage(context);
  await page.goto(url + query);
  assert.equal(await waitForState(page, ["ready", "failed"]), "failed");
  await page.locator("#said a", { hasText: "Reset" }).click();
  await page.waitForURL(/reset\.html$/);
  await fs.writeFile(worker, whole);
  await page.click("#reset");
  await page.waitForURL(url);
  assert.equal(await waitForState(page, ["ready", "failed"]), "ready", await alert(page));
  await context.close();
});
