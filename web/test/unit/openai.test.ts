import assert from "node:assert/strict";
import { test } from "node:test";
import { ForetokenError } from "../../src/protocol/errors.ts";
import type { Generation } from "../../src/engine/generation.ts";
import {
  type Answerer,
  type ChatCompletion,
  type ChatCompletionRequest,
  ChatCompletions,
} from "../../src/engine/openai.ts";
import { textOf } from "../../src/engine/plain.ts";
import type { ChatReply, AnswerOptions, GenerateRequest, Result, RoundEvent } from "../../src/protocol/protocol.ts";
import { ToolCalls } from "../../src/engine/tool-calls.ts";
import answers from "../../../models/chat/testdata/answers.json" with { type: "json" };
import { Turns } from "../../src/engine/turns.ts";
import { mockEngine } from "../mock/engine.ts";

interface Call {
  chat: AnswerOptions;
  request: Omit<GenerateRequest, "prompt">;
}

/** Returns completions over the scripted engine, and the requests that they send to it. */
function completions(
  before: (call: Call) => void = () => undefined,
  onRound: () => void = () => undefined,
): { create: ChatCompletions["create"]; calls: Call[]; stops: () => number } {
  const go = mockEngine({ roundMs: 1 });
  const opened = go.open(
    "{}",
    {
      target: { name: "t", size: 4, read: async () => new TextEncoder().encode("GGUF") },
      draft: null,
      eagle3: null,
      eagle3_config: null,
      calibrations: [],
    },
    () => undefined,
  );
  const calls: Call[] = [];
  let stops = 0;
  let busy = false;
  const answerer: Answerer = {
    model: "mock",
    fingerprint: "browser mock",
    turns: new Turns(),
    answer(chat, request): Generation<ChatReply> {
      assert.ok(!busy, "two answers at once");
      busy = true;
      calls.push({ chat, request });
      const rounds: RoundEvent[] = [];
      let wake = (): void => undefined;
      const result = opened
        .then(() => {
          before({ chat, request });
          return go.chat(textOf({ do: "complete", ...chat, request }), (json) => {
            rounds.push(JSON.parse(json) as RoundEvent);
            wake();
            onRound();
          });
        })
        .then((json) => JSON.parse(json) as ChatReply)
        .finally(() => (busy = false));
      let ended = false;
      result
        .then(
          () => (ended = true),
          () => (ended = true),
        )
        .finally(() => wake());
      const stop = (): void => {
        stops++;
        go.stop();
      };
      return {
        result,
        stop,
        trace: () => assert.fail(),
        async *[Symbol.asyncIterator]() {
          try {
            for (;;) {
              const next = rounds.shift();
              if (next) yield next;
              else if (ended) break;
              else await new Promise<void>((resolve) => (wake = resolve));
            }
            await result;
          } finally {
            if (!ended) stop();
          }
        },
      };
    },
  };
  const all = new ChatCompletions(answerer);
  return { create: all.create.bind(all) as ChatCompletions["create"], calls, stops: () => stops };
}

const hello: ChatCompletionRequest = {
  messages: [
    { role: "developer", content: "be brief" },
    {
      role: "user",
      content: [
        { type: "text", text: "hel" },
        { type: "text", text: "lo" },
      ],
    },
  ],
  max_tokens: 12,
  seed: 5,
};

