/**
 * The npm package as users install it: packed, installed into an empty folder, type-checked, bundled, loaded from a
 * plain static server and from another origin, and run in an extension's service worker.
 */
import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { promises as fs, readFileSync } from "node:fs";
import os from "node:os";
import path from "node:path";
import { after, before, test } from "node:test";
import { promisify } from "node:util";
import { build } from "esbuild";
import { startHost } from "./host.mjs";
import { limit, openPage, root, TIMEOUT, startBrowser, startProfile, web } from "./site.mjs";

const run = promisify(execFile);
const hosts = [];
let folder, installed, files, browser;

/** Returns a program that uses the package; `from` is the import specifier. */
const program = (from, tell, options = "") => `
import { Foretoken, ForetokenError } from "${from}";
(async () => {
  const engine = await Foretoken.load({ device: "cpu", context: 128${options} });
  const refused = await engine
    .generate("x", { policy: "magic" })
    .result.catch((error) => [error instanceof ForetokenError, error.code]);
  const run = engine.generate("func main() {", { max_tokens: 8, policy: "chain", depth: 2 });
  let text = "";
  for await (const round of run) text += round.text;
  const whole = (await run.result).text;
  const plain = (await engine.generate("func main() {", { max_tokens: 8, policy: "none" }).result).text;
  const said = await engine.chat.completions.create({
    messages: [{ role: "user", content: "x" }],
    chat_template: "{{ messages[0].content }}",
    max_tokens: 2,
    temperature: 0,
  });
  const { output_tokens: tokens, requests, device } = engine.stats();
  await engine.dispose();
  const late = await engine.generate("x").result.catch((error) => error.code);
  const backend = device.backend;
  return { text, whole, plain, said: said.usage.completion_tokens, tokens, requests, backend, refused, late };
})().then(
  (got) => (${tell})(got),
  (error) => (${tell})({ error: String(error), code: error.code, stack: error.stack }),
);
`;

function check(got, device = "cpu") {
  assert.equal(got.error, undefined, JSON.stringify(got));
  assert.ok(got.text.length > 0);
  assert.deepEqual([got.whole, got.plain], [got.text, got.text]);
  assert.deepEqual([got.said, got.tokens, got.requests, got.backend], [2, 18, 3, device]);
  assert.deepEqual([got.refused, got.late], [[true, "bad_option"], "disposed"]);
}

/** Serves a folder below `/a/b/`; `cors` allows other origins to read it. */
async function serve(files, cors) {
  const host = await startHost({ folders: { "/a/b/": files }, cors });
  hosts.push(host);
  return `${host.url}a/b/`;
}

before(async () => {
  folder = await fs.mkdtemp(path.join(os.tmpdir(), "foretoken-package-"));
  // make package has built lib; other tests read it meanwhile.
  const { stdout } = await run("npm", ["pack", "--json", "--ignore-scripts", "--pack-destination", folder], {
    cwd: web,
    maxBuffer: 1 << 24,
  });
  const [packed] = JSON.parse(stdout.slice(stdout.indexOf("[")));
  files = { size: packed.size, names: packed.files.map((file) => file.path) };
  await fs.writeFile(path.join(folder, "package.json"), '{"name":"consumer","private":true,"type":"module"}');
  await run("npm", ["install", "--offline", "--no-audit", "--no-fund", path.join(folder, packed.filename)], {
    cwd: folder,
  });
  installed = path.join(folder, "node_modules", "foretoken");
  browser = await startBrowser(true);
}, limit);

after(async () => {
  await browser?.close();
  for (const host of hosts) await host.stop();
  if (folder) await fs.rm(folder, { recursive: true, force: true });
});

/** Opens a page of `base` and waits for the result of its script. */
async function outcome(base) {
  const context = await browser.newContext();
  const { page, record } = await openPage(context);
  await page.goto(base);
  const got = await page.waitForFunction(() => globalThis.got).then((handle) => handle.jsonValue());
  await context.close();
  return { got, record };
}

