/**
 * Links to the page that name files of other hosts: no host is asked before a click that shows it and the size, and the
 * worker refuses the hosts that no click confirmed.
 */
import assert from "node:assert/strict";
import { promises as fs } from "node:fs";
import path from "node:path";
import { after, before, test } from "node:test";
import { startFaults } from "./faults.mjs";
import { startHost } from "./host.mjs";
import { dist, generated, limit, openPage, root, startBrowser, waitForState } from "./site.mjs";

const demo = path.join(root, "models", "demo");
let browser, host, faults, target, draft;

before(async () => {
  host = await startHost({ folders: { "/app/": dist } });
  faults = await startFaults();
  [target, draft] = await Promise.all(
    ["target", "draft"].map((name) => fs.readFile(path.join(demo, `${name}-q8_0.gguf`))),
  );
  browser = await startBrowser(false);
});

after(async () => {
  await browser?.close();
  await faults?.stop();
  await host?.stop();
});

/** Opens the page with these parameters in its address; `file` is the page. */
async function follow(parameters, file = "", shared = undefined) {
  faults.requests.length = 0;
  const context = shared ?? (await browser.newContext());
  const opened = await openPage(context);
  const query = new URLSearchParams({ device: "cpu", policy: "none", "max-tokens": "4", ...parameters });
  await opened.page.goto(`${host.url}app/${file}?${query}`);
  return { ...opened, context };
}

const notOurs = (record) => record.requests.filter((url) => !url.startsWith(host.url) && !/^(data|blob):/.test(url));
const button = (page) => page.locator("#consent-load");
const shortHost = () => faults.url; // plain http is shown with its scheme

/**
 * Attack: a link that names files of another host, of a size that the page does not know
 * Bound: no request before the click on a button that shows the host; that click is the only question
 */
test("a link's files wait for one click that shows the host", limit, async () => {
  faults.files.set("/a.gguf", { data: target });
  faults.files.set("/b.gguf", { data: draft });
  const { page, record, context } = await follow({ target: `${faults.url}/a.gguf`, draft: `${faults.url}/b.gguf` });
  await button(page).waitFor();
  await page.waitForTimeout(500);
  assert.deepEqual([faults.requests, notOurs(record)], [[], []], "asked before the click");
  assert.match(
    await page.locator("#consent p").innerText(),
    /opened with files of .*a\.gguf \(size not known\), b\.gguf \(size not known\)\. Their size is shown/,
  );
  assert.equal(await button(page).innerText(), `Load from ${shortHost()}`);
  await button(page).click();
  assert.equal(await waitForState(page, ["ready", "failed"]), "ready");
  assert.ok(await page.locator("#consent").isHidden());
  // The same files again need no click; another one does.
  await page.evaluate(() => document.querySelector("foretoken-widget").load());
  await page.evaluate((url) => {
    const widget = document.querySelector("foretoken-widget");
    widget.setAttribute("target", url);
    void widget.load().catch(() => undefined);
  }, `${faults.url}/other.gguf`);
  await button(page).waitFor();
  await page.click("#stop");
  await page.waitForFunction(() => document.querySelector("foretoken-widget").dataset.state === "idle");
  assert.ok(await page.locator("#consent").isHidden(), "Stop withdraws the question");
  await context.close();
});

/**
 * Attack: a link to the page or to embed.html that names another host, https or a port of this machine, in any
 * parameter
 * Bound: no request before a click
 */