test("a completion is the sum of its stream", async () => {
  const { create, calls } = completions();
  const whole = await create({
    ...hello,
    stream: false,
    temperature: 0.5,
    top_p: 0.9,
    stop: "x",
    presence_penalty: 1,
    logit_bias: { 5: -100 },
    foretoken: { policy: "chain", depth: 2 },
  });
  assert.deepEqual(calls[0]!.chat.messages, [
    { role: "system", content: "be brief" },
    { role: "user", content: "", parts: ["hel", "lo"] },
  ]);
  const { policy, depth, max_tokens, temperature, top_p, stop, presence_penalty, logit_bias, seed } = calls[0]!.request;
  assert.deepEqual(
    { policy, depth, max_tokens, temperature, top_p, stop, presence_penalty, logit_bias, seed },
    {
      policy: "chain",
      depth: 2,
      max_tokens: 12,
      temperature: 0.5,
      top_p: 0.9,
      stop: ["x"],
      presence_penalty: 1,
      logit_bias: { 5: -100 },
      seed: 5,
    },
  );
  assert.equal(whole.object, "chat.completion");
  assert.equal(whole.model, "mock");
  assert.equal(whole.choices[0]!.finish_reason, "length");
  assert.equal(whole.usage.completion_tokens, 12);
  assert.equal(whole.usage.total_tokens, whole.usage.prompt_tokens + 12);
  let text = "";
  const kinds: unknown[] = [];
  for await (const chunk of await create({
    ...hello,
    stream: true,
    stream_options: { include_usage: true },
    foretoken: { policy: "chain", depth: 2 },
  })) {
    assert.equal(chunk.object, "chat.completion.chunk");
    const choice = chunk.choices[0];
    if (!choice) kinds.push(chunk.usage!.completion_tokens);
    else {
      assert.equal(chunk.usage, null);
      text += choice.delta.content ?? "";
      if (choice.delta.role) kinds.push(choice.delta.role);
      if (choice.finish_reason) kinds.push(choice.finish_reason);
    }
  }
  assert.equal(text, whole.choices[0]!.message.content);
  assert.deepEqual(kinds, ["assistant", "length", 12]);
});

test("formats, log-probabilities and several answers", async () => {
  const { create, calls } = completions();
  const schema = { type: "object" };
  const answer = await create({
    ...hello,
    stream: false,
    n: 2,
    logprobs: true,
    top_logprobs: 3,
    response_format: { type: "json_schema", json_schema: { name: "x", schema } },
    tools: [{ type: "function", function: { name: "f" } }],
  });
  assert.deepEqual(
    calls.map(({ request }) => request.seed),
    [5, 6],
  );
  assert.deepEqual(calls[0]!.request.json_schema, schema);
  assert.equal(calls[0]!.chat.tools!.length, 1);
  assert.equal(answer.choices.length, 2);
  const { content } = answer.choices[1]!.logprobs!;
  assert.equal(content.map((c) => c.token).join(""), answer.choices[1]!.message.content);
  assert.ok(
    content.every((c) => c.logprob === -0.25 && c.top_logprobs.length === 3 && c.top_logprobs[2]!.logprob === -2.25),
  );
  assert.equal(answer.usage.completion_tokens, 24);
  await create({
    ...hello,
    stream: false,
    response_format: { type: "json_object" },
    tool_choice: "none",
    tools: [{ type: "function", function: { name: "f" } }],
  });
  assert.equal(calls.at(-1)!.request.json_object, true);
  assert.equal(calls.at(-1)!.request.json_compact, true);
  await create({ ...hello, stop_token_ids: [13] });
  assert.deepEqual(calls.at(-1)!.request.stop_token_ids, [13]);
  await create({ ...hello, response_format: { type: "json_object" }, foretoken: { json_compact: false } });
  assert.equal(calls.at(-1)!.request.json_compact, false);
  assert.ok(!("json_open" in calls.at(-1)!.request));
  // What a schema leaves out and what is not held to are settings of the engine, of forms and of calls.
  for (const more of [
    { response_format: { type: "json_schema", json_schema: { schema } } },
    { tool_choice: "required", tools: [{ type: "function", function: { name: "f", parameters: schema } }] },
  ] as const) {
    const open = { ...hello, ...more, foretoken: { json_open: true, unchecked: ["uniqueItems"] } };
    const whole = await create({ ...open, stream: false });
    const { json_open, unchecked } = calls.at(-1)!.request;
    assert.deepEqual([json_open, unchecked], [true, ["uniqueItems"]]);
    assert.deepEqual(whole.usage.foretoken.unchecked, ["/uniqueItems"]);
    let last;
    for await (const chunk of await create({ ...open, stream: true })) last = chunk;
    assert.deepEqual([last!.choices.length, last!.usage?.foretoken.unchecked], [0, ["/uniqueItems"]]);
  }
  await create({ ...hello, response_format: { type: "json_object" }, foretoken: { json_compact: false } });
  assert.equal(calls.at(-1)!.chat.tools, undefined);
  await create({
    ...hello,
    stream: false,
    tool_choice: "required",
    tools: [{ type: "function", function: { name: "f" } }],
  });
  assert.deepEqual([calls.at(-1)!.chat.tool_choice, calls.at(-1)!.chat.tools!.length], ["required", 1]);
  const { seed, ...unseeded } = hello;
  const random = await create({ ...unseeded, stream: false });
  assert.equal(calls.at(-1)!.request.seed, random.seed);
  assert.notEqual(random.seed, seed);
});

