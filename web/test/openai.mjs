/** Tests `foretoken serve` with OpenAI's client library: the built-in pair on the cpu device. */
import assert from "node:assert/strict";
import { execFile, spawn } from "node:child_process";
import { promises as fs } from "node:fs";
import os from "node:os";
import path from "node:path";
import { createInterface } from "node:readline";
import { after, before, test } from "node:test";
import { promisify } from "node:util";
import { fileURLToPath } from "node:url";
import OpenAI from "openai";
import { limit } from "./site.mjs";

const root = path.dirname(path.dirname(path.dirname(fileURLToPath(import.meta.url))));
const run = promisify(execFile);
const key = "a key of the test's own";
const template = "{% for m in messages %}// {{ m.role }}: {{ m.content }}\n{% endfor %}";
const prompt = "func main() {";
const messages = [
  { role: "system", content: "go" },
  { role: "user", content: "close a file" },
];
// Thousands of tokens, so that it runs longer than the test.
const endless = { prompt: "package main", max_tokens: 400, n: 16, temperature: 1.3, seed: 4, stream: true };
let folder, binary, server;

before(async () => {
  folder = await fs.mkdtemp(path.join(os.tmpdir(), "foretoken-openai-"));
  binary = path.join(folder, "foretoken");
  await fs.writeFile(path.join(folder, "template.jinja"), template);
  await run("go", ["build", "-o", binary, "./cmd/foretoken"], { cwd: root });
  server = await start("--max-queue", "1");
});

after(async () => {
  await server?.stop("SIGINT");
  await fs.rm(folder, { recursive: true, force: true });
});

/** Starts a server on a free port and waits until the models are loaded. */
async function start(...flags) {
  const child = spawn(
    binary,
    [
      "serve",
      "--device",
      "cpu",
      "--addr",
      "127.0.0.1:0",
      "--json",
      "--no-tuning-cache",
      "--chat-template",
      path.join(folder, "template.jinja"),
      ...flags,
    ],
    {
      stdio: ["ignore", "pipe", "inherit"],
      env: { ...process.env, FORETOKEN_API_KEY: key },
    },
  );
  const events = [];
  const listeners = new Set();
  createInterface({ input: child.stdout }).on("line", (line) => {
    events.push(JSON.parse(line));
    for (const listen of listeners) listen();
  });
  /** Resolves with the first matching event, past or future. */
  const event = (fits) =>
    new Promise((resolve, reject) => {
      const listen = () => {
        const found = events.find(fits);
        if (!found) return;
        listeners.delete(listen);
        resolve(found);
      };
      listeners.add(listen);
      child.once("exit", (code) => reject(new Error(`the server ended with ${code}`)));
      listen();
    });
  const ended = new Promise((resolve) => child.once("exit", (code, signal) => resolve(code ?? signal)));
  const { url, model } = await event((e) => e.event === "ready");
  const client = (options) => new OpenAI({ baseURL: url, apiKey: key, maxRetries: 0, ...options });
  return {
    url,
    model,
    client,
    api: client(),
    event,
    async stop(signal) {
      if (child.exitCode === null) child.kill(signal);
      return { code: await ended, events };
    },
  };
}

/** Reads a stream to its end. */
async function read(stream) {
  let text = "";
  let usage, finish;
  for await (const piece of stream) {
    const choice = piece.choices[0];
    text += choice?.delta?.content ?? choice?.text ?? "";
    finish = choice?.finish_reason ?? finish;
    usage = piece.usage ?? usage;
  }
  return { text, finish, usage };
}

/** Returns the error of a rejected call. */
async function refusal(promise) {
  try {
    await promise;
  } catch (error) {
    return error;
  }
  assert.fail("the call was not refused");
}

test("the client lists the model", async () => {
  const listed = [];
  for await (const model of server.api.models.list()) listed.push(model);
  assert.deepEqual(
    listed.map((m) => [m.id, m.object, m.owned_by]),
    [[server.model, "model", "foretoken"]],
  );
  assert.equal((await server.api.models.retrieve(server.model)).id, server.model);
});

