import assert from "node:assert/strict";
import { test } from "node:test";
import zlib from "node:zlib";
import sample from "../../../trace/testdata/trace.json" with { type: "json" };
import { linkOf, linkOfRun, readShared } from "../../src/page/share.ts";
import { readTrace, type Trace, type TracedRound } from "../../src/protocol/trace.ts";
import { encodeTrace } from "../../src/protocol/trace-writer.ts";

const BASE = "https://models.example/page/?target=secret.gguf#chat";
const bytes = Uint8Array.from(atob(sample.trace), (character) => character.charCodeAt(0));
const whole = readTrace(bytes);
const request = { prompt: sample.want.prompt, policy: "eagle2", max_tokens: 64, shape: [[4], [2, 1]] };
const fragmentOf = (link: string): string => link.slice(link.indexOf("#"));

let seed = 1;
const random = (below: number): number =>
  Math.floor(((seed = (seed * 1103515245 + 12345) % 2 ** 31) / 2 ** 31) * below);

/** Returns a trace of `rounds` rounds of two tokens, whose trees have `nodes` nodes of many different texts. */
function traceOf(rounds: number, nodes: number): Trace {
  const token = (): { id: number; text: string } => {
    const id = random(4000);
    return { id, text: `t${id.toString(36)} ` };
  };
  const round = (i: number): TracedRound => {
    const path = nodes > 1 ? [1] : [];
    const tree = Array.from({ length: nodes }, token);
    const tokens = [
      { ...token(), kind: "accepted" as const, depth: 1 },
      { ...token(), kind: "bonus" as const, depth: 0 },
    ];
    return {
      round: i + 1,
      text: tokens.map(({ text }) => text).join(""),
      tokens,
      tree: {
        tokens: tree.map(({ id }) => id),
        texts: tree.map(({ text }) => text),
        parents: tree.map((_, node) => (node === 0 ? -1 : 0)),
        depths: tree.map((_, node) => (node === 0 ? 0 : 1)),
        scores: tree.map((_, node) => (node === 0 ? 0 : 0 - random(200) / 32)),
        accepted: path,
        relaxed: [],
        entropies: [],
        draft_entropies: [],
        pruned: { tokens: [], texts: [], parents: [], scores: [], total: 0 },
      },
      ms: { draft: random(500) / 100, verify: random(900) / 100, readback: 0, host: 0.01 },
      elapsed_ms: 20 * (i + 1),
    };
  };
  return {
    prompt: "a\n",
    run: rounds,
    rounds: Array.from({ length: rounds }, (_, i) => round(i)),
    rest: "",
    finish: "length",
  };
}

const textOf = ({ rounds, rest }: Trace): string => rounds.map(({ text }) => text).join("") + rest;

test("a trace is written as the Go program writes it", () => {
  assert.deepEqual(encodeTrace(sample.want as Trace), bytes);
  const rounds = whole.rounds.map(({ tree: _, bin: _bin, phi: _phi, ...round }) => round);
  assert.deepEqual(readTrace(encodeTrace({ ...whole, rounds, rest: "é" })), { ...whole, rounds, rest: "é" });
});

