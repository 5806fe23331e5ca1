import assert from "node:assert/strict";
import { test } from "node:test";
import { allowedOrigins, MessageError, readMessage, readOrigins } from "../../src/embed/messages.ts";

test("messages to the frame are validated against the protocol", () => {
  const good = [
    { foretoken: 1, type: "hello" },
    { foretoken: 1, type: "load", id: 3 },
    { foretoken: 1, type: "generate", id: "a", prompt: "func main() {" },
    { foretoken: 1, type: "generate" },
    { foretoken: 1, type: "abort" },
    {
      foretoken: 1,
      type: "set-attributes",
      attributes: { policy: "none", theme: null, "max-tokens": "4", full: "" },
    },
  ];
  for (const message of good) assert.equal(readMessage(message), message);
  const bad: [unknown, RegExp][] = [
    [null, /foretoken/],
    ["load", /foretoken/],
    [[{ foretoken: 1 }], /foretoken/],
    [{ type: "load" }, /foretoken: missing/],
    [{ foretoken: 2, type: "load" }, /version 2 is not supported; want 1/],
    [{ foretoken: "1", type: "load" }, /version "1"/],
    [{ foretoken: 1 }, /type: want one of hello, load, generate, abort, set-attributes/],
    [{ foretoken: 1, type: "constructor" }, /type/],
    [{ foretoken: 1, type: "load", id: {} }, /id: want/],
    [{ foretoken: 1, type: "load", id: 1.5 }, /id: want/],
    [{ foretoken: 1, type: "load", url: "x" }, /url: a load message has no such field/],
    [{ foretoken: 1, type: "load", prompt: "x" }, /prompt: a load message has no such field/],
    [{ foretoken: 1, type: "generate", prompt: 7 }, /prompt: want a string/],
    [{ foretoken: 1, type: "generate", prompt: "x".repeat((1 << 20) + 1) }, /prompt: want a string/],
    [{ foretoken: 1, type: "set-attributes" }, /attributes: want an object/],
    [{ foretoken: 1, type: "set-attributes", attributes: ["policy"] }, /attributes: want an object/],
    [{ foretoken: 1, type: "set-attributes", attributes: { onclick: "x" } }, /"onclick" is not an attribute/],
    [{ foretoken: 1, type: "set-attributes", attributes: { policy: 1 } }, /policy: want a string/],
  ];
  for (const [message, reason] of bad)
    assert.throws(
      () => readMessage(message),
      (cause) => cause instanceof MessageError && reason.test(cause.message) && !cause.message.includes("\n"),
      JSON.stringify(message)?.slice(0, 80),
    );
  assert.throws(
    () => readMessage({ foretoken: 1, type: "gone", id: 9 }),
    (cause) => (cause as MessageError).id === 9,
  );
});

test("origins are complete, and an address cannot allow more than the server lists", () => {
  assert.deepEqual(readOrigins("https://a.example, http://localhost:8000/"), [
    "https://a.example",
    "http://localhost:8000",
  ]);
  for (const wrong of ["*", "null", "a.example", "https://a.example/docs", "data:text/html,x", "file:///x"])
    assert.throws(() => readOrigins(wrong), /is not an origin/, wrong);
  assert.deepEqual(allowedOrigins([], null), []);
  assert.deepEqual(allowedOrigins(["https://a.example", "https://b.example"], null), [
    "https://a.example",
    "https://b.example",
  ]);
  assert.deepEqual(allowedOrigins(["https://a.example https://evil.example"], "https://a.example https://b.example"), [
    "https://a.example",
  ]);
  assert.deepEqual(allowedOrigins([], "https://a.example"), ["https://a.example"]);
});
