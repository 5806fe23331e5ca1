/**
 * The page's network traffic, recorded by a proxy: all requests of Chromium, including those of workers and of pages
 * that the user leaves. And text from models and model files stays text.
 */
import assert from "node:assert/strict";
import { promises as fs } from "node:fs";
import http from "node:http";
import os from "node:os";
import path from "node:path";
import { after, before, test } from "node:test";
import { dist, limit, root, startProfile, startServer, waitForState } from "./site.mjs";

const markup = "<img src=x onerror=hacked()>";
const fileName = "<b id=hacked>&quot;.gguf";

let models, server, proxy, profile, context;
const asked = []; // method and address of each request of the browser

before(async () => {
  models = await fs.mkdtemp(path.join(os.tmpdir(), "foretoken-strangers-"));
  const target = await fs.readFile(path.join(root, "models", "demo", "target-q8_0.gguf"));
  await fs.writeFile(path.join(models, fileName), named(target));
  server = await startServer(models);
  proxy = http.createServer((request, response) => {
    asked.push(`${request.method} ${request.url}`);
    const to = new URL(request.url);
    const forward = http.request(
      {
        host: to.hostname,
        port: to.port,
        path: to.pathname + to.search,
        method: request.method,
        headers: request.headers,
      },
      (answer) => {
        response.writeHead(answer.statusCode, answer.headers);
        answer.pipe(response);
      },
    );
    forward.on("error", () => response.destroy());
    request.pipe(forward);
  });
  proxy.on("connect", (request, socket) => {
    asked.push(`CONNECT ${request.url}`);
    socket.end("HTTP/1.1 403 Forbidden\r\n\r\n");
  });
  await new Promise((resolve) => proxy.listen(0, "127.0.0.1", resolve));
  profile = await fs.mkdtemp(path.join(os.tmpdir(), "foretoken-profile-"));
  context = await startProfile(false, profile, {
    proxy: { server: `http://127.0.0.1:${proxy.address().port}`, bypass: "<-loopback>" },
  });
});

after(async () => {
  await context?.close();
  proxy?.closeAllConnections();
  proxy?.close();
  await server?.stop();
  for (const folder of [models, profile]) if (folder) await fs.rm(folder, { recursive: true, force: true });
});

/** Returns a model file with markup as its name, of the same length, so that no offset changes. */
function named(file) {
  const key = Buffer.from("general.name");
  const at = file.indexOf(key) + key.length;
  assert.equal(file.readUInt32LE(at), 8, "general.name is no string");
  const length = Number(file.readBigUInt64LE(at + 4));
  const changed = Buffer.from(file);
  changed.write("<b id=hacked>".padEnd(length, "x").slice(0, length), at + 12, "latin1");
  return changed;
}

/** Whether the document, including shadow roots, has an element that was parsed from text. */
const made = (page) =>
  page.evaluate(() => {
    const all = (root) =>
      [...root.querySelectorAll("*")].flatMap((node) => [node, ...(node.shadowRoot ? all(node.shadowRoot) : [])]);
    return all(document)
      .filter(
        (node) =>
          node.id === "hacked" ||
          ["IMG", "IFRAME", "OBJECT", "EMBED"].includes(node.tagName) ||
          [...node.attributes].some((a) => a.name.startsWith("on")),
      )
      .map((node) => node.outerHTML.slice(0, 100));
  });

/**
 * Attack: markup and addresses in the output, the name and the file name of a model
 * Bound: shown as text; only the site's files and the named files are asked for
 */
test("the page requests only the site's files and the named files, and model text stays text", limit, async (t) => {
  const page = await context.newPage();
  const pages = []; // requests of the page and its workers, as Chromium reports them
  context.on("request", (request) => pages.push(request.url()));
  const violations = [];
  await page.addInitScript(() => {
    window.hacked = () => (window.wasHacked = true);
    addEventListener("securitypolicyviolation", (event) =>
      console.error(`violates ${event.violatedDirective}: ${event.blockedURI}`),
    );
  });
  page.on("console", (message) => message.type() === "error" && violations.push(message.text()));
  const target = `models/${encodeURIComponent(fileName)}`;
  await page.goto(`${server.url}?target=${encodeURIComponent(target)}&device=cpu&max-tokens=60&policy=none`);
  const state = await waitForState(page, ["ready", "failed"]).catch(async (cause) => {
    const said = await page.evaluate(() => [
      document.querySelector("foretoken-widget")?.dataset.state,
      document.querySelector("foretoken-widget")?.shadowRoot?.textContent,
    ]);
    throw new Error(`${cause.message}: ${JSON.stringify(said)}; ${violations.join("; ")}; asked: ${asked.join(", ")}`);
  });
  assert.equal(
    state,
    "ready",
    await page.evaluate(
      () => document.querySelector("foretoken-widget").shadowRoot.querySelector("[role=alert]").textContent,
    ),
  );
  const shown = await page.evaluate(async (text) => {
    const widget = document.querySelector("foretoken-widget");
    const generate = widget.engine.generate.bind(widget.engine);
    widget.engine.generate = (prompt, options) =>
      generate(prompt, { ...options, grammar: `root ::= ${JSON.stringify(text)}` });
    const result = await widget.generate();
    const all = (root) =>
      root.textContent +
      [...root.querySelectorAll("*")].map((node) => (node.shadowRoot ? all(node.shadowRoot) : "")).join("");
    return { said: result.text, shown: all(document.body) };
  }, markup);
  assert.equal(shown.said, markup);
  assert.ok(shown.shown.includes("onerror=hacked()"), "what the model said is not on the page");
  assert.deepEqual(await made(page), []);
  assert.equal(await page.evaluate(() => window.wasHacked), undefined);
  // Leaving the page must not send a request either.
  await page.goto("about:blank");
  await page.close();
  assert.deepEqual(violations, []);

  const files = new Set(await list(dist));
  const wrong = [];
  let own = 0;
  for (const one of asked) {
    const [method, address] = one.split(" ");
    if (method === "CONNECT") {
      // Chromium sometimes sends requests to its vendor's hosts; requests of pages are checked separately below.
      if (!/(^|\.)(google|googleapis|gstatic|gvt1|chromium|googleusercontent)\.(com|org):443$/.test(address))
        wrong.push(one);
      continue;
    }
    const url = new URL(address);
    if (url.origin + "/" !== server.url) {
      if (!/(^|\.)(google|googleapis|gstatic|gvt1)\.com$/.test(url.hostname)) wrong.push(one);
      continue;
    }
    own++;
    const name = decodeURIComponent(url.pathname.slice(1)) || "index.html";
    if (method !== "GET" && method !== "HEAD") wrong.push(one);
    else if (!files.has(name) && name !== `models/${fileName}`) wrong.push(one);
  }
  assert.deepEqual(
    pages.filter((url) => !url.startsWith(server.url) && !/^(blob|data|about):/.test(url)),
    [],
  );
  t.diagnostic(`${own} requests to the site, ${asked.length - own} of the browser's own`);
  assert.deepEqual(wrong, []);
  assert.ok(asked.some((one) => one.includes(target)) && own >= 8, `${own} requests passed the proxy`);
});

async function list(folder, prefix = "") {
  const found = [];
  for (const entry of await fs.readdir(folder, { withFileTypes: true })) {
    if (entry.isDirectory()) found.push(...(await list(path.join(folder, entry.name), `${prefix}${entry.name}/`)));
    else found.push(prefix + entry.name);
  }
  return found;
}
