/**
 * The JavaScript API in typical deployments: under a sub-path of a plain static server without special headers,
 * imported by a page and by a worker.
 */
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { startHost } from "./host.mjs";
import { dist, openPage, startBrowser } from "./site.mjs";

const template = "{% for m in messages %}// {{ m.role }}: {{ m.content }}\n{% endfor %}";
let host, base, browser;

/** A script that uses the module; it also runs in a worker. */
const WORKER = `
const { BUILTIN_PAIR, Foretoken, readTrace } = await import("/docs/assets/foretoken/foretoken.js");
const engine = await Foretoken.load({ ...BUILTIN_PAIR, device: "cpu" });
const run = engine.generate("func main() {", { max_tokens: 8, policy: "chain", depth: 2 });
let text = "";
for await (const round of run) text += round.text;
const result = await run.result;
const trace = readTrace(await run.trace());
const trees = [];
for await (const round of engine.generate("func main() {", { max_tokens: 8, policy: "chain", depth: 2, trace: true }))
  if (round.tree) trees.push(round.tree);
const unlike = (texts) => texts.map((text) => (text.length ? { [text.at(-1)]: -100 } : {}));
const processed = [];
for (const policy of ["none", "chain", "eagle2", "auto"]) {
  const options = { max_tokens: 12, policy, logits_processor: unlike };
  processed.push((await engine.generate("func main() {", options).result).token_ids);
}
const [a, b, other] = await engine.embed(["func Len() int", "func Cap() int", "// Copyright 2009"]);
const like = (u, v) => u.vector.reduce((sum, x, i) => sum + x * v.vector[i], 0);
const likeness = [like(a, a), like(a, b), like(a, other)];
const width = engine.info.target.width;
const why = ({ code, message }) => code + " " + message;
const refused = await engine.embed("a", { pooling: "max" }).catch(why);
const requests = [];
for (const request of [{ temperature: 99 }, { grammar: "root ::=" }, { max_token: 8 }])
  try {
    requests.push((await engine.generate("a", request).result).text);
  } catch (cause) {
    requests.push(why(cause));
  }
const stop_token_ids = [result.token_ids[3]];
const stopped = await engine.generate("func main() {", { max_tokens: 8, stop_token_ids }).result;
const messages = [{ role: "user", content: "a field of the struct" }];
const asked = { messages, chat_template: ${JSON.stringify(template)}, max_tokens: 6, n: 2, temperature: 1, seed: 5 };
const both = await engine.chat.completions
  .create(asked)
  .then(({ choices }) => choices.map(({ message }) => message.content), why);
const echoed = (await engine.generate("func main() {", { max_tokens: 2, echo: true }).result).text;
await engine.dispose();
postMessage({
  text, whole: result.text, processed, likeness, width: [width, a.vector.length], refused, requests, echoed, both,
  trace, trees, ids: result.token_ids, stopped: [stopped.finish, stopped.token_ids],
});
`;

before(async () => {
  const pages = { "/docs/": "<!doctype html><title>somebody's page</title>", "/docs/task.js": WORKER };
  host = await startHost({ pages, folders: { "/docs/assets/foretoken/": dist } });
  base = `${host.url}docs/`;
  browser = await startBrowser(true);
});

after(async () => {
  await browser?.close();
  await host?.stop();
});

