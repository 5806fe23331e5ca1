/**
 * Records the race of the built-in pair as a visitor sees it, plain and speculative decoding side by side at the speeds
 * that were measured in the same run, as an animated WebP file. Needs img2webp, of the package webp.
 *
 *   node test/recording.mjs FILE [--device webgpu] [--tokens 192] [--hold SECONDS]
 */
import { execFileSync } from "node:child_process";
import { promises as fs } from "node:fs";
import os from "node:os";
import path from "node:path";
import { parseArgs } from "node:util";
import { MODELS } from "./pairs.mjs";
import { openPage, startProfile, startServer, waitForState } from "./site.mjs";

const { values: flags, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    device: { type: "string", default: "webgpu" },
    tokens: { type: "string", default: "192" },
    hold: { type: "string", default: "2" },
  },
});
const [file] = positionals;
if (!file) throw new Error("usage: node test/recording.mjs FILE");
const PROMPT = "func (s *Server) Serve(l net.Listener) error {\n\tdefer l.Close()\n\tfor {\n"; // an example of the page
const SHARE = `#share?${new URLSearchParams({ v: "1", prompt: PROMPT, "max-tokens": flags.tokens })}`;
/** The least time in milliseconds that a frame is shown. */
const FRAME = 66;

const folder = await fs.mkdtemp(path.join(os.tmpdir(), "foretoken-recording-"));
const server = await startServer(MODELS);
const context = await startProfile(flags.device === "webgpu", path.join(folder, "profile"), {
  viewport: { width: 960, height: 600 },
  colorScheme: "light",
});
try {
  const { page } = await openPage(context);
  await page.goto(`${server.url}?device=${flags.device}${SHARE}`);
  await waitForState(page, "ready");
  await page.click("#tab-compare");
  const race = async (id) => {
    await page.click(id);
    await page.waitForFunction(() => document.querySelector("foretoken-race").dataset.state === "ready");
  };
  for (let i = 0; i < 2; i++) await race("#race-start"); // the first compiles

  // Chromium sends a frame when the page has changed, with its time.
  const frames = [];
  const devtools = await context.newCDPSession(page);
  devtools.on("Page.screencastFrame", ({ data, metadata, sessionId }) => {
    frames.push({ data, at: 1000 * metadata.timestamp });
    void devtools.send("Page.screencastFrameAck", { sessionId });
  });
  await devtools.send("Page.startScreencast", { format: "png" });
  await page.click("#race-again");
  await page.waitForFunction(() =>
    [...document.querySelector("foretoken-race").shadowRoot.querySelectorAll(".lane")].every(
      (lane) => lane.dataset.done === "",
    ),
  );
  await page.waitForTimeout(500);
  await devtools.send("Page.stopScreencast");

  const shown = [];
  for (const [i, frame] of frames.entries())
    if (i === 0 || i === frames.length - 1 || frame.at - shown.at(-1).at >= FRAME) shown.push(frame);
  const args = ["-loop", "0", "-lossy", "-q", "60", "-m", "6"];
  for (const [i, { data, at }] of shown.entries()) {
    const name = path.join(folder, `${i}.png`);
    await fs.writeFile(name, Buffer.from(data, "base64"));
    const ms = i + 1 < shown.length ? shown[i + 1].at - at : 1000 * Number(flags.hold);
    args.push("-d", String(Math.round(ms)), name);
  }
  execFileSync("img2webp", [...args, "-o", path.resolve(file)], { stdio: "inherit" });
  const { size } = await fs.stat(file);
  console.log(`${file}: ${shown.length} frames, ${size} bytes; ${await page.innerText("#race-verdict")}`);
} finally {
  await context.close();
  await server.stop();
  await fs.rm(folder, { recursive: true, force: true, maxRetries: 10 });
}
