/**
 * Measures what a new visitor of the demo page sees: in fresh browser profiles, in turn, a page loads the built-in
 * pair, is read for some seconds, and its buttons Generate and then Compare are pressed. Prints Markdown.
 *
 *   node test/visits.mjs [--devices cpu,webgpu] [--profiles 10] [--pause SECONDS] [--screenshots FOLDER] [--json FILE]
 *
 * webgpu is Chromium's software adapter. `ready` is the time from the address until the page takes a prompt in ms,
 * `drafted` the tokens that drafts proposed in the first reply, and `compared` the page's verdict.
 */
import { promises as fs } from "node:fs";
import os from "node:os";
import path from "node:path";
import { parseArgs } from "node:util";
import { markdown, median } from "./pairs.mjs";
import { generated, openPage, startProfile, startServer, waitForState } from "./site.mjs";

const { values: flags } = parseArgs({
  options: {
    devices: { type: "string", default: "cpu,webgpu" },
    profiles: { type: "string", default: "10" },
    pause: { type: "string", default: "10" },
    screenshots: { type: "string" },
    json: { type: "string" },
  },
});
const DEVICES = {
  cpu: { title: "CPU", address: "" },
  webgpu: { title: "SwiftShader", address: "?device=webgpu" },
};
const SIZES = [
  { width: 1280, height: 800 },
  { width: 390, height: 844 },
];

/** One visit; the size of the window alternates. */
async function visit(server, device, viewport, i) {
  const folder = await fs.mkdtemp(path.join(os.tmpdir(), "foretoken-visits-"));
  const context = await startProfile(device === "webgpu", folder, { viewport });
  try {
    const { page } = await openPage(context);
    const began = performance.now();
    await page.goto(server.url + DEVICES[device].address);
    await waitForState(page, "ready");
    const ready = performance.now() - began;
    const keep = (name) =>
      flags.screenshots && i < SIZES.length
        ? page.screenshot({ path: path.join(flags.screenshots, `${device}-${viewport.width}-${name}.png`) })
        : undefined;
    await keep("opened");
    await page.waitForTimeout(1000 * Number(flags.pause));
    const { stats } = await generated(page, () => page.click("#generate"));
    await keep("generated");
    const { ratio, identical } = await generated(page, () => page.click("#compare"), "foretoken-compared");
    if (!identical) throw new Error(`${device}: Compare decoded other tokens`);
    await keep("compared");
    const chromium = context.browser()?.version();
    return { ready, drafted: stats.drafted, tau: stats.acceptance_length, ratio, chromium };
  } finally {
    await context.close();
    await fs.rm(folder, { recursive: true, force: true, maxRetries: 10 });
  }
}

const server = await startServer(os.tmpdir());
const pairs = [];
let chromium;
try {
  for (const device of flags.devices.split(",")) {
    const all = [];
    for (let i = 0; i < Number(flags.profiles); i++) {
      all.push(await visit(server, device, SIZES[i % SIZES.length], i));
      const { ready, drafted, tau, ratio } = all.at(-1);
      const figures = `ready ${ready.toFixed(0)} ms, drafted ${drafted}, tau ${tau.toFixed(2)}, ${ratio.toFixed(2)}x`;
      process.stderr.write(`${device} ${i + 1}/${flags.profiles}: ${figures}\n`);
    }
    chromium ??= all[0].chromium;
    const of = (name) => all.map((one) => one[name]);
    const row = { visits: all.length, ready: median(of("ready")), drafted: median(of("drafted")) };
    Object.assign(row, { tau: median(of("tau")), least_tau: Math.min(...of("tau")) });
    Object.assign(row, { compared: median(of("ratio")), least_compared: Math.min(...of("ratio")) });
    pairs.push({ title: DEVICES[device].title, rows: [row] });
  }
} finally {
  await server.stop();
}
console.log(markdown(pairs));
const note = `fresh profiles, the demo page, read for ${flags.pause} s, windows of 1280 by 800 and 390 by 844 in turn`;
if (flags.json) await fs.writeFile(flags.json, JSON.stringify({ chromium, note, pairs }));
