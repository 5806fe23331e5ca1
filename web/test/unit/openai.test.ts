import assert from "node:assert/strict";
import { test } from "node:test";
import { type ChatCompletionRequest, Engine, ForetokenError } from "../../src/engine/engine.ts";
import type { GoEngine } from "../../src/protocol/protocol.ts";
import { mockEngine } from "../mock/engine.ts";
import { FakeWorker } from "./fakes.ts";

/** Returns completions over the scripted engine, the requests that it gets, and how often it is stopped. */
async function completions(change: (go: GoEngine) => Partial<GoEngine> = () => ({}), onLine = (): void => undefined) {
  const bodies: string[] = [];
  let stops = 0;
  let busy = false;
  const worker = new FakeWorker(async () => {
    const go = mockEngine({ roundMs: 1 });
    return {
      ...go,
      openai: async (body: string, path: string, line: (text: string) => void) => {
        assert.deepEqual([busy, path], [false, "/v1/chat/completions"], "two answers at once");
        busy = true;
        bodies.push(body);
        return go
          .openai(body, path, (text) => {
            line(text);
            onLine();
          })
          .finally(() => (busy = false));
      },
      stop: () => {
        stops++;
        go.stop();
      },
      ...change(go),
    };
  });
  const target = new Blob(["GGUF", new Uint8Array(1000)]);
  const engine = await Engine.load({ target, draft: target, worker: () => worker as unknown as Worker });
  return { engine, create: engine.chat.completions.create, bodies, stops: () => stops };
}

const hello: ChatCompletionRequest = { messages: [{ role: "user", content: "hello" }], max_tokens: 12 };

test("a request is sent as it is, and its answer comes as it is", async () => {
  const { engine, create, bodies } = await completions();
  const asked = { ...hello, seed: 2n ** 63n, n: 2, foretoken: { policy: "chain" } };
  const whole = await create({ ...asked, user: undefined as never, stream: false });
  const text = `{"messages":[{"role":"user","content":"hello"}],"max_tokens":12,"seed":9223372036854775808,"n":2,`;
  assert.equal(bodies[0], `${text}"foretoken":{"policy":"chain"},"stream":false}`);
  const texts = ["", ""];
  for await (const { choices } of await create({ ...asked, stream: true }))
    texts[choices[0]!.index] += choices[0]!.delta.content ?? "";
  assert.deepEqual(
    texts,
    whole.choices.map(({ message }) => message.content),
  );
  const { requests, method, output_tokens } = engine.stats();
  assert.deepEqual([requests, method, output_tokens], [2, "chain", 24]);
});

test("requests wait for each other", async () => {
  const { create } = await completions();
  const [a, b] = await Promise.all([create({ ...hello, stream: false }), create({ ...hello, stream: false })]);
  assert.equal(a.choices[0]!.message.content, b.choices[0]!.message.content);
  assert.notEqual(a.id, b.id);
});

test("a request that leaves the queue does not start the next one early", async () => {
  const { create } = await completions();
  const first = create({ ...hello, max_tokens: 200 });
  const control = new AbortController();
  const second = create(hello, { signal: control.signal });
  const third = create(hello);
  control.abort();
  await assert.rejects(second, { code: "aborted" });
  assert.ok((await first) && (await third));
});

test("a signal, leaving the loop, abort and stop end an answer", async () => {
  let during = (): void => undefined;
  const { engine, create, stops } = await completions(undefined, () => during());
  const long = { ...hello, max_tokens: 100000 };
  const controller = new AbortController();
  during = () => controller.abort();
  await assert.rejects(
    async () => {
      for await (const _ of await create({ ...long, stream: true }, { signal: controller.signal }));
    },
    { code: "aborted" },
  );
  during = () => undefined;
  await assert.rejects(create({ ...hello, stream: false }, { signal: controller.signal }), { code: "aborted" });
  for await (const _ of await create({ ...long, stream: true })) break;
  const running = await create({ ...long, stream: true });
  let seen = 0;
  for await (const _ of running) if (++seen === 3) running.abort();
  assert.equal((await create({ ...hello, stream: false })).choices.length, 1);
  assert.deepEqual([seen, stops()], [3, 3]);
  during = () => engine.stop();
  await assert.rejects(
    async () => {
      for await (const _ of await create({ ...long, stream: true }));
    },
    { code: "aborted" },
  );
  during = () => undefined;
});

test("a stream that is read late, in part or never holds up no other request", async () => {
  const { create, stops } = await completions();
  const all = await create({ ...hello, stream: true }); // read late
  const part = (await create({ ...hello, stream: true }))[Symbol.asyncIterator]();
  await part.next(); // and never on
  await create({ ...hello, stream: true }); // never
  const whole = await create({ ...hello, stream: false });
  let text = "";
  for await (const { choices } of all) text += choices[0]!.delta.content ?? "";
  assert.equal(text, whole.choices[0]!.message.content);
  // An unread stream is aborted like others; its reader gets no more.
  const control = new AbortController();
  const signalled = await create({ ...hello, max_tokens: 100000, stream: true }, { signal: control.signal });
  control.abort();
  const aborted = await create({ ...hello, max_tokens: 100000, stream: true });
  aborted.abort();
  assert.ok((await create(hello)) && stops() === 2);
  await assert.rejects(
    async () => {
      for await (const _ of signalled);
    },
    { code: "aborted" },
  );
  for await (const _ of aborted) assert.fail();
});

test("errors of the API and of the engine reject, streamed or not", async () => {
  let fails = "";
  const { create, bodies } = await completions(() => ({
    openai: async (_body, _path, onLine) => {
      if (fails === "late") onLine('{"choices": []}');
      if (fails === "timeout") throw new ForetokenError("timeout", "the device did not answer");
      const error = { message: "it is wrong", type: "t", param: fails === "none" ? null : "n", code: fails };
      return JSON.stringify({ status: 400, body: JSON.stringify({ error }), policy: "" });
    },
  }));
  for (const [code, own, param] of [
    ["invalid_value", "bad_option", "n"],
    ["none", "bad_option", undefined],
    ["context_length_exceeded", "context_full", "n"],
    ["no_chat_template", "no_chat", "n"],
    ["timeout", "timeout", undefined],
  ])
    for (const stream of [false, true]) {
      fails = code!;
      await assert.rejects(
        create({ ...hello, stream }),
        (e) => e instanceof ForetokenError && e.code === own && e.param === param,
        code,
      );
    }
  fails = "late";
  const begun = await create({ ...hello, stream: true });
  await assert.rejects(async () => {
    for await (const { choices } of begun) assert.equal(choices.length, 0);
  }, /it is wrong/);
  // What JSON would drop or change never leaves the page.
  for (const [param, change] of [
    ["seed", { seed: 2 ** 60 }],
    ["temperature", { temperature: Number.NaN }],
    ["stop", { stop: ["a", undefined] }],
    ["chat_template_kwargs", { chat_template_kwargs: { f: () => 1 } }],
  ] as [string, object][])
    await assert.rejects(create({ ...hello, ...change } as ChatCompletionRequest), { code: "bad_option", param });
  assert.deepEqual(bodies, []);
});
