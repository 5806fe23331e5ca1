/**
 * The built site and its library where pages are served in other ways than by a server on localhost: plain http, frames
 * and pages with opaque origins, Trusted Types, and files opened from disk.
 */
import assert from "node:assert/strict";
import path from "node:path";
import { pathToFileURL } from "node:url";
import { after, before, test } from "node:test";
import { startHost } from "./host.mjs";
import { dist, generated, limit, openPage, root, startBrowser, waitForState } from "./site.mjs";

const TRUSTED = "require-trusted-types-for 'script'; trusted-types foretoken";
const empty = '<!doctype html><meta charset="utf-8"><link rel="icon" href="data:,"><title>A page</title><p>text</p>';

let browser;
const hosts = [];
async function serve(options) {
  const host = await startHost({ folders: { "/site/": dist }, ...options });
  hosts.push(host);
  return host;
}

before(async () => {
  browser = await startBrowser(false, ["--host-resolver-rules=MAP plain.test 127.0.0.1"]);
});

after(async () => {
  await browser?.close();
  for (const host of hosts) await host.stop();
});

/** Runs the API in a page or a frame, with the library from `base`: generates, and completes with a call. */
const api = (frame, base) =>
  frame.evaluate(async (base) => {
    const { BUILTIN_PAIR, Foretoken } = await import(`${base}foretoken.js`);
    try {
      const engine = await Foretoken.load({ ...BUILTIN_PAIR, device: "cpu", context: 128 });
      const { text } = await engine.generate("func main() {", { max_tokens: 4 }).result;
      const call = { name: "f", parameters: { type: "object", properties: {}, additionalProperties: false } };
      const answer = await engine.chat.completions.create({
        messages: [{ role: "user", content: "x" }],
        chat_template: "{{ messages[0].content }}",
        tools: [{ type: "function", function: call }],
        tool_choice: { type: "function", function: { name: "f" } },
        max_tokens: 60,
      });
      const { threads } = engine.info.device;
      await engine.dispose();
      return { text, answer: answer.id, call: answer.choices[0].message.tool_calls?.[0], threads, isSecureContext };
    } catch (error) {
      return `${error.name} ${error.code}: ${error.message}`;
    }
  }, base);

function check(got, secure) {
  assert.match(got.text ?? got, /^\n\t/);
  assert.match(got.answer, /^chatcmpl-[0-9a-f]{24}$/);
  assert.match(got.call?.id ?? JSON.stringify(got), /^call\w{5,}$/);
  assert.equal(got.call.function.name, "f");
  assert.equal(got.isSecureContext, secure);
}

/** Opens a page, and returns it with its errors. */
async function open(address, options = {}) {
  const context = await browser.newContext(options);
  const { page, record } = await openPage(context);
  await page.goto(address);
  return { page, errors: record.errors, close: () => context.close() };
}

/** Uses the page of the site and its widget on a page of its own. */
async function useSite(url, options = {}, device = "cpu") {
  const site = await open(`${url}site/index.html?device=${device}&policy=none&max-tokens=4`, options);
  await waitForState(site.page, "ready");
  const { text } = await generated(site.page, () => site.page.click("#generate"));
  assert.match(text, /\S/);
  await site.page.click("#share");
  await site.page.locator("#link").waitFor();
  assert.deepEqual(site.errors, []);

  const tag = await open(`${url}tag.html`, options);
  assert.match((await generated(tag.page, () => tag.page.click("foretoken-widget #generate"))).text, /\S/);
  assert.deepEqual(tag.errors, []);
  await tag.close();
  return site;
}
const tag = `${empty}<script type="module" src="/site/widget.js"></script>
<foretoken-widget device="cpu" policy="none" max-tokens="4"></foretoken-widget>`;

test("plain http: API, page and widget, without what secure pages have", limit, async () => {
  const host = await serve({ pages: { "/": empty, "/tag.html": tag } });
  const url = host.url.replace("127.0.0.1", "plain.test");
  const { page, close } = await open(url);
  check(await api(page, `${url}site/`), false);
  await close();
  const site = await useSite(url, {}, "auto");
  const { note } = await site.page.locator("foretoken-widget").evaluate((widget) => widget.engine.info.device);
  assert.match(note, /WebGPU needs a secure page: open it over https/);
  await site.close();
});

test("Trusted Types: one policy, for the worker, its threads and the service worker", limit, async () => {
  const headers = { "Content-Security-Policy": TRUSTED };
  const host = await serve({ pages: { "/": empty, "/tag.html": tag }, headers, isolated: true });
  const { page, errors, close } = await open(host.url);
  const got = await api(page, `${host.url}site/`);
  check(got, true);
  assert.ok(got.threads > 1, `${got.threads} threads`);
  assert.deepEqual(errors, []);
  await close();
  const site = await useSite(host.url, { serviceWorkers: "allow" });
  await site.page.locator("html[data-offline=ready]").waitFor();
  await site.close();

  // From another origin, where the worker starts from a blob.
  const library = await serve({ cors: true });
  const near = await serve({ pages: { "/": empty }, headers });
  const far = await open(near.url);
  check(await api(far.page, `${library.url}site/`), true);
  assert.deepEqual(far.errors, []);
  await far.close();
});

