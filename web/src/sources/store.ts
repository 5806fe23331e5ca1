/**
 * Stores downloaded models in the origin's private file system (OPFS). The file `<key>` holds the bytes, and
 * `<key>.journal` holds lines of JSON: the first line describes the file, and each later line records an event. A tab
 * may be killed at any moment. Therefore a chunk counts only once its SHA-256 is in the journal, readers ignore a torn
 * last line, and the first use of a stored chunk in a session verifies
 * its hash.
 */

/** FileSystemSyncAccessHandle, which TypeScript declares only for workers. */
export interface SyncHandle {
  read(into: Uint8Array, options: { at: number }): number;
  write(bytes: Uint8Array, options: { at: number }): number;
  truncate(size: number): void;
  getSize(): number;
  flush(): void;
  close(): void;
}

/** In Chromium, several tabs can open read-only handles of a file; other browsers ignore the option. */
interface WorkerFile extends FileSystemFileHandle {
  createSyncAccessHandle(options?: { mode: "read-only" }): Promise<SyncHandle>;
}

/** The folder in the origin's private file system. */
export const FOLDER = "foretoken-models";

/** The identity of a file when its download began. */
export interface Description {
  url: string;
  name: string;
  /** Bytes of the file, and of a chunk. */
  size: number;
  chunk: number;
  etag?: string | undefined;
  modified?: string | undefined;
  /** SHA-256 of the file, as the server publishes it or the caller expects it. */
  sha256?: string | undefined;
  /** Milliseconds since 1970. */
  created: number;
}

/** A parsed journal. */
export interface Journal extends Description {
  /** SHA-256 of each complete chunk. */
  hashes: (string | undefined)[];
  /** Whether the file is complete and matches the published SHA-256, if there is one. */
  done: boolean;
  /** The computed SHA-256 of the file, if known. */
  verified?: string | undefined;
  used: number;
}

/** A stored file, for lists. */
export interface StoredFile {
  key: string;
  url: string;
  name: string;
  size: number;
  /** Bytes of its complete chunks. */
  have: number;
  used: number;
  done: boolean;
}

type Line = Description | [chunk: number, hash: string] | { done: number; sha256?: string } | { used: number };

/** Returns the byte range of chunk `i`. */
export function chunkRange(of: { size: number; chunk: number }, i: number): [start: number, end: number] {
  return [i * of.chunk, Math.min(of.size, (i + 1) * of.chunk)];
}

export function chunkCount(of: { size: number; chunk: number }): number {
  return Math.ceil(of.size / of.chunk);
}

/** Parses a journal; undefined if its first line is damaged or has another version. */
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
      if (
        d.v !== 1 ||
        typeof d.url !== "string" ||
        typeof d.name !== "string" ||
        !Number.isSafeInteger(d.size) ||
        d.size < 0 ||
        !Number.isSafeInteger(d.chunk) ||
        d.chunk <= 0
      )
        return undefined;
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

/** Returns the number of bytes in complete chunks. */
export function bytesComplete(journal: Journal): number {
  let have = 0;
  journal.hashes.forEach((hash, i) => {
    const [start, end] = chunkRange(journal, i);
    if (hash) have += end - start;
  });
  return have;
}

/** Returns the first chunk from `from` on that is not complete, or undefined. */
export function firstMissing(journal: Journal, from: number): number | undefined {
  for (let i = from; i < chunkCount(journal); i++) if (!journal.hashes[i]) return i;
  return undefined;
}

/** Appends to a journal; only the downloading tab has one. */
export class JournalWriter {
  #at: number;
  constructor(readonly handle: SyncHandle) {
    this.#at = handle.getSize();
  }

  /** Truncates the journal and writes its first line. */
  begin(description: Description): void {
    this.handle.truncate(0);
    this.#at = 0;
    this.#append({ v: 1, ...description });
  }

  chunk(i: number, hash: string): void {
    this.#append([i, hash]);
  }

