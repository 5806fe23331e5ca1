/**
 * docs/examples in Chromium: builds each example with its own tool and uses the page as a visitor does.
 * EXAMPLES="plain vitepress" selects examples, and "all" selects all; the default ones need no npm packages.
 */
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { build, NAMES, out } from "../../docs/examples/build.mjs";
import { startHost } from "./host.mjs";
import { limit, openPage, startBrowser } from "./site.mjs";

const chosen = process.env.EXAMPLES === "all" ? NAMES : (process.env.EXAMPLES ?? "plain mkdocs").split(/\s+/);

let host, browser;

before(async () => {
  host = await startHost({ folders: { "/": out } });
  browser = await startBrowser(false);
});

after(async () => {
  await browser?.close();
  await host?.stop();
});

for (const name of chosen) {
  test(`the example for ${name} is built, and its page generates`, limit, async (t) => {
    const start = Date.now();
    if (!(await build(name))) {
      t.skip(`${name} is not installed`);
      return;
    }
    const built = Date.now() - start;
    const { page, record } = await openPage(await browser.newContext());
    await page.goto(`${host.url}${name}/`, { waitUntil: "networkidle" });
    assert.ok(!record.requests.some((url) => /\.(wasm|gguf)$/.test(url)), "nothing is loaded before the click");
    await page.locator("foretoken-widget #generate").click();
    await page.waitForFunction(() =>
      /tokens? in|failed/.test(
        document.querySelector("foretoken-widget").shadowRoot.querySelector("#status")?.textContent ?? "",
      ),
    );
    const text = await page.locator("foretoken-widget #output").evaluate((box) => box.textContent);
    assert.ok(text.startsWith("func TestPush(t *testing.T) {\n") && text.length > 45, text);
    assert.deepEqual(record.errors, []);
    assert.deepEqual(
      record.requests.filter((url) => !url.startsWith(host.url) && !/^(blob|data):/.test(url)),
      [],
    );
    if (process.env.FORETOKEN_SCREENSHOTS)
      await page.screenshot({ path: `${process.env.FORETOKEN_SCREENSHOTS}/example-${name}.png` });
    await page.context().close();
    t.diagnostic(
      `${name}: built in ${(built / 1000).toFixed(1)} s, used in ${((Date.now() - start - built) / 1000).toFixed(1)} s`,
    );
  });
}