test("the client reads embeddings, which it asks for as bytes", async () => {
  const input = ["func Len() int", "func Cap() int"];
  const [asBytes, asNumbers] = await Promise.all(
    [{}, { encoding_format: "float" }].map((more) =>
      server.api.embeddings.create({ model: server.model, input, ...more }),
    ),
  );
  for (const one of asNumbers.data) one.embedding = one.embedding.map(Math.fround);
  assert.deepEqual(asBytes.data, asNumbers.data);
  assert.equal(asBytes.data.length, 2);
  for (const { embedding } of asBytes.data)
    assert.ok(Math.abs(embedding.reduce((sum, x) => sum + x * x, 0) - 1) < 1e-5);
  assert.equal(asBytes.usage.total_tokens, asNumbers.usage.prompt_tokens);
});

test("a seeded text equals that of foretoken generate, streamed or not", async () => {
  const { stdout } = await run(binary, [
    "generate",
    "--device",
    "cpu",
    "--no-tuning-cache",
    "--prompt",
    prompt,
    "--max-tokens",
    "12",
    "--temperature",
    "0.8",
    "--seed",
    "7",
    "--json",
  ]);
  const reference = JSON.parse(stdout);
  const request = { model: server.model, prompt, max_tokens: 12, temperature: 0.8, seed: 7 };
  const whole = await server.api.completions.create(request);
  assert.equal(whole.choices[0].text, reference.text);
  assert.equal(whole.choices[0].finish_reason, "length");
  assert.equal(whole.usage.prompt_tokens, reference.prompt_ids.length);
  assert.equal(whole.usage.completion_tokens, 12);
  assert.ok(whole.usage.foretoken.stats.acceptance_length >= 1);
  const streamed = await read(
    await server.api.completions.create({ ...request, stream: true, stream_options: { include_usage: true } }),
  );
  assert.deepEqual([streamed.text, streamed.finish, streamed.usage.completion_tokens], [reference.text, "length", 12]);
});

test("a conversation, its stream and its next turn", async () => {
  const request = { model: server.model, messages, max_completion_tokens: 8, temperature: 0 };
  const whole = await server.api.chat.completions.create(request);
  const { message, finish_reason } = whole.choices[0];
  assert.equal(message.role, "assistant");
  assert.equal(finish_reason, "length");
  const streamed = await read(await server.api.chat.completions.create({ ...request, stream: true }));
  assert.equal(streamed.text, message.content);
  assert.equal(streamed.usage, undefined);
  // The client's stream reader assembles the same answer.
  const gathered = await server.api.chat.completions
    .stream({ ...request, stream_options: { include_usage: true } })
    .finalChatCompletion();
  assert.equal(gathered.choices[0].message.content, message.content);
  const next = await server.api.chat.completions.create({
    ...request,
    messages: [...messages, message, { role: "user", content: "again" }],
  });
  assert.ok(
    next.usage.prompt_tokens_details.cached_tokens >= whole.usage.prompt_tokens - 1,
    "the second turn prefills only what is new",
  );
});

test("stop strings, several texts and log-probabilities", async () => {
  const request = { model: server.model, prompt, max_tokens: 12, temperature: 0 };
  const { text } = (await server.api.completions.create(request)).choices[0];
  const stop = text.trim().slice(4, 7);
  const cut = (await server.api.completions.create({ ...request, stop: ["never, this", stop] })).choices[0];
  assert.deepEqual([cut.text, cut.finish_reason], [text.slice(0, text.indexOf(stop)), "stop"]);
  const two = await server.api.completions.create({ ...request, max_tokens: 4, temperature: 1, seed: 5, n: 2 });
  const second = await server.api.completions.create({ ...request, max_tokens: 4, temperature: 1, seed: 6 });
  assert.deepEqual(
    two.choices.map((c) => c.index),
    [0, 1],
  );
  assert.equal(two.choices[1].text, second.choices[0].text);
  const likely = await server.api.chat.completions.create({
    model: server.model,
    messages,
    max_tokens: 3,
    temperature: 0,
    logprobs: true,
    top_logprobs: 2,
  });
  for (const { token, logprob, top_logprobs } of likely.choices[0].logprobs.content) {
    assert.deepEqual([top_logprobs.length, top_logprobs[0].token], [2, token]);
    assert.ok(logprob <= 0 && logprob === top_logprobs[0].logprob && top_logprobs[1].logprob <= logprob);
  }
});