test("calls are read as Go reads them, for any division into pieces", () => {
  const table: {
    what: string;
    text: string;
    content?: string;
    single?: boolean;
    calls?: string[][];
    pieces?: string[][];
  }[] = answers;
  const tools = ["f", "g", "ff", "größe🚀"].map((name) => ({ type: "function" as const, function: { name } }));
  for (const { what, text, single, calls = [], content = calls.length > 0 ? "" : text, pieces = [] } of table) {
    const cuts = [[text], [...text], ...Array.from(text, (_, at) => [text.slice(0, at), text.slice(at)])];
    for (const cut of cuts) {
      const reader = new ToolCalls(tools, single);
      const out = [...cut.map((piece) => reader.push(piece)), reader.end()];
      const found = out.flatMap((o) => o.calls);
      assert.deepEqual(
        [out.map((o) => o.content).join(""), found.map(({ function: f }) => [f.name, f.arguments])],
        [content, calls],
        `${what}: ${JSON.stringify(cut)}`,
      );
      for (const { id, type } of found) assert.match(`${id} ${type}`, /^[A-Za-z0-9]{9} function$/);
    }
    const reader = new ToolCalls(tools, single);
    for (const [piece, wanted] of pieces) assert.equal(reader.push(piece!).content, wanted, `${what}: after ${piece}`);
  }
});

test("an answer with a function call has tool_calls, streamed or not", async () => {
  let ending = "eos";
  let stops = 0;
  const said = ["I will ask. <tool", '_call>{"name":"f","arguments":{"x":1}}</tool_', "call>"];
  const answerer: Answerer = {
    model: "m",
    fingerprint: "f",
    turns: new Turns(),
    answer() {
      const rounds = said.map((text, round) => ({ round, text, tokens: [] }) as unknown as RoundEvent);
      const result = Promise.resolve({
        result: { finish: ending, stats: { prompt_tokens: 1, reused: 0, output_tokens: 3 } },
      } as unknown as ChatReply);
      return {
        result,
        stop: () => stops++,
        trace: () => assert.fail(),
        async *[Symbol.asyncIterator]() {
          yield* rounds;
        },
      };
    },
  };
  const all = new ChatCompletions(answerer);
  const request = { messages: hello.messages, tools: [{ type: "function" as const, function: { name: "f" } }] };
  const { message, finish_reason } = (await all.create({ ...request, stream: false })).choices[0]!;
  assert.deepEqual(
    [message.content, message.tool_calls!.map((c) => c.function), finish_reason],
    ["I will ask. ", [{ name: "f", arguments: '{"x":1}' }], "tool_calls"],
  );
  let text = "";
  const calls: number[] = [];
  let finish: unknown;
  for await (const { choices } of await all.create({ ...request, stream: true })) {
    text += choices[0]!.delta.content ?? "";
    calls.push(...(choices[0]!.delta.tool_calls ?? []).map((c) => c.index));
    finish = choices[0]!.finish_reason ?? finish;
  }
  assert.deepEqual([text, calls, finish], ["I will ask. ", [0], "tool_calls"]);
  ending = "length"; // within whatever follows the call
  assert.equal((await all.create({ ...request, stream: false })).choices[0]!.finish_reason, "length");
  ending = "eos";
  said.splice(0, 3, '<tool_call>{"name":"f"}</tool_call>');
  assert.equal((await all.create({ ...request, stream: false })).choices[0]!.message.content, null);
  said.push(said[0]!);
  const called = async (more: Partial<ChatCompletionRequest>): Promise<number> =>
    (await all.create({ ...request, ...more, stream: false })).choices[0]!.message.tool_calls!.length;
  assert.deepEqual([await called({}), await called({ parallel_tool_calls: false })], [2, 1]);
  ending = "aborted"; // by the one call
  stops = 0;
  const single = (await all.create({ ...request, parallel_tool_calls: false, stream: false })).choices[0]!;
  assert.deepEqual([single.message.tool_calls!.length, single.finish_reason, stops], [1, "tool_calls", 1]);
  ending = "eos";
  said.pop();
  const without = (await all.create({ messages: hello.messages, stream: false })).choices[0]!;
  assert.deepEqual(
    [without.message.content, without.message.tool_calls, without.finish_reason],
    [said[0], undefined, "stop"],
  );
});

