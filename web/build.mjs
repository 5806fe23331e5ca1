/**
 * Builds the static site into web/dist: scripts, styles, pages, Go's WebAssembly and wasm_exec.js, the built-in pair,
 * and compressed .br and .gz siblings.
 *
 *   --no-wasm      keep the existing foretoken.wasm
 *   --no-compress  skip the .br and .gz siblings
 *   --address=URL  where the site will be served; previews of links need the whole address of their picture
 *   --mock         use a scripted engine instead of Go, for work on the page; writes to node_modules/.cache/mock-site
 *   --out=FOLDER   write there instead
 */
import { execFile } from "node:child_process";
import { createHash } from "node:crypto";
import { constants, promises as fs } from "node:fs";
import path from "node:path";
import { fileURLToPath } from "node:url";
import { parseArgs, promisify } from "node:util";
import zlib from "node:zlib";
import { build, transform } from "esbuild";
import { catalog } from "./catalog.mjs";
import { examples } from "./examples.mjs";
import { widgetFolder } from "./folder.mjs";
import { alias } from "./libraries.mjs";
import { offline } from "./offline.mjs";
import { writeTypes } from "./types.mjs";
import { buildWasm } from "./wasm.mjs";

const run = promisify(execFile);
const web = path.dirname(fileURLToPath(import.meta.url));
const root = path.dirname(web);
const { values: flags } = parseArgs({
  options: {
    "no-wasm": { type: "boolean" },
    "no-compress": { type: "boolean" },
    address: { type: "string" },
    mock: { type: "boolean" },
    out: { type: "string" },
  },
});
const folder = flags.out ?? (flags.mock ? path.join("node_modules", ".cache", "mock-site") : "dist");
const dist = path.resolve(web, folder);
const wasm = path.join(dist, "foretoken.wasm");

/** The libraries in the page's scripts whose licences it carries. */
const LIBRARIES = {
  uplot: "uPlot, which draws the chart",
  "markdown-it": "markdown-it, which reads the Markdown of answers",
  "linkify-it": "linkify-it, a part of markdown-it",
  mdurl: "mdurl, a part of markdown-it",
  "punycode.js": "Punycode.js, a part of markdown-it",
  "uc.micro": "uc.micro, a part of markdown-it",
  "highlight.js": "highlight.js, which colours the code of answers",
};

/** Bundles style sheets as minified text, which shadow roots adopt. */
const styles = {
  name: "styles",
  setup(build) {
    build.onLoad({ filter: /\.css$/ }, async ({ path: file }) => {
      const text = await fs.readFile(file, "utf8");
      return {
        contents: flags.mock ? text : (await transform(text, { loader: "css", minify: true })).code,
        loader: "text",
      };
    });
  },
};

/** The modules for other pages, their sources, and their purposes. */
const MODULES = {
  "widget.js": ["widget/element", "<foretoken-widget>"],
  "foretoken.js": ["foretoken", "<foretoken-widget> and the JavaScript API"],
  "player.js": ["player/player", "<foretoken-tree> and <foretoken-race>, which play recorded runs"],
  "foretoken-frame.js": ["embed/frame", "the API of a page that frames embed.html"],
};

await clean();
const [, { preloaded, embedded }] = await Promise.all([program(), bundle(), copyModels()]);
await copyStatic(preloaded);
if (!flags.mock) await offline(web, dist);
if (!flags["no-compress"] && !flags.mock) await compress();
if (!flags.mock) await writeDeclarations();
if (!flags.mock && !flags.out && (await exists(wasm))) {
  const purposes = Object.fromEntries(Object.entries(MODULES).map(([name, [, purpose]]) => [name, purpose]));
  await widgetFolder(dist, path.join(root, "build", "widget"), purposes, embedded);
}
await report();

/** Empties dist; with --no-wasm it keeps foretoken.wasm. */
async function clean() {
  await fs.mkdir(dist, { recursive: true });
  const keep = flags["no-wasm"] ? ["foretoken.wasm"] : [];
  for (const name of await fs.readdir(dist)) {
    if (!keep.includes(name)) await fs.rm(path.join(dist, name), { recursive: true });
  }
}

