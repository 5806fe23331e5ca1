/** Starts the Go program in the global scope of a worker or of foretoken/in-place. */
import "../../../webgpu/browser/replay.js";
import { ForetokenError } from "../protocol/errors.ts";
import type { GoEngine, WireError } from "../protocol/protocol.ts";
import { wireError } from "./serve.ts";

/** The names that wasm_exec.js and the Go program add to the global scope. */
interface GoScope {
  Go: new () => {
    importObject: WebAssembly.Imports;
    run(instance: WebAssembly.Instance): Promise<void>;
    /** Called when the program ends. */
    exit: (code: number) => void;
  };
  fs: { writeSync(fd: number, bytes: Uint8Array): number };
  foretokenEngine?: GoEngine;
  foretokenReplay: { prepare(): void };
  /** Keeps the program's data between visits; undefined where the browser has no caches. */
  foretokenKept?: Promise<Cache | undefined>;
}

const scope = globalThis as unknown as GoScope;

/** Starts to open WebGPU, before any model is known. */
export const prepare = (): void => scope.foretokenReplay.prepare();

/** The program's address, a function that loads wasm_exec.js, and a callback for when the program ends unexpectedly. */
export interface Program {
  wasm: string;
  /** The program's folder has compressed copies of it. */
  packed?: boolean;
  support: () => Promise<unknown>;
  crashed: (error: WireError) => void;
}

/** Starts the program. Calls must not overlap. */
export async function startProgram({ wasm, packed, support, crashed }: Program): Promise<GoEngine> {
  const compiling = compile(wasm, packed);
  compiling.catch(() => undefined);
  // A browser takes as long to open its first cache as to compile the program.
  scope.foretokenKept ??= (async () => globalThis.caches?.open("foretoken-tuning-1"))().catch(() => undefined);
  await support().catch((cause: unknown) => {
    throw unread("wasm_exec.js", wasm, cause);
  });
  const output = watchOutput();
  const go = new scope.Go();
  const instance = await WebAssembly.instantiate(await compiling, go.importObject);
  delete scope.foretokenEngine;
  let ended: ForetokenError | undefined;
  const end = (): void => {
    if (ended) return;
    ended = new ForetokenError("crash", `the engine stopped: ${reasonOf(output)}`);
    crashed(wireError(ended));
  };
  // If the program ends while it calls JavaScript that calls it, the promise of run stays pending.
  go.exit = end;
  go.run(instance)
    .catch((cause: unknown) => output.push(String(cause)))
    .then(end);
  // Go's main usually runs up to its first wait inside run(). If it waits before it installs the engine, poll.
  for (let waited = 0; !scope.foretokenEngine; waited += 10) {
    if (ended) throw ended;
    if (waited > 20_000)
      throw new ForetokenError("crash", "foretoken.wasm: start: the program did not install its engine");
    await new Promise((resolve) => setTimeout(resolve, 10));
  }
  return scope.foretokenEngine;
}

/** The program ends only by a panic or a runtime fault; the first such line of its output gives the reason. */
function reasonOf(output: string[]): string {
  const reason = output.find((line) => REASON.test(line)) ?? output.at(-1);
  if (reason === "fatal error: out of memory")
    return "the browser refused it more memory; close other tabs, or load a smaller model or context";
  return reason ?? "without a message";
}

/** Compiles the program while it downloads. If a stored copy is damaged, compiles the server's, which replaces it. */
async function compile(url: string, packed = false): Promise<WebAssembly.Module> {
  try {
    const response = await download(url);
    if (!packed || !isWhole(response)) return await compileFrom(response);
    response.body?.cancel().catch(() => undefined); // before more of it arrives
    return await compileFrom((await unpacked(url)) ?? (await download(url)));
  } catch (cause) {
    if (cause instanceof ForetokenError) throw cause;
    return compileFrom(await download(url, "reload")).catch((again: unknown) => {
      throw new ForetokenError("crash", `foretoken.wasm: compile: ${again instanceof Error ? again.message : again}`);
    });
  }
}

/**
 * Whether the server sends the program uncompressed. False for other origins, where a page cannot see it, and for a
 * copy that a service worker stored.
 */
function isWhole(response: Response): boolean {
  return response.type === "basic" && !response.headers.get("Content-Encoding");
}

async function download(url: string, cache: RequestCache = "default"): Promise<Response> {
  const response = await fetch(url, { cache }).catch((cause: unknown) => {
    throw unread("foretoken.wasm", url, cause);
  });
  if (response.ok) return response;
  throw new ForetokenError(
    "network",
    `foretoken.wasm: download: the server answered ${response.status} ${response.statusText}`.trimEnd(),
  );
}

/** Returns the error for a file of the library that cannot be fetched; `url` shows the site that it comes from. */
function unread(name: string, url: string, cause: unknown): ForetokenError {
  const far = new URL(url, globalThis.location?.href).origin !== globalThis.location?.origin;
  const header = far ? "; its server must let other sites read it (CORS: Access-Control-Allow-Origin)" : "";
  return new ForetokenError("network", `${name}: download: ${String(cause)}${header}`, undefined, { cause });
}

/** Formats that DecompressionStream may support, the smallest first. */
const PACKED = [
  ["brotli", ".br"],
  ["gzip", ".gz"],
] as const;

/**
 * Fetches a compressed copy, a quarter of the bytes, and unpacks it here. A server that compresses is better: browsers
 * cache machine code only for a response that they compile as it arrives.
 */
async function unpacked(url: string): Promise<Response | undefined> {
  for (const [format, ending] of PACKED) {
    let unpack: DecompressionStream;
    try {
      unpack = new DecompressionStream(format as CompressionFormat);
    } catch {
      continue; // unknown to this browser
    }
    const copy = await fetch(url + ending).catch(() => undefined);
    if (!copy?.ok || !copy.body) continue;
    const bytes = copy.headers.get("Content-Encoding") ? copy.body : copy.body.pipeThrough(unpack);
    return new Response(bytes, { headers: { "Content-Type": "application/wasm" } });
  }
  return undefined;
}

async function compileFrom(response: Response): Promise<WebAssembly.Module> {
  if (/^application\/wasm\b/i.test(response.headers.get("Content-Type") ?? "")) {
    return WebAssembly.compileStreaming(response);
  }
  // Streaming compilation requires this content type, and some static hosts do not send it.
  return WebAssembly.compile(await response.arrayBuffer());
}

const REASON = /^(panic|fatal error|runtime error):/;

/** Passes Go's output to the console and collects the last lines, which explain a crash. */
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
      // Stacks follow the reason.
      if (lines.length > 200) lines.splice(lines.findIndex((line) => !REASON.test(line)), 1);
    }
    return bytes.byteLength;
  };
  return lines;
}
