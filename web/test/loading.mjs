/**
 * Loading, end to end: the built site in Chromium with a faulty server, and the messages that the user sees.
 * FORETOKEN_FULL=1 adds times and peak memory of a file of 500 MB.
 */
import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import { promises as fs } from "node:fs";
import path from "node:path";
import { after, before, test } from "node:test";
import { startFaults } from "./faults.mjs";
import { zeros } from "./gguf.mjs";
import { limit, openSettings, TIMEOUT, root, startProfile, waitForState } from "./site.mjs";
import {
  begin, CHUNK, damage, demo, forget, gate, idle, memoryOf, openEmpty, outcome, queued, saw, startLoading, storedFiles,
  waitForStored,
} from "./stored.mjs";

const full = process.env.FORETOKEN_FULL === "1";

let folder, context, server, faults, data, chunks, asked, stop;

before(async () => ({ folder, context, server, faults, data, chunks, asked, stop } = await startLoading("loading")));
after(() => stop?.());

const text = (page, selector) => page.locator(selector).innerText();

const open = (of = context) => openEmpty(of, server.url);

/** Loads, and returns the state, the error, the notes and the status lines. */
async function load(page, target, attributes) {
  faults.requests.length = 0;
  await begin(page, target, attributes);
  return outcome(page);
}

const address = (name) => `${faults.url}/${name}`;
const whole = [...Array(20).keys()];

test("a download is stored: progress, the list, loading without a network, deleting", limit, async () => {
  const page = await open();
  // Slow until the line with a rate is visible: a fast machine would finish between two progress events.
  const file = { data, rate: 1e6 };
  faults.files.set("/kept.gguf", file);
  faults.requests.length = 0;
  await begin(page, address("kept.gguf"));
  await saw(page, /^Downloading · [\d.]+ [kM]B of [\d.]+ MB · [\d.]+ [kM]B\/s · \d+ (s|min) left$/);
  delete file.rate;
  const cold = await outcome(page);
  assert.equal(cold.state, "ready", cold.error);
  assert.deepEqual([...new Set(asked("kept.gguf"))].sort(), whole.slice(0, chunks), "a chunk was not requested");
  const [entry] = await idle(page);
  assert.deepEqual([entry.name, entry.size, entry.have, entry.done], ["kept.gguf", data.length, data.length, true]);

  const warm = await load(page, address("kept.gguf"), { cache: "first" });
  assert.equal(warm.state, "ready", warm.error);
  assert.deepEqual(faults.requests, [], "sent requests to the server");
  const again = await load(page, address("kept.gguf"));
  assert.deepEqual(
    [again.state, faults.requests.map((r) => r.range)],
    ["ready", ["bytes=0-0"]],
    "a file of this machine is checked for changes",
  );
  faults.files.delete("/kept.gguf");
  assert.equal(
    (await load(page, address("kept.gguf"))).state,
    "ready",
    "a file that the server no longer has loads from the store",
  );

  await openSettings(page);
  await page.click("#own-models > summary");
  await page.locator("#kept-list li").waitFor();
  assert.match(await text(page, "#kept-list"), /kept\.gguf\s*[\d.]+ MB · last used /);
  assert.match(await text(page, "#kept-total"), /[\d.]+ MB in all, .* free of /);
  await idle(page);
  await page.locator("#kept-list button").click();
  await page.locator("#kept-list .empty").waitFor();
  assert.match(await text(page, "#kept-said"), /Deleted kept\.gguf/);
  assert.deepEqual(await storedFiles(page), []);
  await page.close();
});

