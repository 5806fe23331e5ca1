/** A machine with a folder of stored files, locks that its tabs share, and a server of one file. */
import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import { type CachedSource, openCached } from "../../src/sources/cached.ts";
import type { CachedOptions } from "../../src/sources/current.ts";
import { parseJournal } from "../../src/sources/journal.ts";
import { Store } from "../../src/sources/store.ts";
import { fileServer, FakeFolder, pattern, type Script } from "./fakes.ts";

export const URL_ = "https://models.test/owner/tiny.gguf";
export const CHUNK = 10_000;
export const DATA = pattern(95_000);
export const sha = (bytes: Uint8Array): string => createHash("sha256").update(bytes).digest("hex");

/** Web Locks that tabs share. */
class FakeLocks {
  readonly #queue: { mode: string; run: () => void }[] = [];
  #shared = 0;
  #exclusive = false;
  request(
    _name: string,
    options: { mode: string; signal?: AbortSignal },
    callback: (lock: object | null) => unknown,
  ): Promise<unknown> {
    return new Promise((resolve, reject) => {
      const entry = {
        mode: options.mode,
        run: () => {
          if (options.mode === "shared") this.#shared++;
          else this.#exclusive = true;
          void Promise.resolve(callback({}))
            .then(resolve, reject)
            .then(() => {
              if (options.mode === "shared") this.#shared--;
              else this.#exclusive = false;
              this.#next();
            });
        },
      };
      options.signal?.addEventListener("abort", () => {
        const at = this.#queue.indexOf(entry);
        if (at >= 0) this.#queue.splice(at, 1);
        reject(options.signal!.reason);
      });
      this.#queue.push(entry);
      this.#next();
    });
  }
  /** Whether the lock is free and has no waiters. */
  get idle(): boolean {
    return this.#queue.length === 0 && this.#shared === 0 && !this.#exclusive;
  }
  #next(): void {
    const first = this.#queue[0];
    if (!first || this.#exclusive || (first.mode === "exclusive" && this.#shared > 0)) return;
    this.#queue.shift();
    first.run();
    this.#next();
  }
}

export function machine(script: Partial<Script> = {}, folder = new FakeFolder()) {
  Object.defineProperty(globalThis, "navigator", {
    configurable: true,
    value: {
      locks: new FakeLocks(),
      onLine: true,
      storage: { estimate: async () => ({ quota: 150_000, usage: 140_000 }) },
    },
  });
  const server = fileServer({ data: DATA, etag: '"one"', ...script });
  const notices: string[] = [];
  const progress: [number, number, string | undefined][] = [];
  const store = new Store(folder.handle);
  const open = (options: Partial<CachedOptions> = {}): Promise<CachedSource> =>
    openCached(store, URL_, "tiny.gguf", {
      chunk: CHUNK,
      retryDelay: 1,
      fetch: server.fetch,
      notice: (text) => notices.push(text),
      onDownload: (...p) => progress.push(p as never),
      ...options,
    }).then((source) => source!);
  return { ...server, folder, store, notices, progress, open };
}

export const pause = (ms: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, ms));

/** Waits until a file has closed in the background; it releases its lock last. */
export async function settle(): Promise<void> {
  const locks = navigator.locks as unknown as FakeLocks;
  for (const end = Date.now() + 60_000; !locks.idle; await pause(2))
    assert.ok(Date.now() < end, "a closed file keeps its lock");
}

export async function journalOf(folder: FakeFolder) {
  const name = `${await Store.key(URL_)}.journal`;
  return parseJournal(new TextDecoder().decode(folder.files.get(name)));
}

/** Waits until so many chunks are stored: a read does not, it takes what has arrived. */
export async function stored(folder: FakeFolder, chunks: number): Promise<void> {
  const count = async () => (await journalOf(folder))!.hashes.filter(Boolean).length;
  for (const end = Date.now() + 60_000; (await count()) < chunks; await pause(2))
    assert.ok(Date.now() < end, `${await count()} chunks are stored`);
}
