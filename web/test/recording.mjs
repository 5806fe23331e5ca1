/**
 * Records the first screen of the page as a visitor sees it, from the address on, as an animated WebP file. Needs
 * img2webp, of the package webp.
 *
 *   node test/recording.mjs FILE [--seconds 12] [--device cpu] [--quality 85]
 */
import { execFileSync } from "node:child_process";
import { promises as fs } from "node:fs";
import os from "node:os";
import path from "node:path";
import { parseArgs } from "node:util";
import { openPage, startProfile, startServer, waitForState } from "./site.mjs";

const { values: flags, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    seconds: { type: "string", default: "12" },
    device: { type: "string", default: "cpu" },
    quality: { type: "string", default: "85" },
  },
});
const [file] = positionals;
if (!file) throw new Error("usage: node test/recording.mjs FILE");
/** The least time in milliseconds that a frame is shown, and the most bytes of a file: it stands in the README. */
const FRAME = 80;
const BYTES = 600_000;

const folder = await fs.mkdtemp(path.join(os.tmpdir(), "foretoken-recording-"));
const server = await startServer(os.tmpdir());
const context = await startProfile(flags.device === "webgpu", path.join(folder, "profile"), {
  viewport: { width: 1280, height: 800 },
  colorScheme: "light",
});
try {
  const { page } = await openPage(context);
  // What loads beside the recording would take frames from it.
  await page.goto(`${server.url}?device=${flags.device}`);
  await waitForState(page, "ready");
  await page.reload();
  await page.waitForSelector("foretoken-tree");

  // Chromium sends a frame when the page has changed, with its time.
  const frames = [];
  const devtools = await context.newCDPSession(page);
  devtools.on("Page.screencastFrame", ({ data, metadata, sessionId }) => {
    frames.push({ data, at: 1000 * metadata.timestamp });
    void devtools.send("Page.screencastFrameAck", { sessionId });
  });
  await devtools.send("Page.startScreencast", { format: "png", maxWidth: 960, maxHeight: 600 });
  await page.waitForTimeout(1000 * Number(flags.seconds));
  await devtools.send("Page.stopScreencast");

  const shown = [];
  for (const [i, frame] of frames.entries())
    if (i === 0 || i === frames.length - 1 || frame.at - shown.at(-1).at >= FRAME) shown.push(frame);
  if (shown.length < 10) throw new Error(`the first screen moved in ${shown.length} frames only`);
  const args = ["-loop", "0", "-lossy", "-q", flags.quality, "-m", "6"];
  for (const [i, { data, at }] of shown.entries()) {
    const name = path.join(folder, `${i}.png`);
    await fs.writeFile(name, Buffer.from(data, "base64"));
    const ms = i + 1 < shown.length ? shown[i + 1].at - at : 1000;
    args.push("-d", String(Math.round(ms)), name);
  }
  execFileSync("img2webp", [...args, "-o", path.resolve(file)], { stdio: "inherit" });
  const { size } = await fs.stat(file);
  console.log(`${file}: ${shown.length} frames, ${size} bytes`);
  if (size > BYTES) throw new Error(`${file} has ${size} bytes, want at most ${BYTES}: try fewer --seconds`);
} finally {
  await context.close();
  await server.stop();
  await fs.rm(folder, { recursive: true, force: true, maxRetries: 10 });
}
