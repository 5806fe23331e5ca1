/**
 * Measures what a page with the widget downloads before and after the first click, from a server that compresses and
 * from one that does not: `node test/bytes.mjs FILE` writes a report.
 */
import { promises as fs } from "node:fs";
import path from "node:path";
import { startHost } from "./host.mjs";
import { generated, openPage, root, startBrowser } from "./site.mjs";

const page =
  '<!doctype html><html lang="en"><title>Widget</title><script type="module" src="/site/widget.js"></script>' +
  '<foretoken-widget device="cpu" max-tokens="8"></foretoken-widget></html>';
const data = {};
const browser = await startBrowser(false);
try {
  for (const compressed of [true, false]) {
    const host = await startHost({
      pages: { "/": page },
      folders: { "/site/": path.join(root, "web", "dist") },
      compressed,
      rate: 12.5e6, // a line of 100 Mbit/s: without one a server is ahead by the megabytes of a loopback's buffers
    });
    const context = await browser.newContext();
    const { page: opened } = await openPage(context);
    await opened.goto(host.url, { waitUntil: "networkidle" });
    const before = host.sent();
    await generated(opened, () => opened.locator("#generate").click());
    const models = host.sent((name) => name.endsWith(".gguf"));
    const row = { before, clicked: host.sent() - before - models, models };
    data[`size/${compressed ? "a server that compresses" : "a server that compresses nothing"}`] = row;
    await context.close();
    await host.stop();
  }
} finally {
  await browser.close();
}
await fs.writeFile(process.argv[2], JSON.stringify(data));
