/**
 * Lighthouse over the built site, in Chromium with its software adapter for WebGPU: the page, and a page of text with
 * the widget in it. Prints the scores and what they come from; --json prints all of it. Desktop settings; the figures
 * of performance are those of a simulated load, which barely depends on how busy the machine is.
 */
import { parseArgs } from "node:util";
import lighthouse, { desktopConfig } from "lighthouse";
import { startHost } from "../test/host.mjs";
import { dist, startBrowser } from "../test/site.mjs";

const { values: flags } = parseArgs({ options: { json: { type: "boolean" }, mobile: { type: "boolean" } } });
const article = `<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1"><meta name="description" content="A page with the widget."><title>Docs</title>
<link rel="icon" href="foretoken/icon.svg"><script type="module" src="foretoken/widget.js"></script></head>
<body><main><h1>Docs</h1><p>Text before the widget.</p><foretoken-widget compact></foretoken-widget><p>Text after it.</p></main></body></html>`;
const host = await startHost({ pages: { "/article.html": article }, folders: { "/foretoken/": dist }, compressed: true });
// Lighthouse talks to the browser by a port of its own choosing.
const port = 20_000 + (process.pid % 20_000);
const browser = await startBrowser(true, [`--remote-debugging-port=${port}`]);
const figures = {};
try {
  for (const [name, address] of [["page", "foretoken/"], ["widget", "article.html"]]) {
    const { lhr } = await lighthouse(host.url + address, { port, logLevel: "error", onlyCategories: ["performance", "accessibility", "best-practices"] }, flags.mobile ? undefined : desktopConfig);
    if (lhr.runtimeError) throw new Error(`lighthouse: ${name}: ${lhr.runtimeError.message}`);
    const metrics = Object.fromEntries(["first-contentful-paint", "largest-contentful-paint", "total-blocking-time", "cumulative-layout-shift", "speed-index"].map((id) => [id, lhr.audits[id].displayValue]));
    const failed = Object.values(lhr.categories).flatMap((category) => category.auditRefs.filter((ref) => ref.weight > 0 && lhr.audits[ref.id].score !== null && lhr.audits[ref.id].score < 0.9).map((ref) => `${ref.id}: ${lhr.audits[ref.id].displayValue ?? lhr.audits[ref.id].title}`));
    figures[name] = { scores: Object.fromEntries(Object.values(lhr.categories).map((category) => [category.id, Math.round(category.score * 100)])), metrics, failed };
  }
} finally {
  await browser.close();
  await host.stop();
}
if (flags.json) console.log(JSON.stringify(figures, undefined, 2));
else {
  for (const [name, { scores, metrics, failed }] of Object.entries(figures)) {
    console.log(`${name.padEnd(7)} ${Object.entries(scores).map(([id, score]) => `${id} ${score}`).join(", ")}`);
    console.log(`        ${Object.entries(metrics).map(([id, value]) => `${id} ${value}`).join(", ")}`);
    for (const one of failed) console.log(`        below 90: ${one}`);
  }
}