test("Trusted Types: another policy's name is an error, and a worker's given address is not approved", async () => {
  const load = (page, kind) =>
    page.evaluate(async (kind) => {
      const { Foretoken } = await import("/site/foretoken.js");
      const address = new URL("/site/worker.js", location.href).href;
      const policy = kind === "approved" && trustedTypes.createPolicy("own", { createScriptURL: String });
      const worker = kind === "none" ? undefined : policy ? policy.createScriptURL(address) : address;
      return Foretoken.load({ device: "cpu", worker }).then(
        (engine) => engine.dispose().then(() => "loaded"),
        (error) => `${error.name} ${error.code}: ${error.message}`,
      );
    }, kind);
  for (const [names, kind, want] of [
    ["own", "none", /^ForetokenError crash: the worker failed: .*trusted-types foretoken/],
    ["foretoken own", "text", /^ForetokenError crash: the worker failed: .*TrustedScriptURL/],
    ["foretoken own", "approved", /^loaded$/],
  ]) {
    const headers = { "Content-Security-Policy": `require-trusted-types-for 'script'; trusted-types ${names}` };
    const host = await serve({ pages: { "/": empty }, headers });
    const { page, close } = await open(host.url);
    assert.match(await load(page, kind), want);
    await close();
  }
});

const LINE = /allow-same-origin/;

test("opaque origins: the widget and the API run, or one line says what the frame needs", limit, async () => {
  const readable = await serve({ cors: true, pages: { "/": empty } });
  const other = await serve({});
  const frame = (sandbox, source) => `<iframe sandbox="${sandbox}" ${source} width="700" height="400"></iframe>`;
  const embed = (host) => `src="${host.url}site/embed.html?device=cpu&policy=none&max-tokens=4"`;
  const quoted = (html) => html.replaceAll("&", "&amp;").replaceAll('"', "&quot;");
  const host = await serve({
    pages: {
      "/embed": empty + frame("allow-scripts", embed(readable)),
      "/closed": empty + frame("allow-scripts", embed(other)),
      "/scripts": empty + frame("", embed(readable)),
      "/srcdoc": empty + frame("allow-scripts", 'srcdoc="text"'),
      "/nested": empty + frame("allow-scripts", `srcdoc="${quoted("<iframe srcdoc=text></iframe>")}"`),
      "/data": `${empty}<iframe src="data:text/html,text"></iframe>`,
      "/page": empty + frame("allow-scripts", `src="${readable.url}site/index.html?device=cpu&max-tokens=4"`),
    },
  });
  const inside = async (path) => {
    const opened = await open(host.url + path);
    const frames = opened.page.frames();
    return { ...opened, frame: frames.at(-1) };
  };
  for (const path of ["srcdoc", "nested", "data"]) {
    const { frame, close, errors } = await inside(path);
    assert.equal(await frame.evaluate(() => origin), "null", path);
    const got = await api(frame, `${readable.url}site/`);
    check(got, got.isSecureContext);
    assert.deepEqual(errors, [], path);
    await close();
  }
  for (const path of ["embed", "page"]) {
    const { frame, close, errors } = await inside(path);
    if (path === "page") await frame.locator("foretoken-widget[data-state=ready]").waitFor();
    await frame.locator("#generate").click();
    await frame.waitForFunction(() => / tokens? in|failed/.test(
      document.querySelector("foretoken-widget").shadowRoot.querySelector("#status")?.textContent ?? ""));
    assert.match(await frame.locator("#output").textContent(), /\w/, path);
    assert.deepEqual(errors, [], path);
    await close();
  }
  for (const path of ["closed", "scripts"]) {
    const { page, close } = await inside(path);
    const line = page.frameLocator("iframe").locator("foretoken-widget p");
    await line.waitFor();
    assert.match(await line.textContent(), LINE);
    await close();
  }
  // A worker that the frame may not read.
  const { frame: asking, close } = await inside("srcdoc");
  const refused = await asking.evaluate(async ([url, worker]) => {
    const { Foretoken } = await import(`${url}site/foretoken.js`);
    return Foretoken.load({ device: "cpu", worker }).catch(({ code, message }) => `${code}: ${message}`);
  }, [readable.url, `${other.url}site/worker.js`]);
  assert.match(refused, /^crash: .*could not be loaded from http.*allow-same-origin/);
  await close();
});

test("a page's script says that its frame is sandboxed, and aborts the wait for a silent one", limit, async () => {
  const host = await serve({ pages: { "/": empty } });
  const { page, close } = await open(host.url);
  const got = await page.evaluate(async () => {
    const { ForetokenFrame } = await import("/site/foretoken-frame.js");
    const frame = document.createElement("iframe");
    frame.setAttribute("sandbox", "allow-scripts");
    frame.src = `/site/embed.html?origin=${location.origin}`;
    document.body.append(frame);
    return new ForetokenFrame(frame).load().catch(({ code, message }) => `${code}: ${message}`);
  });
  assert.match(got, /^sandboxed: .*allow-same-origin/);
  const aborted = await page.evaluate(async () => {
    const { ForetokenFrame } = await import("/site/foretoken-frame.js");
    const frame = document.createElement("iframe");
    frame.src = "/site/reset.html"; // it answers no messages
    document.body.append(frame);
    const control = new AbortController();
    const waiting = new ForetokenFrame(frame).load({ signal: control.signal }).catch(({ code }) => code);
    control.abort();
    return waiting;
  });
  assert.equal(aborted, "aborted");
  await close();
});

test("opened from disk, pages say that they need a server, with and without JavaScript", limit, async () => {
  const files = ["index.html", "embed.html", "bench.html"].map((name) => path.join(dist, name));
  files.push(path.join(root, "docs", "examples", "plain", "index.html"));
  for (const javaScriptEnabled of [true, false])
    for (const file of files) {
      const { page, close } = await open(pathToFileURL(file).href, { javaScriptEnabled });
      const line = page.getByText("(file:)");
      await line.waitFor();
      assert.match(await line.innerText(), /^Loading\..* disk \(file:\) .* server/s, file);
      await close();
    }
});
