/**
 * Draws the picture of link previews, src/page/icons/og.png, from the recording of the page, by the code that saves
 * runs as pictures, in Chromium: `make picture`.
 */
import { promises as fs } from "node:fs";
import path from "node:path";
import { build } from "esbuild";
import { catalog } from "../catalog.mjs";
import { startHost } from "./host.mjs";
import { dist, openPage, startBrowser, web } from "./site.mjs";

const { outputFiles } = await build({
  stdin: {
    contents:
      'export { pictureOf } from "./src/page/picture.ts"; export { readTrace } from "./src/protocol/trace.ts";',
    resolveDir: web,
    loader: "ts",
  },
  bundle: true,
  write: false,
  format: "iife",
  globalName: "drawing",
  plugins: [catalog],
});
const trace = await fs.readFile(path.join(web, "recorded.trace"));
const host = await startHost({ folders: { "/": dist } });
const browser = await startBrowser(false);
try {
  const context = await browser.newContext({ colorScheme: "light" });
  const { page } = await openPage(context);
  await page.goto(host.url);
  const url = await page.evaluate(`(() => {
    ${outputFiles[0].text}
    const theme = document.querySelector("foretoken-tree").shadowRoot.querySelector(".foretoken");
    const trace = drawing.readTrace(Uint8Array.from(${JSON.stringify([...trace])}));
    return drawing.pictureOf(trace, theme, { scale: 1 }).toDataURL("image/png");
  })()`);
  const file = path.join(web, "src", "page", "icons", "og.png");
  await fs.writeFile(file, Buffer.from(url.slice(url.indexOf(",") + 1), "base64"));
  console.log(`${path.relative(web, file)}: ${(await fs.stat(file)).size} bytes`);
} finally {
  await browser.close();
  await host.stop();
}
