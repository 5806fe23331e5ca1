/**
 * Builds foretoken.wasm, which every visitor loads. `node web/wasm.mjs`, which `make check` runs, builds it aside and
 * fails if it is larger than {@link MOST}.
 */
import { execFile } from "node:child_process";
import { promises as fs } from "node:fs";
import os from "node:os";
import path from "node:path";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import zlib from "node:zlib";

/** The most bytes of the gzipped program. Whoever needs more raises it in the commit that does, and says what for. */
const MOST = 3_319_000;

const root = path.dirname(path.dirname(fileURLToPath(import.meta.url)));

/**
 * Packages compiled without inlining, which makes the program smaller. Decoding is as fast: kernels do its work, and
 * masks of grammars are found in loops that call little.
 */
const outlined = [
  ...["bytes", "crypto/...", "encoding/...", "fmt", "github.com/...", "reflect", "strings", "time", "unicode/utf8"],
  "foretoken/...",
];

/** Runs between a round's passes. */
const inlined = "foretoken/spec/goodput";

/** Writes the program into a file. */
export async function buildWasm(file) {
  const small = [...outlined.map((name) => `-gcflags=${name}=-l`), `-gcflags=${inlined}=`];
  await promisify(execFile)("go", ["build", "-trimpath", "-ldflags=-s -w", ...small, "-o", file, "./wasm"], {
    cwd: root,
    env: { ...process.env, GOOS: "js", GOARCH: "wasm" },
  });
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const folder = await fs.mkdtemp(path.join(os.tmpdir(), "foretoken-wasm-"));
  const file = path.join(folder, "foretoken.wasm");
  try {
    await buildWasm(file);
    const { length } = zlib.gzipSync(await fs.readFile(file), { level: 9 });
    if (length > MOST) {
      console.error(`web: foretoken.wasm has ${length} bytes gzipped, more than the ${MOST} that web/wasm.mjs allows`);
      process.exitCode = 1;
    }
  } finally {
    await fs.rm(folder, { recursive: true });
  }
}
