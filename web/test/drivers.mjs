/**
 * Browsers driven by WebDriver's commands: Firefox by its Marionette protocol, WebKitGTK by WebKitWebDriver, Chromium
 * by Playwright. None needs a package besides Playwright's.
 */
import { spawn } from "node:child_process";
import { existsSync, promises as fs } from "node:fs";
import net from "node:net";
import os from "node:os";
import path from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { TIMEOUT, startBrowser } from "./site.mjs";

/** Milliseconds for a browser to start. */
const START = 120_000;

/** The body of an async function that runs in a page and answers WebDriver's callback. */
const wrapped = (body) => `
  const done = arguments[arguments.length - 1];
  const given = arguments[0];
  (async () => { ${body} })().then(
    (value) => done({ value: value ?? null }),
    (error) => done({ error: String(error?.stack ? error + "\\n" + error.stack : error) }),
  );`;

function unwrapped({ value, error }) {
  if (error !== undefined) throw new Error(error);
  return value;
}

/** Runs `work` until it succeeds. */
async function retried(work, child) {
  for (const end = Date.now() + START; ; await sleep(100)) {
    if (child.exitCode !== null) throw new Error(`${child.spawnfile} ended with ${child.exitCode}`);
    try {
      return await work();
    } catch (error) {
      if (Date.now() > end) throw error;
    }
  }
}

/** WebDriver's codes of keys without a character. */
export const KEYS = {
  Backspace: "\uE003",
  Enter: "\uE007",
  Escape: "\uE00C",
  End: "\uE010",
  Home: "\uE011",
  ArrowLeft: "\uE012",
  ArrowUp: "\uE013",
  ArrowRight: "\uE014",
  ArrowDown: "\uE015",
};

/** WebDriver's actions of a click at a place of the window. */
const clicks = (x, y) => [
  {
    type: "pointer",
    id: "mouse",
    parameters: { pointerType: "mouse" },
    actions: [
      { type: "pointerMove", duration: 0, x, y },
      { type: "pointerDown", button: 0 },
      { type: "pointerUp", button: 0 },
    ],
  },
];

/** WebDriver's actions of keys that are pressed one after the other. */
const types = (keys) => {
  const actions = keys.flatMap((value) => ["keyDown", "keyUp"].map((type) => ({ type, value })));
  return [{ type: "key", id: "keyboard", actions }];
};

async function freePort() {
  const server = net.createServer();
  await new Promise((resolve) => server.listen(0, "127.0.0.1", resolve));
  const { port } = server.address();
  await new Promise((resolve) => server.close(resolve));
  return port;
}

function ended(child) {
  if (child.exitCode !== null || child.signalCode !== null) return;
  const gone = new Promise((resolve) => child.once("exit", resolve));
  child.kill();
  const hard = setTimeout(() => child.kill("SIGKILL"), 5000);
  return gone.then(() => clearTimeout(hard));
}

/** Sends Marionette's commands: JSON arrays, each after its length in bytes. */
function marionette(socket) {
  const waiting = new Map();
  let next = 1;
  let rest = Buffer.alloc(0);
  let greeted;
  const ready = new Promise((resolve) => (greeted = resolve));
  const receive = (message) => {
    if (!Array.isArray(message)) return greeted();
    const [, id, error, result] = message;
    const { resolve, reject } = waiting.get(id);
    waiting.delete(id);
    if (error) reject(new Error(`${error.error}: ${error.message}`));
    else resolve(result);
  };
  socket.on("data", (data) => {
    rest = Buffer.concat([rest, data]);
    for (let colon; (colon = rest.indexOf(":")) > 0; ) {
      const length = Number(rest.subarray(0, colon));
      if (rest.length < colon + 1 + length) return;
      const text = rest.subarray(colon + 1, colon + 1 + length).toString();
      rest = rest.subarray(colon + 1 + length);
      receive(JSON.parse(text));
    }
  });
  socket.on("close", () => {
    for (const { reject } of waiting.values()) reject(new Error("Firefox closed the connection"));
  });
  return async (name, parameters = {}) => {
    await ready;
    const id = next++;
    const text = JSON.stringify([0, id, `WebDriver:${name}`, parameters]);
    return new Promise((resolve, reject) => {
      waiting.set(id, { resolve, reject });
      socket.write(`${Buffer.byteLength(text)}:${text}`);
    });
  };
}

