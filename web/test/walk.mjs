/**
 * Every control of the page, used as a visitor uses it, in fresh profiles of Chromium, Firefox and WebKit. The walk
 * finds the controls itself: buttons get real clicks, fields real keys, and lists every option; what one of them opens
 * is walked too. Each has to do something, and no console may show an error. Chromium walks each time, the others with
 * FORETOKEN_FULL=1, or one of them with FORETOKEN_WALK=firefox.
 */
import assert from "node:assert/strict";
import { promises as fs } from "node:fs";
import path from "node:path";
import { after, before, test } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";
import { BROWSERS, KEYS } from "./drivers.mjs";
import { startHost } from "./host.mjs";
import { brokenModels, dist, notRun, root, TIMEOUT, web } from "./site.mjs";

/** Milliseconds of a walk: a few hundred controls, some of which measure for half a minute. */
const limit = { timeout: 60 * 60_000 };

let host, elsewhere, models;

before(async () => {
  models = await brokenModels();
  // As fast as a network: a download takes some time.
  host = await startHost({ folders: { "/own/": models, "/": dist }, isolated: true, rate: 20e6 });
  elsewhere = await startHost({
    folders: { "/": path.join(root, "models", "demo") },
    cors: true,
    headers: { "Cross-Origin-Resource-Policy": "cross-origin" },
  });
  host.pages["/walker.js"] = await fs.readFile(path.join(web, "test", "walker.js"), "utf8");
  for (const name of ["index.html", "reset.html"]) {
    const page = await fs.readFile(path.join(dist, name), "utf8");
    host.pages[name === "index.html" ? "/" : `/${name}`] = page.replace(
      /(?=<meta charset)/,
      '<script src="walker.js"></script>',
    );
  }
});

after(async () => {
  await host?.stop();
  await elsewhere?.stop();
  if (models) await fs.rm(models, { recursive: true });
});

/** Parts of names: what ends, deletes or hides what the others need comes last in its tab. */
const LAST = [
  ...["stop", "Delete", "#reset", "#kept-clear", "Close", "#new-chat", "#run-here", "Send again", "#models-"],
  "your own text",
];

/** A visit of the page by a browser. */
class Walk {
  #browser;
  /** The controls that were used, with their kinds, and those that could not be, by their names. */
  used = new Map();
  left = new Set();

  constructor(browser) {
    this.#browser = browser;
  }

  async open(address) {
    await this.#browser.go("about:blank"); // another fragment alone is no visit
    await this.#browser.go(host.url + address);
    await this.settled();
    if (address.includes("target=")) return; // the download of a model that an address names is shown above the text
    const shift = await this.ask("walk.shift");
    assert.ok(shift < 0.05, `${address}: the layout shifted by ${shift} while the models loaded`);
  }

  /** Evaluates an expression in the page; `given` is its argument. */
  ask(expression, given) {
    return this.#browser.run(`return ${expression};`, given);
  }

  /** Waits until an expression is true. */
  async until(expression, given) {
    let cause; // a page that is leaving answers with an error
    const holds = () => this.ask(expression, given).catch((error) => ((cause = error), false));
    for (const end = Date.now() + TIMEOUT; !(await holds()); await sleep(20))
      if (Date.now() > end) throw new Error(`never true: ${expression}: ${cause?.message ?? "false"}`, { cause });
  }

  settled() {
    return this.until("Boolean(globalThis.walk) && !walk.busy()");
  }

