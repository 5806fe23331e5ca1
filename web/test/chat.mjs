/**
 * The chat in Chromium with a scripted engine, which repeats what it is told: rendered answers, hostile Markdown,
 * copying, and the conversations that the browser keeps.
 */
import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { promises as fs } from "node:fs";
import { createRequire } from "node:module";
import path from "node:path";
import { after, before, test } from "node:test";
import { promisify } from "node:util";
import { startHost } from "./host.mjs";
import { generated, limit, openPage, startBrowser, waitForState, web } from "./site.mjs";

const mock = path.join(web, "node_modules", ".cache", "mock-chat");
const axe = await fs.readFile(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");

let browser, site;
const records = [];

before(async () => {
  await promisify(execFile)(process.execPath, ["build.mjs", "--mock", `--out=${mock}`], { cwd: web });
  site = await startHost({ folders: { "/": mock } });
  browser = await startBrowser(false);
});

after(async () => {
  await browser?.close();
  await site?.stop();
});

async function open(init) {
  const context = await browser.newContext({ viewport: { width: 1280, height: 800 }, acceptDownloads: true });
  await context.grantPermissions(["clipboard-read", "clipboard-write"]);
  if (init) await context.addInitScript(init);
  const { page, record } = await openPage(context);
  records.push(record);
  await page.goto(`${site.url}?max-tokens=1000#chat`);
  await waitForState(page, ["ready", "failed"]);
  await page.waitForSelector("#kept-conversations");
  return { page, record };
}

/** Puts a text into the message field at once: typing takes Chromium time in proportion to the square of the lines. */
const write = (page, text) =>
  page.locator("#message").evaluate((field, value) => {
    field.value = value;
    field.focus();
  }, text);

/** Sends a message and waits for the end of the answer. */
async function say(page, message) {
  await write(page, message);
  const result = await generated(page, () => page.keyboard.press("Enter"));
  await page.waitForSelector("#transcript .message:last-child .again:enabled");
  return result;
}

const last = "#transcript .message.assistant:last-child .message-text";
const texts = (page) => page.locator("#transcript .message-text").allTextContents();

/** Asserts that axe finds nothing in the widget. */
async function accessible(page) {
  await page.evaluate(axe);
  for (const colorScheme of ["light", "dark"]) {
    await page.emulateMedia({ colorScheme });
    const found = await page.evaluate(async () => {
      const { violations } = await window.axe.run(document.querySelector("foretoken-widget"));
      return violations.flatMap(({ id, nodes }) => nodes.map((node) => `${id}: ${node.target.join(" ")}`));
    });
    assert.deepEqual(found, [], colorScheme);
  }
}

const ANSWER = `# Slots

A *slot* **table**: [paper](https://example.org/paper), [run](javascript:alert(1)), ![pixel](https://example.org/p.png)

<img src=x onerror="window.harmed = true"><script>window.harmed = true</script>

\`\`\`go
func main() {
	println("<b>") // ${"wide ".repeat(60)}
}
\`\`\`

| a | b |
|---|--:|
| ${"1 ".repeat(200)} | 2 |
`;

test("answers are rendered, copied, and show the origin of their tokens", limit, async () => {
  const { page, record } = await open();
  const { text } = await say(page, `Repeat: ${ANSWER}`);
  assert.equal(text, ANSWER);
  await page.waitForSelector(`${last} .hl-keyword`);
  const count = (selector) => page.locator(`${last} ${selector}`).count();
  for (const [selector, n] of Object.entries({ h3: 1, em: 1, td: 2, ":is(img, script)": 0 }))
    assert.equal(await count(selector), n, selector);
  assert.deepEqual(
    await page.locator(`${last} a`).evaluateAll((all) => all.map(({ href, rel, target }) => [href, rel, target])),
    ["https://example.org/paper", "https://example.org/p.png"].map((href) => [
      href,
      "noopener noreferrer nofollow",
      "_blank",
    ]),
  );
  assert.equal(await page.evaluate(() => window.harmed), undefined);
  assert.deepEqual(
    record.requests.filter((url) => !/^(blob|data):/.test(url) && !url.startsWith(site.url)),
    [],
  );
  await accessible(page);

  const clipboard = () => page.evaluate(() => navigator.clipboard.readText());
  await page.click("#transcript .copies");
  await page.waitForFunction(() =>
    document.querySelector("foretoken-widget").shadowRoot.querySelector(".copies").textContent.startsWith("Copied"),
  );
  assert.equal(await clipboard(), ANSWER);
  await page.click(`${last} .copy-code`);
  await page.locator(`${last} .copy-code`, { hasText: "Copied" }).waitFor();
  assert.match(await clipboard(), /^func main\(\) \{\n\tprintln\("<b>"\) \/\/ wide [^]*\n\}$/);

  // The marks of the tokens, during a later answer too.
  await page.click("#origins");
  assert.ok((await count(".token.accepted")) > 0);
  assert.equal(await page.locator(last).textContent(), ANSWER);
  await say(page, "Repeat: **marked**");
  assert.equal(await page.locator(last).textContent(), "**marked**");
  await page.click("#origins");
  assert.equal(await page.locator(last).textContent(), "marked");
  assert.equal(await page.locator("#transcript table").count(), 1);

  for (const [width, height] of [
    [1280, 800],
    [390, 844],
  ]) {
    await page.setViewportSize({ width, height });
    assert.ok((await page.evaluate(() => document.documentElement.scrollWidth)) <= width, `wider than ${width}`);
    for (const to of ["start", "end"]) {
      await page.locator("#transcript").evaluate((log, block) => log.scrollIntoView({ block }), to);
      const { y, height: tall } = await page.locator("#message").boundingBox();
      assert.ok(y >= 0 && y + tall <= height, `the composer is out of view at ${width}×${height}`);
    }
  }
  await page.context().close();
});

test("a long hostile answer streams, stops, and its question is edited", limit, async () => {
  const { page } = await open();
  for (const [part, n] of [
    ["*a **b [x]( ", 8000],
    ["> - ", 5000],
    ["```js\n", 2000],
  ]) {
    const hostile = part.repeat(n).trim();
    const { text } = await say(page, `Repeat: ${hostile}`);
    assert.equal(text, hostile);
  }
  await write(page, `Repeat: ${"word ".repeat(4000)}`);
  const ended = generated(page, async () => {
    await page.keyboard.press("Enter");
    await page.click("#stop-answer");
  });
  assert.equal((await ended).finish, "aborted");
  await page.waitForSelector("#send:enabled");
  await page.locator("#transcript .edit").first().click();
  await page.locator("#transcript .message-editor textarea").fill("Repeat: *short*");
  await generated(page, () => page.keyboard.press("Enter"));
  await page.waitForSelector("#transcript .again:enabled");
  assert.deepEqual(await texts(page), ["Repeat: *short*", "short"], "what followed the question is dropped");
  await generated(page, () => page.click("#transcript .again"));
  await page.waitForSelector("#transcript .again:enabled");
  assert.deepEqual(await texts(page), ["Repeat: *short*", "short"]);
  await page.context().close();
});

/** Returns everything that the page keeps, as text. */
const stored = (page) =>
  page.evaluate(async () => {
    const all = [JSON.stringify(localStorage), JSON.stringify(sessionStorage)];
    for (const { name } of await indexedDB.databases()) {
      const done = (request) => new Promise((resolve) => (request.onsuccess = () => resolve(request.result)));
      const db = await done(indexedDB.open(name));
      for (const store of db.objectStoreNames)
        all.push(JSON.stringify(await done(db.transaction(store).objectStore(store).getAll())));
      db.close();
    }
    return all.join("\n");
  });

test("conversations are kept after their first answer, listed, exported and deleted", limit, async () => {
  const { page } = await open();
  const total = () => page.locator("#conversations-total").textContent();
  const rows = () => page.locator("#conversations .conversation-name button").allTextContents();
  const list = () => page.click("#kept-conversations > summary");
  const reload = async () => {
    await page.reload();
    await waitForState(page, "ready");
    await page.waitForSelector("#kept-conversations");
  };
  await page.fill("#message", "secret plans");
  await reload();
  assert.ok(!(await stored(page)).includes("secret"), "nothing is kept before the message is sent");

  await say(page, "Repeat: the first");
  await page.locator("#conversations-total", { hasText: /^1 · \d+ B$/ }).waitFor();
  await say(page, "Repeat: more");
  await page.click("#new-chat");
  await say(page, "Repeat: the second");
  await page.locator("#conversations-total", { hasText: /^2 · / }).waitFor();
  await reload();
  assert.deepEqual(await texts(page), ["Repeat: the second", "the second"], "the tab keeps its conversation");
  await say(page, "Repeat: again");
  assert.match(await total(), /^2 · /, "it is still one conversation");
  await list();
  await page.locator("#conversations li").first().filter({ hasText: "the second" }).waitFor();
  assert.deepEqual(await rows(), ["Repeat: the second", "Repeat: the first"]);
  await accessible(page);

  // The other one is opened and continued.
  await page.locator("#conversations .conversation-name button").nth(1).click();
  assert.deepEqual(await texts(page), ["Repeat: the first", "the first", "Repeat: more", "more"]);
  assert.equal(await page.locator("#kept-conversations").getAttribute("open"), null);
  await say(page, "Repeat: end");
  await list();
  await page.locator("#conversations li").first().filter({ hasText: "the first" }).waitFor(); // the last changed
  assert.deepEqual(await rows(), ["Repeat: the first", "Repeat: the second"]);

  const [file] = await Promise.all([
    page.waitForEvent("download"),
    page.getByRole("button", { name: "Export all" }).click(),
  ]);
  const exported = JSON.parse(await fs.readFile(await file.path(), "utf8"));
  assert.deepEqual([exported.format, exported.version], ["foretoken-conversations", 1]);
  assert.deepEqual(
    exported.conversations.map(({ messages }) => messages.map(({ content }) => content)),
    [
      ["Repeat: the first", "the first", "Repeat: more", "more", "Repeat: end", "end"],
      ["Repeat: the second", "the second", "Repeat: again", "again"],
    ],
  );

  await page.getByRole("button", { name: "Delete: Repeat: the second" }).click();
  await page.locator("#conversations-total", { hasText: /^1 · / }).waitFor();
  assert.equal((await texts(page)).length, 6, "another conversation stays");
  await page.getByRole("button", { name: "Delete all" }).click();
  await page.locator(".conversations-sure .danger").click();
  await page.locator("#conversations .empty").waitFor();
  assert.deepEqual(await texts(page), [], "the one that was shown is gone too");
  assert.ok(!(await stored(page)).includes("Repeat"), await stored(page));

  await page.click("#keep-conversations");
  await say(page, "Repeat: off the record");
  await page.waitForTimeout(200);
  assert.equal(await total(), "");
  await page.context().close();
});

test("a window that gives no storage keeps nothing", limit, async () => {
  // As private windows of Firefox and Safari do.
  const { page } = await open(() => {
    StorageManager.prototype.getDirectory = () => Promise.reject(new DOMException("no", "SecurityError"));
  });
  await say(page, "Repeat: secret");
  await page.click("#kept-conversations > summary");
  assert.match(await page.locator("#conversations .empty").textContent(), /This window keeps nothing/);
  assert.ok(await page.locator("#keep-conversations").isDisabled());
  assert.deepEqual(await page.evaluate(() => indexedDB.databases()), []);
  assert.equal(await page.evaluate(() => JSON.stringify(localStorage)), "{}");
  await page.context().close();
});

test("no errors in a console", () => {
  assert.deepEqual(
    records.flatMap((record) => record.errors),
    [],
  );
});
