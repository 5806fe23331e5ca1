/** Choosing models, end to end: the catalog, names, addresses, and downloads that are paused and resumed. */
import assert from "node:assert/strict";
import { promises as fs } from "node:fs";
import path from "node:path";
import { after, before, test } from "node:test";
import { limit, openPage, openSettings, root, waitForState } from "./site.mjs";
import {
  begin, CHUNK, forget, gate, idle, openEmpty, outcome, startLoading, storedFiles, waitForStored,
} from "./stored.mjs";

let context, server, faults, data, chunks, asked, stop;

before(async () => ({ context, server, faults, data, chunks, asked, stop } = await startLoading("choosing")));
after(() => stop?.());

const text = (page, selector) => page.locator(selector).innerText();
const open = () => openEmpty(context, server.url);
const address = (name) => `${faults.url}/${name}`;
/** Returns an entry of the catalog. */
const known = async (id) =>
  JSON.parse(await fs.readFile(path.join(root, "models", "catalog.json"), "utf8")).models.find((one) => one.id === id);
const whole = [...Array(20).keys()];

test("Pause and Stop end a download at once, its chunks stay, and Resume goes on after a reload", limit, async () => {
  const page = await open();
  const later = gate(); // otherwise a fast machine finishes before the click
  faults.files.set("/paused.gguf", { data, gate: (start) => (start < CHUNK ? undefined : later.opened) });
  await begin(page, address("paused.gguf"));
  await waitForStored(page, "paused.gguf", CHUNK);
  const running = /paused\.gguf from http.*Takes [\d.]+ MB of this browser's storage; .* free/s;
  assert.match(await text(page, "#download"), running);
  await page.click("#download-pause");
  const stopped = /Paused: 8\.39 MB of [\d.]+ MB have arrived and stay in this browser/;
  const card = (of) => of.locator("#download");
  await card(page).locator(".download-text:text('Paused:')").waitFor();
  assert.match(await card(page).innerText(), stopped);
  assert.equal((await outcome(page, ["ready", "failed", "idle"])).state, "idle");
  assert.equal(await text(page, "foretoken-widget #status"), "Stopped");
  const focused = () => document.querySelector("foretoken-widget").shadowRoot.activeElement?.id;
  assert.equal(await page.evaluate(focused), "download-resume");
  await page.keyboard.press("Enter");
  await card(page).getByRole("button", { name: "Pause" }).waitFor();
  await page.click("#stop");
  await card(page).locator(".download-text:text('Paused:')").waitFor();
  const [file] = await idle(page);
  assert.ok(file.have < data.length && !file.done, JSON.stringify(file));

  const next = await open();
  await card(next).locator(".download-text:text('Not complete: 8.39 MB of')").waitFor();
  later.open();
  faults.requests.length = 0;
  await next.click("#download-resume");
  const { state, error } = await outcome(next);
  assert.deepEqual([state, error], ["ready", ""]);
  const again = [...new Set(asked("paused.gguf"))].sort();
  assert.deepEqual(again, whole.slice(1, chunks), "what had arrived was downloaded again");
  assert.ok(await card(next).isHidden());
  await forget(next);
  await next.close();
  await page.close();
});

test("the chat offers models: one click or key loads one, with its progress beside the button", limit, async () => {
  const { repository, revision, file } = await known("qwen2.5-0.5b");
  const later = gate();
  faults.files.set(`/${repository}/resolve/${revision}/${file}`, {
    data,
    gate: (start) => (start < CHUNK ? undefined : later.opened),
  });
  const visit = async () => {
    const { page } = await openPage(context);
    await page.goto(`${server.url}?device=cpu&hub=${faults.url}#chat`);
    await page.locator("#offer li").first().waitFor();
    return page;
  };
  const page = await visit();
  assert.match(await text(page, "#offer"), /Go code alone.* far too few to hold a conversation/);
  const labels = await page.locator("#offer li button").allInnerTexts();
  const sizes = labels.map((label) => /[\d.]+ [MG]B/.exec(label)?.[0]);
  assert.deepEqual(sizes.slice(0, 2), ["105.5 MB", "675.7 MB"], "the offers are not in the order of memory and size");
  const row = (of) => of.locator("#offer li", { has: of.locator("[data-pair='qwen2.5-0.5b']") });
  faults.requests.length = 0;
  await row(page).getByRole("button").focus();
  await page.keyboard.press("Enter");
  await row(page).locator("#download .download-text:text('Downloading')").waitFor();
  assert.ok(await page.locator("#consent-load").isHidden().catch(() => true), "a second question");
  later.open();
  assert.equal(await waitForState(page, ["ready", "failed"]), "ready");
  assert.ok(await page.locator("#download").isHidden());
  await page.close();

  const next = await visit();
  await next.locator("#offer-manage").waitFor();
  assert.equal(await row(next).getByRole("button").innerText(), "Load, downloaded");
  await next.click("#offer-manage");
  await next.locator(".kept-models:focus").waitFor();
  assert.match(await text(next, "#kept-list"), /qwen2\.5-0\.5b-instruct-q8_0\.gguf/);
  await next.locator("#kept-list button").click();
  await next.locator("#kept-list .empty").waitFor();
  await next.close();
});