test("requests wait for each other", async () => {
  const { create } = completions();
  const [a, b] = await Promise.all([create({ ...hello, stream: false }), create({ ...hello, stream: false })]);
  assert.equal(a.choices[0]!.message.content, b.choices[0]!.message.content);
  assert.notEqual(a.id, b.id);
});

test("a request that leaves the queue does not start the next one early", async () => {
  const { create } = completions();
  const first = create({ ...hello, max_tokens: 200 });
  const control = new AbortController();
  const second = create(hello, { signal: control.signal });
  const third = create(hello);
  control.abort();
  await assert.rejects(second, { code: "aborted" });
  assert.ok((await first) && (await third));
});

test("a signal, leaving the loop and abort end an answer", async () => {
  let during = (): void => undefined;
  const { create, stops } = completions(undefined, () => during());
  const controller = new AbortController();
  during = () => controller.abort();
  const stopped = create({ ...hello, max_tokens: 100000, stream: false }, { signal: controller.signal });
  await assert.rejects(stopped, (cause) => cause instanceof ForetokenError && cause.code === "aborted");
  during = () => undefined;
  await assert.rejects(create({ ...hello, stream: false }, { signal: controller.signal }), { code: "aborted" });
  for await (const chunk of await create({ ...hello, max_tokens: 100000, stream: true }))
    if (chunk.choices[0]!.delta.content) break;
  const running = await create({ ...hello, max_tokens: 100000, stream: true });
  let seen = 0;
  for await (const chunk of running) {
    seen += chunk.choices.length;
    if (seen === 3) running.abort();
  }
  assert.equal(seen, 3);
  assert.equal(stops(), 3);
  const after = await create({ ...hello, stream: false });
  assert.equal((after.usage.foretoken as Result["stats"]).output_tokens, 12);
});

