/**
 * `<foretoken-widget>` within the styles of other pages, in Chromium: themes, directions, the keyboard, the text style
 * of a page, and the place that the widget takes.
 */
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { startHost } from "./host.mjs";
import { dist, limit, openPage, startBrowser } from "./site.mjs";

const page = (body, dir = "ltr") =>
  `<!doctype html><html lang="en" dir="${dir}"><head><meta charset="utf-8"><title>Docs</title></head><body>` +
  `<main><h1>Docs</h1>${body}</main><script type="module" src="/site/foretoken/widget.js"></script></body></html>`;
const widget = (id, attributes = "") =>
  `<foretoken-widget id="${id}" device="reference" policy="eagle2" depth="2" top-k="2" nodes="4" ` +
  `prompt="func main() {&#10;" max-tokens="12" ${attributes}></foretoken-widget>`;
/** What a page may set for its text, all of it inherited. */
const STYLED =
  "text-align: center; letter-spacing: 4px; word-spacing: 9px; text-transform: uppercase; text-indent: 3em; " +
  "text-shadow: 2px 2px red; line-height: 3; font: italic small-caps bold 30px/3 serif; white-space: pre; " +
  "word-break: break-all; cursor: help; color: red; list-style: square; hyphens: auto; tab-size: 1";

const pages = {
  "/rtl": page(widget("a"), "rtl"),
  "/themes": page(
    widget("light", 'theme="light" full') +
      widget("dark", 'theme="dark"') +
      `<div style="color-scheme: dark">${widget("page", 'theme="page"')}</div>` +
      widget("system"),
  ),
  "/styled": page(`<div style="${STYLED}">${widget("styled")}</div>${widget("plain")}<p id="below">Below</p>`),
};

let host, browser, context;

before(async () => {
  host = await startHost({ pages, folders: { "/site/foretoken/": dist } });
  browser = await startBrowser(false);
  context = await browser.newContext({ viewport: { width: 1100, height: 900 }, colorScheme: "light" });
});

after(async () => {
  await browser?.close();
  await host?.stop();
});

async function open(name) {
  const { page, record } = await openPage(context);
  await page.goto(host.url + name);
  await page.waitForFunction(() => customElements.get("foretoken-widget"));
  return { page, record };
}

test("themes, directions and the keyboard", limit, async () => {
  const { page, record } = await open("themes");
  const ground = (id) => page.locator(`#${id} .facade`).evaluate((box) => getComputedStyle(box).backgroundColor);
  const grounds = async () => Promise.all(["light", "dark", "page", "system"].map(ground));
  const [light, dark, ...rest] = await grounds();
  assert.notEqual(light, dark);
  assert.deepEqual(rest, [dark, light], "page: the page's own scheme; without the attribute, the system's");
  await page.emulateMedia({ colorScheme: "dark" });
  assert.deepEqual(await grounds(), [light, dark, dark, dark]);
  await page.addStyleTag({
    content: "#light { --foretoken-card: rgb(1, 2, 3); } #light::part(generate) { outline: 3px solid rgb(4, 5, 6); }",
  });
  assert.equal(await ground("light"), "rgb(1, 2, 3)");
  const outline = () => page.locator("#light #generate").evaluate((box) => getComputedStyle(box).outlineColor);
  assert.equal(await outline(), "rgb(4, 5, 6)");
  await page.evaluate(() => document.getElementById("light").open());
  assert.equal(await outline(), "rgb(4, 5, 6)", "parts keep their names when the widget is open");
  await page.emulateMedia({ reducedMotion: "reduce" });
  assert.equal(
    await page.locator("#light .switch input").evaluate((box) => getComputedStyle(box, "::after").transitionDuration),
    "0s",
  );
  assert.deepEqual(record.errors, []);
  await page.close();

  const { page: rtl, record: ofRtl } = await open("rtl");
  await rtl.keyboard.press("Tab");
  assert.equal(await rtl.evaluate(() => document.activeElement.shadowRoot.activeElement.id), "prompt");
  await rtl.evaluate(() => {
    const a = document.getElementById("a");
    a.addEventListener(
      "foretoken-round",
      () => (window.focused ??= document.activeElement.shadowRoot?.activeElement?.id),
      { once: true },
    );
    window.ended = new Promise((resolve) => a.addEventListener("foretoken-done", resolve, { once: true }));
  });
  await rtl.keyboard.press("Control+Enter");
  await rtl.evaluate(() => window.ended.then(() => undefined));
  assert.equal(await rtl.evaluate(() => window.focused), "output", "the focus goes to the text");
  const place = await rtl.evaluate(() => {
    const root = document.getElementById("a").shadowRoot;
    const box = (selector) => root.querySelector(selector).getBoundingClientRect();
    return {
      generate: box("#generate").left,
      stop: box("#stop").left,
      token: box(".output .token").left - box(".output").left,
      wide: root.querySelector(".foretoken").scrollWidth - root.querySelector(".foretoken").clientWidth,
    };
  });
  assert.ok(place.generate > place.stop, "controls run from right to left");
  assert.ok(place.token < 100, "code does not");
  assert.equal(place.wide, 0, "the page overflows");
  assert.deepEqual(ofRtl.errors, []);
  await rtl.close();
});

test("the page's text style stays outside, and no note moves what is below", limit, async () => {
  const { page, record } = await open("styled");
  const styles = (id) =>
    page.evaluate((id) => {
      const inside = [...document.getElementById(id).shadowRoot.querySelectorAll(".foretoken, .foretoken *")];
      const names = [...getComputedStyle(inside[0])].filter((name) => !/size|width|height|inset|origin|top/.test(name));
      return inside.map((element) => {
        const style = getComputedStyle(element);
        return `${element.className} ${names.map((name) => `${name}: ${style.getPropertyValue(name)}`).join("; ")}`;
      });
    }, id);
  for (const width of [390, 1100]) {
    await page.setViewportSize({ width, height: 900 });
    assert.deepEqual(await styles("styled"), await styles("plain"), `at ${width} pixels`);
    const place = () => page.evaluate(() => document.getElementById("below").getBoundingClientRect().top + scrollY);
    const before = await place();
    await page.evaluate(async () => {
      for (const id of ["styled", "plain"]) {
        const widget = document.getElementById(id);
        await widget.open();
        widget.setAttribute("temperature", "abc");
        widget.setAttribute("seed", "abc");
        widget.setAttribute("target", "missing.gguf");
        await widget.load().catch(() => undefined);
      }
    });
    for (const id of ["notice", "error"]) assert.ok(await page.locator(`#plain #${id}`).isVisible());
    assert.equal(await place(), before, `at ${width} pixels`);
  }
  const errors = record.errors.filter((text) => !text.includes("missing.gguf")); // requested on purpose
  assert.deepEqual(errors, []);
  await page.close();
});