test("completions under a sub-path, on WebGPU, equal plain decoding's", async () => {
  const context = await browser.newContext();
  const { page, record } = await openPage(context);
  await page.goto(base);
  const got = await page.evaluate(async (chat_template) => {
    const { BUILTIN_PAIR, Foretoken } = await import("/docs/assets/foretoken/foretoken.js");
    const engine = await Foretoken.load({ ...BUILTIN_PAIR, device: "webgpu", candidates: 5 });
    const schema = {
      type: "object",
      properties: { name: { type: "string", maxLength: 8 }, size: { type: "integer", minimum: 1, maximum: 64 } },
      required: ["name", "size"],
    };
    const ask = (policy, more = {}) =>
      engine.chat.completions.create({
        messages: [{ role: "user", content: "a field of the struct" }],
        chat_template,
        max_tokens: 90,
        seed: 3,
        foretoken: policy,
        ...more,
      });
    const eagle = { policy: "eagle2", depth: 3, top_k: 3, nodes: 8 };
    const out = { formats: [], backend: engine.info.device.backend };
    for (const temperature of [0, 0.8]) {
      const format = { temperature, response_format: { type: "json_schema", json_schema: { name: "field", schema } } };
      const plain = await ask({ policy: "none" }, format);
      const tree = await ask(eagle, format);
      out.formats.push([
        plain.choices[0].message.content,
        tree.choices[0].message.content,
        tree.choices[0].finish_reason,
      ]);
    }
    const told = { logprobs: true, top_logprobs: 5, frequency_penalty: 0.5, max_tokens: 12 };
    const [plain, tree] = [await ask({ policy: "none" }, told), await ask(eagle, told)];
    out.logprobs = [plain.choices[0].logprobs.content, tree.choices[0].logprobs.content];
    let streamed = "";
    for await (const chunk of await ask(eagle, { ...told, stream: true }))
      streamed += chunk.choices[0].delta.content ?? "";
    out.streamed = [streamed, tree.choices[0].message.content];
    // A required call is one call, with the same result for every method.
    const tools = [
      { type: "function", function: { name: "field", parameters: schema } },
      { type: "function", function: { name: "none" } },
    ];
    const call = { temperature: 0, tools, tool_choice: { type: "function", function: { name: "field" } } };
    out.calls = [(await ask({ policy: "none" }, call)).choices[0], (await ask(eagle, call)).choices[0]];
    let named = "";
    for await (const chunk of await ask(eagle, { ...call, tool_choice: "required", stream: true }))
      named += chunk.choices[0].delta.tool_calls?.[0]?.function?.name ?? "";
    out.required = named;
    // Parts of a content are lines to a template that takes texts. A call that is cut short is text, and compact.
    const say = async (content) =>
      (await ask(eagle, { messages: [{ role: "user", content }], max_tokens: 8 })).choices[0].message.content;
    const parts = ["a field", "of the struct"];
    out.parts = [await say(parts.map((text) => ({ type: "text", text }))), await say(parts.join("\n"))];
    const cut = { ...call, max_tokens: 2, logit_bias: { 11: 100 } }; // a line break
    const layout = async (foretoken) => (await ask(foretoken, cut)).choices[0].message.content;
    out.layouts = [await layout(eagle), await layout({ ...eagle, json_compact: false })];
    // What a schema leaves out is allowed, and a keyword that is not held to is named.
    const open = { properties: { a: { type: "array", uniqueItems: true } } };
    const opened = await ask(
      { ...eagle, json_open: true, unchecked: ["uniqueItems"] },
      { max_tokens: 2, response_format: { type: "json_schema", json_schema: { schema: open } } },
    );
    out.unchecked = opened.usage.foretoken.unchecked;
    out.refused = await ask(eagle, {
      response_format: { type: "json_schema", json_schema: { schema: { $dynamicRef: "#x" } } },
    }).catch((cause) => [cause.name, cause.code, cause.message]);
    await engine.dispose();
    return out;
  }, template);
  assert.equal(got.backend, "browser");
  for (const [plain, tree, finish] of got.formats) {
    assert.equal(tree, plain);
    assert.equal(finish, "stop");
    const { name, size } = JSON.parse(tree);
    assert.ok(name.length <= 8 && size >= 1 && size <= 64, tree);
  }
  assert.deepEqual(got.logprobs[1], got.logprobs[0]);
  assert.equal(got.logprobs[0].length, 12);
  assert.ok(got.logprobs[0].every((token) => token.logprob <= 0 && token.top_logprobs.length === 5));
  assert.equal(got.streamed[0], got.streamed[1]);
  const [called, speculated] = got.calls.map(({ message, finish_reason }) => [
    message.content,
    message.tool_calls.map((call) => call.function),
    finish_reason,
  ]);
  assert.deepEqual(speculated, called);
  assert.deepEqual([called[0], called[1].length, called[1][0].name, called[2]], [null, 1, "field", "tool_calls"]);
  const made = JSON.parse(called[1][0].arguments);
  assert.ok(made.name.length <= 8 && made.size >= 1 && made.size <= 64, called[1][0].arguments);
  assert.ok(["field", "none"].includes(got.required), got.required);
  assert.equal(got.parts[0], got.parts[1]);
  assert.deepEqual(
    got.layouts.map((text) => text.includes("\n")),
    [false, true],
  );
  assert.deepEqual(got.unchecked, ["/properties/a/uniqueItems"]);
  assert.deepEqual(got.refused.slice(0, 2), ["ForetokenError", "bad_option"]);
  assert.match(got.refused[2], /\$dynamicRef/);
  assert.ok(
    record.requests.every((url) => url.startsWith(base)),
    record.requests.join("\n"),
  );
  assert.deepEqual(
    record.errors.filter((text) => !text.includes("favicon")),
    [],
  );
  await context.close();
});

