/** The offers that the page makes of the catalog. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { MODELS, nameOf, sourceOf } from "../../src/engine/known-models.ts";
import { fits } from "../../src/engine/fit.ts";
import { COMING, downloadOf, filesOf, memoryOf, OFFERS } from "../../src/engine/offers.ts";
import { HUB, resolve } from "../../src/sources/hub.ts";

const offer = (id: string): (typeof OFFERS)[number] => OFFERS.find((one) => one.id === id)!;

test("a model is offered with each of its drafters, or alone, and drafters that are no more than that are not", () => {
  const [first, head] = OFFERS;
  assert.deepEqual([first!.id, first!.draft?.id, first!.head], ["builtin", "builtin-draft", undefined]);
  assert.deepEqual([head!.id, head!.draft?.id], ["builtin-eagle3", "builtin-draft"]);
  assert.equal(head!.head?.file, "eagle3.safetensors");
  assert.deepEqual([offer("qwen3-0.6b").draft, offer("qwen3-4b").draft?.id], [undefined, "qwen3-0.6b"]);
  assert.ok(!OFFERS.some(({ model }) => model.draft_only));
  assert.equal(new Set(OFFERS.map(({ id }) => id)).size, OFFERS.length);
  for (const { model } of OFFERS.slice(2)) assert.ok(model.kind !== "chat" || model.template !== "none", model.id);
});

test("sizes and memory of an offer are the sums of its files", () => {
  const pair = offer("qwen3-4b");
  const [target, draft] = filesOf(pair);
  assert.deepEqual(downloadOf(pair), { bytes: target!.bytes + draft!.bytes, more: false });
  assert.equal(memoryOf(pair).gpu, target!.memory.gpu + draft!.memory.gpu);
  assert.ok(memoryOf(pair).gpu > downloadOf(pair).bytes);

  // One of the files of this one has no known size until it is stored.
  const tiny = offer("tinyllama");
  const [large, small] = filesOf(tiny);
  assert.deepEqual(downloadOf(tiny), { bytes: large!.bytes, more: true });
  const stored = (file: unknown) => (file === small ? { size: 70, have: 30 } : undefined);
  assert.deepEqual(downloadOf(tiny, stored), { bytes: large!.bytes + 40, more: false });
});

test("models that need what does not run yet are named and not offered", () => {
  for (const { id, needs } of COMING) {
    assert.match(needs!, /^the (architecture|format) \w+$/, id);
    assert.ok(!OFFERS.some(({ model }) => model.id === id), id);
  }
  const runs = MODELS.filter(({ needs }) => !needs);
  assert.ok(MODELS.length >= 30 && runs.length >= 15, `${MODELS.length} models, ${runs.length} run`);
  for (const { model, draft } of OFFERS) assert.ok(!draft?.needs, `${model.id}'s drafter does not run`);
});

test("a model fits half of the memory, and not more than three quarters, where the browser tells the memory", () => {
  const gib = (n: number): { gpu: number; cpu: number } => ({ gpu: n * 2 ** 30, cpu: 9 * 2 ** 30 });
  const on = (n: number, memory: number | undefined) => fits(gib(n), { kind: "gpu", gib: memory });
  assert.deepEqual([on(2, 4), on(2.1, 4), on(3, 4), on(3.1, 4)], ["fits", "tight", "tight", "no"]);
  assert.equal(fits(gib(1), { kind: "cpu", gib: 4 }), "no");
  // Eight may stand for more.
  assert.deepEqual([on(4, 8), on(6, 8), on(7, 8), on(1, undefined)], ["fits", "tight", undefined, undefined]);
});

test("names resolve to addresses of their revision, with a checksum where it is known", () => {
  const base = "https://page.example/";
  for (const model of MODELS) {
    const { url, sha256 } = resolve(sourceOf(model), base);
    assert.equal(sha256, model.sha256 === "unchecked" ? undefined : model.sha256);
    assert.equal(
      url,
      model.revision
        ? `${HUB}/${model.repository}/resolve/${model.revision}/${model.file}`
        : `${base}${nameOf(model)}`,
    );
  }
});
