/**
 * Where downloaded models are kept: the origin's private file system. A file's
 * bytes lie in `<key>`, beside them `<key>.journal` says what they are: lines of
 * JSON, of which the first describes the file and every later one adds what
 * happened. A tab may be killed at any moment, so a chunk counts only once its
 * SHA-256 is in the journal, a torn last line is ignored, and the hash is
 * compared when the chunk is used again.
 */

/** A file handle of workers, which TypeScript knows only there. */
export interface SyncHandle {
  read(into: Uint8Array, options: { at: number }): number;
  write(bytes: Uint8Array, options: { at: number }): number;
  truncate(size: number): void;
  getSize(): number;
  flush(): void;
  close(): void;
}

/** Chromium lets several tabs read a file through handles; other browsers ignore the option. */
interface WorkerFile extends FileSystemFileHandle {
  createSyncAccessHandle(options?: { mode: "read-only" }): Promise<SyncHandle>;
}

/** The folder in the origin's private file system. */
export const FOLDER = "foretoken-models";

/** What a file is, as it was when its download began. */
export interface Description {
  url: string;
  name: string;
  /** Bytes of the whole file, and of a chunk. */
  size: number;
  chunk: number;
  etag?: string | undefined;
  modified?: string | undefined;
  /** Of the whole file, as the server or the caller published it. */
  sha256?: string | undefined;
  /** Milliseconds since 1970. */
  created: number;
}

/** A journal, read. */
export interface Journal extends Description {
  /** SHA-256 of each complete chunk. */
  hashes: (string | undefined)[];
  /** Complete, and equal to the published SHA-256 where there is one. */
  done: boolean;
  /** The SHA-256 that the whole file was found to have, if it was computed. */
  verified?: string | undefined;
  used: number;
}

/** A kept file, for lists. */
export interface Kept {
  key: string;
  url: string;
  name: string;
  size: number;
  /** Bytes of it that are complete. */
  have: number;
  used: number;
  done: boolean;
}

type Line = Description | [chunk: number, hash: string] | { done: number; sha256?: string } | { used: number };

/** Bytes of a range of chunk `i`. */
export function chunkRange(of: { size: number; chunk: number }, i: number): [start: number, end: number] {
  return [i * of.chunk, Math.min(of.size, (i + 1) * of.chunk)];
}

export function chunkCount(of: { size: number; chunk: number }): number {
  return Math.ceil(of.size / of.chunk);
}

/** Reads a journal; undefined if its first line is damaged or of another version. */
export function parseJournal(text: string): Journal | undefined {
  const lines = text.split("\n");
  lines.pop(); // torn, or empty after the last newline
  let journal: Journal | undefined;
  for (const text of lines) {
    let line: Line & { v?: number };
    try {
      line = JSON.parse(text) as Line & { v?: number };
    } catch {
      continue;
    }
    if (!journal) {
      const d = line as Description & { v?: number };
      if (d.v !== 1 || typeof d.url !== "string" || typeof d.name !== "string" || !Number.isSafeInteger(d.size) || d.size < 0 || !Number.isSafeInteger(d.chunk) || d.chunk <= 0) return undefined;
      journal = { ...d, hashes: [], done: false, used: d.created };
    } else if (Array.isArray(line)) {
      const [i, hash] = line;
      if (!Number.isSafeInteger(i) || i < 0 || i >= chunkCount(journal)) continue;
      journal.hashes[i] = hash || undefined;
      if (!hash) journal.done = false;
    } else if ("done" in line) {
      journal.done = Array.from({ length: chunkCount(journal) }, (_, i) => journal!.hashes[i]).every(Boolean);
      journal.verified = line.sha256;
    } else if ("used" in line) {
      journal.used = line.used;
    }
  }
  return journal;
}

/** Bytes of the complete chunks. */
export function bytesKept(journal: Journal): number {
  let have = 0;
  journal.hashes.forEach((hash, i) => {
    const [start, end] = chunkRange(journal, i);
    if (hash) have += end - start;
  });
  return have;
}

/** Appends to a journal; held by the one tab that downloads. */
export class JournalWriter {
  #at: number;
  constructor(readonly handle: SyncHandle) {
    this.#at = handle.getSize();
  }

  /** Starts anew. */
  begin(description: Description): void {
    this.handle.truncate(0);
    this.#at = 0;
    this.#append({ v: 1, ...description });
  }

  chunk(i: number, hash: string): void {
    this.#append([i, hash]);
  }

  /** Chunk `i` has to be downloaded again. */
  forget(i: number): void {
    this.#append([i, ""]);
  }

  done(sha256: string | undefined): void {
    this.#append({ done: Date.now(), ...(sha256 ? { sha256 } : {}) });
    this.handle.flush();
  }

  used(): void {
    this.#append({ used: Date.now() });
  }

  close(): void {
    this.handle.close();
  }

