/**
 * Caches a file of a URL in the origin's private file system. The first load downloads it in chunks while Go reads it;
 * later loads read the stored copy, and verify each chunk at its first use.
 *
 * One tab downloads a file and other tabs wait. When the first tab finishes, closes or dies, the lock goes to the next
 * tab, which continues from the chunks in the journal.
 */
import { bytes as size } from "./bytes.ts";
import { type CachedOptions, isCurrent } from "./current.ts";
import { Download, type DownloadOptions } from "./download.ts";
import { checkRange, ChecksumError, LengthError, SourceError } from "./errors.ts";
import { bytesComplete, chunkCount, chunkRange, type Journal } from "./journal.ts";
import { DownloadProgress } from "./progress.ts";
import { noRoom } from "./quota.ts";
import { Remote } from "./remote.ts";
import type { Identity } from "./responses.ts";
import { Store } from "./store.ts";
import { Stored } from "./stored.ts";
import type { Source } from "../protocol/protocol.ts";

/** Arrays to keep for reuse. */
const POOL = 4;
/** Errors after which stored bytes are of no use. */
const WRONG: ReadonlySet<string> = new Set(["changed", "checksum"]);

/** A source whose download may be in progress. */
export interface CachedSource extends Source {
  /** The version of the file. */
  readonly identity: Identity;
  /** Resolves when every byte is stored and verified; rejects when a download fails. */
  finished(): Promise<void>;
  /** Ends downloads and releases the lock to other tabs; downloaded chunks stay. */
  close(): void;
}

/** Opens a URL's file from the store or downloads it. Undefined if the server reports no size: it cannot be stored. */
export async function openCached(
  store: Store,
  url: string,
  name: string,
  options: CachedOptions,
): Promise<CachedSource | undefined> {
  const stored = new Stored(store, await Store.key(url));
  options.signal?.throwIfAborted();
  const file = new CachedFile(stored, url, name, options);
  try {
    if (await file.open()) return file;
  } catch (cause) {
    await file.discard();
    throw cause;
  }
  await file.discard();
  return undefined;
}

class CachedFile implements CachedSource {
  readonly #stored: Stored;
  readonly #download: Download;
  readonly #progress: DownloadProgress;
  readonly #options: DownloadOptions;
  readonly #control = new AbortController();
  /** Of each chunk that earlier sessions stored, its comparison with its hash. */
  readonly #verified = new Map<number, Promise<void>>();
  /** Arrays for reuse by `read`. */
  readonly #pool: ArrayBuffer[] = [];
  #finishing: Promise<void> = Promise.resolve();
  /** The first error, and the work that it causes. */
  #failure: unknown;
  #failing: Promise<void> | undefined;
  #closed = false;

