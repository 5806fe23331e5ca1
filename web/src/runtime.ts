/** Starts the Go program in this global scope, be it a worker's or another's. */
import "../../webgpu/browser/replay.js";
import { ForetokenError } from "./errors.ts";
import type { GoEngine, WireError } from "./protocol.ts";
import { wireError } from "./serve.ts";

/** What Go's wasm_exec.js, and Go itself, put on the global scope. */
interface GoScope {
  Go: new () => { importObject: WebAssembly.Imports; run(instance: WebAssembly.Instance): Promise<void> };
  fs: { writeSync(fd: number, bytes: Uint8Array): number };
  foretokenEngine?: GoEngine;
  foretokenReplay: { prepare(): void };
}

const scope = globalThis as unknown as GoScope;

/** Begins to open WebGPU, before there is anything to open. */
export const prepare = (): void => scope.foretokenReplay.prepare();

/** Where the program is, how Go's support script gets here, and who is told that the program ended by itself. */
export interface Program {
  wasm: string;
  support: () => Promise<unknown>;
  crashed: (error: WireError) => void;
}

/** Starts the program; one at a time. */
export async function startProgram({ wasm, support, crashed }: Program): Promise<GoEngine> {
  const compiling = compile(wasm);
  compiling.catch(() => undefined);
  await support();
  const output = watchOutput();
  const go = new scope.Go();
  const instance = await WebAssembly.instantiate(await compiling, go.importObject);
  delete scope.foretokenEngine;
  let ended = false;
  go.run(instance)
    .catch((cause: unknown) => output.push(String(cause)))
    .then(() => {
      ended = true;
      // Go ends only by a panic or a runtime fault; its reason is the first such line it printed.
      const reason = output.find((line) => /^(panic|fatal error|runtime error):/.test(line)) ?? output.at(-1) ?? "without a message";
      crashed(wireError(new ForetokenError("crash", `the engine stopped: ${reason}`)));
    });
  // Go's main runs up to its first wait within run(), as a rule; allow for one that waits before.
  for (let waited = 0; !scope.foretokenEngine; waited += 10) {
    if (ended || waited > 20_000) throw new ForetokenError("crash", "foretoken.wasm: start: the program did not install its engine");
    await new Promise((resolve) => setTimeout(resolve, 10));
  }
  return scope.foretokenEngine;
}

/** Compiles the program while it arrives. */
async function compile(url: string): Promise<WebAssembly.Module> {
  const response = await fetch(url).catch((cause: unknown) => {
    throw new ForetokenError("network", `foretoken.wasm: download: ${String(cause)}`);
  });
  if (!response.ok) throw new ForetokenError("network", `foretoken.wasm: download: the server answered ${response.status} ${response.statusText}`.trimEnd());
  if (/^application\/wasm\b/i.test(response.headers.get("Content-Type") ?? "")) {
    return WebAssembly.compileStreaming(response);
  }
  // Streaming refuses any other type, and some static hosts do not know this one.
  return WebAssembly.compile(await response.arrayBuffer());
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