async function firefox(binary) {
  const profile = await fs.mkdtemp(path.join(os.tmpdir(), "foretoken-firefox-"));
  const port = await freePort();
  const preferences = { "marionette.port": port, "browser.shell.checkDefaultBrowser": false };
  await fs.writeFile(
    path.join(profile, "user.js"),
    Object.entries(preferences)
      .map(([name, value]) => `user_pref(${JSON.stringify(name)}, ${JSON.stringify(value)});\n`)
      .join(""),
  );
  const child = spawn(binary, ["--headless", "--marionette", "--no-remote", "--profile", profile], {
    stdio: "ignore",
    env: { ...process.env, HOME: profile },
  });
  const stop = async () => {
    await ended(child);
    await fs.rm(profile, { recursive: true, force: true, maxRetries: 10 });
  };
  try {
    const socket = await retried(
      () =>
        new Promise((resolve, reject) => {
          const socket = net.connect(port, "127.0.0.1", () => resolve(socket)).once("error", reject);
        }),
      child,
    );
    const send = marionette(socket);
    const { capabilities } = await send("NewSession");
    await send("SetTimeouts", { script: TIMEOUT, pageLoad: TIMEOUT });
    const go = async (url) => {
      // From an address with a fragment to another, Firefox does not wait for the load.
      await send("Navigate", { url: "about:blank" });
      await send("Navigate", { url });
    };
    const run = async (body, given = null) =>
      unwrapped((await send("ExecuteAsyncScript", { script: wrapped(body), args: [given], sandbox: null })).value);
    const open = async (url) => {
      const [first] = await send("GetWindowHandles");
      await send("SwitchToWindow", { handle: first }); // the last one may be closed
      const { handle } = await send("NewWindow", { type: "tab" });
      const here = () => send("SwitchToWindow", { handle });
      await here();
      await go(url);
      return {
        evaluate: async (f, given) => {
          await here();
          return run(`return (${f})(given);`, given);
        },
        close: async () => {
          await here();
          await send("CloseWindow");
        },
        crash: () => killTabs(child.pid),
      };
    };
    return {
      version: capabilities.browserVersion,
      go,
      run,
      open,
      press: (x, y) => send("PerformActions", { actions: clicks(x, y) }),
      keys: (...keys) => send("PerformActions", { actions: types(keys) }),
      stop,
      pause: () => child.kill("SIGSTOP"),
      resume: () => child.kill("SIGCONT"),
    };
  } catch (error) {
    await stop();
    throw error;
  }
}

/** Kills the processes of Firefox's tabs, as the system does when memory runs out. */
async function killTabs(parent) {
  for (const pid of await fs.readdir("/proc")) {
    const words = /^\d+$/.test(pid) ? await fs.readFile(`/proc/${pid}/cmdline`, "utf8").catch(() => "") : "";
    const tab = words.includes("\0-isForBrowser\0") && words.includes(`\0-parentPid\0${parent}\0`);
    if (tab) process.kill(pid, "SIGKILL");
  }
}

/** Starts an X server without a screen on a display that it picks. */
async function startScreen() {
  const child = spawn("Xvfb", ["-displayfd", "3", "-screen", "0", "1400x1000x24"], {
    stdio: ["ignore", "ignore", "ignore", "pipe"],
  });
  const display = await new Promise((resolve, reject) => {
    child.once("error", reject).once("exit", (code) => reject(new Error(`Xvfb ended with ${code}`)));
    child.stdio[3].once("data", (data) => resolve(`:${String(data).trim()}`));
  });
  child.removeAllListeners("exit");
  return { display, stop: () => ended(child) };
}

