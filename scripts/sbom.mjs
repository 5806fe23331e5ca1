/**
 * Writes build/sbom.json, a CycloneDX bill of materials: the Go modules with their standard library, and the npm
 * packages of every lockfile of the repository. What npm marks as development is used to build or test, but for the
 * libraries that the site bundles (hash-wasm, highlight.js, markdown-it, uplot).
 *
 *   node scripts/sbom.mjs CYCLONEDX_GOMOD   the path of that program
 */
import { execFileSync } from "node:child_process";
import { mkdirSync, writeFileSync } from "node:fs";
import path from "node:path";
import { fileURLToPath } from "node:url";

const root = path.dirname(path.dirname(fileURLToPath(import.meta.url)));
const run = (folder, program, ...args) =>
  execFileSync(program, args, {
    cwd: path.join(root, folder),
    encoding: "utf8",
    maxBuffer: 1 << 28,
    stdio: ["ignore", "pipe", "pipe"],
  });

/** Adds the parts of another bill to `bill`. Its references get a prefix, because lockfiles have packages in common. */
export function add(bill, other, prefix) {
  const within = (ref) => `${prefix}:${ref}`;
  const { component } = other.metadata;
  bill.components.push(
    { ...component, name: prefix, "bom-ref": within(component["bom-ref"]) },
    ...other.components.map((one) => ({ ...one, "bom-ref": within(one["bom-ref"]) })),
  );
  for (const { ref, dependsOn } of other.dependencies ?? [])
    bill.dependencies.push({ ref: within(ref), dependsOn: dependsOn?.map(within) });
  bill.dependencies
    .find(({ ref }) => ref === bill.metadata.component["bom-ref"])
    .dependsOn.push(within(component["bom-ref"]));
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const [gomod] = process.argv.slice(2);
  const version = "1.5"; // npm's
  const written = run(".", gomod, "mod", "-json", "-std", "-test", "-licenses", "-output-version", version, ".");
  const bill = JSON.parse(written);
  const locks = run(".", "git", "ls-files", "*package-lock.json").trim().split("\n");
  for (const folder of locks.map((lock) => path.posix.dirname(lock)))
    add(bill, JSON.parse(run(folder, "npm", "sbom", "--sbom-format=cyclonedx", "--package-lock-only")), folder);
  mkdirSync(path.join(root, "build"), { recursive: true });
  writeFileSync(path.join(root, "build", "sbom.json"), JSON.stringify(bill, null, 1) + "\n");
  console.log(`sbom: build/sbom.json has ${bill.components.length} components`);
}
