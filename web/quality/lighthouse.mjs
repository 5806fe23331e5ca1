/**
 * Runs Lighthouse on the built site, in Chromium with WebGPU's software adapter: on the page and its tabs, and on a
 * text page with the widget. Prints the scores and their causes; --json prints everything. It uses desktop settings and
 * simulated loading, so that the performance score barely depends on the load of the machine.
 */
import { parseArgs } from "node:util";
import lighthouse, { desktopConfig } from "lighthouse";
import { startHost } from "../test/host.mjs";
import { dist, startBrowser } from "../test/site.mjs";

const { values: flags } = parseArgs({ options: { json: { type: "boolean" }, mobile: { type: "boolean" } } });
const article = `<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="description" content="A page with the widget."><title>Docs</title>
<link rel="icon" href="foretoken/icon.svg"><script type="module" src="foretoken/widget.js"></script></head>
<body><main><h1>Docs</h1><p>Text before the widget.</p><foretoken-widget></foretoken-widget>
<p>Text after it.</p></main></body></html>`;
const host = await startHost({
  pages: { "/article.html": article },
  folders: { "/foretoken/": dist },
  compressed: true,
});
// Lighthouse connects to the browser through a debugging port.
const port = 20_000 + (process.pid % 20_000);
const browser = await startBrowser(true, [`--remote-debugging-port=${port}`]);
const figures = {};
/** The page as it opens, each of its tabs, and a page with the widget. */
const PAGES = [
  ["page", "foretoken/"],
  ...["run", "chat", "compare", "playground", "benchmark"].map((tab) => [tab, `foretoken/#${tab}`]),
  ["widget", "article.html"],
];
try {
  for (const [name, address] of PAGES) {
    const { lhr } = await lighthouse(
      host.url + address,
      { port, logLevel: "error", onlyCategories: ["performance", "accessibility", "best-practices"] },
      flags.mobile ? undefined : desktopConfig,
    );
    if (lhr.runtimeError) throw new Error(`lighthouse: ${name}: ${lhr.runtimeError.message}`);
    const metrics = Object.fromEntries(
      [
        "first-contentful-paint",
        "largest-contentful-paint",
        "total-blocking-time",
        "cumulative-layout-shift",
        "speed-index",
      ].map((id) => [id, lhr.audits[id].displayValue]),
    );
    const failed = Object.values(lhr.categories).flatMap((category) =>
      category.auditRefs
        .filter((ref) => ref.weight > 0 && lhr.audits[ref.id].score !== null && lhr.audits[ref.id].score < 0.9)
        .map((ref) => `${ref.id}: ${lhr.audits[ref.id].displayValue ?? lhr.audits[ref.id].title}`),
    );
    figures[name] = {
      scores: Object.fromEntries(
        Object.values(lhr.categories).map((category) => [category.id, Math.round(category.score * 100)]),
      ),
      metrics,
      failed,
    };
  }
} finally {
  await browser.close();
  await host.stop();
}
if (flags.json) console.log(JSON.stringify(figures, undefined, 2));
else {
  for (const [name, { scores, metrics, failed }] of Object.entries(figures)) {
    console.log(
      `${name.padEnd(10)} ${Object.entries(scores)
        .map(([id, score]) => `${id} ${score}`)
        .join(", ")}`,
    );
    console.log(
      `           ${Object.entries(metrics)
        .map(([id, value]) => `${id} ${value}`)
        .join(", ")}`,
    );
    for (const one of failed) console.log(`           below 90: ${one}`);
  }
}