test("a text constrained by a JSON Schema", async () => {
  const schema = {
    type: "object",
    properties: { ok: { type: "boolean" }, n: { type: "integer", minimum: 3, maximum: 12 } },
    required: ["ok", "n"],
    additionalProperties: false,
  };
  const answer = await server.api.chat.completions.create({
    model: server.model,
    messages,
    max_tokens: 60,
    temperature: 0,
    response_format: { type: "json_schema", json_schema: { name: "x", strict: true, schema } },
  });
  const { ok, n } = JSON.parse(answer.choices[0].message.content);
  assert.ok(typeof ok === "boolean" && Number.isInteger(n) && n >= 3 && n <= 12, answer.choices[0].message.content);
});

test("a required call is a call", async () => {
  const tools = [
    {
      type: "function",
      function: {
        name: "resize",
        parameters: {
          type: "object",
          properties: { n: { type: "integer", minimum: 3, maximum: 12 } },
          required: ["n"],
          additionalProperties: false,
        },
      },
    },
  ];
  const request = { model: server.model, messages, max_tokens: 60, temperature: 0, tools, tool_choice: "required" };
  const { message, finish_reason } = (await server.api.chat.completions.create(request)).choices[0];
  assert.deepEqual(
    [message.content, message.tool_calls.length, message.tool_calls[0].function.name, finish_reason],
    [null, 1, "resize", "tool_calls"],
  );
  const { n } = JSON.parse(message.tool_calls[0].function.arguments);
  assert.ok(Number.isInteger(n) && n >= 3 && n <= 12, message.tool_calls[0].function.arguments);
  const gathered = (
    await server.api.chat.completions
      .stream({ ...request, tool_choice: { type: "function", function: { name: "resize" } } })
      .finalChatCompletion()
  ).choices[0];
  assert.deepEqual(gathered.message.tool_calls[0].function.arguments, message.tool_calls[0].function.arguments);
});

test("errors have the client's types, with code and param", async () => {
  const chat = (more, api = server.api) =>
    refusal(api.chat.completions.create({ model: server.model, messages, max_tokens: 2, ...more }));
  for (const [error, type, status, code, param] of [
    [await chat({ model: "gpt-4o" }), OpenAI.NotFoundError, 404, "model_not_found", "model"],
    [await chat({ temperature: 3 }), OpenAI.BadRequestError, 400, "invalid_value", "temperature"],
    [
      await chat({ messages: [{ role: "user", content: [{ type: "image_url", image_url: { url: "x" } }] }] }),
      OpenAI.BadRequestError,
      400,
      "unsupported_parameter",
      "messages[0].content[0].type",
    ],
    [
      await chat({ response_format: { type: "yaml" } }),
      OpenAI.BadRequestError,
      400,
      "invalid_value",
      "response_format.type",
    ],
    [await chat({ tool_choice: "required" }), OpenAI.BadRequestError, 400, "invalid_value", "tool_choice"],
    [await chat({}, server.client({ apiKey: "wrong" })), OpenAI.AuthenticationError, 401, "invalid_api_key", null],
    [
      await refusal(server.api.embeddings.create({ model: server.model, input: "x", dimensions: 7 })),
      OpenAI.BadRequestError,
      400,
      "unsupported_parameter",
      "dimensions",
    ],
    [
      await refusal(server.api.moderations.create({ input: "x" })),
      OpenAI.NotFoundError,
      404,
      "unknown_url",
      null,
    ],
  ]) {
    assert.ok(error instanceof type, `${error.constructor.name}: ${error.message}`);
    assert.deepEqual([error.status, error.code, error.param], [status, code, param]);
    assert.match(error.requestID, /^req_/);
  }
});

