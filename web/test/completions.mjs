/**
 * Has the page answer the table of requests that `TestTable` of cmd/foretoken/serve sends to the server, on the cpu
 * device: byte for byte the same, apart from what the table's masks hide.
 */
import assert from "node:assert/strict";
import { promises as fs } from "node:fs";
import path from "node:path";
import { after, before, test } from "node:test";
import { startHost } from "./host.mjs";
import { dist, limit, openPage, root, startBrowser } from "./site.mjs";

const table = JSON.parse(await fs.readFile(path.join(root, "testdata", "openai", "requests.json"), "utf8"));
const CHAT = "/v1/chat/completions";
let host, browser;

before(async () => {
  const pages = { "/": "<!doctype html><title>a page</title>" };
  host = await startHost({ pages, folders: { "/foretoken/": dist } });
  browser = await startBrowser(false);
});

after(async () => {
  await browser?.close();
  await host?.stop();
});

const masked = (text) => table.masks.reduce((all, [from, to]) => all.replaceAll(new RegExp(from, "g"), to), text);

test("the page answers the server's table of requests", limit, async () => {
  const { page } = await openPage(await browser.newContext());
  await page.goto(host.url);
  const answers = await page.evaluate(
    async ({ requests, chat }) => {
      const { BUILTIN_PAIR, Foretoken } = await import("/foretoken/foretoken.js");
      let worker;
      const start = () => (worker = new Worker("/foretoken/worker.js", { type: "module" }));
      const engine = await Foretoken.load({ ...BUILTIN_PAIR, device: "cpu", candidates: 20, worker: start });
      const out = [];
      for (const [i, { path, request }] of requests.entries()) {
        const id = 1_000_000 + i; // none of the engine's
        const lines = [];
        const { json } = await new Promise((resolve) => {
          const listen = ({ data }) => {
            if (data.id !== id) return;
            if (data.type === "update") lines.push(...data.json);
            else {
              worker.removeEventListener("message", listen);
              resolve(data);
            }
          };
          worker.addEventListener("message", listen);
          worker.postMessage({ op: "openai", id, path, body: JSON.stringify(request) });
        });
        const { status, body } = JSON.parse(json);
        const answer = { status, answer: body, lines };
        // The client's side rejects with what is wrong.
        if (path === chat && status >= 400)
          answer.refused = await engine.chat.completions.create(request).then(
            () => ["nothing is wrong"],
            ({ code, param, message }) => [code, param ?? null, message],
          );
        out.push(answer);
      }
      await engine.dispose();
      return out;
    },
    { requests: table.requests, chat: CHAT },
  );
  assert.ok(answers.length > 150);
  for (const [i, { path, request, status, answer = "", lines = [] }] of table.requests.entries()) {
    const got = answers[i];
    const name = `${path} ${JSON.stringify(request)}`;
    assert.deepEqual([got.status, masked(got.answer), got.lines.map(masked)], [status, answer, lines], name);
    if (path !== CHAT || status < 400) continue;
    const { message, param, code } = JSON.parse(answer).error;
    const own = code === "context_length_exceeded" ? "context_full" : "bad_option";
    assert.deepEqual(got.refused, [own, param, message], name);
  }
});