async function webkit(binary, more = {}) {
  const screen = await startScreen();
  const home = await fs.mkdtemp(path.join(os.tmpdir(), "foretoken-webkit-"));
  const port = await freePort();
  const child = spawn("WebKitWebDriver", [`--port=${port}`, "--host=127.0.0.1"], {
    stdio: "ignore",
    env: {
      ...process.env,
      HOME: home,
      XDG_DATA_HOME: path.join(home, "data"),
      XDG_CACHE_HOME: path.join(home, "cache"),
      DISPLAY: screen.display,
      LIBGL_ALWAYS_SOFTWARE: "1",
      WEBKIT_DISABLE_COMPOSITING_MODE: "1",
      WEBKIT_DISABLE_SANDBOX_THIS_IS_DANGEROUS: "1", // bubblewrap needs more rights than a container gives
      ...more,
    },
  });
  const ask = async (method, address, body) => {
    const answer = await fetch(`http://127.0.0.1:${port}${address}`, {
      method,
      headers: { "content-type": "application/json" },
      ...(body ? { body: JSON.stringify(body) } : {}),
    });
    const { value } = await answer.json();
    if (!answer.ok) throw new Error(`${value.error}: ${value.message}`);
    return value;
  };
  let session;
  const stop = async () => {
    if (session) await ask("DELETE", session).catch(() => undefined);
    await ended(child);
    await screen.stop();
    await fs.rm(home, { recursive: true, force: true, maxRetries: 10 });
  };
  try {
    await retried(() => ask("GET", "/status"), child);
    const opened = await ask("POST", "/session", {
      capabilities: { alwaysMatch: { "webkitgtk:browserOptions": { binary, args: ["--automation"] } } },
    });
    session = `/session/${opened.sessionId}`;
    await ask("POST", `${session}/timeouts`, { script: TIMEOUT, pageLoad: TIMEOUT });
    return {
      version: opened.capabilities.browserVersion,
      go: (url) => ask("POST", `${session}/url`, { url }),
      run: async (body, given = null) =>
        unwrapped(await ask("POST", `${session}/execute/async`, { script: wrapped(body), args: [given] })),
      press: (x, y) => ask("POST", `${session}/actions`, { actions: clicks(x, y) }),
      keys: (...keys) => ask("POST", `${session}/actions`, { actions: types(keys) }),
      stop,
    };
  } catch (error) {
    await stop();
    throw error;
  }
}

/** Playwright's names of the keys. */
const NAMES = new Map(Object.entries(KEYS).map(([name, code]) => [code, name]));

async function chromium() {
  const browser = await startBrowser(false);
  const page = await (await browser.newContext()).newPage();
  return {
    version: browser.version(),
    go: (url) => page.goto(url),
    run: async (body, given = null) =>
      unwrapped(
        await page.evaluate(([script, given]) => new Promise((done) => new Function(script)(given, done)), [
          wrapped(body),
          given,
        ]),
      ),
    press: (x, y) => page.mouse.click(x, y),
    keys: async (...keys) => {
      for (const key of keys) await page.keyboard.press(NAMES.get(key) ?? key);
    },
    stop: () => browser.close(),
  };
}

const first = (files) => files.find((file) => existsSync(file));
const inPath = (name) => first((process.env.PATH ?? "").split(":").map((folder) => path.join(folder, name)));

/**
 * The browsers by name. `missing` is what has to be installed, or undefined. `start` opens a browser with an empty
 * profile: `go` opens an address, `run` runs the body of an async function in the page, with the argument `given`,
 * `press` clicks at a place of the window, `keys` presses characters or {@link KEYS}.
 * Firefox's `open` opens an address in another tab, which evaluates functions and whose process can end. WebKit's
 * `start` takes variables of its environment.
 */
export const BROWSERS = {
  chromium: { missing: () => undefined, start: chromium },
  firefox: {
    missing: () => (inPath("firefox-esr") || inPath("firefox") ? undefined : "firefox-esr"),
    start: () => firefox(inPath("firefox-esr") ?? inPath("firefox")),
  },
  webkit: {
    missing: () =>
      (!inPath("WebKitWebDriver") || !miniBrowser() ? "webkit2gtk-driver" : undefined) ??
      (inPath("Xvfb") ? undefined : "xvfb"),
    start: (environment) => webkit(miniBrowser(), environment),
  },
};

/** WebKitGTK's browser for tests, in the folder of the library's processes. */
function miniBrowser() {
  const libraries = ["x86_64-linux-gnu", "aarch64-linux-gnu"].map((name) => `/usr/lib/${name}`);
  return first(
    [...libraries, "/usr/libexec", "/usr/lib64"].flatMap((folder) =>
      ["4.1", "6.0", "4.0"].flatMap((api) =>
        [`webkit2gtk-${api}`, `webkitgtk-${api}`].map((name) => path.join(folder, name, "MiniBrowser")),
      ),
    ),
  );
}