test("options that no device has are refused by name", async () => {
  const context = await browser.newContext();
  const { page } = await openPage(context);
  await page.goto(base);
  const refused = await page.evaluate(async () => {
    const { BUILTIN_PAIR, Foretoken } = await import("/docs/assets/foretoken/foretoken.js");
    const refused = [];
    for (const wrong of [{ device: "quantum" }, { candidates: 65 }, { kv: "q4" }])
      refused.push(
        await Foretoken.load({ ...BUILTIN_PAIR, device: "cpu", ...wrong }).catch((e) => `${e.code} ${e.param}`),
      );
    return refused;
  });
  assert.deepEqual(refused, ["bad_option device", "bad_option candidates", "bad_option kv"]);
  await context.close();
});

test("the built-in head is fetched where it is named, and drafts the same text", async () => {
  const context = await browser.newContext();
  const { page } = await openPage(context);
  await page.goto(base);
  const asked = host.asked.length;
  const heads = () => host.asked.slice(asked).filter((path) => path.includes("eagle3")).length;
  /** Returns a reply of a new engine, and whether it has a head. */
  const ask = (named, policy) =>
    page.evaluate(
      async ([named, policy]) => {
        const { BUILTIN_HEAD, Foretoken } = await import("/docs/assets/foretoken/foretoken.js");
        const engine = await Foretoken.load({ device: "cpu", ...(named ? BUILTIN_HEAD : {}) });
        const { token_ids } = await engine.generate("func main() {", { max_tokens: 24, policy }).result;
        await engine.dispose();
        return { token_ids, loaded: engine.info.eagle3 !== null };
      },
      [named, policy],
    );
  const without = await ask(false, "auto");
  assert.deepEqual([without.loaded, heads()], [false, 0]);
  for (const policy of ["auto", "eagle3"])
    assert.deepEqual(await ask(true, policy), { token_ids: without.token_ids, loaded: true });
  assert.ok(heads() >= 2, "the head and its config.json were not fetched");
  await context.close();
});

test("the module works in a page's own worker", async () => {
  const context = await browser.newContext();
  const { page } = await openPage(context);
  await page.goto(base);
  const got = await page.evaluate(
    () =>
      new Promise((resolve, reject) => {
        const worker = new Worker("task.js", { type: "module" });
        worker.onmessage = ({ data }) => resolve(data);
        worker.onerror = (event) => reject(new Error(event.message));
      }),
  );
  assert.ok(got.text.length > 0);
  assert.equal(got.text, got.whole);
  const { prompt, run, rounds, rest, finish } = got.trace;
  assert.equal(rounds.map((round) => round.text).join("") + rest, got.whole);
  assert.deepEqual(
    rounds.flatMap((round) => round.tokens.map((token) => token.id)),
    got.ids,
  );
  assert.deepEqual([prompt, run, finish], ["func main() {", rounds.length, "length"]);
  assert.deepEqual(
    rounds.map((round) => round.tree),
    got.trees,
    "the trees of a run are those that came with its rounds",
  );
  assert.ok(got.trees.some((tree) => tree.tokens.length === 3 && tree.accepted.length > 0));
  assert.ok(host.asked.includes("/docs/assets/foretoken/foretoken.wasm.gz"), "the compressed copy was not used");
  const [plain, ...drafted] = got.processed;
  for (const tokens of drafted) assert.deepEqual(tokens, plain);
  assert.ok(plain.length === 12 && plain.every((id, i) => id !== plain[i - 1]), String(plain));
  assert.ok(Math.abs(got.likeness[0] - 1) < 1e-5 && got.likeness[1] > got.likeness[2], String(got.likeness));
  assert.equal(got.width[0], got.width[1]);
  assert.match(got.refused, /^bad_option .*pooling is "max", want mean or last/);
  const wanted = [/^bad_option .*temperature is 99, want 0/, /^(bad_option|invalid_request) .*grammar/, /max_tokens/];
  for (const [i, pattern] of wanted.entries()) assert.match(got.requests[i], pattern);
  const ends = got.ids.indexOf(got.ids[3]) + 1;
  assert.deepEqual(got.stopped, ["eos", got.ids.slice(0, ends)]);
  assert.ok(got.both.length === 2 && got.both[0] !== got.both[1], String(got.both));
  assert.ok(got.echoed.startsWith("func main() {"), got.echoed);
  await context.close();
});
