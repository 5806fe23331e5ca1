/**
 * docs/examples in Chromium: builds each example with its own tool and uses its pages as a visitor does.
 * EXAMPLES="plain vitepress" selects examples, and "all" selects all; the default ones need no npm packages. And a page
 * of another port that embeds the widget from the development server.
 */
import assert from "node:assert/strict";
import { promises as fs } from "node:fs";
import os from "node:os";
import path from "node:path";
import { after, before, test } from "node:test";
import { build, NAMES, out, pagesOf } from "../../docs/examples/build.mjs";
import { startHost } from "./host.mjs";
import { limit, openPage, root, startBrowser, startProfile, startServer } from "./site.mjs";

const chosen =
  process.env.EXAMPLES === "all" ? NAMES : (process.env.EXAMPLES ?? "plain mkdocs extension").split(/\s+/);

let host, browser;

before(async () => {
  host = await startHost({ folders: { "/": out } });
  browser = await startBrowser(false);
});

after(async () => {
  await browser?.close();
  await host?.stop();
});

/** Presses the button of a page's widget and waits for its text; `origins` are those that the page may ask. */
async function use(context, address, origins) {
  const { page, record } = await openPage(context);
  await page.goto(address, { waitUntil: "networkidle" });
  assert.ok(!record.requests.some((url) => /\.(wasm|gguf)$/.test(url)), "nothing is loaded before the click");
  await page.locator("foretoken-widget #generate").click();
  await page.waitForFunction(() =>
    /tokens? in|failed/.test(
      document.querySelector("foretoken-widget").shadowRoot.querySelector("#status")?.textContent ?? "",
    ),
  );
  const text = await page.locator("foretoken-widget #output").evaluate((box) => box.textContent);
  assert.ok(text.startsWith("func TestPush(t *testing.T) {\n") && text.length > 45, text);
  // A component of a framework says how many tokens the event had.
  if (await page.locator("#said").count()) await page.locator("#said", { hasText: /^[1-9]\d* tokens$/ }).waitFor();
  assert.deepEqual(record.errors, []);
  assert.deepEqual(
    record.requests.filter((url) => !origins.some((one) => url.startsWith(one)) && !/^(blob|data):/.test(url)),
    [],
  );
  return page;
}

/** Uses the panel of an extension, which Chromium loads from its folder. */
async function useExtension(folder) {
  const profile = await fs.mkdtemp(path.join(os.tmpdir(), "foretoken-extension-"));
  const context = await startProfile(false, profile, {
    args: ["--headless=new", `--disable-extensions-except=${folder}`, `--load-extension=${folder}`],
    headless: false,
    serviceWorkers: "allow",
    ignoreDefaultArgs: ["--disable-extensions"],
  });
  try {
    const worker = context.serviceWorkers()[0] ?? (await context.waitForEvent("serviceworker"));
    const base = new URL("./", worker.url()).href;
    await use(context, `${base}index.html`, [base]);
  } finally {
    await context.close();
    await fs.rm(profile, { recursive: true, force: true });
  }
}

for (const name of chosen) {
  test(`the example for ${name} is built, and its pages generate`, limit, async (t) => {
    if (!(await build(name))) {
      t.skip(`${name} is not installed`);
      return;
    }
    if (name === "extension") return useExtension(path.join(out, name));
    for (const folder of pagesOf(name)) {
      const context = await browser.newContext();
      const page = await use(context, `${host.url}${name}/${folder}`, [host.url]);
      if (process.env.FORETOKEN_SCREENSHOTS) {
        const picture = `example-${path.join(name, folder).replaceAll("/", "-")}.png`;
        await page.screenshot({ path: path.join(process.env.FORETOKEN_SCREENSHOTS, picture) });
      }
      await context.close();
    }
  });
}

test("a page of another port embeds the widget of the development server, only with --cors", limit, async () => {
  for (const flags of [["--cors"], []]) {
    const server = await startServer(path.join(root, "models", "demo"), flags);
    const page = `<!doctype html><link rel="icon" href="data:," />
<script type="module" src="${server.url}widget.js"></script>
<foretoken-widget max-tokens="48" prompt="func TestPush(t *testing.T) {&#10;"
  target="${server.url}models/target-q8_0.gguf" draft="${server.url}models/draft-q8_0.gguf"></foretoken-widget>`;
    const embedder = await startHost({ pages: { "/": page }, isolated: true });
    const context = await browser.newContext();
    try {
      if (flags.length > 0) {
        const used = await use(context, embedder.url, [embedder.url, server.url]);
        assert.ok(await used.evaluate(() => crossOriginIsolated));
      } else {
        const { page: refused, record } = await openPage(context);
        await refused.goto(embedder.url, { waitUntil: "networkidle" });
        assert.ok(!(await refused.evaluate(() => customElements.get("foretoken-widget"))), "it runs without --cors");
        assert.ok(record.errors.some((error) => /CORS/.test(error)), record.errors.join("\n"));
      }
    } finally {
      await context.close();
      await embedder.stop();
      await server.stop();
    }
  }
});