  /** Returns where a pointer hits the element of an expression, once the page has come to rest. */
  async #place(element, given) {
    for (let tries = 20; ; tries--)
      try {
        const at = await this.ask(`walk.place(${element})`, given);
        return at && Object.values(at);
      } catch (cause) {
        if (tries === 0) throw cause;
        await sleep(100);
      }
  }

  /** Clicks an element until a click reaches it, because the page may move meanwhile. Returns whether it is seen. */
  async #click(element, given) {
    for (let tries = 5; tries > 0; tries--) {
      const place = await this.#place(element, given);
      if (!place) return false;
      await this.#browser.press(...place);
      // Another page may have begun.
      if (await this.ask("globalThis.walk?.hit ?? true").catch(() => true)) return true;
    }
    throw new Error(`clicks do not reach ${given}`);
  }

  /** Clicks the first element that a selector finds in the document or a shadow root. */
  async press(selector) {
    await this.until("Boolean(walk.query(given))", selector);
    assert(await this.#click("walk.query(given)", selector), `${selector} is not seen`);
  }

  /** Writes a field, as if it had been pasted. */
  write(selector, value) {
    return this.ask("walk.write(walk.query(given.selector), given.value)", { selector, value });
  }

  /** Uses all controls that are seen, and those that come up, until none is left but those with one of `others`. */
  async all(...others) {
    for (;;) {
      const skipped = (name) => others.some((part) => name.includes(part));
      const names = (await this.ask("walk.names()")).filter((name) => !skipped(name));
      const open = names.filter((name) => !this.used.has(name));
      const next = await this.ask("walk.next(given.open, given.last)", { open, last: LAST });
      if (!next) {
        for (const name of open) this.left.add(name);
        return this.fine();
      }
      this.used.set(next.name, next.kind);
      await this.#use(next).catch((cause) => {
        throw new Error(`${next.name} (${next.kind}): ${cause.message}`, { cause });
      });
      await this.settled();
    }
  }

  async #use({ name, kind, href }) {
    if (kind === "link") {
      if (new URL(href).origin !== host.origin) return;
      return assert.equal((await fetch(href, { method: "HEAD" })).status, 200, href);
    }
    if (kind === "file") return; // files are handed over where they are needed
    if (kind === "select") return this.ask("walk.choose(walk.find(given))", name);
    const found = "walk.find(given)";
    if (["button", "checkbox", "radio"].includes(kind)) {
      if (!(await this.#click(found, name))) return; // another control's work has removed it
      // Boxes are as they were then, and what can be unfolded is open.
      const again = kind === "checkbox" || (await this.ask(`${found}?.parentElement.open === false`, name));
      if (again) await this.#click(found, name);
    } else {
      if (!(await this.#place(found, name))) return;
      const { keys } = this.#browser;
      await this.ask(`${found}.focus()`, name);
      if (kind === "range") await keys(KEYS.End, KEYS.Home, KEYS.ArrowRight);
      else if (kind === "number") await keys(KEYS.ArrowUp, KEYS.ArrowDown);
      else if (kind === "text" || kind === "textarea") await keys(KEYS.End, "x", KEYS.Backspace);
      else await keys(KEYS.ArrowRight, KEYS.End, KEYS.Home, KEYS.ArrowLeft);
    }
    await this.until("walk.effects + walk.saved > 0");
  }

  /** Asserts that the console has no error. */
  async fine() {
    assert.deepEqual(await this.ask("walk.errors"), []);
  }
}

/** The page's settings: a hub that has no models, and texts of a few tokens. */
const QUERY = "?device=cpu&max-tokens=24&hub=";

/** Walks the page, tab by tab. */
async function walks(browser) {
  const walk = new Walk(browser);
  const built = `${QUERY}${host.origin}/hub`;
  const live = (says) => walk.until(`document.getElementById("live").textContent.startsWith(given)`, says);

  // The first screen: the recording and a token of its text, a run here, its link and its files.
  await walk.open(built);
  await walk.all("foretoken-widget", "foretoken-compare", "#tab-");
  await live("Written here in ");
  await walk.press("[data-round='1'] span");
  await walk.until(`walk.query("[aria-label=Round]").value === "1"`);
  await walk.press("#share");
  await walk.until(`Boolean(walk.query("#export"))`);
  const link = await walk.ask(`walk.query("#link").value`);
  await walk.all("foretoken-widget", "foretoken-compare", "#tab-");
  await walk.until("walk.saved === 2"); // a picture and a file

  // A text of one's own, with every setting, and stopped.
  await walk.press("#tab-run");
  await walk.all("#tab-");
  await walk.ask(`document.querySelector("foretoken-widget").setAttribute("max-tokens", "2000")`);
  await walk.press("#generate");
  await walk.until(`!walk.query("#stop").disabled`);
  await walk.press("#stop");
  walk.used.set("foretoken-widget #stop", "button");
  await walk.settled();

  // Models of another host, which stay in the browser; and files.
  const loads = async (choose) => {
    const before = await walk.ask("walk.loaded");
    await choose();
    await walk.press("#load");
    await walk.until("walk.loaded > given", before);
    await walk.settled();
  };
  await walk.press("#models-name");
  await loads(async () => {
    for (const name of ["target", "draft"]) await walk.write(`#${name}-name`, `${elsewhere.url}${name}-q8_0.gguf`);
  });
  await walk.until(`/target-q8_0|no file storage/.test(walk.query("#kept-list").textContent)`);
  await walk.all("#tab-");
  await walk.press("#models-files");
  await loads(async () => {
    for (const name of ["target", "draft"])
      await walk.ask("walk.hand(walk.query(given[0]), given[1])", [`#${name}-file`, `models/demo/${name}-q8_0.gguf`]);
  });

  // The built-in pair's chat with its offers, which this hub does not have; comparisons, the playground, benchmarks.
  await walk.open(`${built}#chat`);
  await walk.all("#tab-");
  await walk.open(`${built}#compare`);
  await walk.all("#tab-");
  await walk.until(`/\\d/.test(walk.query("#compare-verdict").textContent)`);
  await walk.press("#tab-playground");
  await walk.until(`Boolean(walk.query("#play-measure"))`);
  await walk.all("#tab-");
  await walk.press("#tab-benchmark");
  await walk.until(`Boolean(walk.query("#bench-run"))`);
  for (const [id, value] of [["repeat", "1"], ["tokens", "4"]]) await walk.write(`#bench-${id}`, value);
  await walk.all("#tab-");
  for (const [id, value] of [["repeat", "20"], ["tokens", "64"]]) await walk.write(`#bench-${id}`, value);
  await walk.press("#bench-run");
  await walk.until(`!walk.query("#bench-stop").disabled`);
  await walk.press("#bench-stop");
  walk.used.set("foretoken-benchmark #bench-stop", "button");
  await walk.settled();
  for (const name of ["run", "chat", "compare", "playground", "benchmark"]) {
    await walk.press(`#tab-${name}`);
    await walk.until(`walk.query(given).getAttribute("aria-selected") === "true"`, `#tab-${name}`);
    walk.used.set(`page #tab-${name}`, "button");
  }
  await walk.fine();

  // A conversation.
  await walk.open(`${QUERY}&target=own/talking.gguf&draft=models/demo/draft-q8_0.gguf#chat`);
  await walk.until(`Boolean(walk.query("#message"))`);
  await walk.write("#message", "Close closes the file.");
  await walk.press("#send");
  await walk.until(`Boolean(walk.query("#transcript .again"))`);
  await walk.all("#tab-");
  await walk.fine();

  // A link of a run, and the page's reset.
  await browser.go(link);
  await live("This run comes from a link");
  await walk.fine();
  await browser.go(`${host.url}reset.html`);
  await walk.press("#reset");
  await walk.until(`Boolean(document.querySelector("foretoken-widget")) && !walk.busy()`);
  await walk.fine();
  return walk;
}

const { FORETOKEN_FULL: full, FORETOKEN_WALK: chosen = "chromium" } = process.env;
for (const name of full ? Object.keys(BROWSERS) : [chosen])
  test(`every control in ${name}`, limit, async (t) => {
    const lacks = BROWSERS[name].missing();
    if (lacks) return notRun(t, lacks);
    const browser = await BROWSERS[name].start();
    try {
      const { used, left } = await walks(browser);
      const kinds = [...used.values()];
      const count = (kind) => kinds.filter((one) => one === kind).length;
      t.diagnostic([...new Set(kinds)].map((kind) => `${count(kind)} ${kind}`).join(", "));
      // The built-in head is an option of the built-in pair alone.
      const never = [...left].filter((name) => !used.has(name) && !name.endsWith("#bench-eagle3"));
      assert.deepEqual(never, [], "seen, but never usable");
    } finally {
      await browser.stop();
    }
  });
