/**
 * Bundles the unit tests, because Node 20 does not run TypeScript, and runs them with the tests of web/peers and of
 * web/test/schemas.
 */
import { spawnSync } from "node:child_process";
import { promises as fs } from "node:fs";
import path from "node:path";
import { fileURLToPath } from "node:url";
import { build } from "esbuild";
import { catalog } from "../catalog.mjs";
import { examples } from "../examples.mjs";
import { alias } from "../libraries.mjs";

const web = path.dirname(path.dirname(fileURLToPath(import.meta.url)));
const outdir = path.join(web, "node_modules", ".cache", "unit");
await fs.rm(outdir, { recursive: true, force: true });
const names = (await fs.readdir(path.join(web, "test", "unit"))).filter((name) => name.endsWith(".test.ts"));
await build({
  absWorkingDir: web,
  entryPoints: names.map((name) => `test/unit/${name}`),
  outdir,
  outExtension: { ".js": ".mjs" },
  bundle: true,
  platform: "node",
  format: "esm",
  target: "node20",
  plugins: [catalog, examples],
  alias,
  loader: { ".css": "text", ".trace": "binary" },
  sourcemap: "inline",
});
const files = names.map((name) => path.join(outdir, name.replace(/\.ts$/, ".mjs")));
files.push(path.join(web, "peers", "unit.test.mjs"));
for (const name of ["fuzz", "generators"]) files.push(path.join(web, "test", "schemas", `${name}.test.mjs`));
const { status } = spawnSync(process.execPath, ["--enable-source-maps", "--test", ...files], { stdio: "inherit" });
process.exit(status ?? 1);
