/** The built site in Chromium without a network: its service worker keeps it, and follows newer builds. */
import assert from "node:assert/strict";
import { promises as fs } from "node:fs";
import os from "node:os";
import path from "node:path";
import { after, before, test } from "node:test";
import { startHost } from "./host.mjs";
import { dist, limit, openPage, root, startBrowser, TIMEOUT, waitForState, web } from "./site.mjs";

let browser;

before(async () => (browser = await startBrowser(false)));
after(() => browser?.close());

/** Waits until an async condition in the page holds; waitForFunction would treat the promise itself as true. */
async function until(page, condition, arg) {
  for (const end = Date.now() + TIMEOUT; !(await page.evaluate(condition, arg)); await page.waitForTimeout(500))
    assert.ok(Date.now() < end, `condition never held: ${condition}`);
}

const text = (page, selector) => page.locator(selector).first().innerText();

test(
  "the built site opens without a network, caches only its files, and updates to a newer build",
  limit,
  async (t) => {
    const copy = await fs.mkdtemp(path.join(os.tmpdir(), "foretoken-offline-"));
    await fs.cp(dist, copy, { recursive: true, filter: (file) => !/\.(br|gz)$/.test(file) });
    await fs.copyFile(path.join(root, "models", "demo", "draft-q8_0.gguf"), path.join(copy, "models", "own.gguf"));
    await rebuild(copy, "Foretoken");
    const host = await startHost({ folders: { "/some/where/": copy } });
    const url = `${host.url}some/where/`;
    const context = await browser.newContext({ serviceWorkers: "allow", viewport: { width: 1280, height: 900 } });
    try {
      const { page, record } = await openPage(context);
      const go = async (address) => {
        await page.goto(url + address);
        assert.equal(await waitForState(page, ["ready", "failed"]), "ready", await text(page, "#error"));
      };
      const write = () =>
        page.evaluate(() =>
          document
            .querySelector("foretoken-widget")
            .generate()
            .then((result) => result.text),
        );
      await go("?policy=chain&max-tokens=8&device=cpu");
      const first = await write();
      const prompt = await page.inputValue("#prompt");
      await page.waitForSelector("html[data-offline=ready]");
      const kept = () =>
        page.evaluate(async () =>
          (
            await Promise.all(
              (await caches.keys()).map(async (name) =>
                (await (await caches.open(name)).keys()).map((request) => request.url),
              ),
            )
          ).flat(),
        );
      const files = await kept();
      for (const name of [
        "index.html",
        "page.js",
        "worker.js",
        "foretoken.wasm",
        "models/demo/target-q8_0.gguf",
        "models/demo/draft-q8_0.gguf",
      ])
        assert.ok(
          files.some((one) => one.startsWith(`${url}${name}?`)),
          `${name} is kept`,
        );

      // The service worker does not cache a user's model.
      await go(
        "?policy=chain&max-tokens=8&device=cpu&target=models/demo/target-q8_0.gguf&draft=models/own.gguf&cache=off",
      );
      await page.fill("#prompt", prompt);
      assert.equal(await write(), first);
      assert.deepEqual((await kept()).sort(), files.sort(), "nothing was added");

      host.down(true);
      await go("?policy=chain&max-tokens=8&device=cpu");
      assert.equal(await write(), first, "the same text without a network");
      for (const tab of ["compare", "playground", "benchmark"]) {
        await page.click(`#tab-${tab}`);
        await page.waitForSelector(`#panel-${tab} > *`); // code that loads on demand is cached too
      }
      record.errors = record.errors.filter(
        (error) => !/sw\.js|net::ERR_|An unknown error occurred when fetching the script/.test(error),
      );
      assert.deepEqual(record.errors, []);

      // A newer build: the next visit gets it with its worker, and the service worker deletes the old one.
      await rebuild(copy, "Foretoken, newer");
      host.down(false);
      const title = () => page.evaluate(() => document.title);
      host.asked.length = 0;
      await go("?policy=chain&max-tokens=8&device=cpu");
      assert.equal(await title(), "Foretoken, newer");
      assert.ok(host.asked.includes("/some/where/worker.js"), "the worker came from the network");
      const old = files.find((one) => one.startsWith(`${url}index.html?`));
      // The new service worker deletes old files. Poll the cache: a service worker that gets messages is not replaced.
      await until(
        page,
        async (old) =>
          (await Promise.all((await caches.keys()).map(async (name) => (await caches.open(name)).match(old)))).every(
            (one) => !one,
          ),
        old,
      );
      host.down(true);
      await go("?policy=chain&max-tokens=8&device=cpu");
      assert.equal(await title(), "Foretoken, newer", "without a network too");

      // An open tab shows a message about a newer build, stays as it is, and updates when the user clicks Reload.
      await page.waitForSelector("html[data-offline=ready]");
      await page.fill("#prompt", "kept");
      await rebuild(copy, "Foretoken, newest");
      host.down(false);
      await page.evaluate(() =>
        navigator.serviceWorker.getRegistration().then((registration) => registration.update()),
      );
      await page.waitForSelector("#update");
      assert.match(await text(page, "#said"), /^A newer version of this page is ready\.\s*Reload/);
      assert.deepEqual(
        [await title(), await page.inputValue("#prompt")],
        ["Foretoken, newer", "kept"],
        "the tab changed on its own",
      );
      await page.click("#update");
      await page.waitForFunction(() => document.title === "Foretoken, newest");
      assert.equal(await waitForState(page, ["ready", "failed"]), "ready");
      assert.equal(await page.inputValue("#prompt"), "kept", "the reload keeps the prompt");
      await page.fill("#prompt", prompt);
      assert.equal(await write(), first);
      assert.equal(await page.locator("#update").count(), 0);
      host.down(true);
      await go("?policy=chain&max-tokens=8&device=cpu");
      assert.equal(await title(), "Foretoken, newest", "the newest build opens without a network");
      t.diagnostic(`cached for a visit without a network: ${files.length} files`);
    } finally {
      await context.close();
      await host.stop();
      await fs.rm(copy, { recursive: true });
    }
  },
);

/** Makes another build of the same site: a page with another title, and its service worker. */
async function rebuild(folder, title) {
  const { offline } = await import("../offline.mjs");
  const index = path.join(folder, "index.html");
  const page = await fs.readFile(index, "utf8");
  await fs.writeFile(
    index,
    page.replace(/<title>[^<]*/, `<title>${title}`).replace(/(foretoken-build" content=")[^"]*/, "$1"),
  );
  await offline(web, folder, TIMEOUT);
}
