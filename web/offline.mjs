/** Builds the service worker of a site, with the hashes of the site's files. */
import { createHash } from "node:crypto";
import { promises as fs } from "node:fs";
import path from "node:path";
import { build } from "esbuild";

const CACHED = /\.(html|js|css|svg|png|webmanifest|txt|wasm|gguf|safetensors|json|trace)$/;
/** Files that always come from the server: the service worker, the page that removes it, and the previews' picture. */
const DIRECT = ["sw.js", "reset.html", "reset.js", "og.png"];
const hashOf = (data) => createHash("sha256").update(data).digest("hex").slice(0, 24);

/**
 * Writes sw.js into `dist`, and the build's hash into index.html. All other files must exist. Tests pass a
 * `navigationTimeout` that no machine exceeds.
 */
export async function offline(web, dist, navigationTimeout = 3000) {
  const names = (await fs.readdir(dist)).filter((name) => CACHED.test(name) && !DIRECT.includes(name));
  for (const name of await fs.readdir(path.join(dist, "models", "demo"))) names.push(`models/demo/${name}`);
  names.sort();
  const index = path.join(dist, "index.html");
  const hashes = {};
  for (const name of names) hashes[name] = hashOf(await fs.readFile(path.join(dist, name)));
  const id = hashOf(JSON.stringify(hashes));
  await fs.writeFile(
    index,
    (await fs.readFile(index, "utf8")).replace(
      '<meta name="foretoken-build" content="" />',
      `<meta name="foretoken-build" content="${id}" />`,
    ),
  );
  hashes["index.html"] = hashOf(await fs.readFile(index));
  await build({
    absWorkingDir: web,
    entryPoints: { sw: "src/page/service-worker.ts" },
    outdir: dist,
    bundle: true,
    minify: true,
    format: "iife",
    target: ["es2022", "chrome120", "firefox128", "safari17.5"],
    define: {
      BUILD: JSON.stringify(id),
      FILES: JSON.stringify(hashes),
      NAVIGATION_TIMEOUT: JSON.stringify(navigationTimeout),
    },
  });
}
