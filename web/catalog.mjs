/**
 * The catalog of methods, printed by the Go program. Bundles import it as "foretoken:catalog", so only Go defines
 * names, settings and defaults.
 */
import { execFile } from "node:child_process";
import path from "node:path";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";

const root = path.dirname(path.dirname(fileURLToPath(import.meta.url)));
let printed;

/** An esbuild plugin that resolves "foretoken:catalog". */
export const catalog = {
  name: "catalog",
  setup(build) {
    build.onResolve({ filter: /^foretoken:catalog$/ }, () => ({ path: "catalog", namespace: "foretoken" }));
    build.onLoad({ filter: /.*/, namespace: "foretoken" }, async () => {
      printed ??= promisify(execFile)("go", ["run", "./wasm"], {
        cwd: root,
        env: { ...process.env, GOOS: "", GOARCH: "" },
      });
      return { contents: (await printed).stdout, loader: "json" };
    });
  },
};