test("a link has the rounds of a run, its settings, and nothing else of the address", async () => {
  const made = await linkOfRun(request, whole, BASE);
  assert.deepEqual([made?.rounds, made?.of], [3, 3]);
  assert.match(made!.link, /^https:\/\/models\.example\/page\/#share\?v=2&policy=eagle2&[^#?]*&run=[\w-]+$/);
  const { prompt, settings, trace } = await readShared(fragmentOf(made!.link));
  assert.equal(prompt, sample.want.prompt);
  assert.deepEqual(Object.fromEntries(settings), { policy: "eagle2", "max-tokens": "64", shape: "[[4],[2,1]]" });
  const pruned = { tokens: [], texts: [], parents: [], scores: [], total: 0 };
  const drawn = whole.rounds.map((round) => ({
    ...round,
    tree: { ...round.tree!, entropies: [], draft_entropies: [], pruned },
  }));
  assert.deepEqual(trace, { ...whole, rounds: drawn });
});

test("a long run keeps its text and its first rounds", async () => {
  const long = traceOf(400, 12);
  const made = (await linkOfRun({ prompt: "a\n" }, long, BASE))!;
  assert.equal(made.of, 400);
  assert.ok(made.rounds > 5 && made.rounds < 400, `${made.rounds} rounds`);
  assert.ok(fragmentOf(made.link).length <= 6000);
  const { trace } = await readShared(fragmentOf(made.link));
  assert.deepEqual(trace!.rounds, long.rounds.slice(0, made.rounds));
  assert.ok(trace!.rounds.every(({ tree }) => tree));
  assert.equal(textOf(trace!), textOf(long));

  const longer = traceOf(1500, 2);
  const text = (await linkOfRun({ prompt: "a\n" }, longer, BASE))!;
  assert.ok(fragmentOf(text.link).length > 6000 && fragmentOf(text.link).length <= 24_000);
  const shared = (await readShared(fragmentOf(text.link))).trace!;
  assert.equal(textOf(shared), textOf(longer));
  assert.equal(await linkOfRun({ prompt: "a\n" }, traceOf(9000, 1), BASE), undefined, "a text longer than a link");
  assert.equal(await linkOfRun({ prompt: "b\n" }, long, BASE), undefined, "a trace of another prompt");
});

test("a link without rounds, as earlier builds made them, opens", async () => {
  const link = linkOf(request, BASE);
  assert.match(link, /^https:\/\/models\.example\/page\/#share\?v=1&prompt=/);
  const { prompt, settings, trace } = await readShared(fragmentOf(link));
  assert.deepEqual([prompt, settings.size, trace], [request.prompt, 3, undefined]);
});

test("a link that cannot be read says why", async () => {
  const run = (data: Uint8Array): string => Buffer.from(data).toString("base64url");
  const packed = (data: Uint8Array): string => run(zlib.deflateRawSync(data));
  for (const [fragment, reason] of [
    ["v=3&run=AA", /^link: version: want 1 or 2, have "3"; open it on the page it was made with$/],
    ["v=toString&run=AA", /^link: version: want 1 or 2/],
    ["v=2&prompt=x", /^link: run: missing$/],
    ["v=2&run=AA&prompt=x", /^link: run: cannot be unpacked/],
    [`v=2&run=${packed(bytes)}&prompt=x`, /^link: "prompt": "x" is not a setting of this page$/],
    [`v=2&run=${packed(bytes).slice(0, -9)}`, /^link: run: cannot be unpacked; the link may be truncated$/],
    ["v=2&run=%3Cb%3E", /^link: run: cannot be unpacked/],
    [`v=2&run=${packed(Uint8Array.of(2))}`, /^link: run: trace: its version is 2, and this program reads version 1$/],
    [`v=2&run=${packed(new Uint8Array(10e6))}`, /^link: run: more than 262144 bytes$/],
    [`v=2&run=${"A".repeat(24_001)}`, /^link: run: 24001 characters long, want at most 24000$/],
    [`v=2&run=${packed(Uint8Array.of(1, 1, 0, 0, 0, 0, 0))}`, /^link: prompt: contains invalid characters$/],
  ] as const)
    await assert.rejects(readShared(`#share?${fragment}`), { message: reason }, fragment.slice(0, 60));
});

/**
 * Attack: a shared link that was changed on its way, or made to be unpacked into gigabytes
 * Bound: a run whose trees can be drawn, or an error of one line
 */
test("200 changed links give a run or an error", async () => {
  const link = fragmentOf((await linkOfRun(request, whole, BASE))!.link);
  const letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_&=%#<\"";
  let read = 0;
  for (let turn = 0; turn < 200; turn++) {
    let changed = link;
    if (turn % 4 === 0) changed = link.slice(0, 7 + random(link.length - 7)); // truncated
    else if (turn % 4 === 1) {
      // A trace with changed bytes, packed well.
      const other = bytes.map((byte) => (random(40) === 0 ? byte ^ (1 << random(8)) : byte));
      changed = `#share?v=2&run=${zlib.deflateRawSync(other).toString("base64url")}`;
    } else
      for (let n = random(3); n >= 0; n--) {
        const at = 7 + random(link.length - 7);
        changed = changed.slice(0, at) + letters[random(letters.length)] + changed.slice(at + 1);
      }
    try {
      const { prompt, trace } = await readShared(changed);
      read++;
      assert.equal(typeof prompt, "string");
      for (const { tree, tokens } of trace?.rounds ?? []) {
        assert.ok(tokens.every(({ text }) => typeof text === "string"));
        assert.ok(!tree || tree.parents.every((parent, node) => parent < node));
      }
    } catch (cause) {
      assert.match((cause as Error).message, /^link: [^\n]{1,300}$/, changed.slice(0, 80));
    }
  }
  assert.ok(read > 5 && read < 195, `${read} of the changed links were read`);
});
