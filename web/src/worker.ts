/**
 * The worker the models run in: loads the Go program and serves it. Nothing
 * here is evaluated from text, so that a page with a strict content security
 * policy can host it ('wasm-unsafe-eval' is all it needs).
 */
import "../../webgpu/browser/replay.js";
import type { Channel, FromWorker, GoEngine, ToWorker } from "./protocol.ts";
import { serve, wireError } from "./serve.ts";

/** What Go's wasm_exec.js, and Go itself, put on the global scope. */
interface GoScope {
  Go: new () => { importObject: WebAssembly.Imports; run(instance: WebAssembly.Instance): Promise<void> };
  fs: { writeSync(fd: number, bytes: Uint8Array): number };
  foretokenEngine?: GoEngine;
}

const scope = globalThis as unknown as GoScope & Channel<ToWorker, FromWorker>;
const beside = (file: string): string => new URL(file, import.meta.url).href;

serve(scope, start);

async function start(): Promise<GoEngine> {
  await import(beside("./wasm_exec.js"));
  const output = watchOutput();
  const go = new scope.Go();
  const instance = await instantiate(beside("./foretoken.wasm"), go.importObject);
  delete scope.foretokenEngine;
  let ended = false;
  go.run(instance)
    .catch((cause: unknown) => output.push(String(cause)))
    .then(() => {
      ended = true;
      // Go ends only by a panic or a runtime fault; its reason is the first such line it printed.
      const reason = output.find((line) => /^(panic|fatal error|runtime error):/.test(line)) ?? output.at(-1) ?? "without a message";
      scope.postMessage({ type: "crash", error: wireError(`the engine stopped: ${reason}`) });
    });
  // Go's main runs up to its first wait within run(), as a rule; allow for one that waits before.
  for (let waited = 0; !scope.foretokenEngine; waited += 10) {
    if (ended || waited > 20_000) throw new Error("foretoken.wasm: start: the program did not install its engine");
    await new Promise((resolve) => setTimeout(resolve, 10));
  }
  return scope.foretokenEngine;
}

async function instantiate(url: string, imports: WebAssembly.Imports): Promise<WebAssembly.Instance> {
  const response = await fetch(url).catch((cause: unknown) => {
    throw new Error(`foretoken.wasm: download: ${String(cause)}`);
  });
  if (!response.ok) throw new Error(`foretoken.wasm: download: the server answered ${response.status} ${response.statusText}`.trimEnd());
  if (/^application\/wasm\b/i.test(response.headers.get("Content-Type") ?? "")) {
    return (await WebAssembly.instantiateStreaming(response, imports)).instance;
  }
  // Streaming refuses any other type, and some static hosts do not know this one.
  return (await WebAssembly.instantiate(await response.arrayBuffer(), imports)).instance;
}

/** Collects the last lines Go prints, to say why it ended, and passes them to the console. */
function watchOutput(): string[] {
  const lines: string[] = [];
  const decoder = new TextDecoder();
  let rest = "";
  scope.fs.writeSync = (_fd, bytes) => {
    rest += decoder.decode(bytes, { stream: true });
    const complete = rest.split("\n");
    rest = complete.pop() ?? "";
    for (const line of complete) {
      console.log(line);
      lines.push(line);
      if (lines.length > 200) lines.shift();
    }
    return bytes.byteLength;
  };
  return lines;
}
