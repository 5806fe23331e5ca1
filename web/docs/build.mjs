/**
 * Builds the documentation into web/dist/docs: docs/*.md and the reference as static pages. Runs after web/build.mjs,
 * which empties web/dist. Broken links are errors.
 *
 *   --out DIR   another output folder, for tests
 */
import { promises as fs, statSync } from "node:fs";
import path from "node:path";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";
import { build as bundle, transform } from "esbuild";
import { deadLinks } from "./links.mjs";
import { renderer } from "./markdown.mjs";
import { ELSEWHERE, SECTIONS, SHORT } from "./pages.mjs";
import { reference } from "./reference.mjs";
import { frame } from "./template.mjs";
import { withoutMarks } from "../../scripts/reports.mjs";

const here = path.dirname(fileURLToPath(import.meta.url));
const root = path.dirname(path.dirname(here));

/** The pages of the JavaScript API that its menu lists. */
const MENU =
  /^js\/(classes|functions|interfaces\/(Foretoken|Engine|Generation|Conversation|LoadOptions|GenerateOptions)\.)/;

/** Builds the site into `out` and returns the number of pages. */
export async function build(out = path.join(root, "web", "dist", "docs")) {
  const sources = await read();
  const pageByFile = new Map(sources.map(({ file, page }) => [file, page]));
  const assets = new Map();
  const render = renderer({
    pageOf: (file) => pageByFile.get(file),
    assetOf(file) {
      // A folder has no page, so its name gets no link.
      if (statSync(path.join(root, file), { throwIfNoEntry: false })?.isDirectory()) return undefined;
      const as = file.endsWith(".go") ? `${file}.txt` : file; // no package of this module; browsers show it
      const place = as.startsWith("docs/") ? as.slice("docs/".length) : `files/${as}`;
      assets.set(place, path.join(root, file));
      return place;
    },
  });
  const pages = sources.map((source) => ({
    ...source,
    ...render(source.text, {
      file: source.file,
      page: source.page,
      root,
      generated: source.generated,
      language: source.page.startsWith("go/") ? "go" : "",
    }),
  }));

  const files = new Map([
    ["docs.css", await styles()],
    ["docs.js", await script()],
    ["search.json", JSON.stringify(searchable(pages))],
  ]);
  for (const [place, from] of assets) {
    const data = await fs.readFile(from).catch(() => undefined);
    if (!data) throw new Error(`docs: a page links to ${path.relative(root, from)}, which does not exist`);
    files.set(place, data);
  }
  const html = frames(pages);
  const dead = deadLinks(html, new Set(files.keys()), new Set(["../index.html", "../icon.svg", "../bench.html"]));
  if (dead.length) throw new Error(`docs: ${dead.length} broken links:\n  ${dead.join("\n  ")}`);

  await fs.rm(out, { recursive: true, force: true });
  for (const [place, data] of [...html, ...files]) {
    await fs.mkdir(path.dirname(path.join(out, place)), { recursive: true });
    await fs.writeFile(path.join(out, place), data);
  }
  return html.size;
}

/** Reads all Markdown: { file, page, text, generated }. */
async function read() {
  const sources = [];
  const add = async (file, page) =>
    sources.push({ file, page, text: await fs.readFile(path.join(root, file), "utf8"), generated: false });
  for (const name of SECTIONS.flatMap(({ pages }) => pages))
    await add(ELSEWHERE[name] ?? `docs/${name}.md`, `${name}.html`);
  // Pages that no section lists go to the end of the last section.
  const listed = new Set(sources.map(({ file }) => file));
  for (const name of (await fs.readdir(path.join(root, "docs"))).sort()) {
    if (!name.endsWith(".md") || listed.has(`docs/${name}`)) continue;
    await add(`docs/${name}`, name.replace(/\.md$/, ".html"));
    SECTIONS.at(-1).pages.push(name.replace(/\.md$/, ""));
  }
  for (const source of sources) source.text = withoutMarks(source.text);
  for (const page of await reference(root)) sources.push({ ...page, generated: true });
  return sources;
}

/** Returns the complete HTML of every page by address. */
function frames(pages) {
  const byPage = new Map(pages.map((page) => [page.page, page]));
  const entry = (page) => ({ page, title: SHORT[page.replace(/\.html$/, "")] ?? byPage.get(page).title });
  const sections = SECTIONS.map(({ title, pages: names }) => ({
    title,
    links: names.map((name) => entry(`${name}.html`)),
  }));
  const order = sections.flatMap(({ links }) => links);
  const references = {
    title: "Reference",
    links: [
      { page: "js/index.html", title: "JavaScript API" },
      { page: "go/index.html", title: "Go packages" },
    ],
  };
  const html = new Map();
  for (const page of pages) {
    const at = order.findIndex((link) => link.page === page.page);
    const neighbours = at < 0 ? {} : { before: order[at - 1], after: order[at + 1] };
    const links = [...references.links];
    // Within a part of the reference, list the pages of that part; for JavaScript only a selection.
    if (page.page.startsWith("go/"))
      for (const other of pages)
        if (other.page.startsWith("go/") && other.page !== "go/index.html")
          links.push({ page: other.page, title: other.title.replace("package ", "") });
    if (page.page.startsWith("js/"))
      for (const other of pages)
        if (MENU.test(other.page))
          links.push({ page: other.page, title: other.title.replace(/^\w+: /, "") });
    html.set(
      page.page,
      frame(page, [...sections.slice(0, 3), { ...references, links }, ...sections.slice(3)], neighbours),
    );
  }
  return html;
}

/**
 * Returns the search index: every section of written pages with its text, and names and first lines of the reference.
 */
function searchable(pages) {
  const found = [];
  for (const page of pages) {
    for (const { id, title, text } of page.sections) {
      const short = page.generated ? text.slice(0, 160) : text;
      if (!title && !short.trim() && id) continue;
      found.push({
        id: found.length,
        to: id ? `${page.page}#${id}` : page.page,
        page: page.title,
        title,
        text: short.trim(),
      });
    }
  }
  return found;
}

/** Returns the styles of the documentation, with the colours of the page. */
async function styles() {
  const page = await fs.readFile(path.join(root, "web", "src", "styles", "page.css"), "utf8");
  const palette = /:root\s*\{[^}]*\}/.exec(page);
  if (!palette) throw new Error("docs: web/src/styles/page.css has no :root with the colours");
  const own = await fs.readFile(path.join(here, "src", "docs.css"), "utf8");
  return (await transform(`${palette[0]}\n${own}`, { loader: "css", minify: true })).code;
}

async function script() {
  const { outputFiles } = await bundle({
    entryPoints: [path.join(here, "src", "search.ts")],
    bundle: true,
    format: "esm",
    minify: true,
    write: false,
    target: ["es2022", "chrome120", "firefox128", "safari17.5"],
    legalComments: "none",
  });
  return outputFiles[0].text;
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const { values } = parseArgs({ options: { out: { type: "string" } } });
  const began = performance.now();
  const count = await build(values.out);
  console.log(`docs: ${count} pages in ${((performance.now() - began) / 1000).toFixed(1)} s`);
}
