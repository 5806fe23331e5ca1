/** What a release is made from agrees, and what it writes names the version, the repository and the sums. */
import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import os from "node:os";
import path from "node:path";
import { test } from "node:test";
import { fileURLToPath } from "node:url";
import { dockerfile, formula, refused, strayLinks, sum, versionOf } from "./release.mjs";

const root = path.dirname(path.dirname(fileURLToPath(import.meta.url)));

/** Runs `use` with a folder of files. */
function within(files, use) {
  const folder = mkdtempSync(path.join(os.tmpdir(), "foretoken-release-"));
  try {
    for (const [name, text] of Object.entries(files)) {
      mkdirSync(path.dirname(path.join(folder, name)), { recursive: true });
      writeFileSync(path.join(folder, name), text);
    }
    return use(folder);
  } finally {
    rmSync(folder, { recursive: true });
  }
}

test("package and lock file have one version, and others are refused", () => {
  assert.match(versionOf(root), /^\d/);
  const files = (version, locked) => ({
    "web/package.json": JSON.stringify({ version }),
    "web/package-lock.json": JSON.stringify({ version: locked, packages: { "": { version: locked } } }),
  });
  assert.equal(within(files("1.2.3-rc.1", "1.2.3-rc.1"), versionOf), "1.2.3-rc.1");
  assert.throws(() => within(files("1.2.3", "1.2.2"), versionOf), /package-lock\.json has version 1\.2\.2/);
  assert.throws(() => within(files("next", "next"), versionOf), /version "next" is none/);
});

test("go install takes go.mod", () => {
  const complaints = (folder) => refused(JSON.parse(execFileSync("go", ["mod", "edit", "-json"], { cwd: folder })));
  assert.deepEqual(complaints(root), []);
  const bad = "module example.org/x\n\ngo 1.26\n\nexclude example.org/y v1.0.0\n\nreplace example.org/z => ./z\n";
  assert.equal(within({ "go.mod": bad }, complaints).length, 2);
});

test("the formula and the Dockerfile name the version, the repository and the archives", () => {
  within({ archive: "contents" }, (folder) => {
    const sha256 = sum(path.join(folder, "archive"));
    const release = { repository: "https://example.org/owner/name", version: "1.2.3", sha256 };
    const written = formula(release);
    assert.equal(/sha256 "(\w+)"/.exec(written)[1], "d1b2a59fbea7e20077af9f91b27e95e865061b270be03ff539ab3b73587882e8");
    const address = "https://example.org/owner/name/releases/download/v1.2.3/foretoken-1.2.3-source.tar.gz";
    assert.equal(/url "(.+)"/.exec(written)[1], address);
    const lines = dockerfile(release).split("\n");
    assert.ok(lines.includes("ADD foretoken-1.2.3-linux-${TARGETARCH}-cpu.tar.gz /"));
    assert.ok(lines.at(-2).startsWith('ENTRYPOINT ["/foretoken-1.2.3/foretoken", "serve"'));
  });
});

test("a site that works at the root of a host only, or lacks a file, is refused", () => {
  const files = {
    "index.html": '<link href="page.css"><a href="docs/index.html#x">x</a><a href="https://example.org/">y</a>',
    "page.css": "a { background: url(icon.svg) }",
    "icon.svg": "",
    "docs/index.html": '<img src="../icon.svg"><a href="#x">x</a><code>&lt;a href=&quot;/x&quot;&gt;</code>',
  };
  assert.deepEqual(within(files, strayLinks), []);
  const wrong = {
    ...files,
    "docs/index.html": '<a href="/index.html">x</a><img src="icon.svg">',
    "page.css": 'a { background: url("/icon.svg") }',
    "manifest.webmanifest": '{ "start_url": "/", "icons": [{ "src": "icon.png" }] }',
  };
  assert.deepEqual(within(wrong, strayLinks).sort(), [
    "docs/index.html: /index.html",
    "docs/index.html: icon.svg",
    "manifest.webmanifest: /",
    "manifest.webmanifest: icon.png",
    "page.css: /icon.svg",
  ]);
});
