/**
 * Builds lib/, the contents of the npm package, from src/ and the site's foretoken.wasm. Run `npm run build` first,
 * then `npm pack`, which runs this script. Files resolve each other relative to themselves, so any server can serve
 * them.
 */
import { execFile } from "node:child_process";
import { promises as fs } from "node:fs";
import path from "node:path";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { build, transform } from "esbuild";
import { catalog } from "./catalog.mjs";
import { examples } from "./examples.mjs";
import { alias } from "./libraries.mjs";
import { writeTypes } from "./types.mjs";

const run = promisify(execFile);
const web = path.dirname(fileURLToPath(import.meta.url));
const root = path.dirname(web);
const dist = path.join(web, "dist");
const lib = path.join(web, "lib");

const styles = {
  name: "styles",
  setup(build) {
    build.onLoad({ filter: /\.css$/ }, async ({ path: file }) => ({
      contents: (await transform(await fs.readFile(file, "utf8"), { loader: "css", minify: true })).code,
      loader: "text",
    }));
  },
};

/** Resolves wasm_exec.js from the installed compiler, because it must match the compiler. */
const support = {
  name: "support",
  setup(build) {
    build.onResolve({ filter: /^foretoken:wasm_exec$/ }, async () => {
      const { stdout } = await run("go", ["env", "GOROOT"], { cwd: root });
      return { path: path.join(stdout.trim(), "lib", "wasm", "wasm_exec.js"), sideEffects: true };
    });
  },
};

await fs.access(path.join(dist, "foretoken.wasm")).catch(() => {
  throw new Error("web: dist/foretoken.wasm is missing: build the site first (npm run build)");
});
await fs.rm(lib, { recursive: true, force: true });
await fs.mkdir(lib, { recursive: true });
const options = {
  absWorkingDir: web,
  outdir: lib,
  bundle: true,
  format: "esm",
  target: ["es2022", "chrome120", "firefox128", "safari17.5"],
  minify: true,
  sourcemap: true,
  legalComments: "eof",
  plugins: [catalog, examples, styles, support],
  alias,
  define: { "process.env.NODE_ENV": '"production"' },
};
await Promise.all([
  build({
    ...options,
    entryPoints: {
      foretoken: "src/foretoken.ts",
      api: "src/api.ts",
      widget: "src/widget/element.ts",
      player: "src/player/player.ts",
      react: "src/react.ts",
    },
    external: ["react"],
    splitting: true,
    chunkNames: "chunk-[hash]",
  }),
  // Without chunks: service workers have no dynamic imports, and a worker of one file can be copied anywhere.
  build({ ...options, entryPoints: { "in-place": "src/in-place.ts", worker: "src/worker/package-worker.ts" } }),
  writeTypes(
    path.join(lib, "types"),
    ["foretoken", "api", "in-place", "widget/element", "player/player", "react"],
    true,
  ),
  fs.copyFile(path.join(dist, "foretoken.wasm"), path.join(lib, "foretoken.wasm")),
  fs.cp(path.join(dist, "models"), path.join(lib, "models"), { recursive: true }),
  fs.copyFile(path.join(dist, "licenses.txt"), path.join(lib, "licenses.txt")),
  ...["LICENSE", "NOTICE"].map((name) => fs.copyFile(path.join(root, name), path.join(web, name))),
]);
