/** The audit covers every lockfile, and tells an advisory from a check that was not made. */
import assert from "node:assert/strict";
import { execFileSync, spawnSync } from "node:child_process";
import { chmodSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import os from "node:os";
import path from "node:path";
import { afterEach, beforeEach, test } from "node:test";
import { fileURLToPath } from "node:url";

const script = path.join(path.dirname(fileURLToPath(import.meta.url)), "audit.sh");
const LOCKS = ["web", "docs/examples/a"];
const UNREACHED_NPM =
  "npm warn audit 405 Method Not Allowed - POST https://registry.npmjs.org/-/npm/v1/security/advisories/bulk\n" +
  "npm error audit endpoint returned an error";
const UNREACHED_GO =
  'govulncheck: fetching vulnerabilities: Get "https://vuln.go.dev/index/modules.json.gz": no such host';

let root;
const program = (name, text) => {
  writeFileSync(path.join(root, "bin", name), `#!/bin/sh\n${text}\n`);
  chmodSync(path.join(root, "bin", name), 0o755);
};
beforeEach(() => {
  root = mkdtempSync(path.join(os.tmpdir(), "foretoken-audit-"));
  for (const folder of ["bin", ...LOCKS]) mkdirSync(path.join(root, folder), { recursive: true });
  for (const folder of LOCKS) writeFileSync(path.join(root, folder, "package-lock.json"), "{}");
  execFileSync("git", ["init", "-q"], { cwd: root });
  execFileSync("git", ["add", "web", "docs"], { cwd: root });
});
afterEach(() => rmSync(root, { recursive: true }));

/** Runs the audit; `go` and `npm` are the output and exit code of govulncheck and of npm audit. */
function audit({ go = ["", 0], npm = ["", 0], built = 0, env = {} }) {
  const say = ([text, code]) => `cat <<'END'\n${text}\nEND\nexit ${code}`;
  program("check", say(go));
  program("npm", `[ "$*" = "audit --package-lock-only --audit-level=low" ] || exit 9\n${say(npm)}`);
  program(
    "go",
    `case $1 in env) echo go1 ;; install) [ ${built} = 0 ] || exit 1; ` +
    `cp "${root}/bin/check" "$GOBIN/govulncheck" ;; esac`,
  );
  const { status, stdout } = spawnSync("sh", [script], {
    cwd: root,
    encoding: "utf8",
    env: { ...process.env, ...env, PATH: `${root}/bin:${process.env.PATH}` },
  });
  return { status, lines: stdout.trim().split("\n") };
}

test("no advisory: every lockfile is named", () => {
  const { status, lines } = audit({});
  assert.equal(status, 0);
  const npm = LOCKS.map((lock) => `npm, ${lock}`);
  for (const name of ["Go modules against go.sum", "Go, native", "Go, in the browser", ...npm])
    assert.ok(lines.includes(`audit: ${name}: no advisory applies`), lines.join("\n"));
  assert.equal(lines.length, 3 + LOCKS.length);
});

test("databases that cannot be reached are named, and only then UNREACHED=allow helps", () => {
  const out = { npm: [UNREACHED_NPM, 1], go: [UNREACHED_GO, 1] };
  const { status, lines } = audit(out);
  assert.equal(status, 2);
  assert.equal(lines.filter((line) => /NOT CHECKED: Go, .*vuln\.go\.dev/.test(line)).length, 2);
  assert.equal(lines.filter((line) => /NOT CHECKED: npm, .*registry\.npmjs\.org/.test(line)).length, LOCKS.length);
  assert.equal(audit({ ...out, env: { UNREACHED: "allow" } }).status, 0);
});

for (const [what, out] of [
  ["an advisory for Go", { go: ["Vulnerability #1: GO-2026-1\n  More info: https://pkg.go.dev/vuln/GO-2026-1", 3] }],
  ["an advisory for npm", { npm: ["# npm audit report\n\nx  <1\nhttps://github.com/advisories/GHSA-1", 1] }],
  ["a broken lockfile", { npm: ["npm error code EJSONPARSE", 1] }],
  ["a tool that cannot be built", { built: 1 }],
])
  test(`${what} fails, whatever is allowed`, () => {
    assert.equal(audit({ ...out, env: { UNREACHED: "allow" } }).status, 1);
  });