test("no parameter of a link reaches another host without a click", limit, async (t) => {
  const own = `${host.url}app/models/demo/target-q8_0.gguf`;
  const evil = (name) => `${faults.url}/${name}`;
  const context = await browser.newContext();
  for (const [name, parameters] of Object.entries({
    target: { target: evil("m.gguf") },
    draft: { target: own, draft: evil("m.gguf") },
    hub: { target: "owner/repo/m.gguf", hub: faults.url },
    repository: { target: "owner/repo", hub: faults.url },
    calibrations: { calibrations: `${own} ${evil("c.json")}` },
    eagle3: { eagle3: evil("h.safetensors"), "eagle3-config": evil("h.json") },
    checkpoint: { target: evil("model.safetensors.index.json") },
    split: { target: evil("m-00001-of-00002.gguf") },
    "another port of this machine": { target: "http://localhost:9/m.gguf" },
    https: { target: "https://host.invalid/m.gguf" },
    "no host": { target: "data:application/octet-stream,GGUF" },
    "the host as a user": {
      target: `${host.url.replace("//", "//127.0.0.1@").replace(/127\.0\.0\.1:\d+\/$/, "localhost:9/")}m.gguf`,
    },
    "without a scheme": { target: `//${new URL(faults.url).host}/m.gguf` },
    "a backslash": { target: `\\\\${new URL(faults.url).host}\\m.gguf` },
  }))
    for (const file of ["", "embed.html"])
      await t.test(`${name}${file && `, ${file}`}`, async () => {
        const { page, record } = await follow({ ...parameters, autoload: "" }, file, context);
        await button(page).waitFor();
        await page.waitForTimeout(200);
        assert.deepEqual([faults.requests, notOurs(record)], [[], []]);
        await page.close();
      });
  await context.close();
});

test("the page's own files and an attribute of a page of one's own need no click", limit, async () => {
  const { page, context } = await follow({ target: "models/demo/target-q8_0.gguf" });
  assert.equal(await waitForState(page, ["ready", "failed"]), "ready");
  assert.ok(await page.locator("#consent").isHidden());
  faults.files.set("/a.gguf", { data: target });
  await page.evaluate(async (url) => {
    const widget = document.createElement("foretoken-widget");
    for (const [name, value] of Object.entries({ target: url, device: "cpu" })) widget.setAttribute(name, value);
    document.body.append(widget);
    await widget.load();
  }, `${faults.url}/a.gguf`);
  await context.close();
});

/**
 * Attack: a load in the worker from a host that no click, attribute or call confirmed
 * Bound: refused: the worker asks its own origin and the confirmed ones
 */
test("the worker refuses hosts that the load did not confirm", limit, async () => {
  faults.files.set("/a.gguf", { data: target });
  const { page, context } = await follow({});
  await waitForState(page, ["ready"]);
  faults.requests.length = 0;
  const answers = await page.evaluate(async (url) => {
    const worker = new Worker("worker.js", { type: "module" });
    const source = { kind: "url", url, cache: "off" };
    const sources = { target: source, draft: null, eagle3: null, eagle3_config: null, calibrations: [] };
    const ask = (message) =>
      new Promise((resolve) => {
        worker.addEventListener("message", ({ data }) => {
          if (data.id === message.id && data.type !== "update") resolve(data);
        });
        worker.postMessage(message);
      });
    const own = location.origin;
    return [
      await ask({ op: "open", id: 1, options: '{"device":"cpu"}', sources }),
      await ask({ op: "open", id: 2, options: '{"device":"cpu"}', sources, hosts: [own, "https://huggingface.co"] }),
      await ask({ op: "open", id: 3, options: '{"device":"cpu"}', sources, hosts: url }),
      await ask({ op: "inspect", id: 4, source }),
      await ask({ op: "inspect", id: 5, source, hosts: [new URL(url).origin] }),
    ];
  }, `${faults.url}/a.gguf`);
  for (const { type, error } of answers.slice(0, 4)) {
    assert.equal(type, "error");
    assert.match(error.message, /a\.gguf: host: neither a click nor an attribute of the page confirmed it/);
  }
  assert.equal(answers[4].type, "done", JSON.stringify(answers[4]));
  assert.ok(faults.requests.length > 0);
  await context.close();
});

/**
 * Attack: a link of a run that was changed on its way or on purpose, with markup in its text
 * Bound: the page shows a run or an error of one line; no script, no request
 */