test("the package contains the necessary files and no others", (t) => {
  const has = (pattern) => files.names.some((name) => pattern.test(name));
  for (const wanted of [
    /^LICENSE$/,
    /^NOTICE$/,
    /^README\.md$/,
    /^lib\/foretoken\.js\.map$/,
    /^lib\/worker\.js$/,
    /^lib\/in-place\.js$/,
    /^lib\/foretoken\.wasm$/,
    /^lib\/models\/demo\/target-q8_0\.gguf$/,
    /^lib\/types\/foretoken\.d\.ts\.map$/,
    /^src\/engine\/engine\.ts$/,
  ])
    assert.ok(has(wanted), String(wanted));
  assert.ok(!has(/test|\.br$|\.gz$|node_modules|index\.html/), files.names.join("\n"));
  t.diagnostic(`the package has ${(files.size / 1e6).toFixed(2)} MB in ${files.names.length} files`);
  assert.ok(files.size < 17e6, "the package is over 17 MB");
  // Parcel reads them, not exports.
  const { main, module, exports } = JSON.parse(readFileSync(path.join(installed, "package.json"), "utf8"));
  assert.deepEqual([main, module], [exports["."].default, exports["."].default]);
});

/** Type-checks files of the folder. */
async function compile(resolution, ...names) {
  const module = resolution === "nodenext" ? "nodenext" : "esnext";
  const lib = "es2022,dom,dom.iterable,dom.asynciterable";
  const options = { target: "es2022", lib, module, moduleResolution: resolution, types: "", jsx: "react-jsx" };
  const flags = ["noEmit", "strict", "exactOptionalPropertyTypes", "noUncheckedIndexedAccess"];
  const args = [
    ...flags.map((flag) => `--${flag}`),
    ...Object.entries(options).flatMap(([name, value]) => [`--${name}`, value]),
    ...names,
  ];
  await run(path.join(web, "node_modules", ".bin", "tsc"), args, { cwd: folder }).catch((cause) =>
    assert.fail(cause.stdout),
  );
}

test("its types pass strict checks, and its source maps resolve", async () => {
  const source = `
import { Foretoken, ForetokenError, type ChatCompletion, type Engine, type EngineStats } from "foretoken";
import type { ForetokenErrorCode, RoundEvent } from "foretoken";
import { Foretoken as InPlace } from "foretoken/in-place";
import { Foretoken as Alone } from "foretoken/api";
const engine: Engine = await Foretoken.load({
  target: "a/b/c.gguf",
  draft: new File([], "d.gguf"),
  device: "webgpu",
  signal: new AbortController().signal,
  onProgress: ({ stage, done, total }) => console.log(stage, done / total),
});
const run = engine.generate("x", { max_tokens: 3, stop: ["y"], signal: AbortSignal.timeout(1000) });
for await (const round of run) {
  const one: RoundEvent = round;
  const kind: "plain" | "accepted" | "relaxed" | "corrected" | "bonus" = one.tokens[0]!.kind;
  console.log(kind);
}
const messages = [{ role: "user" as const, content: "x" }];
const whole: ChatCompletion = await engine.chat.completions.create({ messages, logprobs: true });
for await (const chunk of await engine.chat.completions.create({ messages, stream: true }))
  console.log(chunk.choices[0]?.delta.content?.length, whole.usage.total_tokens);
const stats: EngineStats = engine.stats();
const code: ForetokenErrorCode = new ForetokenError("busy", "x").code;
const widget = document.querySelector("foretoken-widget");
console.log(stats.acceptance_length + (await InPlace.load()).stats().decode_tok_s, code, widget?.localName);
// @ts-expect-error: a prompt is a text
engine.generate({ prompt: "x" });
// @ts-expect-error: no such option
await Foretoken.load({ tarjet: "x" });
await (await Alone.load({ target: "a/b/c.gguf" })).dispose();
await engine.dispose();
`;
  await fs.writeFile(path.join(folder, "consumer.ts"), source);
  const component = `
import { StrictMode } from "react";
import { createRoot } from "react-dom/client";
import { useForetoken } from "foretoken/react";
export function Continue() {
  const { text, result, generate } = useForetoken({ device: "cpu" });
  return <main>
    <button onClick={() => void generate("x", { max_tokens: 3 })}>{text}{result?.stats.rounds}</button>
    <foretoken-widget full max-tokens={8} coupled="false" ref={(widget) => void widget?.load()}
      onforetoken-done={({ detail }) => console.log(detail.text.length)} />
    <foretoken-tree src="run.trace" autoplay onforetoken-shown={({ detail }) => console.log(detail.round)} />
    <foretoken-race plain="a.trace" speculative="b.trace" />
    {/* @ts-expect-error: a trace is no text */}
    <foretoken-tree trace="run.trace" />
    {/* @ts-expect-error: no such attribute */}
    <foretoken-widget maxtokens="8" />
    {/* @ts-expect-error: false would be no attribute */}
    <foretoken-widget coupled={false} />
  </main>;
}
createRoot(document.querySelector("main")!).render(<StrictMode><Continue key="demo" /></StrictMode>);
`;
  await fs.writeFile(path.join(folder, "component.tsx"), component);
  // React's own types, as an app installs them.
  const types = path.join(folder, "node_modules", "@types");
  await fs.mkdir(types, { recursive: true });
  for (const name of ["react", "react-dom"])
    await fs.symlink(path.join(web, "node_modules", "@types", name), path.join(types, name));
  const site = path.join(root, "build", "widget", "foretoken.js");
  await fs.writeFile(
    path.join(folder, "site.ts"),
    `import { Foretoken, type Result } from ${JSON.stringify(site)};
const run = (await Foretoken.load({ device: "cpu" })).generate("x");
const { text }: Result = await run.result;
// @ts-expect-error: a text is no number
export const wrong: number = text;
`,
  );
  for (const resolution of ["bundler", "nodenext"]) await compile(resolution, "consumer.ts", "component.tsx");
  await compile("bundler", "site.ts");
  const map = path.join(installed, "lib", "types", "engine", "engine.d.ts.map");
  for (const to of JSON.parse(await fs.readFile(map, "utf8")).sources)
    await fs.access(path.resolve(path.dirname(map), to));
  const bundle = JSON.parse(await fs.readFile(path.join(installed, "lib", "worker.js.map"), "utf8"));
  assert.equal(bundle.sources.length, bundle.sourcesContent.length);
});