test("models load from the catalog, by name and by address, and errors appear at their fields", limit, async () => {
  const page = await open();
  await page.evaluate((hub) => document.querySelector("foretoken-widget").setAttribute("hub", hub), faults.url);
  const load = async () => {
    await page.click("#load");
    return outcome(page);
  };
  await openSettings(page);
  await page.click("#own-models > summary");
  // The catalog: sizes, memory and licences; the built-in pair without a download.
  const card = (id) => page.locator(`#pairs [data-pair="${id}"]`);
  assert.match(
    await card("qwen3-4b").innerText(),
    /Qwen3 4B\s+3\.14 GB\s+[\d.]+ GB of memory.* · Apache-2\.0 · from http/,
  );
  await page.selectOption("#memory-limit", "1");
  assert.deepEqual([await card("qwen3-4b").isVisible(), await card("smollm2-135m").isVisible()], [false, true]);
  await page.selectOption("#memory-limit", "");
  assert.equal(await page.isChecked("#pairs [value=builtin]"), true);
  faults.requests.length = 0;
  const builtin = await load();
  assert.equal(builtin.state, "ready", builtin.error);
  assert.match(await text(page, "#models-said"), /^Ready/);
  assert.deepEqual(faults.requests, []);
  // A pair loads by its names on the hub, with the catalog's checksum.
  await page.check("#pairs [value=smollm2-360m]");
  assert.match(
    await card("smollm2-360m").innerText(),
    /SmolLM2 360M Instruct, Q8_0, 386\.4 MB; SmolLM2 135M Instruct, .*\. SmolLM2 135M Instruct drafts for it/,
  );
  assert.equal(await text(page, "#load"), "Load 491.9 MB");
  const facts = /^Downloads from http.*the files stay in this browser.*room for .*of memory\.$/;
  assert.match(await text(page, "#load-facts"), facts);
  const paths = [await known("smollm2-360m"), await known("smollm2-135m")].map(
    ({ repository, revision, file }) => `/${repository}/resolve/${revision}/${file}`,
  );
  for (const name of paths) faults.files.set(name, { data });
  const another = await load();
  assert.equal(another.state, "failed");
  assert.match(another.error, /sha256|checksum|size/);
  assert.equal(await text(page, "#models-said"), another.error, "a pair's error is not below it");
  assert.deepEqual(
    [...new Set(faults.requests.map((r) => r.path))].filter((name) => name.includes("/resolve/")).sort(),
    [...paths].sort(),
  );
  await forget(page);

  // By keyboard to the names; an error appears at its field, and disappears when the field changes.
  await page.focus("#models-catalog");
  await page.keyboard.press("ArrowRight");
  assert.deepEqual(
    await page.evaluate(() => [
      document.activeElement.shadowRoot.activeElement.id,
      document.activeElement.shadowRoot.activeElement.ariaSelected,
    ]),
    ["models-name", "true"],
  );
  await page.click("#load");
  assert.match(await text(page, "#target-name-error"), /Name a model first/);
  assert.equal(await page.evaluate(() => document.activeElement.shadowRoot.activeElement.id), "target-name");
  await page.fill("#target-name", address("none.gguf"));
  assert.equal(await text(page, "#target-name-error"), "");
  const asks = /^Asks http:\/\/127.*, the host of the address you typed\. The size is/;
  assert.match(await text(page, "#load-facts"), asks);
  assert.equal((await load()).state, "failed");
  assert.match(await text(page, "#target-name-error"), /^none\.gguf: download: the server answered 404/);
  assert.equal(await page.getAttribute("#target-name", "aria-invalid"), "true");
  // A name on the hub as target, an address as draft; Enter loads.
  faults.publish("owner/repo", "own.gguf", { data });
  await page.fill("#target-name", "owner/repo/own.gguf");
  faults.files.set("/no-draft.gguf", { data: Buffer.from("ELF!, and no model") });
  await page.fill("#draft-name", address("no-draft.gguf"));
  await page.keyboard.press("Enter");
  assert.equal((await outcome(page)).state, "failed");
  assert.match(await text(page, "#draft-name-error"), /no-draft\.gguf cannot be used: .*magic/);
  assert.equal(await text(page, "#target-name-error"), "");
  faults.files.set("/draft.gguf", { data: await fs.readFile(path.join(root, "models", "demo", "draft-q8_0.gguf")) });
  await page.fill("#draft-name", address("draft.gguf"));
  const named = await load();
  assert.equal(named.state, "ready", named.error);
  assert.match(await text(page, "#model-line"), /^Target .* 7\.3 M .*; draft .* 590 k /);
  const names = (await storedFiles(page)).map((file) => file.name);
  assert.ok(
    names.includes("draft.gguf") && names.includes("own.gguf") && !names.includes("unknown file"),
    `kept: ${names}`,
  );
  await forget(page);
  await page.close();
});
