/** The playground tab, for a visit of a page that is open. */
import assert from "node:assert/strict";

/** Shapes a draft by keys alone, plays the stories, and measures this device. */
export async function usesPlayground(page) {
  await page.locator("#tab-compare").focus();
  await page.keyboard.press("ArrowRight");
  const verdict = page.locator("#play-verdict");
  await verdict.waitFor();
  const tree = page.locator("foretoken-playground .tree");
  const shown = async () => [await verdict.innerText(), await tree.textContent()];
  for (const story of ["wide", "disagrees", "devices", "chain"]) {
    const before = await shown();
    await page.locator(`[data-story=${story}]`).focus();
    await page.keyboard.press("Enter");
    assert.equal(await page.locator(`[data-story=${story}]`).getAttribute("aria-pressed"), "true");
    assert.notDeepEqual(await shown(), before, story);
  }
  for (const [slider, keys] of [
    ["depth", ["End"]],
    ["nodes", ["End"]],
    ["top-k", ["ArrowRight", "ArrowRight"]],
    ["temperature", ["Home"]],
    ["round", ["ArrowRight"]],
  ]) {
    const before = await shown();
    await page.locator(`#play-${slider}`).focus();
    for (const key of keys) await page.keyboard.press(key);
    const after = await shown();
    if (slider === "round") assert.equal(after[0], before[0], "a round changes no figure of the run");
    // A chain of a depth has no more nodes than it shows already.
    if (slider !== "nodes") assert.notDeepEqual(after, before, slider);
  }
  assert.equal(await page.locator("[data-story][aria-pressed=true]").count(), 0);
  const speed = async () => Number(/: ([\d.]+) times/.exec(await verdict.innerText())[1]);
  const mine = await speed();
  await page.locator("#play-best").focus();
  await page.keyboard.press("Enter");
  assert.ok((await speed()) >= mine);

  await page.locator("#play-measure").focus();
  await page.keyboard.press("Enter");
  await page.locator("foretoken-playground [role=status]", { hasText: /^Measured with \d+ passes/ }).waitFor();
  assert.match(await verdict.innerText(), / on Here \(.+\)\.$/);
  assert.ok(await page.evaluate(() => document.documentElement.scrollWidth <= innerWidth));
}
