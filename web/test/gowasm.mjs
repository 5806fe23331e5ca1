// Runs a Go test binary for js/wasm in headless Chromium, in a dedicated worker
// as in production, so that the tests of Go packages see real WebGPU:
//
//   GOOS=js GOARCH=wasm go test -exec "node $PWD/web/test/gowasm.mjs" ./webgpu/...
//
// Standard output and error are streamed, the exit code is the binary's, and
// files under the repository, ../shared beside it and $FORETOKEN_TESTMODELS can
// be read by their real names. Environment:
//
//   CHROMIUM                 the browser to run (/usr/bin/chromium)
//   FORETOKEN_WASM_TIMEOUT   seconds that one binary may take (3600)
//   FORETOKEN_WASM_CONSOLE   1 also shows the browser's console
//   FORETOKEN_WASM_ARGS      more switches for the browser, separated by spaces
//
// FORETOKEN_* variables are passed on to the binary.
import { execFileSync } from "node:child_process";
import { existsSync } from "node:fs";
import path from "node:path";
import { fileURLToPath } from "node:url";
import { chromium } from "playwright-core";
import { serve } from "./gowasm/server.mjs";

const here = path.dirname(fileURLToPath(import.meta.url));
const repository = path.resolve(here, "../..");

const SWITCHES = [
  "--no-sandbox",
  "--enable-unsafe-webgpu",
  "--use-webgpu-adapter=swiftshader",
  "--disable-background-networking",
  "--disable-component-update",
  "--disable-sync",
  "--disable-quic",
  "--no-first-run",
];

// Files that `go test` asks the binary to write. The browser cannot; without
// the first the result is only not cached, and the others are worth a word.
const OUTPUTS = /^-test\.(testlogfile|coverprofile|gocoverdir|cpuprofile|memprofile|blockprofile|mutexprofile|trace|outputdir)=/;

/** Takes the arguments that need a writable disk out, and says so. */
function withoutOutputs(args) {
  return args.filter((a) => {
    const m = OUTPUTS.exec(a);
    if (m && m[1] !== "testlogfile") console.error(`gowasm: ignoring ${a}: the browser has no disk to write to`);
    return !m;
  });
}

/** What of the environment the binary gets. Go allows 8 KiB for all of it. */
function environment() {
  const env = { TMPDIR: "/gotmp", HOME: "/gotmp", PWD: process.cwd() };
  for (const [k, v] of Object.entries(process.env)) {
    if (/^FORETOKEN_|^(GODEBUG|GOTRACEBACK|GOMAXPROCS|TZ|CI)$/.test(k)) env[k] = v;
  }
  return env;
}

async function main([binary, ...args]) {
  if (!binary) throw new Error("usage: node gowasm.mjs TEST.wasm [arguments]");
  const executablePath = process.env.CHROMIUM || "/usr/bin/chromium";
  if (!existsSync(executablePath)) throw new Error(`no browser at ${executablePath}; set CHROMIUM to one`);
  const goroot = execFileSync("go", ["env", "GOROOT"], { encoding: "utf8" }).trim();

  let finish;
  const finished = new Promise((resolve) => (finish = resolve));
  const fail = (why) => finish({ code: 1, why });
  const server = await serve({
    roots: [repository, path.resolve(repository, "../shared"), process.env.FORETOKEN_TESTMODELS],
    scripts: {
      "/wasm_exec.js": path.join(goroot, "lib/wasm/wasm_exec.js"),
      "/replay.js": path.join(repository, "webgpu/browser/replay.js"),
      "/worker.js": path.join(here, "gowasm/worker.js"),
      "/fs.js": path.join(here, "gowasm/fs.js"),
      "/test.wasm": path.resolve(binary),
    },
    start: { argv: [path.basename(binary), ...withoutOutputs(args)], env: environment(), cwd: process.cwd() },
    output: (fd, bytes) => (fd === 2 ? process.stderr : process.stdout).write(bytes),
    exit: (code) => finish({ code }),
    fail,
  });

  const seconds = Number(process.env.FORETOKEN_WASM_TIMEOUT || 3600);
  const timer = setTimeout(() => fail(`no result after ${seconds} s (FORETOKEN_WASM_TIMEOUT)`), seconds * 1000);
  for (const signal of ["SIGINT", "SIGTERM", "SIGHUP", "SIGQUIT"]) process.once(signal, () => fail(`stopped by ${signal}`));

  let browser;
  try {
    browser = await chromium.launch({
      executablePath,
      args: [...SWITCHES, ...(process.env.FORETOKEN_WASM_ARGS ?? "").split(" ").filter(Boolean)],
      handleSIGINT: false,
      handleSIGTERM: false,
      handleSIGHUP: false,
    });
    browser.on("disconnected", () => fail("the browser ended"));
    const page = await browser.newPage();
    page.on("crash", () => fail("the page crashed"));
    page.on("pageerror", (e) => fail(`the page failed: ${e.message}`));
    if (process.env.FORETOKEN_WASM_CONSOLE === "1") {
      page.on("console", (m) => console.error(`console ${m.type()}: ${m.text()}`));
    }
    await page.goto(server.url, { timeout: 0 }); // the timer above ends what takes too long
    const { code, why } = await finished;
    if (why) console.error(`gowasm: ${path.basename(binary)}: ${why}`);
    return code;
  } finally {
    clearTimeout(timer);
    // A browser that hangs must not keep the run from ending.
    await Promise.race([browser?.close().catch(() => {}), new Promise((r) => setTimeout(r, 5000))]);
    server.close();
  }
}

main(process.argv.slice(2)).then(
  (code) => process.exit(code),
  (e) => {
    console.error(`gowasm: ${e.message}`);
    process.exit(1);
  },
);
