/**
 * Builds the examples as their READMEs say, each in a folder of its own under build/_examples, so that nothing of
 * it lies among the sources; `node docs/examples/build.mjs plain vitepress` builds those alone.
 *
 * The result of NAME is in build/_examples/out/NAME. An example whose tool is not there is left out, and named.
 */
import { execFile } from "node:child_process";
import { promises as fs } from "node:fs";
import path from "node:path";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";

const here = path.dirname(fileURLToPath(import.meta.url));
const root = path.dirname(path.dirname(here));
// The underscore keeps Go's tools out of what npm puts there.
const work = path.join(root, "build", "_examples");
export const out = path.join(work, "out");

/**
 * Where each tool wants files that it copies as they are, how it is run, and what it leaves: one page in its folder, or
 * those of `pages`.
 */
const EXAMPLES = {
  plain: { files: "foretoken", result: "." },
  mkdocs: { files: "docs/foretoken", command: ["mkdocs", "build", "--quiet", "--strict"], result: "site" },
  vitepress: { files: "public/foretoken", npm: true, result: ".vitepress/dist" },
  docusaurus: { files: "static/foretoken", npm: true, result: "build" },
  frameworks: { files: "public/foretoken", npm: true, result: "dist", pages: ["react/", "vue/", "svelte/"] },
  nextjs: { files: "public/foretoken", npm: true, result: "out" },
  extension: { files: "foretoken", result: "." },
};

export const NAMES = Object.keys(EXAMPLES);

/** The folders of the pages of an example, relative to its result. */
export const pagesOf = (name) => EXAMPLES[name].pages ?? [""];

const run = (folder, command, ...args) =>
  promisify(execFile)(command, args, {
    cwd: folder,
    maxBuffer: 1 << 26,
    env: {
      ...process.env,
      DISABLE_VERSION_CHECK: "1",
      DOCUSAURUS_NO_DUPLICATE_TITLE_WARNING: "1",
      NEXT_TELEMETRY_DISABLED: "1",
    },
  });

/** Builds one; false where its tool is missing. */
export async function build(name) {
  const { files, command, npm, result } = EXAMPLES[name];
  if (command && !(await run(root, command[0], "--version").catch(() => undefined))) return false;
  const folder = path.join(work, name);
  await fs.mkdir(folder, { recursive: true });
  // node_modules stays while the lock file is the same.
  const lock = npm ? await fs.readFile(path.join(here, name, "package-lock.json"), "utf8") : "";
  const builtFrom = path.join(folder, "node_modules", ".built-from");
  const installed = npm && (await fs.readFile(builtFrom, "utf8").catch(() => "")) === lock;
  for (const entry of await fs.readdir(folder))
    if (!(installed && entry === "node_modules")) await fs.rm(path.join(folder, entry), { recursive: true });
  await fs.cp(path.join(here, name), folder, { recursive: true });
  await fs.cp(path.join(root, "build", "widget"), path.join(folder, files), { recursive: true });
  if (npm) {
    if (!installed) {
      await run(folder, "npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error");
      await fs.writeFile(path.join(folder, "node_modules", ".built-from"), lock);
    }
    await run(folder, "npm", "run", "--silent", "build");
  } else if (command) await run(folder, ...command);
  const to = path.join(out, name);
  await fs.rm(to, { recursive: true, force: true });
  await fs.cp(path.join(folder, result), to, { recursive: true });
  return true;
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  for (const name of process.argv.length > 2 ? process.argv.slice(2) : NAMES) {
    if (!EXAMPLES[name]) throw new Error(`examples: ${name} is none of ${NAMES.join(", ")}`);
    const start = Date.now();
    const built = await build(name).catch((cause) => {
      throw new Error(`examples: ${name}: ${String(cause.stderr || cause.stdout || cause.message).trim()}`);
    });
    const seconds = ((Date.now() - start) / 1000).toFixed(1);
    console.log(`examples: ${name}: ${built ? `built in ${seconds} s` : "left out: its tool is not installed"}`);
  }
}