test("refusals name the field, its bounds and the nearest known name, without words of Go", async () => {
  const text = (more) =>
    refusal(server.api.completions.create({ model: server.model, prompt, max_tokens: 2, ...more }));
  for (const [more, param, says] of [
    [{ temperature: 99 }, "temperature", "temperature is 99; want a number, 0 (greedy) or 0.001 to 2"],
    [{ temperature: "hot" }, "temperature", 'temperature is "hot"; want a number'],
    [{ top_p: 1.5 }, "top_p", "top_p is 1.5; want a number, 0 to 1"],
    [{ max_tokens: 1.5 }, "max_tokens", "max_tokens is 1.5; want a whole number"],
    [{ n: 17 }, "n", "n is 17; want a whole number, 1 to 16"],
    [{ temprature: 1 }, "temprature", "there is no parameter temprature; did you mean temperature?"],
    [{ presence_penalty: 3 }, "presence_penalty", "presence_penalty is 3; want a number, -2 to 2"],
    [{ logit_bias: { 3: 101 } }, "logit_bias", "logit_bias of token 3 is 101, want -100 to 100"],
    [{ stop: [""] }, "stop", "stop has an empty string at 0"],
    [{ grammar: "root ::=" }, "grammar", 'grammar cannot be used: line 1: rule "root" is empty'],
    [{ foretoken: { policy: "egale2" } }, "foretoken", 'policy is "egale2", want none, auto'],
    [{ foretoken: { detph: 3 } }, "foretoken.detph", "detph is unknown; did you mean depth?"],
    [{ foretoken: { policy: "eagle2", top_k: 99 } }, "foretoken", "top_k is 99, want 1 to 64"],
    [{ foretoken: { unchecked: ["uniqueitem"] } }, "foretoken", "did you mean uniqueItems?"],
    [{ stop_token_ids: [-1] }, "stop_token_ids", "stop_token_ids names token -1; want 0 to"],
  ]) {
    const error = await text(more);
    assert.ok(error instanceof OpenAI.BadRequestError, `${error.constructor.name}: ${error.message}`);
    assert.deepEqual([error.type, error.param], ["invalid_request_error", param], error.message);
    assert.ok(error.message.includes(says), `${error.message} does not say ${says}`);
    assert.doesNotMatch(error.message, /json:|unmarshal|Go struct|strconv|spec:/);
  }
});

test("an aborted stream passes its turn to the next request, and a full queue rejects requests", limit, async () => {
  const stream = await server.api.completions.create({ ...endless, model: server.model });
  const reader = stream[Symbol.asyncIterator]();
  await reader.next();
  const waiting = server.api.completions.create({ model: server.model, prompt, max_tokens: 1 });
  // One decodes and one waits: now the queue is full.
  const health = new URL("/health", server.url);
  while ((await (await fetch(health)).json()).waiting < 1);
  const error = await refusal(server.api.completions.create({ model: server.model, prompt, max_tokens: 1 }));
  assert.ok(error instanceof OpenAI.RateLimitError, error.message);
  assert.equal(error.code, "queue_full");
  assert.ok(Number(error.headers.get("retry-after")) >= 1);
  stream.controller.abort();
  assert.equal((await waiting).usage.completion_tokens, 1);
  const line = await server.event((e) => e.code === "client_gone");
  assert.equal(line.path, "/v1/completions");
});

test("a server that ends sends an error to open streams, and exits with 0", limit, async () => {
  const other = await start("--grace", "0s");
  const stream = await other.api.completions.create({ ...endless, model: other.model });
  const reader = stream[Symbol.asyncIterator]();
  await reader.next();
  const stopped = other.stop("SIGTERM");
  const error = await refusal(
    (async () => {
      while (!(await reader.next()).done);
    })(),
  );
  assert.ok(error instanceof OpenAI.APIError, error.message);
  assert.equal(error.code, "shutting_down");
  const { code, events } = await stopped;
  assert.deepEqual([code, events.at(-1)], [0, { event: "stopped", cut: true }]);
});
