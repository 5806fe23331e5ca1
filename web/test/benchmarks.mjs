/** The benchmark tab, for the end-to-end test of the page. */
import assert from "node:assert/strict";
import { promises as fs } from "node:fs";

/** Runs two methods on one prompt in the benchmark tab, one of them lossy. */
export async function runsBenchmarks(page, t) {
  await page.click("#tab-benchmark");
  const host = page.locator("foretoken-benchmark");
  await host.waitFor();
  for (const id of await host.locator(".methods input:checked").evaluateAll((boxes) => boxes.map((box) => box.id)))
    await host.locator(`#${id}`).uncheck();
  for (const box of (await host.locator(".flags input").all()).slice(1)) await box.uncheck();
  await host.locator("#bench-chain").check();
  await host.locator("#bench-extra").fill("mars:depth=2,top-k=4,nodes=8,name=mars");
  await host.locator("#bench-tokens").fill("16");
  assert.equal(await host.locator("#bench-repeat").inputValue(), "3", "repetitions show chance");
  await host.locator("#bench-repeat").fill("1");
  await host.locator("#bench-run").click();
  await page.waitForFunction(() => document.querySelector("foretoken-benchmark").report);
  assert.ok(await host.locator("#bench-error").isHidden());
  const report = await page.evaluate(() => document.querySelector("foretoken-benchmark").report);
  const all = report.rows.filter((row) => row.category === "");
  const names = all.map((row) => row.method);
  assert.deepEqual(names, ["plain", "chain", "mars"]);
  for (const row of all) {
    assert.equal(row.lossy, row.method === "mars");
    assert.ok(row.speedup.mean > 0 && row.calls.mean > 0 && row.loss.n > 0, row.method);
    if (!row.lossy) assert.equal(row.same_place.mean, 1, `${row.method} gives plain decoding's tokens`);
  }
  for (const metric of ["speedup", "acceptance_length", "calls", "tokens"]) {
    const bars = host.locator(`figure[data-metric=${metric}] .bars li`);
    assert.equal(await bars.count(), names.length, metric);
    for (const width of await bars
      .locator("i")
      .evaluateAll((fills) => fills.map((fill) => fill.getBoundingClientRect().width)))
      assert.ok(width > 1, `${metric}: a bar is ${width} px wide`);
    assert.equal(await bars.locator(".badge.lossy").count(), 1, "the lossy method is marked");
  }
  assert.equal(await host.locator("#bench-table tbody tr").count(), names.length);
  assert.equal(await host.locator("#bench-table .badge.lossy").count(), 1);
  const [download] = await Promise.all([page.waitForEvent("download"), host.locator("#bench-csv").click()]);
  const csv = await fs.readFile(await download.path(), "utf8");
  assert.match(csv, /^device,target,draft,method,lossy,/);
  assert.match(csv, /,mars,true,/);
  t.diagnostic(
    "benchmark tab: " +
    all
      .map((row) => `${row.method} ${row.speedup.mean.toFixed(2)}× τ ${row.acceptance_length.mean.toFixed(2)}`)
      .join(", "),
  );

  await host.locator("#bench-profile").click();
  await host.locator("#bench-costs").waitFor();
  assert.deepEqual(await host.locator("#bench-rounds tbody th").allInnerTexts(), ["plain", "auto"]);
  const passes = host.locator("#bench-kernels details");
  assert.deepEqual(await passes.evaluateAll((all) => all.map((d) => d.dataset.pass)), [
    "plain step",
    "verification of 8 rows",
    "draft root",
    "draft level",
  ]);
  assert.ok((await passes.first().locator("tbody tr").count()) > 5, "the kernels of a step are listed");
  t.diagnostic(`profile: ${(await passes.locator("summary").allInnerTexts()).join("; ")}`);

  // The device's report is a file, and its kernels agree with their references.
  await host.locator("#bench-doctor").click();
  const summary = await host.locator("#bench-device").innerText();
  const [saved] = await Promise.all([page.waitForEvent("download"), host.locator("#bench-device-json").click()]);
  const device = JSON.parse(await fs.readFile(await saved.path(), "utf8"));
  assert.equal(device.format, "foretoken-doctor-2");
  assert.equal(device.browser, await page.evaluate(() => navigator.userAgent));
  assert.ok(device.adapter.name && device.adapter.limits.binding_bytes > 0, "the adapter is described");
  assert.deepEqual(device.checks.filter(({ ok }) => !ok), [], "kernels agree with their references");
  assert.ok(device.checks.length > 30 && device.products.every(({ rows }) => rows.length === 5 && rows[0].gb_s > 0));
  assert.deepEqual(Object.keys(device.choices), ["draft", "target"]);
  assert.equal(device.costs.verify[0].n, 1);
  assert.equal(summary, device.summary.join("\n"));
  t.diagnostic(summary);

  // Stop ends it with partial results.
  await host.locator("#bench-repeat").fill("20");
  await page.evaluate(() => {
    const { shadowRoot } = document.querySelector("foretoken-benchmark");
    const [run, stop, status] = ["run", "stop", "status"].map((id) => shadowRoot.querySelector(`#bench-${id}`));
    run.click();
    // Stop inside the page, right after the first cell, because a call from outside may come too late.
    return new Promise((resolve) => {
      new MutationObserver((_, observer) => {
        if (!/^[1-9]/.test(status.textContent)) return;
        observer.disconnect();
        stop.click();
        resolve();
      }).observe(status, { childList: true, characterData: true, subtree: true });
    });
  });
  await page.waitForFunction(() => document.querySelector("foretoken-benchmark").dataset.state === "ready");
  assert.ok(await page.evaluate(() => document.querySelector("foretoken-benchmark").report.stopped));
}
