/**
 * Tests the examples of README.md, docs/*.md and the folders' DECISIONS.md: runs commands, checks code, and loads
 * pages. docs/contributing.md describes the kinds of blocks.
 */
import assert from "node:assert/strict";
import { promises as fs } from "node:fs";
import path from "node:path";
import { after, before, describe, test } from "node:test";
import { fileURLToPath } from "node:url";
import { blocksOf } from "./blocks.mjs";
import { Session, workshop } from "./shell.mjs";
import { checkGo, checkTypes } from "./snippets.mjs";
import { commandsOf, complaint, testsOf } from "./text.mjs";
import { openSite, tryPage } from "./browser.mjs";
import { ELSEWHERE } from "../pages.mjs";
import { pictures } from "../pictures.mjs";
import { limit } from "../../test/site.mjs";
import { pages as reported } from "../../../scripts/reports.mjs";

const root = path.dirname(path.dirname(path.dirname(path.dirname(fileURLToPath(import.meta.url)))));
const names = [
  "README.md",
  ...Object.values(ELSEWHERE).filter((name) => name.endsWith("DECISIONS.md")),
  ...(await fs.readdir(path.join(root, "docs"))).filter((name) => name.endsWith(".md")).map((name) => `docs/${name}`),
];
const pages = await Promise.all(
  names.map(async (name) => {
    const text = await fs.readFile(path.join(root, name), "utf8");
    return { name, text, ...blocksOf(text) };
  }),
);
/** Returns the file that a block quotes: `go of=spec/tree.go`. */
const quoted = ({ info }) => info.find((word) => word.startsWith("of="))?.slice(3);
const all = (...languages) =>
  pages.flatMap(({ name, blocks }) =>
    blocks
      .filter(({ language }) => languages.includes(language))
      .map((block) => ({ ...block, name: `${name}:${block.line}` })),
  );

