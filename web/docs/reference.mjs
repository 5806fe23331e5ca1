/**
 * Generates the reference as Markdown: TypeDoc reads the JavaScript API from web/src, and web/docs/godoc reads the Go
 * packages. Both are cached in node_modules until a source changes, and are not in the repository.
 */
import { execFile } from "node:child_process";
import { createHash } from "node:crypto";
import { promises as fs } from "node:fs";
import path from "node:path";
import { promisify } from "node:util";

const run = promisify(execFile);

/**
 * Returns pages as { file, page, text }: relative links in the text start from `file`, and `page` is the address on the
 * site.
 */
export async function reference(root) {
  const [js, go] = await Promise.all([javascript(root), packages(root)]);
  return [...js, ...go];
}

async function javascript(root) {
  const here = path.join(root, "web", "docs");
  const sources = await list(path.join(root, "web", "src"), (name) => /\.(ts|css)$/.test(name));
  const settings = ["reference.mjs", "package.json", "tsconfig.json"].map((name) => path.join(here, name));
  return cached("js", [...sources, ...settings, path.join(root, "web", "tsconfig.json")], here, async () => {
    const { Application } = await import("typedoc");
    const out = path.join(here, "node_modules", ".cache", "typedoc");
    const app = await Application.bootstrapWithPlugins({
      plugin: ["typedoc-plugin-markdown"],
      entryPoints: [path.join(root, "web", "src", "foretoken.ts")],
      tsconfig: path.join(here, "tsconfig.json"),
      name: "JavaScript API",
      readme: "none",
      router: "member",
      excludePrivate: true,
      excludeInternal: true,
      excludeExternals: true,
      disableSources: true,
      // `npm run typecheck` checks the sources, with a newer compiler than TypeDoc's.
      skipErrorChecking: true,
      logLevel: "Error",
      hideBreadcrumbs: true,
      hidePageHeader: true,
      interfacePropertiesFormat: "table",
      propertyMembersFormat: "table",
      parametersFormat: "table",
      typeDeclarationFormat: "table",
      useCodeBlocks: true,
    });
    const project = await app.convert();
    if (!project) throw new Error("docs: TypeDoc could not read web/src/foretoken.ts");
    await app.outputs.writeOutput({ name: "markdown", path: out }, project);
    const files = await list(out, (name) => name.endsWith(".md"));
    return Promise.all(
      files.map(async (file) => {
        const name = path
          .relative(out, file)
          .replaceAll(path.sep, "/")
          .replace(/^README\.md$/, "index.md");
        const text = (await fs.readFile(file, "utf8")).replaceAll("README.md", "index.md");
        return { file: `js/${name}`, page: `js/${name.replace(/\.md$/, ".html")}`, text };
      }),
    );
  });
}

async function packages(root) {
  const here = path.join(root, "web", "docs");
  const skip = new Set(["web", "cmd", "wasm", "docs", "build", "node_modules", "testdata", ".git"]);
  const sources = await list(root, (name) => name.endsWith(".go") && !name.endsWith("_test.go"), skip);
  return cached(
    "go",
    [...sources, path.join(here, "godoc", "main.go"), path.join(here, "reference.mjs")],
    here,
    async () => {
      const { stdout } = await run("go", ["run", "./web/docs/godoc", "-root", root], {
        cwd: root,
        maxBuffer: 64 << 20,
      });
      const pages = JSON.parse(stdout);
      const rows = pages.map((p) => `| [${p.path}](${p.file}.md) | ${p.synopsis.replaceAll("|", "\\|")} |`);
      const index =
        "# Go packages\n\nGenerated from the comments of the sources. Start with [foretoken](foretoken.md): " +
        "Open returns a Session, and Session.Generate decodes.\n\n" +
        `| package | |\n|---|---|\n${rows.join("\n")}\n`;
      return [
        { file: "go/index.md", page: "go/index.html", text: index },
        ...pages.map((p) => ({ file: `go/${p.file}.md`, page: `go/${p.file}.html`, text: p.markdown })),
      ];
    },
  );
}

/** Returns the result of `make`, cached by the contents of the inputs. */
async function cached(name, inputs, here, make) {
  const sum = createHash("sha256");
  for (const file of inputs.toSorted()) sum.update(file).update(await fs.readFile(file));
  const place = path.join(here, "node_modules", ".cache", `reference-${name}.json`);
  const key = sum.digest("hex");
  try {
    const old = JSON.parse(await fs.readFile(place, "utf8"));
    if (old.key === key) return old.pages;
  } catch {
    // Not cached yet.
  }
  const pages = await make();
  await fs.mkdir(path.dirname(place), { recursive: true });
  await fs.writeFile(place, JSON.stringify({ key, pages }));
  return pages;
}

async function list(folder, wanted, skip = new Set()) {
  const found = [];
  for (const entry of await fs.readdir(folder, { withFileTypes: true })) {
    const place = path.join(folder, entry.name);
    if (entry.isDirectory() && !skip.has(entry.name)) found.push(...(await list(place, wanted, skip)));
    else if (entry.isFile() && wanted(entry.name)) found.push(place);
  }
  return found.sort();
}
