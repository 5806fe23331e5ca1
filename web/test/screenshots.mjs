/**
 * Takes the pictures of the page in the documentation, in Chromium with and without WebGPU's software adapter.
 *
 *   node test/screenshots.mjs FOLDER
 */
import path from "node:path";
import { startHost } from "./host.mjs";
import { dist, generated, openSettings, startBrowser, waitForState } from "./site.mjs";

const [folder] = process.argv.slice(2);
if (!folder) throw new Error("usage: node test/screenshots.mjs FOLDER");
const DESKTOP = { width: 1280, height: 800 };
const PHONE = { width: 390, height: 844 };

const host = await startHost({ folders: { "/": dist }, isolated: true });

/** Opens the page in a fresh profile, and hands it to `work` with a function that takes a picture of it or a part. */
async function take(webgpu, work) {
  const browser = await startBrowser(webgpu);
  const page = await (await browser.newContext({ viewport: DESKTOP })).newPage();
  const shot = (name, of = page) => of.screenshot({ path: path.join(folder, `page-${name}.png`) });
  try {
    await page.goto(`${host.url}${webgpu ? "?device=webgpu#run" : ""}`);
    await work(page, shot);
  } finally {
    await browser.close();
  }
}

async function ready(page) {
  if ((await waitForState(page, ["ready", "failed"])) === "failed")
    throw new Error(await page.locator("foretoken-widget #error").innerText());
}

try {
  await take(true, async (page, shot) => {
    await page.waitForFunction(() => document.querySelector("foretoken-widget").state === "loading");
    await shot("loading");
    await ready(page);
    await page.waitForTimeout(20_000); // is read, while the draft's kernels compile
    await page.evaluate(() => {
      let rounds = 0;
      window.midway = new Promise((resolve) =>
        document.querySelector("foretoken-widget").addEventListener("foretoken-round", () => {
          if (++rounds === 6) resolve();
        }),
      );
    });
    const whole = generated(page, () => page.click("#generate"));
    await page.evaluate(() => window.midway);
    await shot("streaming");
    await whole;
    await shot("text");
    await page.click("#tab-compare");
    await generated(page, () => page.click("#compare-start"), "foretoken-compared");
    await page.locator("foretoken-race .play", { hasText: "Play again" }).waitFor();
    await shot("finished");
    await page.click("#tab-run");
    await openSettings(page);
    await page.click("#own-models > summary");
    await page.waitForSelector("#kept-list li");
    await shot("models", page.locator("#own-models"));
  });
  await take(false, async (page, shot) => {
    await ready(page);
    await page.waitForTimeout(3000); // the tree grows, and its first path is kept
    await shot("opened");
    await page.setViewportSize(PHONE);
    await shot("phone");
    await page.setViewportSize(DESKTOP);
    await page.click("#tab-run");
    await generated(page, () => page.click("#generate"));
    await shot("no-webgpu");
    await page.click("#tab-chat");
    await page.fill("#message", "What does strings.Fields do?");
    await generated(page, () => page.click("#send"));
    await page.evaluate(() => document.getElementById("tabs").scrollIntoView());
    await shot("chat");
  });
} finally {
  await host.stop();
}