describe("documentation", { concurrency: 3 }, () => {
  let shop;
  before(async () => (shop = await workshop(root)), limit);
  after(() => shop?.stop());

  test("every block has a known language", () => {
    const known = new Set(["sh", "ts", "tsx", "js", "go", "wgsl", "jsx", "vue", "svelte", "html", "json", "text"]);
    const wrong = pages.flatMap(({ name, blocks }) =>
      blocks
        .filter(({ language }) => !known.has(language))
        .map(
          ({ line, language }) =>
            `${name}:${line}: ` +
            (language ? `unknown kind of block: ${language}` : "a block without a language, or indented"),
        ),
    );
    assert.deepEqual(wrong, []);
  });

  test("the pictures of how it works are those of the recorded runs", async () => {
    for (const [name, picture] of await pictures())
      assert.equal(await fs.readFile(path.join(root, "docs", name), "utf8"), picture, `${name}: make pictures`);
  });

  test("text blocks contain no commands", () => {
    const command = /^\s*(\$ |[A-Z_]+=\S+ )*(foretoken|go|make|npm|npx|node|curl)\s/m;
    assert.deepEqual(
      all("text")
        .filter(({ text }) => command.test(text))
        .map(({ name }) => name),
      [],
    );
  });

  describe("commands", { concurrency: 2 }, () => {
    for (const { name, text, blocks } of pages) {
      const shell = blocks.filter(({ language }) => language === "sh");
      if (!shell.length) continue;
      test(name, limit, async () => {
        const session = new Session(shop, path.basename(name));
        await session.open(text);
        try {
          for (const block of shell) {
            const place = `${name}:${block.line}`;
            if (block.info.includes("serve")) {
              await session.serve(block.text.replace(/ +#.*$/gm, ""));
              continue;
            }
            const wanted = Number(/^exit=(\d+)$/.exec(block.info[0] ?? "exit=0")?.[1]);
            const { code, out, err } = await session.run(block.text);
            assert.equal(code, wanted, `${place}: exit code ${code}, want ${wanted}\n${block.text}\n${out}\n${err}`);
            if (wanted)
              assert.match(
                err,
                /^(foretoken: note: [^\n]+\n)*foretoken: [^\n]+\n$/,
                `${place}: want one line other than notes on standard error`,
              );
          }
        } finally {
          await session.close();
        }
      });
    }
  });

  test("TypeScript and JavaScript match the API", limit, async () => {
    assert.equal(await checkTypes(root, all("ts", "tsx", "js").filter((block) => !quoted(block))), "");
  });

  test("Go compiles in a module of its own", limit, async () => {
    const programs = all("go").filter((block) => !quoted(block));
    assert.ok(programs.length > 0);
    assert.equal(await checkGo(root, path.join(shop.folder, "go"), programs), "");
  });

  test("quoted code is in its file", async () => {
    const always = ["wgsl", "jsx", "vue", "svelte"];
    const quotes = all("go", "js", ...always).filter((block) => quoted(block) || always.includes(block.language));
    assert.ok(quotes.length > 0);
    for (const block of quotes) {
      assert.ok(quoted(block), `${block.name}: the block names no file: ${block.language} of=FILE`);
      const source = await fs.readFile(path.join(root, quoted(block)), "utf8");
      assert.ok(source.includes(block.text), `${block.name}: ${quoted(block)} does not contain the block`);
    }
  });

  test("JSON is valid", () => {
    for (const { name, text } of all("json")) assert.doesNotThrow(() => JSON.parse(text), name);
  });

  test("commands, flags, tests and files in the text exist", async () => {
    const folder = path.join(shop.folder, "man");
    const context = { commands: await commandsOf(shop.binary, folder), tests: await testsOf(root), root };
    const wrong = [];
    const seen = new Map();
    for (const { name, inline } of pages) {
      for (const { text, line } of inline) {
        if (!seen.has(text)) seen.set(text, await complaint(text, context));
        if (seen.get(text)) wrong.push(`${name}:${line}: ${text}: ${seen.get(text)}`);
      }
    }
    assert.deepEqual(wrong, []);
  });

  describe("in Chromium", () => {
    let site;
    before(async () => (site = await openSite(root)), limit);
    after(() => site?.close());

    test("HTML loads as a page of the built site", limit, async () => {
      const snippets = all("html");
      assert.ok(snippets.length > 0);
      for (const { name, text } of snippets) {
        const { errors, elements } = await tryPage(site, text);
        assert.deepEqual(errors, [], name);
        for (const [tag, drawn] of elements) assert.ok(drawn, `${name}: <${tag}> shows nothing`);
      }
    });

    test("the documentation works under another path", limit, async () => {
      for (const width of [390, 1440]) {
        const context = await site.browser.newContext({
          viewport: { width, height: 900 },
          colorScheme: width === 390 ? "dark" : "light",
        });
        const page = await context.newPage();
        const errors = [];
        page.on("pageerror", (error) => errors.push(error.message));
        page.on("console", (message) => message.type() === "error" && errors.push(message.text()));
        page.on(
          "request",
          (request) => request.url().startsWith(site.url) || errors.push(`requested ${request.url()}`),
        );
        for (const name of ["cli", "benchmarks", "js/index", "go/foretoken"]) {
          await page.goto(`${site.url}docs/${name}.html`);
          const wide = await page.evaluate(
            () => document.documentElement.scrollWidth - document.documentElement.clientWidth,
          );
          assert.equal(wide, 0, `${name} at ${width} pixels is wider than the window by ${wide}`);
          assert.ok(
            await page.evaluate(() => getComputedStyle(document.body).backgroundColor !== "rgba(0, 0, 0, 0)"),
            `${name}: no styles`,
          );
          assert.equal(
            await page.evaluate(
              () => [...document.images].filter((image) => image.complete && !image.naturalWidth).length,
            ),
            0,
            `${name}: a picture is missing`,
          );
        }
        await page.keyboard.press("/");
        await page.keyboard.type("acceptance head");
        await page.locator("#found a").first().waitFor();
        assert.ok(
          (await page.locator("#found a").allTextContents()).some((text) =>
            text.includes("acceptance: a head says when to stop"),
          ),
        );
        await page.keyboard.press("ArrowDown");
        await page.keyboard.press("Enter");
        await page.waitForURL(/\/docs\/.*#/);
        await page.locator("main :target").waitFor();
        assert.deepEqual(errors, []);
        await context.close();
      }
    });

    test("the page leads to the documentation", async () => {
      const page = await (await site.browser.newContext()).newPage();
      await page.goto(`${site.url}index.html`);
      await page.locator("a", { hasText: /^Docs$/ }).first().click();
      await page.waitForURL(/\/docs\/(index\.html)?$/);
      assert.match(await page.title(), /Foretoken/);
      await page.context().close();
    });
  });
});
