/**
 * Our page of the benchmark against other engines. It is not part of the site, so only this test notices when a change
 * of the API breaks it.
 */
import assert from "node:assert/strict";
import path from "node:path";
import { after, before, test } from "node:test";
import { serve } from "../peers/server.mjs";
import { dist, limit, openPage, root, startBrowser, web } from "./site.mjs";

let server, browser;

before(async () => {
  server = await serve({
    "/site/": dist,
    "/pages/": path.join(web, "peers", "pages"),
    "/demo/": path.join(root, "models", "demo"),
  });
  browser = await startBrowser(true);
}, limit);

after(async () => {
  await browser?.close();
  await server?.close();
});

test("our page of the benchmark against other engines decodes the same text plainly and with auto", limit, async () => {
  const results = [];
  for (const policy of ["none", "auto"]) {
    const { page } = await openPage(await browser.newContext());
    await page.goto(`${server.url}pages/ours.html`);
    const result = await page.evaluate(async (policy) => {
      const { device } = await peer.load({
        target: "/demo/target-q8_0.gguf",
        draft: "/demo/draft-q8_0.gguf",
        load: { policy, device: "webgpu" },
      });
      const { output, times } = await peer.decode({ prompt: "func main() {", tokens: 24, seconds: 3600 });
      return { device, times, ...output };
    }, policy);
    assert.equal(result.device.backend, "browser");
    const { asked, first, firstTokens, end } = result.times;
    assert.ok(asked < first && first < end && firstTokens > 0, JSON.stringify(result.times));
    assert.equal(result.tokens, 24);
    assert.equal(result.texts.join(""), result.text);
    results.push(result);
    await page.context().close();
  }
  assert.deepEqual(results[1].ids, results[0].ids);
});
