/** Writes the type declarations of entries: for the npm package, and beside the modules of the site. */
import { execFile } from "node:child_process";
import { promises as fs } from "node:fs";
import path from "node:path";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";

const run = promisify(execFile);
const web = path.dirname(fileURLToPath(import.meta.url));

/** Writes the declarations of entries, such as widget/element, and of their imports; `maps` adds maps to web/src. */
export async function writeTypes(to, entries, maps) {
  const out = path.join(web, "node_modules", ".cache", "types");
  await fs.rm(out, { recursive: true, force: true });
  await run(path.join(web, "node_modules", ".bin", "tsc"), ["-p", "tsconfig.package.json", "--outDir", out], {
    cwd: web,
  }).catch((cause) => {
    throw new Error(`web: declarations: ${cause.stdout || cause.message}`);
  });
  const from = path.join(out, "web", "src");
  const wanted = new Set(entries.map((entry) => `${entry}.d.ts`));
  for (const name of wanted) {
    const declarations = (await fs.readFile(path.join(from, name), "utf8"))
      .replace(/^import "foretoken:.*\n/gm, "\n")
      .replace(/^export { default as (\w+) } from ".+\.css";$/gm, "export declare const $1: string;");
    const text = declarations.replace(/((?:from|import)\s*\(?\s*")(\.{1,2}\/[^"]+)\.ts"/g, (_, before, file) => {
      wanted.add(path.posix.join(path.posix.dirname(name), `${file}.d.ts`));
      return `${before}${file}.js"`;
    });
    await fs.mkdir(path.dirname(path.join(to, name)), { recursive: true });
    await fs.writeFile(path.join(to, name), maps ? text : text.replace(/^\/\/# sourceMappingURL=.*\n?/m, ""));
    if (!maps) continue;
    const map = JSON.parse(await fs.readFile(path.join(from, `${name}.map`), "utf8"));
    map.sources = [
      path.relative(path.dirname(path.join(to, name)), path.join(web, "src", name.replace(/\.d\.ts$/, ".ts"))),
    ];
    await fs.writeFile(path.join(to, `${name}.map`), JSON.stringify(map));
  }
}
