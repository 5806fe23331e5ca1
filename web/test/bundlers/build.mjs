/**
 * Builds src with a bundler at its defaults: node build.mjs webpack production. The result is in out/MODE/BUNDLER.
 * Vite's and Parcel's development builds are servers: their address is printed, and they run until standard input ends.
 */
import { spawn } from "node:child_process";
import { once } from "node:events";
import { promises as fs } from "node:fs";
import path from "node:path";

const here = import.meta.dirname;
const [name, mode] = process.argv.slice(2);
const out = path.join(here, "out", mode, name);
const library = path.join(here, "node_modules", "foretoken", "lib");
const entries = { main: "./src/main.js", own: "./src/own.js" };

/** webpack's configuration, which Rspack has too. */
async function pack(compile) {
  const stats = await new Promise((resolve, reject) =>
    compile({ mode, context: here, entry: "./src/main.js", output: { path: out } }, (error, stats) =>
      error ? reject(error) : resolve(stats),
    ),
  );
  if (stats.hasErrors()) throw new Error(stats.toString({ all: false, errors: true }));
  await page();
}

/** Writes the page of bundlers that take scripts. */
const page = () => fs.copyFile(path.join(here, "src", "index.html"), path.join(out, "index.html"));

/** Copies what bundlers that keep `new URL("…", import.meta.url)` as it is leave out. */
async function copyBeside() {
  for (const file of ["worker.js", "foretoken.wasm", "models"])
    await fs.cp(path.join(library, file), path.join(out, file), { recursive: true });
}

/** Parcel's, which has no API of one line. */
async function parcel(...args) {
  const command = path.join(here, "node_modules", ".bin", "parcel");
  const child = spawn(command, [...args, "--no-cache"], { cwd: here, stdio: ["ignore", "pipe", "pipe"] });
  process.once("exit", () => child.kill());
  let output = "";
  for (const stream of [child.stdout, child.stderr]) stream.on("data", (data) => (output += data));
  const ended = once(child, "exit").then(([code]) => {
    if (code !== 0) throw new Error(`parcel: ${output}`);
  });
  return { ended, output: () => output };
}

/** Keeps a server until the test has what it wants. */
async function serve(address) {
  console.log(address);
  process.stdin.resume();
  await once(process.stdin, "end");
  process.exit();
}

const BUNDLERS = {
  webpack: async () => pack((await import("webpack")).default),
  rspack: async () => pack((await import("@rspack/core")).rspack),
  async rollup() {
    const [{ rollup }, { nodeResolve }] = await Promise.all([import("rollup"), import("@rollup/plugin-node-resolve")]);
    const bundle = await rollup({ input: entries, plugins: [nodeResolve({ browser: true })] });
    await bundle.write({ dir: out, format: "es", sourcemap: mode === "development" });
    await copyBeside();
    await page();
  },
  async esbuild() {
    const { build } = await import("esbuild");
    await build({
      absWorkingDir: here,
      entryPoints: Object.values(entries),
      outdir: out,
      bundle: true,
      format: "esm",
      splitting: mode === "production",
      minify: mode === "production",
    });
    await copyBeside();
    await page();
  },
  async parcel() {
    if (mode === "production") return (await parcel("build", "src/index.html", "--dist-dir", out)).ended;
    const port = 40000 + (process.pid % 20000);
    const { ended, output } = await parcel("serve", "src/index.html", "--dist-dir", out, "--port", String(port));
    while (!/Built in/.test(output())) await Promise.race([ended, new Promise((resolve) => setTimeout(resolve, 100))]);
    await serve(`http://localhost:${port}/`);
  },
  async vite() {
    const { build, createServer } = await import("vite");
    const root = path.join(here, "src");
    const options = { root, configFile: false, logLevel: "warn" };
    if (mode === "production") return build({ ...options, build: { outDir: out } });
    const server = await createServer(options);
    await server.listen();
    await serve(server.resolvedUrls.local[0]);
  },
};

await fs.rm(out, { recursive: true, force: true });
await BUNDLERS[name]();
