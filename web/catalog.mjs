/**
 * The catalog of methods, settings and models, printed by the Go program: only Go defines names, settings and defaults,
 * and it refuses a bad entry of models/catalog.json. Bundles import the methods and the bounds of settings as
 * "foretoken:catalog", the table of settings, which forms alone need, as "foretoken:settings", and the models as
 * "foretoken:models".
 */
import { execFile } from "node:child_process";
import path from "node:path";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";

const root = path.dirname(path.dirname(fileURLToPath(import.meta.url)));
let printed;

/** An esbuild plugin that resolves all of them. */
export const catalog = {
  name: "catalog",
  setup(build) {
    const filter = /^foretoken:(catalog|settings|models)$/;
    build.onResolve({ filter }, ({ path }) => ({ path: path.slice("foretoken:".length), namespace: "foretoken" }));
    build.onLoad({ filter: /.*/, namespace: "foretoken" }, async ({ path }) => {
      printed ??= promisify(execFile)("go", ["run", "./wasm"], {
        cwd: root,
        env: { ...process.env, GOOS: "", GOARCH: "" },
      });
      const { settings, models, ...methods } = JSON.parse((await printed).stdout);
      const limits = settings.filter(({ least, most }) => most > least);
      methods.limits = limits.map(({ name, least, most, zero }) => ({ name, least, most, zero }));
      // Rows without a label are in no form, which needs their names alone; the rest is the command line's.
      const forms = settings.map(({ flag, api, object, ...row }) =>
        row.label ? row : { name: row.name, group: row.group },
      );
      const contents = { settings: forms, models, catalog: methods }[path];
      return { contents: JSON.stringify(contents), loader: "json" };
    });
  },
};