  #append(line: unknown): void {
    const text = JSON.stringify(line) + "\n";
    const bytes = new TextEncoder().encode(text);
    // A torn line of a killed tab must not swallow this one.
    const torn = this.#at > 0 && !endsLine(this.handle, this.#at);
    const all = torn ? new Uint8Array([10, ...bytes]) : bytes;
    if (this.handle.write(all, { at: this.#at }) < all.byteLength) throw new DOMException("the disk is full", "QuotaExceededError");
    this.#at += all.byteLength;
  }
}

function endsLine(handle: SyncHandle, size: number): boolean {
  const last = new Uint8Array(1);
  handle.read(last, { at: size - 1 });
  return last[0] === 10;
}

/** Bytes that can be read, by a handle or, where the browser gives one handle to one tab only, as a file. */
export interface Bytes {
  readonly size: number;
  /** Fills `into` from `at` on and returns how many bytes there were. */
  read(into: Uint8Array, at: number): number | Promise<number>;
  close(): void;
}

/** The models kept by this origin. */
export class Store {
  constructor(readonly folder: FileSystemDirectoryHandle) {}

  /** Opens the store, or gives undefined where the browser has none: on an insecure origin, in some private windows. */
  static async open(): Promise<Store | undefined> {
    try {
      const root = await navigator.storage.getDirectory();
      return new Store(await root.getDirectoryHandle(FOLDER, { create: true }));
    } catch {
      return undefined;
    }
  }

  /** The name a URL's file has here. */
  static async key(url: string): Promise<string> {
    return (await sha256(new TextEncoder().encode(url.replace(/#.*$/, "")))).slice(0, 32);
  }

  async journal(key: string): Promise<Journal | undefined> {
    for (let attempt = 0; attempt < 5; attempt++) {
      try {
        const handle = await this.folder.getFileHandle(`${key}.journal`);
        return parseJournal(await (await handle.getFile()).text());
      } catch (cause) {
        if (cause instanceof Error && cause.name === "NotFoundError") return undefined;
        // The downloading tab wrote while it was read.
        await new Promise((resolve) => setTimeout(resolve, 20));
      }
    }
    return undefined;
  }

  /** Opens a file to be written by this tab alone, making it if it is not there. `tries`: how often another tab may be found to have it. */
  async writable(name: string, tries = 20): Promise<SyncHandle> {
    const handle = (await this.folder.getFileHandle(name, { create: true })) as WorkerFile;
    for (let attempt = 1; ; attempt++) {
      try {
        return await handle.createSyncAccessHandle();
      } catch (cause) {
        // A worker that was ended a moment ago lets go of its files a moment later.
        if (attempt >= tries || !(cause instanceof Error) || cause.name !== "NoModificationAllowedError") throw cause;
        await new Promise((resolve) => setTimeout(resolve, 100));
      }
    }
  }

  /** Opens a file to be read, by several tabs at once. */
  async readable(name: string): Promise<Bytes> {
    const handle = (await this.folder.getFileHandle(name)) as WorkerFile;
    try {
      return bytesOf(await handle.createSyncAccessHandle({ mode: "read-only" }));
    } catch {
      const file = await handle.getFile();
      return {
        size: file.size,
        async read(into, at) {
          const bytes = new Uint8Array(await file.slice(at, at + into.byteLength).arrayBuffer());
          into.set(bytes);
          return bytes.byteLength;
        },
        close: () => undefined,
      };
    }
  }

  /** What is kept, last used first. Files without a journal that can be read are counted too: they take space. */
  async list(): Promise<Kept[]> {
    const names = new Set<string>();
    for await (const name of this.folder.keys()) names.add(name.replace(/\.journal$/, ""));
    const all: Kept[] = [];
    for (const key of names) {
      const journal = await this.journal(key);
      if (journal) all.push({ key, url: journal.url, name: journal.name, size: journal.size, have: bytesKept(journal), used: journal.used, done: journal.done });
      else {
        const file = await this.folder.getFileHandle(key).then((handle) => handle.getFile()).catch(() => undefined);
        if (!file?.size) continue; // deleted since its name was read, or a download that has just begun
        all.push({ key, url: "", name: "an unknown file", size: file.size, have: 0, used: file.lastModified, done: false });
      }
    }
    return all.sort((a, b) => b.used - a.used);
  }

  /** Deletes a file; false if a tab is using it. */
  async remove(key: string): Promise<boolean> {
    // The bytes first: without them a journal is harmless, the other way round they would be nameless.
    for (const name of [key, `${key}.journal`]) {
      try {
        await this.folder.removeEntry(name);
      } catch (cause) {
        if (cause instanceof Error && cause.name === "NotFoundError") continue;
        if (cause instanceof Error && cause.name === "NoModificationAllowedError") return false;
        throw cause;
      }
    }
    return true;
  }
}

export function bytesOf(handle: SyncHandle): Bytes {
  return { size: handle.getSize(), read: (into, at) => handle.read(into, { at }), close: () => handle.close() };
}

/** SHA-256 in lower-case hexadecimal. */
export async function sha256(bytes: Uint8Array): Promise<string> {
  const digest = new Uint8Array(await crypto.subtle.digest("SHA-256", bytes as Uint8Array<ArrayBuffer>));
  return hex(digest);
}

function hex(bytes: Uint8Array): string {
  return Array.from(bytes, (b) => b.toString(16).padStart(2, "0")).join("");
}

/**
 * Takes a lock that all tabs of the origin share and resolves with what lets go
 * of it; it is let go by itself when the tab ends, however it ends. Undefined
 * where `ifAvailable` is set and another tab has it.
 */
export function hold(key: string, mode: LockMode, options: { ifAvailable?: boolean; signal?: AbortSignal | undefined } = {}): Promise<(() => void) | undefined> {
  const locks = globalThis.navigator?.locks;
  if (!locks) return Promise.resolve(() => undefined);
  const { ifAvailable, signal } = options;
  return new Promise((resolve, reject) => {
    locks
      .request(`${FOLDER}/${key}`, { mode, ...(ifAvailable ? { ifAvailable } : signal ? { signal } : {}) }, (lock) => {
        if (!lock) return resolve(undefined);
        return new Promise<void>((release) => resolve(release));
      })
      .catch(reject);
  });
}
