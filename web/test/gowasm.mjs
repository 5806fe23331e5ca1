// Runs a Go test binary for js/wasm in a dedicated worker of headless Chromium, as in production, so that tests of Go
// packages use WebGPU:
//
//   GOOS=js GOARCH=wasm go test -exec "node $PWD/web/test/gowasm.mjs" ./webgpu/...
//
// It streams standard output and error, and exits with the binary's code. The binary can read files of the repository
// and of $FORETOKEN_SHARED, by default ../shared, under their real names. Options, before the binary:
//
//   --timeout=SECONDS   limit of a binary (3600)
//   --console           also shows the browser's console
//   --switch=SWITCH     one more switch for Chromium
//   --browser=NAME      firefox or webkit, for tests without WebGPU; where it is not installed, nothing runs
//
// CHROMIUM is the browser to run (/usr/bin/chromium). FORETOKEN_* variables are passed on to the binary.
import { execFileSync } from "node:child_process";
import { existsSync } from "node:fs";
import path from "node:path";
import { fileURLToPath } from "node:url";
import { chromium } from "playwright-core";
import { BROWSERS } from "./drivers.mjs";
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

// Flags of `go test` that make the binary write files, which the browser cannot. Without the first one `go test` only
// does not cache the result; the others deserve a warning.
const OUTPUTS =
  /^-test\.(testlogfile|coverprofile|gocoverdir|cpuprofile|memprofile|blockprofile|mutexprofile|trace|outputdir)=/;

/** Removes arguments that need a writable disk, with a warning. */
function withoutOutputs(args) {
  return args.filter((a) => {
    const m = OUTPUTS.exec(a);
    if (m && m[1] !== "testlogfile") console.error(`gowasm: ignoring ${a}: the browser has no disk to write to`);
    return !m;
  });
}

/** Says what is missing, as tests in Go do, and returns the exit code. */
function notRun(missing) {
  if (process.env.FORETOKEN_REQUIRE_DATA === "1") {
    console.log(`${missing} is missing, and FORETOKEN_REQUIRE_DATA=1 asks for it`);
    return 1;
  }
  console.log(`NOT RUN: gowasm: ${missing} is missing`);
  return 0;
}

/** Returns the environment of the binary; Go allows 8 KiB in total. */
function environment() {
  const env = { TMPDIR: "/gotmp", HOME: "/gotmp", PWD: process.cwd() };
  for (const [k, v] of Object.entries(process.env)) {
    if (/^FORETOKEN_|^(GODEBUG|GOTRACEBACK|GOMAXPROCS|TZ|CI)$/.test(k)) env[k] = v;
  }
  return env;
}

async function main(args) {
  const own = args.slice(
    0,
    args.findIndex((a) => !a.startsWith("--")),
  );
  const option = (name) => own.filter((a) => a.startsWith(`--${name}=`)).map((a) => a.slice(name.length + 3));
  const binary = args.splice(0, own.length + 1).at(-1);
  if (!binary) throw new Error("usage: node gowasm.mjs [options] TEST.wasm [arguments]");
  const goroot = execFileSync("go", ["env", "GOROOT"], { encoding: "utf8" }).trim();

  let finish;
  const finished = new Promise((resolve) => (finish = resolve));
  const fail = (why) => finish({ code: 1, why });
  const server = await serve({
    roots: [repository, path.resolve(process.env.FORETOKEN_SHARED || path.join(repository, "../shared"))],
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

  const seconds = Number(option("timeout")[0] ?? 3600);
  const timer = setTimeout(() => fail(`no result after ${seconds} s (--timeout)`), seconds * 1000);
  for (const signal of ["SIGINT", "SIGTERM", "SIGHUP", "SIGQUIT"])
    process.once(signal, () => fail(`stopped by ${signal}`));

  let close;
  async function openChromium() {
    const executablePath = process.env.CHROMIUM || "/usr/bin/chromium";
    if (!existsSync(executablePath)) throw new Error(`no browser at ${executablePath}; set CHROMIUM to one`);
    const browser = await chromium.launch({
      executablePath,
      args: [...SWITCHES, ...option("switch")],
      handleSIGINT: false,
      handleSIGTERM: false,
      handleSIGHUP: false,
    });
    close = () => browser.close();
    browser.on("disconnected", () => fail("the browser ended"));
    const page = await browser.newPage();
    page.on("crash", () => fail("the page crashed"));
    page.on("pageerror", (e) => fail(`the page failed: ${e.message}`));
    if (own.includes("--console")) {
      page.on("console", (m) => console.error(`console ${m.type()}: ${m.text()}`));
    }
    await page.goto(server.url, { timeout: 0 }); // the timer above limits the run
  }
  async function openOther({ missing, start }) {
    const lacks = missing();
    if (lacks) return finish({ code: notRun(lacks) });
    const browser = await start();
    close = browser.stop;
    await browser.go(server.url);
  }

  try {
    const [name] = option("browser");
    await (name ? openOther(BROWSERS[name]) : openChromium());
    const { code, why } = await finished;
    if (why) console.error(`gowasm: ${path.basename(binary)}: ${why}`);
    return code;
  } finally {
    clearTimeout(timer);
    // A browser that hangs must not keep the run from ending.
    await Promise.race([close?.().catch(() => {}), new Promise((r) => setTimeout(r, 5000))]);
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