test("faults of the network and the server, and the messages that the user sees", limit, async (t) => {
  const page = await open();
  const step = (name, file, check, attributes) =>
    t.test(name, async () => {
      faults.files.set(`/${name}.gguf`, { data, ...file });
      const result = await load(page, address(`${name}.gguf`), attributes);
      if (result.error || result.notice) t.diagnostic(`${name}: ${result.error || result.notice}`);
      await check(result);
      await forget(page);
    });
  const ready = ({ state, error, notice }) => assert.deepEqual([state, error, notice], ["ready", "", ""]);
  const failed =
    (pattern) =>
    ({ state, error }) => {
      assert.equal(state, "failed");
      assert.match(error, pattern);
    };

  await step("dropped", { drop: (n) => (n <= 5 ? 1_000_000 * n : undefined) }, ready);
  // The network fails once a chunk is stored, so that the result does not depend on speed.
  const down = {
    gate: (start) => (start < CHUNK ? undefined : waitForStored(page, "line-down.gguf", CHUNK)),
    drop: (_, start) => (start < CHUNK ? undefined : 0),
  };
  await step(
    "line-down",
    down,
    failed(
      new RegExp(
        String.raw`line-down\.gguf: download: the connection dropped at byte \d+ and 4 retries failed: .*; ` +
          String.raw`loading again continues after the [\d.]+ MB of [\d.]+ MB already stored`,
      ),
    ),
  );
  await step("ignores-range", { ranges: false }, ({ state, error, notice }) => {
    assert.deepEqual([state, error], ["ready", ""]);
    assert.match(notice, /ignores-range\.gguf: this server does not send parts of a file/);
    assert.equal(faults.requests.length, 1);
  });
  await step("short-length", { length: (n) => n + 1000 }, failed(/short-length\.gguf: download: .*length header/));
  await step(
    "long-total",
    { total: data.length + 5 * CHUNK },
    failed(/long-total\.gguf: (download: .*length header|.*truncated)/),
  );
  await step(
    "refuses-cors",
    { cors: false },
    failed(/refuses-cors\.gguf: download: .*does not let other sites read its files \(CORS/),
  );
  await t.test("404", async () =>
    failed(/^nothing\.gguf: download: the server answered 404 Not Found for http:/)(
      await load(page, address("nothing.gguf")),
    ),
  );

  await t.test("redirect to another origin", async () => {
    const other = await startFaults();
    other.files.set("/far.gguf", { data });
    faults.files.set("/near.gguf", { redirect: `${other.url}/far.gguf` });
    ready(await load(page, address("near.gguf")));
    assert.equal(other.requests.length, chunks);
    await other.stop();
    ready(await load(page, address("near.gguf"), { cache: "first" }));
    await forget(page);
  });

  // Of a model of one megabyte: what Chromium does with codings and ranges, with the cache and without.
  const little = await fs.readFile(path.join(root, "models", "demo", "draft-q8_0.gguf"));
  const checksum = `#sha256=${createHash("sha256").update(little).digest("hex")}`;
  const wrong = `#sha256=${"0".repeat(64)}`;
  const size = `${Math.round(little.length / 1e3)} kB`;
  for (const [name, file, pattern] of [
    ["gzip", { coding: "gzip" }, /turn its compression off/],
    ["gzip-chunked", { coding: "gzip", chunked: true }, /turn its compression off/],
    ["deflate", { coding: "deflate", ranges: false }, /turn its compression off/],
    ["br-308", { coding: "br", ranges: false }, /turn its compression off/],
    ["rangeless", { ranges: false }, /does not send parts of a file/],
    ["refuses-416", { refuses: 416 }, /does not send parts of a file/],
    ["moved-301", { status: 301 }, /^$/],
    ["moved-307", { status: 307 }, /^$/],
    ["ranges", {}, /^$/],
  ])
    await t.test(`${name}, with a checksum and a wrong one, cache auto and off`, async () => {
      for (const cache of ["auto", "off"])
        for (const [fragment, state] of [[checksum, "ready"], [wrong, "failed"]]) {
          faults.files.set("/there.gguf", { data: little, ...file });
          const moved = { status: 308, ...file, redirect: `${faults.url}/there.gguf` };
          faults.files.set(`/${name}.gguf`, /moved|308/.test(name) ? moved : faults.files.get("/there.gguf"));
          const got = await load(page, address(`${name}.gguf${fragment}`), { cache });
          assert.equal(got.state, state, got.error);
          if (state === "failed") assert.match(got.error, /\.gguf: sha256: the download does not have its published/);
          else if (cache === "auto" || file.coding) assert.match(got.notice, pattern);
          for (const line of got.told) {
            const total = /^Downloading · .* of ([\d.]+ \w+)/.exec(line)?.[1];
            if (total) assert.ok(total === size, line);
          }
          await forget(page);
        }
    });

  await t.test("a chunk corrupted on the wire", async () => {
    faults.publish("owner/repo", "wire.gguf", { data, corrupt: 20_000_000 });
    const bad = await load(page, "owner/repo/wire.gguf", { hub: faults.url });
    failed(/wire\.gguf: sha256: the download does not have its published checksum/)(bad);
    // A read may fail before the file is deleted.
    for (const end = Date.now() + TIMEOUT; (await storedFiles(page)).length > 0; await page.waitForTimeout(50))
      assert.ok(Date.now() < end, `kept of it: ${JSON.stringify(await storedFiles(page))}`);
    faults.publish("owner/repo", "wire.gguf", { data });
    ready(await load(page, "owner/repo/wire.gguf", { hub: faults.url }));
    await forget(page);
  });

  await t.test("a chunk corrupted on disk", async () => {
    faults.files.set("/disk.gguf", { data });
    ready(await load(page, address("disk.gguf")));
    await damage(page, 2 * CHUNK + 77);
    const mended = await load(page, address("disk.gguf"), { cache: "first" });
    assert.deepEqual([mended.state, mended.error], ["ready", ""]);
    assert.match(mended.notice, /disk\.gguf: 8\.39 MB of the copy in this browser are damaged; downloading them again/);
    assert.deepEqual(asked("disk.gguf"), [2]);
    ready(await load(page, address("disk.gguf"), { cache: "first" }));
    await forget(page);
  });

  await t.test("another ETag", async () => {
    faults.files.set("/changed.gguf", { data });
    ready(await load(page, address("changed.gguf")));
    faults.files.set("/changed.gguf", { data, etag: "another" });
    const changed = await load(page, address("changed.gguf"));
    assert.equal(changed.state, "ready");
    assert.match(changed.notice, /changed\.gguf: the file changed on the server; discarding the old copy/);
    assert.deepEqual(asked("changed.gguf").sort(), whole.slice(0, chunks));
    await forget(page);
  });

  await page.close();
});

/**
 * Attack: a disk without room for a model, or for a single byte
 * Bound: with the cache auto the load goes on uncached and says so; first fails and names files to delete
 */
test("on a full disk a model loads without being kept, or the page lists files to delete", limit, async (t) => {
  const page = await open();
  faults.files.set("/first.gguf", { data });
  assert.equal((await load(page, address("first.gguf"))).state, "ready");
  const session = await context.newCDPSession(page);
  await session.send("Storage.overrideQuotaForOrigin", {
    origin: new URL(server.url).origin,
    quotaSize: Math.round(1.5 * data.length),
  });
  faults.files.set("/second.gguf", { data });
  // By default storing is a convenience; with a policy of one's own it is asked for.
  const anyway = await load(page, address("second.gguf"));
  assert.equal(anyway.state, "ready", anyway.error);
  assert.match(
    anyway.notice,
    new RegExp(
      String.raw`^second\.gguf: not kept for the next visit: no space to store it: it has [\d.]+ MB; ` +
        String.raw`delete one of the kept models \(first\.gguf, [\d.]+ MB\) under Kept models$`,
    ),
  );
  assert.deepEqual((await idle(page)).map(({ name }) => name), ["first.gguf"]);
  const refused = await load(page, address("second.gguf"), { cache: "first" });
  assert.equal(refused.state, "failed");
  assert.match(
    refused.error,
    new RegExp(
      String.raw`^second\.gguf: storage: no space to store it: it has [\d.]+ MB; delete one of the kept models ` +
        String.raw`\(first\.gguf, [\d.]+ MB\) under Kept models, or load without keeping it$`,
    ),
  );
  t.diagnostic(refused.error);
  await page.locator("#kept-list li", { hasText: "first.gguf" }).waitFor(); // the page opens the list
  assert.match(await text(page, "#kept-list"), /first\.gguf/);
  const uncached = await load(page, address("second.gguf"), { cache: "off" });
  assert.equal(uncached.state, "ready", uncached.error);
  await page.locator("#kept-list button").first().click();
  await page.locator("#kept-list .empty").waitFor();
  const fits = await load(page, address("second.gguf"));
  assert.equal(fits.state, "ready", fits.error);
  await forget(page);
  // Without room for a single byte.
  await session.send("Storage.overrideQuotaForOrigin", { origin: new URL(server.url).origin, quotaSize: 1 });
  const without = await load(page, address("second.gguf"));
  assert.deepEqual([without.state, without.error], ["ready", ""]);
  assert.match(without.notice, /^second\.gguf: not kept for the next visit: /);
  await session.send("Storage.overrideQuotaForOrigin", { origin: new URL(server.url).origin });
  await forget(page);
  await page.close();
});

test(
  "a download continues after its tab closes; one of two tabs downloads and the other takes over",
  limit,
  async () => {
    const half = Math.ceil(chunks / 2);
    const later = gate();
    faults.files.set("/tabs.gguf", { data, gate: (start) => (start >= half * CHUNK ? later.opened : undefined) });
    const first = await open();
    faults.requests.length = 0;
    await begin(first, address("tabs.gguf"));
    await waitForStored(first, "tabs.gguf", half * CHUNK);

    const second = await open();
    await begin(second, address("tabs.gguf"));
    await queued(second);
    assert.deepEqual(
      asked("tabs.gguf")
        .filter((chunk) => chunk < half)
        .sort(),
      whole.slice(0, half),
      "the second tab sent requests",
    );
    assert.equal((await storedFiles(second))[0].busy, true);
    faults.requests.length = 0;
    await first.close();
    later.open();
    const done = await outcome(second);
    assert.equal(done.state, "ready", done.error);
    assert.deepEqual(
      [...new Set(asked("tabs.gguf"))].sort(),
      whole.slice(half, chunks),
      "downloaded stored chunks again",
    );
    await second.close();

    // Both at once, slowly until one of them shows that it waits.
    const page = await open();
    await forget(page);
    const other = await open();
    const file = { data, rate: 50e3 };
    faults.files.set("/tabs.gguf", file);
    faults.requests.length = 0;
    await Promise.all([begin(page, address("tabs.gguf")), begin(other, address("tabs.gguf"))]);
    const waits = async () =>
      (await Promise.all([page, other].map((tab) => tab.evaluate(() => window.told))))
        .flat()
        .some((line) => /another tab is downloading it/.test(line));
    for (const end = Date.now() + TIMEOUT; !(await waits()); await page.waitForTimeout(50))
      assert.ok(Date.now() < end, "no tab showed that it waits for the other");
    delete file.rate;
    for (const tab of [page, other]) assert.equal((await outcome(tab)).state, "ready");
    assert.deepEqual(asked("tabs.gguf").sort(), whole.slice(0, chunks), "a chunk was downloaded twice");
    await forget(page);
    await page.close();
    await other.close();
  },
);

test("local files load without a copy: picked, dropped, split", limit, async () => {
  const page = await open();
  const draft = path.join(root, "models", "demo", "draft-q8_0.gguf");
  faults.requests.length = 0;
  const drop = (names) =>
    page.evaluate(async (names) => {
      const transfer = new DataTransfer();
      for (const name of names) transfer.items.add(new File([await (await fetch(`models/demo/${name}`)).blob()], name));
      const root = document.querySelector("foretoken-widget").shadowRoot.querySelector(".foretoken");
      for (const type of ["dragover", "drop"])
        root.dispatchEvent(new DragEvent(type, { dataTransfer: transfer, bubbles: true, cancelable: true }));
    }, names);
  // The larger file is the target, in any order.
  await drop(["draft-q8_0.gguf", "target-q8_0.gguf"]);
  const both = await outcome(page); // the widget stays idle until the code that sorts the files has loaded
  assert.equal(both.state, "ready", both.error);
  assert.match(await text(page, "#model-line"), /^Target .* 7\.3 M .*; draft .* 590 k /);
  await openSettings(page);
  await page.click("#own-models > summary");
  await page.click("#models-files");
  await page.click("#load");
  assert.match(await text(page, "#target-file-error"), /Choose a model file first/);
  await page.setInputFiles("#target-file", demo);
  assert.equal(await text(page, "#target-file-error"), "", "the error stays after another selection");
  await page.setInputFiles("#draft-file", draft);
  await page.click("#load");
  assert.equal((await outcome(page)).state, "ready");
  assert.deepEqual(await storedFiles(page), [], "no copy was made");
  await page.close();
});

test(
  "a file of 500 MB: cold, continued after a kill, and stored; peak memory",
  { skip: !full, timeout: 30 * 60_000 },
  async (t) => {
    const file = path.join(folder, "big.gguf");
    const bytes = await zeros(demo, file, 500e6);
    faults.files.set("/big.gguf", { path: file });
    const profile = await startProfile(true, path.join(folder, "profile-webgpu"));
    const renderers = async () => {
      const session = await profile.browser().newBrowserCDPSession();
      const { processInfo } = await session.send("SystemInfo.getProcessInfo");
      await session.detach();
      return processInfo.filter((p) => p.type === "renderer").map((p) => p.id);
    };
    const rows = [];
    /** Loads in a new tab; `until` ends the load early. */
    const run = async (name, attributes, until) => {
      const page = await open(profile);
      await page.evaluate(() => document.querySelector("foretoken-widget").setAttribute("device", "webgpu"));
      const base = new Map();
      for (const pid of await renderers()) base.set(pid, await memoryOf(pid));
      const peak = { rss: 0, own: 0 }; // of the process that grows most, which is the tab's
      let heaps = 0;
      let done = false;
      const sampling = (async () => {
        while (!done) {
          for (const [pid, was] of base) {
            const now = await memoryOf(pid);
            peak.rss = Math.max(peak.rss, now.rss - was.rss);
            peak.own = Math.max(peak.own, now.own - was.own);
          }
          await new Promise((resolve) => setTimeout(resolve, 20));
        }
      })();
      const measuring = (async () => {
        while (!done) {
          const measured = await page
            .evaluate(async () =>
              crossOriginIsolated ? (await performance.measureUserAgentSpecificMemory()).bytes : 0,
            )
            .catch(() => 0);
          heaps = Math.max(heaps, measured);
          await new Promise((resolve) => setTimeout(resolve, 200));
        }
      })();
      const start = performance.now();
      faults.requests.length = 0;
      await begin(page, address("big.gguf"), attributes);
      if (until) {
        await until(page);
        const session = await profile.newCDPSession(page);
        await Promise.race([
          session.send("Page.crash").catch(() => undefined),
          new Promise((resolve) => setTimeout(resolve, 2000)),
        ]);
        done = true;
        await page.close().catch(() => undefined);
        await sampling;
        return;
      }
      await waitForState(page, ["ready", "failed"], 15 * 60_000);
      const ms = performance.now() - start;
      const loaded = await outcome(page);
      done = true;
      await Promise.all([sampling, measuring]);
      assert.equal(loaded.state, "ready", loaded.error);
      const wasm = await page
        .evaluate(() => performance.measureUserAgentSpecificMemory())
        .then(
          (m) => m.bytes,
          () => 0,
        );
      rows.push({
        name,
        ms,
        requests: faults.requests.length,
        rss: peak.rss,
        own: peak.own,
        heaps: Math.max(heaps, wasm),
      });
      await page.close();
    };
    await profile.newPage(); // stays open, so that the browser does too
    await run("kernels compiled and timed, nothing stored", { cache: "off" });
    await run("cold", {});
    const tab = await open(profile);
    await forget(tab);
    await tab.close();
    faults.files.set("/big.gguf", { path: file, rate: 25e6 }); // slow enough to be killed half-way
    await run("killed", {}, (page) => waitForStored(page, "big.gguf", bytes / 2, 10 * 60_000));
    faults.files.set("/big.gguf", { path: file });
    await run("continued from half", {});
    await run("stored", { cache: "first" });
    await profile.close();
    const mb = (n) => `${(n / 1e6).toFixed(0)} MB`;
    t.diagnostic(
      `${mb(bytes)}: load | time | requests | peak of JavaScript and WebAssembly | peak of the tab's process over ` +
      "its start, of that its own memory",
    );
    for (const row of rows)
      t.diagnostic(
        `${row.name} | ${(row.ms / 1000).toFixed(1)} s | ${row.requests} | ${mb(row.heaps)} | ${mb(row.rss)}, ` +
        `${mb(row.own)}`,
      );
    const half = rows.find((row) => row.name === "continued from half");
    assert.ok(half.requests <= Math.ceil(bytes / CHUNK / 2) + 1, `${half.requests} requests after a kill half-way`);
    assert.equal(rows.at(-1).requests, 0);
    for (const row of rows)
      assert.ok(
        row.heaps > 0 && row.heaps <= CHUNK + 100e6,
        `${row.name}: ${mb(row.heaps)} of JavaScript and WebAssembly`,
      );
  },
);