test("a link of a run replays it without a model, also offline, and a changed one runs no script", limit, async (t) => {
  const context = await browser.newContext({ serviceWorkers: "allow" });
  const { page } = await openPage(context);
  const prompt = "// <img src=x onerror=alert(1)>\nfunc ";
  const settings = { device: "cpu", policy: "eagle2", "max-tokens": "64", prompt };
  await page.goto(`${host.url}app/?${new URLSearchParams(settings)}`);
  await waitForState(page, ["ready"]);
  const { text, stats } = await generated(page, () => page.click("#generate"));
  await page.click("#share");
  const link = await page.inputValue("#link");
  const fragment = link.slice(link.indexOf("#"));
  assert.match(fragment, /^#share\?v=2&policy=eagle2&[^?#]*&run=[\w-]+$/);
  assert.ok(fragment.length <= 6000, `${fragment.length} characters`);
  t.diagnostic(`${stats.output_tokens} tokens in ${stats.rounds} rounds: ${fragment.length} characters`);
  const [picture] = await Promise.all([page.waitForEvent("download"), page.click("#picture")]);
  const png = await fs.readFile(await picture.path());
  assert.deepEqual([png.readUInt32BE(16), png.readUInt32BE(20)], [2400, 1260]);
  await page.waitForSelector("html[data-offline=ready]");
  await page.close();

  const replayed = async (opened) => {
    const { requests } = opened.record;
    await opened.page.goto(`${host.url}app/${fragment}`);
    const got = await opened.page.waitForFunction(() => {
      const { trace } = document.querySelector("foretoken-tree");
      const shown = document.querySelector("#live").textContent.startsWith("This run comes from a link");
      return shown && [trace.rounds.map(({ text }) => text).join("") + trace.rest, trace.rounds.length];
    });
    assert.deepEqual(await got.jsonValue(), [text, stats.rounds]);
    assert.equal(await opened.page.inputValue("#prompt"), prompt);
    assert.ok(!requests.some((url) => url.endsWith(".gguf")), "a model is loaded");
    assert.equal(await opened.page.evaluate(() => document.querySelector("foretoken-widget").state), "idle");
  };
  const fresh = await browser.newContext();
  await replayed(await openPage(fresh));
  host.down(true);
  await replayed(await openPage(context));
  host.down(false);
  await context.close();

  const hostile = await openPage(fresh);
  hostile.page.on("dialog", (dialog) => assert.fail(dialog.message()));
  await hostile.page.goto(`${host.url}app/${fragment}`);
  await hostile.page.waitForFunction(() => /comes from a link/.test(document.querySelector("#live").textContent));
  let refused = 0;
  for (let turn = 0; turn < 40; turn++) {
    const at = 60 + Math.floor(((turn * 7919) % 1000) * ((fragment.length - 61) / 1000));
    const changed =
      turn % 2 === 0 ? fragment.slice(0, at) : `${fragment.slice(0, at)}${"<A_\"z"[turn % 5]}${fragment.slice(at + 1)}`;
    const said = await hostile.page.evaluate((hash) => {
      const places = ["#said", "#live"].map((id) => document.querySelector(id));
      for (const place of places) place.textContent = "";
      location.hash = hash;
      return new Promise((resolve) => {
        const look = () => {
          const said = places.map((place) => place.textContent).join("");
          if (said) resolve(said);
          else setTimeout(look, 5);
        };
        look();
      });
    }, changed);
    assert.match(said, /^(link: [^\n]+\. Nothing was changed\.|This run comes from a link)/, changed);
    refused += said.startsWith("link: ");
  }
  assert.ok(refused >= 20, `${refused} of 40 changed links were refused`);
  assert.deepEqual(notOurs(hostile.record), []);
  assert.ok(!hostile.record.requests.some((url) => url.endsWith(".gguf")), "a model is loaded");
  assert.deepEqual(hostile.record.errors, []);
  assert.equal(await hostile.page.evaluate(() => document.querySelectorAll("img").length), 0);
  await fresh.close();
});
