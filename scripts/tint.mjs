/**
 * What Chrome's compiler, Tint, makes of shaders: SPIR-V as text, as Chromium's software adapter gets it.
 *
 *   node scripts/tint.mjs FOLDER    compiles the JSON lines { Number, WGSL } of standard input and writes
 *                                   FOLDER/NUMBER.clamped.spvasm, with the indices clamped to the bounds of arrays and
 *                                   buffers, and NUMBER.plain.spvasm without that; prints Chromium's version
 */
import { readFileSync, writeFileSync } from "node:fs";
import path from "node:path";
import { openPage, startBrowser } from "../web/test/site.mjs";

const MARK = "/* Dumped SPIRV disassembly */";
const folder = process.argv[2];
const kernels = readFileSync(0, "utf8").trim().split("\n").map(JSON.parse);
let version;
for (const [kind, features] of [
  ["clamped", "dump_shaders"],
  ["plain", "dump_shaders,disable_robustness"],
]) {
  const browser = await startBrowser(true, [`--enable-dawn-features=${features}`]);
  try {
    version = browser.version();
    const { page } = await openPage(await browser.newContext());
    await page.route("http://localhost/", (route) => route.fulfill({ contentType: "text/html", body: "" }));
    await page.goto("http://localhost/");
    for (const { Number: number, WGSL } of kernels) {
      const dumped = page.waitForEvent("console", (message) => message.text().includes(MARK));
      await Promise.all([dumped, page.evaluate(compile, WGSL)]);
      const text = (await dumped).text().split(MARK)[1];
      writeFileSync(path.join(folder, `${number}.${kind}.spvasm`), text);
    }
  } finally {
    await browser.close();
  }
}
console.log(version);

/** Runs in the page. */
async function compile(code) {
  const adapter = await navigator.gpu.requestAdapter();
  const { maxStorageBuffersPerShaderStage } = adapter.limits;
  const device = await adapter.requestDevice({ requiredLimits: { maxStorageBuffersPerShaderStage } });
  const module = device.createShaderModule({ code });
  await device.createComputePipelineAsync({ layout: "auto", compute: { module } });
  device.destroy();
}
