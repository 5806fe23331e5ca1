/**
 * `<foretoken-widget>` on other pages, in Chromium: what it loads and when, several widgets on a page, removing and
 * adding them, and accessibility by axe. FORETOKEN_SCREENSHOTS=folder writes pictures.
 */
import assert from "node:assert/strict";
import { promises as fs } from "node:fs";
import { createRequire } from "node:module";
import path from "node:path";
import { after, before, test } from "node:test";
import zlib from "node:zlib";
import { startHost } from "./host.mjs";
import { brokenModels, dist, generated, limit, openPage, TIMEOUT, startBrowser, web } from "./site.mjs";

const axe = await fs.readFile(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");
const pictures = process.env.FORETOKEN_SCREENSHOTS;

const page = (body, { script = "widget.js" } = {}) =>
  `<!doctype html><html lang="en"><head><meta charset="utf-8"><title>Docs</title></head><body>` +
  `<main><h1>Docs</h1>${body}</main><script type="module" src="/site/foretoken/${script}"></script></body></html>`;
const widget = (id, attributes = "") =>
  `<foretoken-widget id="${id}" device="reference" policy="eagle2" depth="2" top-k="2" nodes="4" ` +
  `prompt="func main() {&#10;" max-tokens="12" ${attributes}></foretoken-widget>`;
// worker-pause.js keeps the generation running until it is stopped, from the program's next look at its messages on,
// which is every 50 ms: the reference device is slow enough not to have ended the text by then.
const LONG = { depth: 2, "top-k": 2, nodes: 4, temperature: 1.3, seed: 4, "max-tokens": 480 };
const long = (id) =>
  `<foretoken-widget id="${id}" device="reference" policy="eagle2" prompt="func main() {&#10;" ${Object.entries(LONG)
    .map(([name, value]) => `${name}="${value}"`)
    .join(" ")}></foretoken-widget>`;

let host, models, browser, context, worker;
const records = [];

before(async () => {
  const [pause, own] = await Promise.all(
    [path.join(web, "test", "worker-pause.js"), path.join(dist, "worker.js")].map((file) => fs.readFile(file, "utf8")),
  );
  worker = { "/site/foretoken/worker.js": `{${pause}}${own}` };
  const pages = {
    ...worker,
    "/one": page(widget("a")),
    "/api": page(widget("a"), { script: "foretoken.js" }),
    "/several": page(
      long("a") + widget("b") + widget("c") + widget("other", 'draft="missing.gguf" target="missing.gguf"'),
    ),
    "/long": page(long("a").replace(" id=", " full id=")),
  };
  models = await brokenModels();
  pages["/talk"] = page(
    ["a", "b"]
      .map(
        (id) =>
          `<foretoken-widget id="${id}" device="cpu" target="/models/talking.gguf" policy="none" max-tokens="6" ` +
          `prompt="${id} opens the file."></foretoken-widget>`,
      )
      .join(""),
  );
  host = await startHost({ pages, folders: { "/site/foretoken/": dist, "/models/": models } });
  browser = await startBrowser(false);
  context = await browser.newContext({ viewport: { width: 1100, height: 900 }, colorScheme: "light" });
});

after(async () => {
  await browser?.close();
  await host?.stop();
  if (models) await fs.rm(models, { recursive: true });
});

async function open(name, of = context) {
  const opened = await openPage(of);
  records.push(opened.record);
  await opened.page.goto(host.url + name);
  await opened.page.waitForFunction(() => customElements.get("foretoken-widget"));
  return { page: opened.page, record: opened.record };
}

const until = (page, id, states) =>
  page.waitForFunction(
    ([i, wanted]) => wanted.includes(document.getElementById(i).dataset.state),
    [id, [states].flat()],
    { polling: 10 },
  );
const shown = (page, id, selector) => page.locator(`#${id} ${selector}`).innerText();

async function picture(page, name) {
  if (pictures) await page.screenshot({ path: path.join(pictures, `widget-${name}.png`), fullPage: true });
}

/** Returns the gzipped bytes of scripts. */
async function scripts(record, from = 0) {
  let bytes = 0;
  const names = [
    ...new Set(
      record.requests
        .slice(from)
        .map((url) => path.basename(new URL(url).pathname))
        .filter((name) => name.endsWith(".js")),
    ),
  ];
  for (const name of names) bytes += zlib.gzipSync(await fs.readFile(path.join(dist, name)), { level: 9 }).byteLength;
  return { bytes, names };
}

test("a widget is a few kilobytes until it is used", limit, async (t) => {
  const { page, record } = await open("one");
  await page.waitForLoadState("networkidle");
  const before = await scripts(record);
  assert.ok(!record.requests.some((url) => /\.(wasm|gguf)$|worker\.js|wasm_exec/.test(url)), record.requests.join(" "));
  assert.ok(before.bytes <= 5400, `the element is ${before.bytes} bytes of JavaScript, gzipped`);
  const at = record.requests.length;
  const prompts = await page.evaluate(() =>
    [{}, { target: "other.gguf" }, { target: "other.gguf", prompt: "Once" }].map((attributes) => {
      const other = document.createElement("foretoken-widget");
      for (const [name, value] of Object.entries(attributes)) other.setAttribute(name, value);
      return other.shadowRoot.querySelector("textarea").value;
    }),
  );
  assert.match(prompts[0], /^\/\/ .*\nfunc /, "the built-in pair starts with an example");
  assert.deepEqual(prompts.slice(1), ["", "Once"], "another model does not");
  await picture(page, "idle");
  await page.locator("#a #prompt").fill("func min() {\n");
  await generated(page, () => page.locator("#a #generate").click());
  assert.match(
    await page.locator("#a #output").evaluate((box) => box.textContent),
    /^func min\(\) \{\n./,
    "the prompt from before the click is continued",
  );
  const click = await scripts(record, at);
  assert.ok(record.requests.some((url) => url.endsWith("/site/foretoken/foretoken.wasm")));
  assert.ok(click.bytes <= 72e3, `a click loads ${click.bytes} bytes of JavaScript, gzipped`);
  await page.close();
  const api = await open("api");
  await api.page.waitForLoadState("networkidle");
  const whole = await scripts(api.record);
  assert.ok(whole.bytes <= 20e3, `foretoken.js is ${whole.bytes} bytes, gzipped`);
  assert.equal(
    await api.page.evaluate(async () => typeof (await import("/site/foretoken/foretoken.js")).Foretoken.load),
    "function",
  );
  await api.page.close();
  const models = await Promise.all(
    ["target-q8_0.gguf", "draft-q8_0.gguf"].map(
      async (name) => (await fs.stat(path.join(dist, "models", "demo", name))).size,
    ),
  );
  const wasm = zlib.gzipSync(await fs.readFile(path.join(dist, "foretoken.wasm")), { level: 6 }).byteLength;
  t.diagnostic(
    `before the click: ${(before.bytes / 1e3).toFixed(1)} kB of JavaScript gzipped (foretoken.js, with the API: ` +
    `${(whole.bytes / 1e3).toFixed(1)}); after it: ${(click.bytes / 1e3).toFixed(1)} kB of JavaScript, ` +
    `${(wasm / 1e6).toFixed(2)} MB of WebAssembly, ` +
    `models of ${(models.reduce((a, b) => a + b) / 1e6).toFixed(2)} MB`,
  );
});

test("widgets of a page share an engine, take turns, and can be removed independently", limit, async () => {
  const { page, record } = await open("several");
  const status = (id, text) =>
    page.waitForFunction(
      ([i, t]) => document.getElementById(i).shadowRoot.querySelector("#status").textContent.includes(t),
      [id, text],
      { polling: 10 },
    );
  await page.locator("#a #generate").click();
  await page.locator("#b #generate").click(); // during the load of the other
  await until(page, "a", "generating");
  // Either widget may get the first turn. If it was b, b finishes; then it generates again.
  await page.waitForFunction(
    () => {
      const b = document.getElementById("b");
      return b.state === "waiting" || b.shadowRoot.querySelector("#status").textContent.includes("12 tokens in");
    },
    undefined,
    { polling: 10 },
  );
  if ((await page.evaluate(() => document.getElementById("b").state)) !== "waiting")
    await page.locator("#b #generate").click();
  await until(page, "b", "waiting");
  assert.match(await shown(page, "b", "#status"), /^Waiting for another widget on this page/);
  // Stop cancels a wait, and a widget that cannot load fails alone.
  await page.locator("#c #generate").click();
  await until(page, "c", "waiting");
  await page.locator("#c #stop").click();
  await until(page, "c", "ready");
  assert.equal(await shown(page, "c", "#status"), "Stopped");
  await page.locator("#other #generate").click();
  await until(page, "other", "failed");
  assert.match(await shown(page, "other", "#error"), /missing\.gguf/);
  assert.deepEqual(await page.evaluate(() => ["a", "b"].map((id) => document.getElementById(id).state)), [
    "generating",
    "waiting",
  ]);
  await page.locator("#a #stop").click();
  await status("a", "ended by: stopped");
  await status("b", "12 tokens in");
  assert.deepEqual(
    await page.evaluate(() =>
      ["b", "c", "other"].map((id) => document.getElementById(id).engine === document.getElementById("a").engine),
    ),
    [true, true, false],
  );
  const again = await page.evaluate(() => document.getElementById("c").generate());
  assert.equal(
    await page.locator("#b #output").evaluate((box) => box.textContent),
    `func main() {\n${again.text}`,
    "taking turns does not change the text",
  );
  assert.equal(page.workers().length, 1);
  assert.equal(record.requests.filter((url) => url.endsWith("target-q8_0.gguf")).length, 1);

  // Removing a widget stops its generation; the engine stays for the others.
  const result = page.evaluate(() => {
    const a = document.getElementById("a");
    const run = a.generate();
    a.addEventListener("foretoken-round", () => a.remove(), { once: true });
    return run.then(
      (r) => r.finish,
      (e) => e.code,
    );
  });
  assert.match(await result, /aborted|disposed/);
  assert.equal((await page.evaluate(() => document.getElementById("b").generate())).token_ids.length, 12);
  // Moving a widget keeps the engine; removing the last widget ends the worker.
  await page.evaluate(() => document.querySelector("main").prepend(document.getElementById("b")));
  assert.equal((await page.evaluate(() => document.getElementById("b").generate())).token_ids.length, 12);
  await page.evaluate(() => ["b", "c"].forEach((id) => document.getElementById(id).remove()));
  for (const end = Date.now() + TIMEOUT; page.workers().length > 0; await page.waitForTimeout(10))
    assert.ok(Date.now() < end, "the worker outlives the last widget");
  record.errors = record.errors.filter((text) => !text.includes("missing.gguf")); // requested on purpose
  await page.close();
});

test("two conversations on one engine take turns and do not mix", limit, async () => {
  const { page } = await open("talk");
  await page.evaluate(() => {
    window.done = { a: 0, b: 0 };
    for (const id of ["a", "b"])
      document.getElementById(id).addEventListener("foretoken-done", () => window.done[id]++);
  });
  const both = (n) => page.waitForFunction((n) => window.done.a === n && window.done.b === n, n);
  for (const id of ["a", "b"]) await page.locator(`#${id} #generate`).click();
  await both(1);
  // The text as the model wrote it, in place of rendered Markdown.
  for (const id of ["a", "b"]) await page.locator(`#${id} #origins`).click();
  // Both send at once: one of them has to wait.
  for (const id of ["a", "b"]) await page.locator(`#${id} #message`).fill(`${id} closes it.`);
  await page.evaluate(() =>
    ["a", "b"].forEach((id) => document.getElementById(id).shadowRoot.querySelector("#send").click()),
  );
  await both(2);
  const said = {};
  for (const id of ["a", "b"]) {
    assert.equal(await page.locator(`#${id} #error`).isHidden(), true);
    said[id] = await page.locator(`#${id} #transcript .message-text`).allTextContents();
    assert.deepEqual([said[id].length, said[id][0], said[id][2]], [4, `${id} opens the file.`, `${id} closes it.`]);
  }
  const alone = await page.evaluate(
    (said) =>
      ["a", "b"].reduce(async (before, id) => {
        const messages = said[id].slice(0, 3).map((content, i) => ({ role: ["user", "assistant"][i % 2], content }));
        const { choices } = await document
          .getElementById(id)
          .engine.chat.completions.create({ messages, max_tokens: 6, temperature: 0, foretoken: { policy: "none" } });
        return [...(await before), choices[0].message.content];
      }, Promise.resolve([])),
    said,
  );
  assert.deepEqual([said.a[3], said.b[3]], alone, "each answer equals the answer without the other");
  await page.close();
});

test("frames of one origin take turns, on any page", limit, async () => {
  const frame = (id, more) =>
    `<iframe id="${id}" title="${id}" src="${host.url}site/foretoken/embed.html?` +
    `${new URLSearchParams({ device: "reference", policy: "eagle2", ...more })}" ` +
    `style="width: 100%; height: 400px"></iframe>`;
  const docs = await startHost({
    pages: {
      "/":
        `<!doctype html><html lang="en"><title>Docs</title><body>${frame("one", LONG)}` +
        `${frame("two", { "max-tokens": 6 })}</body></html>`,
    },
  });
  const opened = await openPage(context);
  records.push({ ...opened.record, requests: [] });
  const { page } = opened;
  try {
    await page.goto(docs.url);
    const inside = async (id) => (await page.locator(`#${id}`).elementHandle()).contentFrame();
    const [one, two] = [await inside("one"), await inside("two")];
    const state = (frame, wanted) =>
      frame.waitForFunction((wanted) => document.querySelector("foretoken-widget").dataset.state === wanted, wanted, {
        polling: 10,
      });
    const status = (frame) => frame.locator("#status").innerText();
    await one.locator("#generate").click();
    await state(one, "generating");
    await two.locator("#generate").click();
    await state(two, "waiting");
    assert.match(await status(two), /^Waiting for another widget on this page/);
    await two.locator("#stop").click();
    await state(two, "ready");
    assert.equal(await status(two), "Stopped");
    await two.locator("#generate").click();
    await state(two, "waiting");
    assert.equal(await one.evaluate(() => document.querySelector("foretoken-widget").state), "generating");
    await one.locator("#stop").click();
    await two.waitForFunction(() =>
      /^6 tokens in/.test(document.querySelector("foretoken-widget").shadowRoot.querySelector("#status").textContent),
    );
    // Removing a frame releases its turn.
    await one.locator("#generate").click();
    await state(one, "generating");
    await two.locator("#generate").click();
    await state(two, "waiting");
    await page.evaluate(() => document.getElementById("one").remove());
    await state(two, "ready");
    assert.match(await status(two), /^6 tokens in/);
  } finally {
    await page.close();
    await docs.stop();
  }
});

/** Returns the findings of axe. In the second colour scheme only colours are checked. */
async function violations(page) {
  if (!(await page.evaluate(() => window.axe))) await page.evaluate(axe);
  const found = [];
  for (const colorScheme of ["light", "dark"]) {
    await page.emulateMedia({ colorScheme });
    const only =
      colorScheme === "light"
        ? ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]
        : { type: "rule", values: ["color-contrast"] };
    found.push(
      ...(await page.evaluate(
        async ([runOnly, scheme]) => {
          const { violations } = await window.axe.run(document, { runOnly, resultTypes: ["violations"] });
          return violations.flatMap((v) =>
            v.nodes.map((n) => `${scheme}: ${v.id}: ${n.target.flat().join(" ")}: ${n.failureSummary}`),
          );
        },
        [only, colorScheme],
      )),
    );
  }
  return found;
}

test("axe finds no problem in any state of a widget, light or dark", limit, async () => {
  const { page } = await open("long");
  const inBoth = async (state) => {
    assert.deepEqual(await violations(page), [], state);
    await picture(page, `${state}-dark`);
  };
  await inBoth("idle");
  await page.locator("#a #generate").click();
  await until(page, "a", "generating");
  await page.waitForFunction(
    () => document.getElementById("a").shadowRoot.querySelectorAll(".output .token").length > 4,
  );
  await inBoth("streaming");
  assert.equal(await page.evaluate(() => document.getElementById("a").state), "generating", "axe ran during streaming");
  await page.keyboard.press("Escape");
  await until(page, "a", "ready");
  await inBoth("finished");
  await page.locator("#a details").evaluateAll((all) => all.forEach((one) => (one.open = true)));
  await page.locator("#a #kept-list li").first().waitFor();
  for (const way of ["name", "files", "catalog"]) {
    await page.locator(`#a #models-${way}`).click();
    await inBoth(`settings-${way}`);
  }
  await page.evaluate(() => document.getElementById("a").setAttribute("target", "nowhere.gguf"));
  await page.evaluate(() =>
    document
      .getElementById("a")
      .load()
      .catch(() => undefined),
  );
  assert.match(await shown(page, "a", "#error"), /nowhere\.gguf/);
  await inBoth("error");
  records.at(-1).errors = records.at(-1).errors.filter((text) => !text.includes("nowhere.gguf"));
  await page.close();
});

test("axe finds no problem in the page and its documentation", limit, async () => {
  const opened = await openPage(context);
  records.push(opened.record);
  const { page } = opened;
  await page.goto(`${host.url}site/foretoken/?device=cpu&max-tokens=8`);
  await page.waitForFunction(() => document.querySelector("foretoken-widget")?.dataset.state === "ready");
  const tabs = page.locator("[role=tab]:not([aria-disabled=true])");
  const names = await tabs.evaluateAll((all) => all.map((tab) => tab.textContent.trim()));
  assert.ok(names.length > 1);
  for (const [i, name] of names.entries()) {
    await tabs.nth(i).click();
    // Wait for code that loads on demand.
    await page.waitForFunction(() =>
      [...document.querySelectorAll("[role=tabpanel]:not([hidden])")].every(
        (panel) => panel.firstElementChild?.shadowRoot?.childElementCount,
      ),
    );
    assert.deepEqual(await violations(page), [], name);
  }
  for (const name of ["index", "getting-started", "methods", "benchmarks"]) {
    await page.goto(`${host.url}site/foretoken/docs/${name}.html`);
    assert.deepEqual(await violations(page), [], name);
  }
  await page.close();
});

test("a framed widget exchanges messages only with the origin of its address", limit, async () => {
  const site = await startHost({ pages: worker, folders: { "/site/foretoken/": dist }, cors: true });
  const hosts = [];
  try {
    const embedding = async (allowed) => {
      const pages = {};
      const docs = await startHost({ pages });
      hosts.push(docs);
      const source =
        `${site.url}site/foretoken/embed.html?origin=${allowed ?? docs.origin}&device=reference&policy=eagle2&` +
        `${new URLSearchParams(LONG)}`;
      pages["/"] =
        `<!doctype html><html lang="en"><title>Docs</title><body><h1>Docs</h1><iframe title="A model" ` +
        `src="${source}" style="width: 100%; height: 100px; border: 0"></iframe></body></html>`;
      const opened = await openPage(context);
      await opened.page.addInitScript(() => {
        window.heard = [];
        if (window === top) addEventListener("message", ({ data, origin }) => window.heard.push({ ...data, origin }));
      });
      await opened.page.goto(docs.url);
      return { ...opened, docs };
    };

    const { page, record, docs } = await embedding();
    records.push({ ...record, requests: [] });
    const module = `${site.url}site/foretoken/foretoken-frame.js`;
    await page.evaluate(async (url) => {
      const { ForetokenFrame } = await import(url);
      window.frame = new ForetokenFrame(document.querySelector("iframe"));
    }, module);
    assert.match(await page.evaluate(() => window.frame.load().then((info) => info.device.backend)), /reference/);
    // Abort within a round, then generate to the end with fewer tokens.
    const stopped = await page.evaluate(() => {
      const abort = new AbortController();
      return window.frame.generate("func main() {\n", { onRound: () => abort.abort(), signal: abort.signal });
    });
    assert.equal(stopped.finish, "aborted");
    const whole = await page.evaluate(async () => {
      const texts = [];
      window.frame.setAttributes({ "max-tokens": "6", temperature: null, policy: "none" });
      const first = window.frame.generate("func main() {\n", { onRound: (round) => texts.push(round.text) });
      const busy = await window.frame.generate("x").catch((error) => error.code);
      return { result: await first, texts, busy };
    });
    assert.equal(whole.result.token_ids.length, 6);
    assert.equal(whole.texts.join(""), whole.result.text);
    assert.equal(whole.busy, "busy");
    // The frame gets the height of the widget and needs no scroll bar.
    const inner = page.frames().find((frame) => frame.url().includes("embed.html"));
    for (const end = Date.now() + TIMEOUT; ; await page.waitForTimeout(50)) {
      const height = await page.locator("iframe").evaluate((box) => box.clientHeight);
      const [body, scroll] = await inner.evaluate(() => [
        document.body.getBoundingClientRect().height,
        document.documentElement.scrollHeight,
      ]);
      if (height > 300 && Math.abs(body - height) <= 1 && scroll <= height) break;
      assert.ok(Date.now() < end, `the frame is ${height} pixels high, what it shows ${body} and ${scroll}`);
    }
    // A malformed message is an error that names the field, and changes nothing.
    const refusals = await page.evaluate((target) => {
      const bad = [
        { foretoken: 2, type: "load", id: 1 },
        { foretoken: 1, type: "run", id: 2 },
        { foretoken: 1, type: "set-attributes", id: 3, attributes: { onclick: "alert(1)" } },
      ];
      window.heard.length = 0;
      for (const message of [...bad, { foretoken: 1, type: "hello", id: 4 }])
        document.querySelector("iframe").contentWindow.postMessage(message, target);
      return new Promise((resolve) =>
        addEventListener(
          "message",
          ({ data }) =>
            data.type === "hello" &&
            resolve(
              window.heard
                .filter((m) => m.type === "error")
                .map(({ id, code, message }) => `${id} ${code}: ${message}`),
            ),
        ),
      );
    }, site.origin);
    assert.equal(refusals.length, 3);
    assert.match(
      refusals.join("\n"),
      new RegExp(
        String.raw`^1 message: embed: message: foretoken: version 2.*\n2 message: .*type: want one of.*\n` +
          '3 message: .*"onclick" is not an attribute',
      ),
    );
    assert.ok((await page.evaluate(() => window.heard)).every((message) => message.origin === site.origin));
    await page.close();

    // Another site that frames the same address is ignored and receives no messages.
    const stranger = await embedding(docs.origin);
    const warned = stranger.page.waitForEvent("console", (message) => message.text().includes("ignored a message"));
    await stranger.page.waitForLoadState();
    await stranger.page.evaluate(
      (target) =>
        document
          .querySelector("iframe")
          .contentWindow.postMessage({ foretoken: 1, type: "generate", prompt: "x" }, target),
      site.origin,
    );
    assert.match(
      (await warned).text(),
      new RegExp(`ignored a message from ${stranger.docs.origin}: only ${docs.origin}`),
    );
    const frame = stranger.page.frames().find((one) => one.url().includes("embed.html"));
    assert.equal(await frame.evaluate(() => document.querySelector("foretoken-widget").state), "idle");
    await frame.locator("#generate").click(); // a visitor can still use the widget
    await frame.waitForFunction(() => document.querySelector("foretoken-widget").state === "generating");
    assert.deepEqual(await stranger.page.evaluate(() => window.heard), []);
    await stranger.page.close();
  } finally {
    for (const one of [site, ...hosts]) await one.stop();
  }
});

test("no errors in a console and no requests to other origins", () => {
  assert.deepEqual(
    records.flatMap((record) => record.errors),
    [],
  );
  assert.deepEqual(
    records
      .flatMap((record) => record.requests)
      .filter((url) => !url.startsWith(host.url) && !/^(blob|data):/.test(url)),
    [],
  );
});