async function program() {
  if (flags.mock) return;
  const goroot = (await run("go", ["env", "GOROOT"], { cwd: root })).stdout.trim();
  // wasm_exec.js must match the compiler, so it is not in the repository.
  const support = await fs.readFile(path.join(goroot, "lib", "wasm", "wasm_exec.js"), "utf8");
  await fs.writeFile(
    path.join(dist, "wasm_exec.js"),
    (await transform(support, { minify: true, legalComments: "inline", target: "es2022" })).code,
  );
  if (flags["no-wasm"]) {
    if (!(await exists(wasm))) console.warn("web: foretoken.wasm is missing; the page needs it to start");
    return;
  }
  await buildWasm(wasm);
}

/** Returns the chunks that the page loads at once, and all modules of pages that embed the widget. */
async function bundle() {
  const { metafile } = await build({
    metafile: true,
    absWorkingDir: web,
    entryPoints: {
      start: "src/page/start-worker.ts",
      page: "src/page/page.ts",
      player: "src/player/player.ts",
      stage: "src/player/tree-player.ts",
      reset: "src/page/reset.ts",
      bench: "src/benchmark/harness.ts",
      foretoken: "src/foretoken.ts",
      widget: "src/widget/element.ts",
      embed: "src/embed/embed.ts",
      "foretoken-frame": "src/embed/frame.ts",
      worker: flags.mock ? "test/mock/worker.ts" : "src/worker/worker.ts",
    },
    outdir: dist,
    bundle: true,
    format: "esm",
    splitting: true,
    // Chunks must be in the folder of the entries, because modules resolve the worker and the models relative to it.
    chunkNames: "chunk-[hash]",
    target: ["es2022", "chrome120", "firefox128", "safari17.5"],
    minify: !flags.mock,
    sourcemap: flags.mock ? "inline" : false,
    legalComments: "eof",
    plugins: [catalog, examples, styles],
    alias,
    loader: { ".trace": "binary" },
    define: { "process.env.NODE_ENV": '"production"' },
  });
  const outputs = new Map(Object.entries(metafile.outputs).map(([file, output]) => [path.basename(file), output]));
  /** Returns an entry and its imports, without those that are loaded later unless `later`. */
  const needs = (entry, later = false) => {
    const needed = new Set([entry]);
    for (const name of needed) {
      for (const { path: file, kind } of outputs.get(name).imports)
        if (kind === "import-statement" || later) needed.add(path.basename(file));
    }
    return [...needed];
  };
  // A page that embeds the widget or uses the API must not load the app before the first use.
  for (const entry of ["widget.js", "foretoken.js", "embed.js", "foretoken-frame.js", "player.js"]) {
    const app = needs(entry)
      .flatMap((name) => Object.keys(outputs.get(name).inputs))
      .filter((file) => /widget\/(app|view|panel|settings)\.ts$|uplot/.test(file));
    if (app.length > 0)
      throw new Error(`web: ${entry} imports the widget's app statically: ${app.join(", ")}; use a dynamic import`);
  }
  const [engine] = [...outputs].find(([, { entryPoint }]) => entryPoint === "src/engine/engine.ts");
  return {
    preloaded: [
      ...new Set([
        ...needs("stage.js").slice(1),
        ...needs("start.js").slice(1),
        ...needs("page.js"),
        ...needs(engine),
      ]),
    ],
    embedded: [...new Set([...Object.keys(MODULES), "embed.js", "worker.js"].flatMap((name) => needs(name, true)))],
  };
}

/** Writes the types of the modules for other pages beside them. */
async function writeDeclarations() {
  await writeTypes(
    path.join(dist, "types"),
    Object.values(MODULES).map(([source]) => source),
    false,
  );
  for (const [name, [source]] of Object.entries(MODULES))
    await fs.writeFile(path.join(dist, name.replace(/\.js$/, ".d.ts")), `export * from "./types/${source}.js";\n`);
}

