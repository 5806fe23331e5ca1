/** A private file system and a file server in memory, which tests can make fail, and a worker without a thread. */
import type { WorkerLike } from "../../src/engine/engine.ts";
import type { FromWorker, GoEngine, ToWorker } from "../../src/protocol/protocol.ts";
import type { SyncHandle } from "../../src/sources/handles.ts";
import { serve } from "../../src/worker/serve.ts";

/** A folder of the origin's private file system. */
export class FakeFolder {
  readonly files = new Map<string, Uint8Array>();
  /** Names with an exclusive handle. */
  readonly locked = new Set<string>();
  /** The total number of bytes that fit. */
  quota = Infinity;
  /** The number of bytes after which writes fail, as on a disk that other programs fill. */
  fullAfter = Infinity;
  wrote = 0;

  /** The type that the code under test expects. */
  get handle(): FileSystemDirectoryHandle {
    return this as unknown as FileSystemDirectoryHandle;
  }

  async *keys(): AsyncGenerator<string> {
    yield* this.files.keys();
  }

  async getFileHandle(name: string, options: { create?: boolean } = {}): Promise<unknown> {
    if (!this.files.has(name)) {
      if (!options.create) throw new DOMException(name, "NotFoundError");
      this.files.set(name, new Uint8Array());
    }
    return {
      getFile: async () => new File([this.files.get(name)! as Uint8Array<ArrayBuffer>], name, { lastModified: 1 }),
      createSyncAccessHandle: async ({ mode = "readwrite" } = {}) => {
        if (this.locked.has(name)) throw new DOMException(name, "NoModificationAllowedError");
        if (mode === "readwrite") this.locked.add(name);
        return this.#open(name);
      },
    };
  }

  async removeEntry(name: string): Promise<void> {
    if (this.locked.has(name)) throw new DOMException(name, "NoModificationAllowedError");
    if (!this.files.delete(name)) throw new DOMException(name, "NotFoundError");
  }

  #resize(name: string, size: number): void {
    const old = this.files.get(name)!;
    let others = 0;
    for (const [other, bytes] of this.files) if (other !== name) others += bytes.byteLength;
    if (others + size > this.quota) throw new DOMException("no space", "QuotaExceededError");
    const bytes = new Uint8Array(size);
    bytes.set(old.subarray(0, size));
    this.files.set(name, bytes);
  }

  #open(name: string): SyncHandle {
    let open = true;
    const bytes = (): Uint8Array => {
      if (!open) throw new DOMException("closed", "InvalidStateError");
      return this.files.get(name)!;
    };
    return {
      read: (into, { at }) => {
        const part = bytes().subarray(at, at + into.byteLength);
        into.set(part);
        return part.byteLength;
      },
      write: (data, { at }) => {
        if (at + data.byteLength > bytes().byteLength) this.#resize(name, at + data.byteLength);
        if (this.wrote + data.byteLength > this.fullAfter) throw new DOMException("no space", "QuotaExceededError");
        bytes().set(data, at);
        this.wrote += data.byteLength;
        return data.byteLength;
      },
      truncate: (size) => (bytes(), this.#resize(name, size)),
      getSize: () => bytes().byteLength,
      flush: () => void bytes(),
      close: () => {
        open = false;
        this.locked.delete(name);
      },
    };
  }
}

export interface Script {
  data: Uint8Array;
  ranges?: boolean;
  etag?: string | undefined;
  modified?: string;
  headers?: Record<string, string>;
  /** The announced size, if it is not the size of the data. */
  total?: number;
  /** The number of bytes after which the nth response breaks. */
  breaks?: (number | undefined)[];
  /** Delays a response until the promise resolves. */
  gate?: (range: string) => Promise<void> | undefined;
  status?: number;
}

/** A server of one file; `log` holds the requested ranges. Tests may change the script between requests. */
export function fileServer(script: Script): { fetch: typeof fetch; log: string[]; script: Script } {
  const log: string[] = [];
  let answers = 0;
  const answer = async (_url: RequestInfo | URL, init: RequestInit = {}): Promise<Response> => {
    init.signal?.throwIfAborted();
    const range = new Headers(init.headers).get("Range");
    log.push(range?.replace("bytes=", "") ?? init.method ?? "whole");
    if (script.status) return new Response("no", { status: script.status });
    const n = answers++;
    const headers = new Headers({
      "Content-Type": "application/octet-stream",
      ...(script.etag ? { ETag: script.etag } : {}),
      ...(script.modified ? { "Last-Modified": script.modified } : {}),
    });
    let bytes = script.data;
    let status = 200;
    const match = /bytes=(\d+)-(\d*)/.exec(range ?? "");
    if (match && script.ranges !== false) {
      const from = Number(match[1]);
      const to = Math.min(Number(match[2] || Infinity), script.data.length - 1);
      if (from > to) return new Response("", { status: 416 });
      bytes = script.data.slice(from, to + 1);
      status = 206;
      headers.set("Content-Range", `bytes ${from}-${to}/${script.total ?? script.data.length}`);
    }
    headers.set("Content-Length", String(bytes.length));
    for (const [name, value] of Object.entries(script.headers ?? {})) headers.set(name, value);
    const stop = script.breaks?.[n];
    const gate = script.gate?.(range ?? "whole");
    let at = 0;
    const body = new ReadableStream<Uint8Array>({
      async pull(controller) {
        await gate;
        if (init.signal?.aborted) return controller.error(init.signal.reason);
        if (stop !== undefined && at >= stop) return controller.error(new TypeError("network error"));
        if (at >= bytes.length) return controller.close();
        const end = Math.min(at + 1000, stop ?? Infinity, bytes.length);
        controller.enqueue(bytes.slice(at, end));
        at = end;
      },
    });
    return new Response(body, { status, headers });
  };
  return { fetch: answer as typeof fetch, log, script };
}

/** Returns bytes that differ from position to position. */
export function pattern(length: number, seed = 7): Uint8Array {
  return Uint8Array.from({ length }, (_, i) => (i * seed + (i >> 8) + (i >> 16)) & 255);
}

/** A worker without a thread. It clones messages and delivers them asynchronously, as between threads. */
export class FakeWorker implements WorkerLike {
  terminated = false;
  readonly #page: Record<string, ((event: never) => void)[]> = { message: [], error: [], messageerror: [] };
  readonly #inside: ((event: { data: ToWorker }) => void)[] = [];

  constructor(start: () => Promise<GoEngine>) {
    const deliver = (message: FromWorker): void => {
      const data = structuredClone(message);
      setImmediate(() => !this.terminated && this.emit("message", { data }));
    };
    serve({ postMessage: deliver, addEventListener: (_type, listener) => this.#inside.push(listener) }, start);
  }

  postMessage(message: ToWorker): void {
    const data = structuredClone(message);
    setImmediate(() => !this.terminated && this.#inside.forEach((listener) => listener({ data })));
  }

  addEventListener(type: string, listener: (event: never) => void): void {
    this.#page[type]!.push(listener);
  }

  emit(type: string, event: unknown): void {
    for (const listener of this.#page[type]!) listener(event as never);
  }

  terminate(): void {
    this.terminated = true;
  }
}
