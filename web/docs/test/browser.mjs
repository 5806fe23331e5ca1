/** Chromium, and a plain static server for the built site below a path. */
import { promises as fs } from "node:fs";
import path from "node:path";
import { startHost } from "../../test/host.mjs";
import { TIMEOUT, startBrowser } from "../../test/site.mjs";

const BELOW = "/below/a/path/";

export async function openSite(root) {
  const dist = path.join(root, "web", "dist");
  for (const file of ["foretoken.js", "docs/index.html"]) {
    await fs.access(path.join(dist, file)).catch(() => {
      throw new Error(`web/dist/${file} is missing: build the site first (make site)`);
    });
  }
  const host = await startHost({ folders: { [BELOW]: dist } });
  const browser = await startBrowser(false);
  return {
    browser,
    pages: host.pages,
    url: host.origin + BELOW,
    async close() {
      await browser.close();
      await host.stop();
    },
  };
}

/**
 * Loads a piece of HTML as a page of the site; addresses under example.org also lead to the site. Returns errors, and
 * for each of our elements whether it shows content.
 */
export async function tryPage(site, text) {
  const name = `snippet-${Object.keys(site.pages).length}.html`;
  site.pages[BELOW + name] =
    `<!doctype html>\n<html lang="en"><head><title>A page</title>` +
    `<link rel="icon" href="data:," /></head><body>\n${text}\n</body></html>`;
  const page = await (await site.browser.newContext()).newPage();
  const errors = [];
  page.on("pageerror", (error) => errors.push(error.message));
  page.on("console", (message) => message.type() === "error" && errors.push(message.text()));
  await page.route(/^https:\/\/([\w-]+\.)?example\.(org|com)\//, async (route) => {
    const file = new URL(route.request().url()).pathname.split("/").at(-1);
    const response = await fetch(site.url + file);
    await route.fulfill({
      status: response.status,
      contentType: response.headers.get("content-type"),
      body: Buffer.from(await response.arrayBuffer()),
      headers: { "Access-Control-Allow-Origin": "*" },
    });
  });
  await page.goto(site.url + name, { waitUntil: "load" });
  const tags = [...new Set(Array.from(text.matchAll(/<(foretoken-[a-z-]+)/g), ([, tag]) => tag))];
  const elements = [];
  for (const tag of tags) {
    await page
      .waitForFunction((wanted) => customElements.get(wanted), tag, { timeout: TIMEOUT })
      .catch(() => errors.push(`<${tag}> is not defined`));
    elements.push([
      tag,
      await page.evaluate(
        (wanted) =>
          [...document.querySelectorAll(wanted)].every(
            (element) => element.shadowRoot?.childElementCount && element.getBoundingClientRect().height > 0,
          ),
        tag,
      ),
    ]);
  }
  await page.context().close();
  return { errors, elements };
}