/** Copies pages and assets. The page preloads its chunks in parallel, instead of one import after the other. */
async function copyStatic(preloaded) {
  const files = {
    "index.html": "index.html",
    "bench.html": "bench.html",
    "embed.html": "embed.html",
    "reset.html": "reset.html",
    "recorded.trace": "recorded.trace",
    "src/styles/embed.css": "embed.css",
    "src/page/icon.svg": "icon.svg",
    "src/page/manifest.webmanifest": "manifest.webmanifest",
    "src/styles/page.css": "page.css",
  };
  for (const name of await fs.readdir(path.join(web, "src", "page", "icons"))) files[`src/page/icons/${name}`] = name;
  for (const [from, to] of Object.entries(files)) await fs.copyFile(path.join(web, from), path.join(dist, to));
  const late = await fs.readFile(path.join(web, "src", "styles", "late.css"));
  for (const name of ["page.css", "embed.css"]) await fs.appendFile(path.join(dist, name), late);
  const page = path.join(dist, "index.html");
  const links = preloaded.map((name) => `<link rel="modulepreload" href="${name}" />`).join("\n    ");
  const picture = flags.address ? new URL("og.png", flags.address).href : "og.png";
  await fs.writeFile(
    page,
    (await fs.readFile(page, "utf8"))
      .replace('<link rel="modulepreload" href="page.js" />', links)
      .replace('content="og.png"', `content="${picture}"`),
  );
  const licences = await Promise.all(
    Object.entries(LIBRARIES).map(async ([name, what]) => {
      const folder = path.join(web, "node_modules", name);
      const file = (await fs.readdir(folder)).find((one) => /^licen[cs]e/i.test(one));
      return `${what}:\n\n${await fs.readFile(path.join(folder, file), "utf8")}`;
    }),
  );
  await fs.writeFile(path.join(dist, "licenses.txt"), licences.join("\n\n"));
}

async function copyModels() {
  const from = path.join(root, "models", "demo");
  const to = path.join(dist, "models", "demo");
  await fs.mkdir(to, { recursive: true });
  const names = (await fs.readdir(from)).filter((name) => /\.(gguf|safetensors)$|^eagle3\.json$/.test(name));
  if (names.length < 4) throw new Error("web: models/demo lacks a file of the built-in pair or its EAGLE-3 head");
  for (const name of names) await fs.copyFile(path.join(from, name), path.join(to, name), constants.COPYFILE_FICLONE);
}

/** Writes compressed siblings, from a cache in node_modules for unchanged files. */
async function compress() {
  const cache = path.join(web, "node_modules", ".cache", "compressed");
  await fs.mkdir(cache, { recursive: true });
  const brotli = promisify(zlib.brotliCompress);
  const gzip = promisify(zlib.gzip);
  for (const name of await fs.readdir(dist)) {
    if (!/\.(html|js|css|svg|trace|txt|wasm|webmanifest)$/.test(name)) continue;
    const data = await fs.readFile(path.join(dist, name));
    const key = path.join(cache, createHash("sha256").update(data).digest("hex").slice(0, 32));
    // Quality 11 is slow for megabytes of WebAssembly and saves only a few per cent.
    const quality = data.byteLength > 1 << 20 ? 9 : 11;
    const params = {
      [zlib.constants.BROTLI_PARAM_QUALITY]: quality,
      [zlib.constants.BROTLI_PARAM_SIZE_HINT]: data.byteLength,
    };
    for (const [ext, make] of [
      [".br", () => brotli(data, { params })],
      [".gz", () => gzip(data, { level: 9 })],
    ]) {
      if (!(await exists(key + ext))) await fs.writeFile(key + ext, await make());
      await fs.writeFile(path.join(dist, name + ext), await fs.readFile(key + ext));
    }
  }
}

async function report() {
  const kb = (n) => `${(n / 1000).toFixed(1)} kB`;
  const size = async (file) => ((await exists(file)) ? (await fs.stat(file)).size : 0);
  console.log(`web: built ${path.relative(process.cwd(), dist) || "."}`);
  for (const name of (await fs.readdir(dist)).filter((n) => /\.(js|wasm)$/.test(n)).sort()) {
    const file = path.join(dist, name);
    console.log(
      `  ${name.padEnd(22)} ${kb(await size(file)).padStart(11)}  ` +
      `gzip ${kb(await size(`${file}.gz`)).padStart(10)}  br ${kb(await size(`${file}.br`)).padStart(10)}`,
    );
  }
}

async function exists(file) {
  return fs.access(file).then(
    () => true,
    () => false,
  );
}
