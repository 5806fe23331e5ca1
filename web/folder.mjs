/**
 * Copies what a page with the widget, the players or the API needs from the site into a folder, without the page, its
 * documentation and what these load, and lists the files in it.
 */
import { constants, promises as fs } from "node:fs";
import path from "node:path";

/** The files besides the modules, and what they are for. */
const FILES = [
  [["worker.js", "wasm_exec.js", "foretoken.wasm"], "the engine; loaded at the first use"],
  [["foretoken.wasm.br", "foretoken.wasm.gz"], "fetched instead, where the server compresses nothing; can be left out"],
  [
    ["models/demo/target-q8_0.gguf", "models/demo/draft-q8_0.gguf"],
    "the built-in pair; can be left out where every tag and every call names a target",
  ],
  [
    ["models/demo/eagle3.safetensors", "models/demo/eagle3.json"],
    'for eagle3="builtin" and BUILTIN_HEAD alone; can be left out otherwise',
  ],
  [["embed.html", "embed.css", "embed.js"], "the widget as a page, for frames on other sites; can be left out"],
  [["licenses.txt"], "the licences of the libraries"],
];

/** Writes the folder; `entries` has the purposes of the modules for pages, and `modules` are all that they load. */
export async function widgetFolder(dist, to, entries, modules) {
  const types = (await fs.readdir(dist)).filter((name) => name.endsWith(".d.ts"));
  const groups = [
    ...Object.entries(entries).map(([name, purpose]) => [[name], purpose]),
    [modules.filter((name) => name.startsWith("chunk-")), "loaded by these when they need them"],
    ...FILES,
    [[...types, "types"], "the types of these modules, for TypeScript; can be left out"],
  ];
  await fs.rm(to, { recursive: true, force: true });
  const lines = [];
  for (const [names, purpose] of groups) {
    let size = 0;
    const there = [];
    for (const name of names) {
      const from = path.join(dist, name);
      // Quick builds are not compressed.
      if (/\.(br|gz)$/.test(name) && !(await fs.stat(from).catch(() => undefined))) continue;
      await fs.cp(from, path.join(to, name), { recursive: true, mode: constants.COPYFILE_FICLONE });
      size += await sizeOf(from);
      there.push(name);
    }
    const listed = [...new Set(there.map((name) => name.replace(/^chunk-.*/, "chunk-*.js")))].join(", ");
    if (listed) lines.push(`${listed}\n    ${(size / 1000).toFixed(1)} kB: ${purpose}`);
  }
  const title = "What a page with Foretoken's widget, players or API needs; serve it from one folder, under any path.";
  await fs.writeFile(path.join(to, "FILES.txt"), `${title}\n\n${lines.join("\n\n")}\n`);
}

async function sizeOf(name) {
  const stat = await fs.stat(name);
  if (!stat.isDirectory()) return stat.size;
  const names = await fs.readdir(name);
  return (await Promise.all(names.map((one) => sizeOf(path.join(name, one))))).reduce((a, b) => a + b, 0);
}