test("a stream that is read late, in part or never holds up no other request", async () => {
  const { create, stops } = completions();
  const all = await create({ ...hello, stream: true, n: 2 }); // read late
  const part = (await create({ ...hello, stream: true }))[Symbol.asyncIterator]();
  await part.next(); // and never on
  await create({ ...hello, stream: true }); // never
  const whole = await create({ ...hello, n: 2 });
  const texts = ["", ""];
  for await (const { choices } of all) texts[choices[0]!.index] += choices[0]!.delta.content ?? "";
  assert.deepEqual(
    texts,
    (whole as ChatCompletion).choices.map(({ message }) => message.content),
  );
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

test("seeds have 64 bits, as over HTTP", async () => {
  const { create, calls } = completions();
  for (const [seed, first, second] of [
    [5n, 5, 6],
    [2n ** 63n, 2n ** 63n, 2n ** 63n + 1n],
    [-1, 2n ** 64n - 1n, 0],
    [Number.MAX_SAFE_INTEGER, Number.MAX_SAFE_INTEGER, 2n ** 53n],
  ] as const) {
    calls.length = 0;
    const answer = (await create({ ...hello, n: 2, seed, max_tokens: 1 })) as ChatCompletion;
    assert.deepEqual(
      calls.map(({ request }) => request.seed as unknown),
      [first, second],
    );
    assert.equal(BigInt(answer.seed), BigInt(seed));
  }
});

test("hints to a service are not read", async () => {
  const { create, calls } = completions();
  const names = ["user", "metadata", "store", "service_tier", "safety_identifier", "prompt_cache_key"];
  for (const value of [5, new Map(), () => 1, Number.NaN, "\ud800"]) {
    const hints = Object.fromEntries(names.map((name) => [name, value]));
    await create({ ...hello, max_tokens: 1, stream: false, ...hints });
  }
  assert.equal(calls.length, 5);
});

test("an invalid request is an error that names the field, before any generation", async () => {
  const { create, calls } = completions();
  for (const [param, change] of [
    ["messages", { messages: [] }],
    ["messages[0]", { messages: [{ role: "wizard", content: "x" }] }],
    ["messages[0]", { messages: [{ role: "user", content: [{ type: "image_url" }] }] }],
    ["temprature", { temprature: 1 }],
    ["temperature", { temperature: 3 }],
    ["temperature", { temperature: "hot" }],
    ["n", { n: 17 }],
    ["temperature", { temperature: Number.NaN }],
    ["top_p", { top_p: -1 }],
    ["frequency_penalty", { frequency_penalty: 2.5 }],
    ["max_tokens", { max_tokens: 0.5 }],
    ["n", { n: 0 }],
    ["seed", { seed: 1.5 }],
    ["seed", { seed: 2 ** 60 }],
    ["seed", { seed: 2n ** 64n }],
    ["seed", { foretoken: { seed: 2 ** 60 } }],
    ["seed", { seed: "7" }],
    ["max_tokens", { max_tokens: 5, max_completion_tokens: 6 }],
    ["max_tokens", { max_tokens: "5" }],
    ["stream", { stream: "yes" }],
    ["stream_options", { stream_options: { include_usage: true } }],
    ["stream_options", { stream: true, stream_options: { include_usages: true } }],
    ["stream_options", { stream: true, stream_options: { include_usage: 1 } }],
    ["stop", { stop: 5 }],
    ["stop", { stop: ["a", undefined] }],
    ["stop_token_ids", { stop_token_ids: "5" }],
    ["logit_bias", { logit_bias: [] }],
    ["logit_bias", { logit_bias: { 3: Number.NaN } }],
    ["logprobs", { logprobs: "true" }],
    ["chat_template", { chat_template: 5 }],
    ["chat_template_kwargs", { chat_template_kwargs: "x" }],
    ["chat_template_kwargs", { chat_template_kwargs: { f: () => 1 } }],
    ["foretoken", { foretoken: [] }],
    ["prompt", { foretoken: { prompt: "x" } }],
    ["Temperature", { Temperature: 1 }],
    ["messages", { messages: undefined }],
    ["messages", { messages: "hello" }],
    ["messages[0]", { messages: [null] }],
    ["messages[0]", { messages: [{ Role: "user", CONTENT: "x" }] }],
    ["messages[0]", { messages: [{ role: "user", content: "x", Name: "y" }] }],
    ["messages[0]", { messages: [{ role: "user", content: 5 }] }],
    ["messages[0]", { messages: [{ role: "assistant", content: "", tool_calls: {} }] }],
    ["messages[0]", { messages: [{ role: "user", content: "x", name: 5 }] }],
    ["response_format", { response_format: "json_object" }],
    ["response_format", { response_format: {} }],
    ["response_format", { response_format: { type: "text", schemas: {} } }],
    ["response_format", { response_format: { type: "json_object", schema: {} } }],
    ["response_format", { response_format: { type: "json_schema", json_schema: { shema: {} } } }],
    ["response_format", { response_format: { type: "json_schema", json_schema: { schema: "x" } } }],
    ["tools", { tools: {} }],
    ["tools[0]", { tools: [{ type: "function", function: { name: "f", parameter: {} } }] }],
    ["tools[0]", { tools: [{ type: "function", function: { name: "f", parameters: "x" } }] }],
    ["tools[0]", { tools: [{ type: "function", function: { name: "f" }, functions: [] }] }],
    ["tools[0]", { tools: [null] }],
    ["tool_choice", { tool_choice: 1, tools: [{ type: "function", function: { name: "f" } }] }],
    ["tool_choice", { tool_choice: { type: "function", name: "f" } }],
    ["top_logprobs", { top_logprobs: 2 }],
    ["response_format", { response_format: { type: "yaml" } }],
    ["response_format", { response_format: { type: "json_schema" } }],
    ["tool_choice", { tool_choice: "required" }],
    ["tool_choice", { tool_choice: "any" }],
    [
      "tool_choice",
      {
        tool_choice: { type: "function", function: { name: "g" } },
        tools: [{ type: "function", function: { name: "f" } }],
      },
    ],
    [
      "tool_choice",
      {
        tool_choice: "required",
        tools: [{ type: "function", function: { name: "f" } }],
        response_format: { type: "json_object" },
      },
    ],
    ["tools[1]", { tools: [{ type: "function", function: { name: "f" } }, { type: "retrieval" }] }],
  ] as [string, object][]) {
    await assert.rejects(
      create({ ...hello, ...change } as ChatCompletionRequest),
      (cause) => cause instanceof ForetokenError && cause.code === "bad_option" && cause.param === param,
      param,
    );
  }
  assert.equal(calls.length, 0);
  const failing = completions(() => {
    throw new ForetokenError("context_full", "the prompt is too long");
  });
  await assert.rejects(failing.create({ ...hello, stream: true }), /too long/);
  await assert.rejects(failing.create({ ...hello, stream: false }), /too long/);
});