  /** Records that chunk `i` must be downloaded again. */
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
    // After the torn line of a killed tab, start on a new line.
    const torn = this.#at > 0 && !endsLine(this.handle, this.#at);
    const all = torn ? new Uint8Array([10, ...bytes]) : bytes;
    if (this.handle.write(all, { at: this.#at }) < all.byteLength)
      throw new DOMException("the disk is full", "QuotaExceededError");
    this.#at += all.byteLength;
  }
}

function endsLine(handle: SyncHandle, size: number): boolean {
  const last = new Uint8Array(1);
  handle.read(last, { at: size - 1 });
  return last[0] === 10;
}

/** A stored file for reading: through a handle, or as a File if the browser gives a handle to one tab only. */
export interface Bytes {
  readonly size: number;
  /** Reads from offset `at` into `into` and returns the number of bytes read. */
  read(into: Uint8Array, at: number): number | Promise<number>;
  close(): void;
}

/** The downloaded models of this origin. */
export class Store {
  constructor(readonly folder: FileSystemDirectoryHandle) {}

  /** Opens the store; undefined if the browser has none: on insecure origins and in some private windows. */
  static async open(): Promise<Store | undefined> {
    try {
      const root = await navigator.storage.getDirectory();
      return new Store(await root.getDirectoryHandle(FOLDER, { create: true }));
    } catch {
      return undefined;
    }
  }

  /** Returns the name of a URL's file in the store. */
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
        // The downloading tab wrote to the file during the read.
        await new Promise((resolve) => setTimeout(resolve, 20));
      }
    }
    return undefined;
  }

  /** Opens or creates a file for writing by this tab alone. Tries `tries` times while another tab has it open. */
  async writable(name: string, tries = 20): Promise<SyncHandle> {
    const handle = (await this.folder.getFileHandle(name, { create: true })) as WorkerFile;
    for (let attempt = 1; ; attempt++) {
      try {
        return await handle.createSyncAccessHandle();
      } catch (cause) {
        // A terminated worker closes its files after a short delay.
        if (attempt >= tries || !(cause instanceof Error) || cause.name !== "NoModificationAllowedError") throw cause;
        await new Promise((resolve) => setTimeout(resolve, 100));
      }
    }
  }

  /** Opens a file for reading; several tabs can read it at once. */
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

  /** Lists the stored files, last used first, including files without a readable journal, which take space too. */
  async list(): Promise<StoredFile[]> {
    const names = new Set<string>();
    for await (const name of this.folder.keys()) names.add(name.replace(/\.journal$/, ""));
    const all: StoredFile[] = [];
    for (const key of names) {
      const journal = await this.journal(key);
      if (journal)
        all.push({
          key,
          url: journal.url,
          name: journal.name,
          size: journal.size,
          have: bytesComplete(journal),
          used: journal.used,
          done: journal.done,
        });
      else {
        const file = await this.folder
          .getFileHandle(key)
          .then((handle) => handle.getFile())
          .catch(() => undefined);
        if (!file?.size) continue; // deleted since its name was read, or a download that just began
        all.push({
          key,
          url: "",
          name: "unknown file",
          size: file.size,
          have: 0,
          used: file.lastModified,
          done: false,
        });
      }
    }
    return all.sort((a, b) => b.used - a.used);
  }

  /** Deletes a file; false if a tab is using it. */
  async remove(key: string): Promise<boolean> {
    // Bytes first: a journal without bytes is harmless, but bytes without a journal have no name.
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
 * Acquires a Web Lock of the origin and resolves with a function that releases it. The browser releases it when the
 * tab ends for any reason. Resolves with undefined if `ifAvailable` is set and another tab has the lock.
 */
export function acquireLock(
  key: string,
  mode: LockMode,
  options: { ifAvailable?: boolean; signal?: AbortSignal | undefined } = {},
): Promise<(() => void) | undefined> {
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