  constructor(stored: Stored, url: string, name: string, options: CachedOptions) {
    options.signal?.addEventListener("abort", () => this.#fail(options.signal!.reason), { once: true });
    this.#stored = stored;
    this.#progress = new DownloadProgress(stored.key, options.onDownload);
    this.#options = { ...options, signal: this.#control.signal };
    const remote = new Remote(url, name, this.#options);
    this.#download = new Download(stored, remote, this.#progress, this.#options, (cause) => this.#fail(cause));
  }

  get name(): string {
    return this.#download.remote.name;
  }

  get size(): number {
    return this.#stored.journal.size;
  }

  get identity(): Identity {
    return this.#stored.journal;
  }

  /** Opens a copy that is current, or starts a download; false if the server reports no size. */
  async open(): Promise<boolean> {
    const { store, key } = this.#stored;
    for (;;) {
      await this.#lock("shared");
      const found = await store.journal(key);
      const current = found?.done && (await isCurrent(found, this.#download.remote.url, this.name, this.#options));
      if (current && (await this.#stored.openReadable(found))) {
        this.#progress.start(found);
        this.#finishLater();
        return true;
      }
      this.#stored.unlock();
      await this.#lock("exclusive");
      const now = await store.journal(key);
      // Another tab finished the download while this one waited.
      if (now?.done && !found?.done) {
        this.#stored.unlock();
        continue;
      }
      return this.#startDownload(now?.done ? undefined : now);
    }
  }

  #lock(mode: LockMode): Promise<void> {
    return this.#progress.during(this.#stored.lock(mode, this.#control.signal));
  }

  async #startDownload(part: Journal | undefined): Promise<boolean> {
    let outcome: Awaited<ReturnType<Download["start"]>>;
    try {
      await this.#stored.openWritable();
      outcome = await this.#download.start(part);
    } catch (cause) {
      throw await this.#explainFull(cause);
    }
    if (outcome === "no size") return false;
    this.#finishLater();
    if (outcome === "size") return true;
    return this.#finishing.then(
      () => true,
      (cause: unknown) => {
        if (cause instanceof LengthError) return false;
        throw cause;
      },
    );
  }

  async read(offset: number, length: number): Promise<Uint8Array> {
    checkRange(this, offset, length);
    if (length === 0) return new Uint8Array(0);
    const { chunk, hashes } = this.#stored.journal;
    const last = Math.floor((offset + length - 1) / chunk);
    for (let i = Math.floor(offset / chunk); i <= last; i++)
      await this.#ensure(i, true, Math.min(offset + length, (i + 1) * chunk));
    // Verify the next chunk while Go works on this one.
    if (hashes[last + 1]) void this.#ensure(last + 1, false).catch(() => undefined);
    const fits = this.#pool.findIndex((buffer) => buffer.byteLength >= length);
    const out = new Uint8Array(fits < 0 ? new ArrayBuffer(length) : this.#pool.splice(fits, 1)[0]!, 0, length);
    const got = await this.#stored.read(out, offset).catch((cause: unknown) => {
      throw this.#failure ?? cause;
    });
    if (got < length)
      throw new SourceError(
        this.name,
        "cache",
        `the stored copy ends at byte ${offset + got} of ${this.size}: delete it under Kept models and load again`,
      );
    return out;
  }

  release(bytes: Uint8Array): void {
    if (this.#pool.length < POOL) this.#pool.push(bytes.buffer as ArrayBuffer);
  }

  finished(): Promise<void> {
    return this.#finishing;
  }

  close(): void {
    if (this.#closed) return;
    this.#closed = true;
    const reason = new DOMException("the file was closed", "AbortError");
    this.#failure ??= reason;
    this.#control.abort(reason);
    this.#download.reject(this.#failure);
    void this.#stored.close().then(() => this.#progress.close());
  }

  /** Closes the file, and deletes it if its download never began. */
  async discard(): Promise<void> {
    await this.#stored.discard();
    this.close();
  }

  /**
   * Resolves when chunk `i` is on disk and verified, or has arrived up to byte `end` of the file: a model loads while
   * it downloads. `urgent` fetches the chunk before others.
   */
  async #ensure(i: number, urgent: boolean, end = Infinity): Promise<void> {
    const { hashes } = this.#stored.journal;
    for (;;) {
      if (this.#failure) throw this.#failure;
      const arrived = this.#download.arrived(i);
      // This session computed the hash of what it downloaded.
      if (arrived >= end || (arrived > 0 && hashes[i])) return;
      if (!hashes[i]) {
        await this.#download.more(i, urgent);
        continue;
      }
      let verified = this.#verified.get(i);
      if (!verified) this.#verified.set(i, (verified = this.#verify(i)));
      await verified;
      if (hashes[i]) return; // otherwise it was damaged and must be downloaded again
    }
  }

  /** Compares a chunk on disk with its hash, and has a damaged one downloaded again. */
  async #verify(i: number): Promise<void> {
    const { journal } = this.#stored;
    if ((await this.#stored.hash(i)) === journal.hashes[i]) return;
    const [start, end] = chunkRange(journal, i);
    const damaged = size(end - start);
    this.#options.notice?.(`${this.name}: ${damaged} of the copy in this browser are damaged; downloading them again`);
    try {
      await this.#progress.during(this.#stored.makeWritable(this.#control.signal));
    } catch (cause) {
      throw await this.#explainFull(cause);
    }
    if (journal.done) {
      journal.done = false;
      this.#finishLater();
    }
    this.#verified.delete(i);
    this.#download.again(i);
  }

  #finishLater(): void {
    this.#finishing = this.#finish();
    this.#finishing.catch(() => undefined);
  }

  /** Waits for every chunk and compares the file with its published checksum. */
  async #finish(): Promise<void> {
    try {
      const { journal } = this.#stored;
      const wanted = this.#options.expected ?? journal.sha256;
      if (journal.done && (!wanted || journal.verified === wanted)) return;
      const ready = (i: number): Promise<void> => this.#ensure(i, false);
      let got: string | undefined;
      if (wanted) got = await this.#stored.checksum(ready);
      else for (let i = 0; i < chunkCount(journal); i++) await ready(i);
      await this.#download.ended();
      if (this.#failure) throw this.#failure;
      if (got !== wanted) throw new ChecksumError(this.name, got, wanted, true);
      this.#stored.finish(got);
    } catch (cause) {
      this.#fail(cause);
      await this.#failing;
      throw this.#failure;
    }
  }

  /** Ends all downloads with an error; deletes a file that changed or has a wrong checksum. */
  #fail(cause: unknown): void {
    if (this.#failure) return;
    this.#failure = cause;
    this.#control.abort(cause);
    this.#failing = (async () => {
      const error = (this.#failure = await this.#explain(cause));
      if (error instanceof LengthError || (error instanceof SourceError && WRONG.has(error.code)))
        await this.#stored.remove();
      this.#download.reject(error);
    })();
  }

  /** Adds a remedy to an error: what to delete from a full disk, or how much of the file the next load can reuse. */
  async #explain(cause: unknown): Promise<unknown> {
    const have = bytesComplete(this.#stored.journal);
    const network = cause instanceof SourceError && cause.code === "network" && !(cause instanceof LengthError);
    if (!network || have === 0) return this.#explainFull(cause);
    return new SourceError(
      this.name,
      cause.field,
      `${cause.reason}; loading again continues after the ${size(have)} of ${size(this.size)} already stored`,
    );
  }

  async #explainFull(cause: unknown): Promise<unknown> {
    if (!(cause instanceof Error) || cause.name !== "QuotaExceededError") return cause;
    const { store, key, journal } = this.#stored;
    // Now, not when the load ends: from a full disk Chromium deletes a site's files, and it never returns from closing
    // a file that it has deleted.
    this.#stored.closeFiles();
    const full = await noRoom(store, key, this.name, journal.size || undefined);
    // Delete a file without data: it only takes up the reserved space.
    if (this.#progress.done === 0 && bytesComplete(journal) === 0) await this.#stored.remove();
    return full;
  }
}
