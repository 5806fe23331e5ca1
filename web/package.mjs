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
    },
    splitting: true,
    chunkNames: "chunk-[hash]",
  }),
  // Without chunks: service workers have no dynamic imports, and a worker of one file can be copied anywhere.
  build({ ...options, entryPoints: { "in-place": "src/in-place.ts", worker: "src/worker/package-worker.ts" } }),
  types(),
  fs.copyFile(path.join(dist, "foretoken.wasm"), path.join(lib, "foretoken.wasm")),
  fs.cp(path.join(dist, "models"), path.join(lib, "models"), { recursive: true }),
  fs.copyFile(path.join(dist, "licenses.txt"), path.join(lib, "licenses.txt")),
  ...["LICENSE", "NOTICE"].map((name) => fs.copyFile(path.join(root, name), path.join(web, name))),
]);

/** Writes the type declarations of the entries, with source maps to src/. */
async function types() {
  const out = path.join(web, "node_modules", ".cache", "types");
  const to = path.join(lib, "types");
  await fs.rm(out, { recursive: true, force: true });
  await run(path.join(web, "node_modules", ".bin", "tsc"), ["-p", "tsconfig.package.json", "--outDir", out], {
    cwd: web,
  }).catch((cause) => {
    throw new Error(`web: declarations: ${cause.stdout || cause.message}`);
  });
  const from = path.join(out, "web", "src");
  const wanted = new Set(["foretoken.d.ts", "api.d.ts", "in-place.d.ts", "widget/element.d.ts", "player/player.d.ts"]);
  for (const name of wanted) {
    const declarations = (await fs.readFile(path.join(from, name), "utf8")).replace(/^import "foretoken:.*\n/gm, "\n");
    const text = declarations.replace(/((?:from|import)\s*\(?\s*")(\.{1,2}\/[^"]+)\.ts"/g, (_, before, file) => {
      wanted.add(path.posix.join(path.posix.dirname(name), `${file}.d.ts`));
      return `${before}${file}.js"`;
    });
    await fs.mkdir(path.dirname(path.join(to, name)), { recursive: true });
    await fs.writeFile(path.join(to, name), text);
    const map = JSON.parse(await fs.readFile(path.join(from, `${name}.map`), "utf8"));
    map.sources = [
      path.relative(path.dirname(path.join(to, name)), path.join(web, "src", name.replace(/\.d\.ts$/, ".ts"))),
    ];
    await fs.writeFile(path.join(to, `${name}.map`), JSON.stringify(map));
  }
}