test("the API alone leads neither to the widget nor to the built-in pair", async () => {
  /** The texts of an entry and of all that it imports. */
  const reached = async (entry) => {
    const texts = new Map([[entry, ""]]);
    for (const name of texts.keys()) {
      const text = await fs.readFile(path.join(installed, "lib", name), "utf8");
      texts.set(name, text);
      for (const [, file] of text.matchAll(/["'`]\.\/((?:chunk-\w+|worker)\.js)["'`]/g))
        if (!texts.has(file)) texts.set(file, "");
    }
    return texts;
  };
  const [alone, all] = [await reached("api.js"), await reached("foretoken.js")];
  assert.ok(alone.has("worker.js") && all.has("worker.js"));
  for (const part of ["./models/demo/target", "./models/demo/eagle3", "foretoken-widget", "u-over"]) {
    const having = (texts) => [...texts].filter(([, text]) => text.includes(part)).map(([name]) => name);
    assert.deepEqual(having(alone), [], part);
    assert.notDeepEqual(having(all), [], part);
  }
});

test("unbundled, below a path of a plain server, and from another origin", async () => {
  await fs.cp(path.join(installed, "lib"), path.join(folder, "plain", "foretoken"), { recursive: true });
  await fs.writeFile(
    path.join(folder, "plain", "index.html"),
    `<!doctype html><script type="module">` +
      program("./foretoken/foretoken.js", "(got) => (globalThis.got = got)") +
      "</script>",
  );
  const base = await serve(path.join(folder, "plain"));
  const near = await outcome(`${base}index.html`);
  check(near.got);
  assert.deepEqual(
    near.record.requests.filter((url) => !url.startsWith(base) && !url.endsWith("favicon.ico")),
    [],
  );
  const cdn = await serve(path.join(installed, "lib"), true);
  await fs.mkdir(path.join(folder, "page"), { recursive: true });
  await fs.writeFile(
    path.join(folder, "page", "index.html"),
    `<!doctype html><script type="module">${program(`${cdn}foretoken.js`, "(got) => (globalThis.got = got)")}</script>`,
  );
  const page = await serve(path.join(folder, "page"));
  check((await outcome(`${page}index.html`)).got);
});

test("bundled with esbuild, next to the files that it does not bundle", async () => {
  const out = path.join(folder, "bundled");
  await fs.writeFile(
    path.join(folder, "app.js"),
    program("foretoken", "(got) => (globalThis.got = got)", ', worker: new URL("assets/worker.js", location.href)'),
  );
  await build({
    absWorkingDir: folder,
    entryPoints: ["app.js"],
    outdir: out,
    bundle: true,
    format: "esm",
    splitting: true,
    minify: true,
    logLevel: "error",
  });
  await fs.mkdir(path.join(out, "assets"));
  for (const name of ["worker.js", "foretoken.wasm"])
    await fs.copyFile(path.join(installed, "lib", name), path.join(out, "assets", name));
  await fs.cp(path.join(installed, "lib", "models"), path.join(out, "models"), { recursive: true });
  await fs.writeFile(path.join(out, "index.html"), '<!doctype html><script type="module" src="app.js"></script>');
  check((await outcome(`${await serve(out)}index.html`)).got);
});

test("the hook loads, generates and releases in a React component", limit, async () => {
  const out = path.join(folder, "hook");
  await fs.writeFile(
    path.join(folder, "hook.js"),
    `
import { createElement as h, StrictMode } from "react";
import { createRoot } from "react-dom/client";
import { useForetoken } from "foretoken/react";
function Continue() {
  const worker = new URL("worker.js", location.href);
  const { state, text, result, error, generate } = useForetoken({ device: "cpu", context: 128, worker });
  const start = (policy) => () => void generate("func main() {", { max_tokens: 8, policy });
  return h("div", null,
    h("button", { id: "plain", onClick: start("none") }, state), h("button", { id: "magic", onClick: start("magic") }),
    h("pre", null, text), h("b", null, result?.token_ids.length), h("p", null, error?.message));
}
const root = createRoot(document.querySelector("main"));
root.render(h(StrictMode, null, h(Continue)));
window.leave = () => root.unmount();
`,
  );
  await build({
    absWorkingDir: folder,
    entryPoints: ["hook.js"],
    outdir: out,
    bundle: true,
    format: "esm",
    splitting: true,
    nodePaths: ["/usr/share/nodejs"], // Debian's React
    define: { "process.env.NODE_ENV": '"development"' },
    logLevel: "error",
  });
  for (const name of ["worker.js", "foretoken.wasm", "models"])
    await fs.cp(path.join(installed, "lib", name), path.join(out, name), { recursive: true });
  const html = '<!doctype html><main></main><script type="module" src="hook.js"></script>';
  await fs.writeFile(path.join(out, "index.html"), html);
  const context = await browser.newContext();
  const { page, record } = await openPage(context);
  await page.goto(await serve(out));
  await page.locator("#plain", { hasText: "idle" }).waitFor();
  assert.equal(page.workers().length, 0, "nothing is loaded before the first call");
  await page.click("#plain");
  await page.locator("b", { hasText: "8" }).waitFor();
  assert.match(await page.locator("pre").evaluate((box) => box.textContent), /^\n\t/);
  await page.click("#magic");
  await page.locator("p", { hasText: "magic" }).waitFor();
  assert.equal(await page.locator("#plain").innerText(), "ready");
  assert.equal(page.workers().length, 1);
  await page.evaluate(() => window.leave());
  while (page.workers().length > 0) await page.waitForTimeout(10);
  assert.deepEqual(
    record.errors.filter((error) => !error.includes("favicon")),
    [],
  );
  await context.close();
});

test("in an extension's service worker, on WebGPU", limit, async () => {
  const extension = path.join(folder, "extension");
  await fs.cp(path.join(installed, "lib"), path.join(extension, "foretoken"), { recursive: true });
  await fs.writeFile(
    path.join(extension, "manifest.json"),
    JSON.stringify({
      manifest_version: 3,
      name: "test",
      version: "1",
      background: { service_worker: "background.js", type: "module" },
      content_security_policy: { extension_pages: "script-src 'self' 'wasm-unsafe-eval'; object-src 'self'" },
    }),
  );
  await fs.writeFile(
    path.join(extension, "background.js"),
    program("./foretoken/in-place.js", "(got) => (globalThis.got = got)", ', device: "webgpu"'),
  );
  const profile = await fs.mkdtemp(path.join(os.tmpdir(), "foretoken-extension-"));
  const context = await startProfile(true, profile, {
    args: ["--headless=new", `--disable-extensions-except=${extension}`, `--load-extension=${extension}`],
    headless: false,
    serviceWorkers: "allow",
    ignoreDefaultArgs: ["--disable-extensions"],
  });
  try {
    const worker = context.serviceWorkers()[0] ?? (await context.waitForEvent("serviceworker"));
    assert.match(worker.url(), /^chrome-extension:/);
    let got;
    for (
      const end = Date.now() + TIMEOUT;
      !got && Date.now() < end;
      await new Promise((resolve) => setTimeout(resolve, 200))
    )
      got = await worker.evaluate(() => globalThis.got);
    assert.ok(got, "the service worker returned no result");
    check(got, "browser");
  } finally {
    await context.close();
    await fs.rm(profile, { recursive: true, force: true });
  }
});
