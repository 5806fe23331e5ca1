/**
 * Caches a file of a URL in the origin's private file system. The first load downloads it in chunks, several at once,
 * while Go reads it; later loads read the stored copy.
 *
 * One tab downloads a file and other tabs wait. When the first tab finishes, closes or dies, the lock goes to the next
 * tab, which continues from the chunks in the journal. Bytes go to disk as they arrive. For its SHA-256 a chunk is
 * read back from disk, so memory holds one chunk whatever the number of connections.
 */
import { bytes as size } from "./bytes.ts";
import { createSHA256 } from "./checksum.ts";
import { type Deferred, deferred } from "./deferred.ts";
import { downloadInOrder, LengthError } from "./in-order.ts";
import { checkRange, ChecksumError, rejectHTML, Remote, SourceError } from "./remote.ts";
import { differ, discard, type Identity, identityOf } from "./responses.ts";
import {
  acquireLock,
  type Bytes,
  bytesComplete,
  bytesOf,
  chunkCount,
  chunkRange,
  type Description,
  firstMissing,
  type Journal,
  JournalWriter,
  sha256,
  Store,
  type SyncHandle,
} from "./store.ts";
import type { Source } from "../protocol/protocol.ts";
import { type CachedOptions, isCurrent } from "./current.ts";
import { noRoom } from "./quota.ts";

/** Bytes of a chunk: large compared to the cost of a request, small compared to what a killed tab may lose. */
export const CHUNK = 8 << 20;
/** Chunks in flight at once; a chunk that a reader waits for may exceed the limit by one. */
export const CONNECTIONS = 4;
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
  const file = new CachedFile(store, await Store.key(url), url, name, options);
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
  size = 0;
  readonly #remote: Remote;
  readonly #control = new AbortController();
  readonly #channel: BroadcastChannel | undefined;
  #finishing: Promise<void> = Promise.resolve();
  #failing: Promise<void> | undefined;
  #release: (() => void) | undefined;
  #journal!: Journal;
  #bytes: Bytes | undefined;
  /** Whether this download created the file. */
  #fresh = false;
  /** Both are open while this tab downloads. */
  #data: SyncHandle | undefined;
  #log: JournalWriter | undefined;
  /** Chunks verified on disk in this session. */
  readonly #verified = new Map<number, Promise<void>>();
  /** Of chunks that this session downloads, the byte of the file up to which they have arrived. */
  readonly #arrived = new Map<number, number>();
  readonly #waiting = new Map<number, Deferred>();
  readonly #running = new Set<number>();
  #urgent: number[] = [];
  #cursor = 0;
  /** Whether the server sends the file in one response, because it has no ranges. */
  #inOrder = false;
  /** That response's download; it fails if the body has another length than announced. */
  #body: Promise<void> | undefined;
  /** The response to the first request. */
  #first: { chunk: number; response: Response } | undefined;
  #scratch: Uint8Array | undefined;
  /** Arrays for reuse by `read`. */
  #pool: ArrayBuffer[] = [];
  #hashing: Promise<unknown> = Promise.resolve();
  #reopening: Promise<void> | undefined;
  #received = 0;
  #reportedAt = 0;
  #failure: unknown;
  #closed = false;

  constructor(
    readonly store: Store,
    readonly key: string,
    readonly url: string,
    readonly name: string,
    readonly options: CachedOptions,
  ) {
    options.signal?.addEventListener("abort", () => this.#fail(options.signal!.reason), { once: true });
    this.#remote = new Remote(url, name, { ...options, signal: this.#control.signal });
    this.#channel = globalThis.BroadcastChannel && new BroadcastChannel("foretoken-models");
  }

  get identity(): Identity {
    return this.#journal;
  }

  async open(): Promise<boolean> {
    this.options.signal?.throwIfAborted();
    for (;;) {
      await this.#lock("shared");
      const stored = await this.store.journal(this.key);
      if (stored?.done && (await isCurrent(stored, this.url, this.name, this.#control.signal, this.options))) {
        // The browser may have evicted the bytes of a complete journal.
        this.#bytes = await this.store.readable(this.key).catch(() => undefined);
        if (this.#bytes?.size === stored.size) {
          this.#adopt(stored);
          this.#finishLater();
          return true;
        }
        this.#bytes?.close();
      }
      this.#unlock();
      await this.#lock("exclusive");
      const now = await this.store.journal(this.key);
      // Another tab finished the download while this one waited.
      if (now?.done && !stored?.done) {
        this.#unlock();
        continue;
      }
      return this.#download(now?.done ? undefined : now);
    }
  }

  /** Starts a download, or continues the one in the journal. The caller holds the exclusive lock. */
  async #download(journal: Journal | undefined): Promise<boolean> {
    try {
      this.#data = await this.store.writable(this.key);
      this.#log = new JournalWriter(await this.store.writable(`${this.key}.journal`));
    } catch (cause) {
      throw await this.#explain(cause);
    }
    this.#bytes = bytesOf(this.#data);
    this.#fresh = this.#bytes.size === 0;
    const chunk = this.options.chunk ?? CHUNK;
    if (journal && (journal.chunk !== chunk || !journal.size || this.#data.getSize() !== journal.size))
      journal = undefined;
    const published = this.options.expected ?? (await this.options.published?.());
    const changed = (journal: Journal): string =>
      `the file changed on the server since its download began; discarding the ${size(bytesComplete(journal))} stored`;
    if (journal && published && journal.sha256 && journal.sha256 !== published) {
      this.#notice(changed(journal));
      journal = undefined;
    }
    let first = 0;
    if (journal) {
      // A tab may have ended before it learned that the announced length was wrong: load the last chunk again.
      first = firstMissing(journal, 0) ?? chunkCount(journal) - 1;
      if (journal.hashes[first]) this.#log.forget(first);
      journal.hashes[first] = undefined;
    }
    const request = (): Promise<Response> =>
      this.#remote.request(first * chunk, journal ? Math.min(journal.size, (first + 1) * chunk) : chunk);
    let response = await request();
    rejectHTML(this.name, response);
    let identity = identityOf(response);
    if (journal && (differ(journal, identity) || (identity.size === undefined && response.status !== 206))) {
      discard(response);
      this.#notice(changed(journal));
      journal = undefined;
      first = 0;
      response = await request();
      identity = identityOf(response);
    }
    // A cross-origin server may hide Content-Range.
    if (response.status === 206) identity.size ??= journal?.size ?? (await this.#remote.sizeByLength());
    if (identity.size === undefined) {
      discard(response);
      return false;
    }
    if (!journal) {
      const description: Description = {
        url: this.url,
        name: this.name,
        size: identity.size,
        chunk,
        etag: identity.etag,
        modified: identity.modified,
        sha256: published ?? identity.sha256,
        created: Date.now(),
      };
      try {
        this.#log.begin(description);
        // Reserve all space now, so that a full disk fails at the start.
        this.#data.truncate(0);
        this.#data.truncate(identity.size);
      } catch (cause) {
        discard(response);
        throw await this.#explain(cause, identity.size);
      }
      journal = { ...description, hashes: [], done: false, used: Date.now() };
    }
    this.#remote.identity = identity;
    this.#adopt(journal);
    this.#journal.sha256 = published ?? journal.sha256 ?? identity.sha256;
    this.#inOrder = response.status === 200;
    if (this.#inOrder) {
      this.#notice(
        "this server does not send parts of a file: it arrives over one connection, and restarts if that drops",
      );
      this.#body = this.#downloadInOrder(response);
      this.#body.catch((cause: unknown) => this.#fail(cause));
    } else {
      this.#first = { chunk: first, response };
      this.#cursor = first;
      this.#pump();
    }
    this.#finishLater();
    // Other sites hide Content-Encoding, so the length of a whole body may be that of an encoded form.
    if (this.#inOrder && response.type === "cors")
      return this.#finishing.then(
        () => true,
        (cause: unknown) => {
          if (cause instanceof LengthError) return false;
          throw cause;
        },
      );
    return true;
  }

  #adopt(journal: Journal): void {
    this.#journal = journal;
    this.size = journal.size;
    this.#received = bytesComplete(journal);
    if (!journal.done) this.#report();
  }

  async read(offset: number, length: number): Promise<Uint8Array> {
    checkRange(this, offset, length);
    if (length === 0) return new Uint8Array(0);
    const { chunk } = this.#journal;
    const last = Math.floor((offset + length - 1) / chunk);
    for (let i = Math.floor(offset / chunk); i <= last; i++)
      await this.#ensure(i, true, Math.min(offset + length, (i + 1) * chunk));
    // Verify the next chunk while Go works on this one.
    if (this.#journal.hashes[last + 1]) void this.#ensure(last + 1, false).catch(() => undefined);
    const bytes = await this.#openFile();
    const fits = this.#pool.findIndex((buffer) => buffer.byteLength >= length);
    const out = new Uint8Array(fits < 0 ? new ArrayBuffer(length) : this.#pool.splice(fits, 1)[0]!, 0, length);
    const got = await bytes.read(out, offset);
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

  /** Returns the open file; waits while `#becomeWriter` reopens it. */
  async #openFile(): Promise<Bytes> {
    if (!this.#bytes) await this.#reopening;
    if (!this.#bytes) throw this.#failure ?? new DOMException("the file was closed", "AbortError");
    return this.#bytes;
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
    for (const waiting of this.#waiting.values()) waiting.reject(this.#failure);
    void (async () => {
      if (!this.#log && this.#journal?.done) await this.#recordUse().catch(() => undefined);
      this.#closeFiles();
      this.#unlock();
      this.#channel?.close();
    })();
  }

  /** Closes the file, and deletes it if its download never started. */
  async discard(): Promise<void> {
    if (this.#fresh && !this.#journal) {
      this.#closeFiles();
      await this.store.remove(this.key).catch(() => false);
    }
    this.close();
  }

  #closeFiles(): void {
    this.#bytes?.close();
    this.#log?.close();
    if (!this.#bytes) this.#data?.close();
    this.#bytes = this.#data = this.#log = undefined;
  }

  /** Records the time of use; if another tab has the journal open, that tab does it. */
  async #recordUse(): Promise<void> {
    const log = new JournalWriter(await this.store.writable(`${this.key}.journal`, 1));
    log.used();
    log.close();
  }

  async #lock(mode: LockMode): Promise<void> {
    const onProgress = ({ data }: MessageEvent<{ key: string; done: number; total: number }>): void => {
      if (data.key === this.key) this.options.onDownload?.(data.done, data.total, "another tab is downloading it");
    };
    this.#channel?.addEventListener("message", onProgress);
    try {
      this.#release = await acquireLock(this.key, mode, { signal: this.#control.signal });
    } finally {
      this.#channel?.removeEventListener("message", onProgress);
    }
    if (this.#closed) this.#unlock();
    this.#control.signal.throwIfAborted();
  }

  #unlock(): void {
    this.#release?.();
    this.#release = undefined;
  }

  /**
   * Resolves when chunk `i` is on disk and verified, or has arrived up to byte `end` of the file: a model loads while
   * it downloads. `urgent` fetches the chunk before others.
   */
  async #ensure(i: number, urgent: boolean, end = Infinity): Promise<void> {
    for (;;) {
      if (this.#failure) throw this.#failure;
      if (this.#journal.hashes[i]) {
        let verified = this.#verified.get(i);
        if (!verified) this.#verified.set(i, (verified = this.#verify(i)));
        await verified;
        if (this.#journal.hashes[i]) return;
        continue; // it was damaged and must be downloaded again
      }
      if ((this.#arrived.get(i) ?? 0) >= end) return;
      const { promise } = this.#waitFor(i);
      if (urgent && !this.#running.has(i) && !this.#urgent.includes(i)) {
        this.#urgent.push(i);
        this.#cursor = i + 1;
      }
      this.#pump();
      await promise;
    }
  }

  #waitFor(i: number): Deferred {
    let waiting = this.#waiting.get(i);
    if (!waiting) {
      this.#waiting.set(i, (waiting = deferred()));
      waiting.promise.catch(() => undefined);
    }
    return waiting;
  }

  /** Compares a chunk on disk with its hash, and removes a damaged chunk from the journal. */
  async #verify(i: number): Promise<void> {
    const hash = await this.#hashOf(i);
    if (hash === this.#journal.hashes[i]) return;
    const [start, end] = chunkRange(this.#journal, i);
    this.#notice(`${size(end - start)} of the copy in this browser are damaged; downloading them again`);
    await (this.#reopening ??= this.#becomeWriter());
    this.#verified.delete(i);
    this.#arrived.delete(i);
    this.#journal.hashes[i] = undefined;
    this.#journal.done = false;
    this.#received -= end - start;
    this.#log!.forget(i);
  }

  /** Turns a reading tab into the downloading tab, to replace a damaged chunk. */
  async #becomeWriter(): Promise<void> {
    if (this.#log) return;
    this.#bytes?.close();
    this.#bytes = undefined;
    this.#unlock();
    await this.#lock("exclusive");
    try {
      this.#data = await this.store.writable(this.key);
      this.#bytes = bytesOf(this.#data);
      this.#log = new JournalWriter(await this.store.writable(`${this.key}.journal`));
    } catch (cause) {
      throw await this.#explain(cause);
    }
    if (this.#data.getSize() !== this.size)
      throw new SourceError(this.name, "cache", "the copy in this browser was deleted during the load; load it again");
    this.#journal.done = false;
    this.#finishLater();
    this.#remote.identity = { etag: this.#journal.etag, modified: this.#journal.modified, size: this.size };
  }

  /** Computes the SHA-256 of a chunk on disk, one at a time because the buffer is shared. */
  #hashOf(i: number): Promise<string> {
    const work = this.#hashing.then(async () => {
      const [start, end] = chunkRange(this.#journal, i);
      this.#scratch ??= new Uint8Array(this.#journal.chunk);
      const part = this.#scratch.subarray(0, end - start);
      const got = await (await this.#openFile()).read(part, start);
      return got < part.byteLength ? "" : sha256(part);
    });
    this.#hashing = work.catch(() => undefined);
    return work;
  }

  /** Starts downloads up to the limit: urgent chunks first, then the chunks that follow the last urgent one. */
  #pump(): void {
    while (!this.#failure && !this.#inOrder) {
      const urgent = this.#urgent.length > 0;
      if (this.#running.size >= CONNECTIONS + (urgent ? 1 : 0)) return;
      const i = urgent ? this.#urgent.shift()! : (this.#next(this.#cursor) ?? this.#next(0));
      if (i === undefined) return;
      if (this.#journal.hashes[i] || this.#running.has(i)) continue;
      if (!urgent) this.#cursor = i + 1;
      this.#running.add(i);
      this.#fetchChunk(i).then(
        () => {
          this.#running.delete(i);
          this.#pump();
        },
        (cause: unknown) => this.#fail(cause),
      );
    }
  }

  #next(from: number): number | undefined {
    for (let i = firstMissing(this.#journal, from); i !== undefined; i = firstMissing(this.#journal, i + 1))
      if (!this.#running.has(i)) return i;
    return undefined;
  }

  async #fetchChunk(i: number): Promise<void> {
    const [start, end] = chunkRange(this.#journal, i);
    const first = this.#first?.chunk === i ? this.#first.response : undefined;
    if (first) this.#first = undefined;
    await this.#remote.stream(start, end, (bytes, at) => this.#write(bytes, at), this.#control.signal, first);
    await this.#complete(i);
  }

  #write(bytes: Uint8Array, at: number): void {
    this.#control.signal.throwIfAborted();
    const wrote = this.#data!.write(bytes, { at });
    if (wrote < bytes.byteLength) throw new DOMException("the disk is full", "QuotaExceededError");
    this.#received += bytes.byteLength;
    const chunk = Math.floor(at / this.#journal.chunk);
    this.#arrived.set(chunk, Math.max(at + wrote, this.#arrived.get(chunk) ?? 0));
    this.#wake(chunk);
    this.#report();
  }

  /** Has the readers that wait for a chunk look again. */
  #wake(chunk: number): void {
    this.#waiting.get(chunk)?.resolve();
    this.#waiting.delete(chunk);
  }

  async #complete(i: number): Promise<void> {
    const hash = await this.#hashOf(i);
    this.#control.signal.throwIfAborted();
    this.#log!.chunk(i, hash);
    this.#journal.hashes[i] = hash;
    this.#verified.set(i, Promise.resolve());
    this.#wake(i);
  }

  async #downloadInOrder(response: Response): Promise<void> {
    await downloadInOrder(response, {
      name: this.name,
      journal: this.#journal,
      remote: this.#remote,
      signal: this.#control.signal,
      write: (bytes, at) => this.#write(bytes, at),
      complete: (chunk) => this.#complete(chunk),
    });
  }

  #finishLater(): void {
    this.#finishing = this.#finish();
    this.#finishing.catch(() => undefined);
  }

  /** Waits for every chunk and compares the file with its published checksum. */
  async #finish(): Promise<void> {
    try {
      const count = chunkCount(this.#journal);
      const wanted = this.options.expected ?? this.#journal.sha256;
      if (this.#journal.done && (!wanted || this.#journal.verified === wanted)) return;
      const hasher = wanted ? await createSHA256() : undefined;
      const piece = new Uint8Array(Math.min(this.#journal.chunk, 1 << 20));
      for (let i = 0; i < count; i++) {
        await this.#ensure(i, false);
        const [start, end] = chunkRange(this.#journal, i);
        for (let at = start; hasher && at < end; at += piece.byteLength) {
          const part = piece.subarray(0, Math.min(piece.byteLength, end - at));
          await (await this.#openFile()).read(part, at);
          hasher.update(part);
        }
        if (hasher) await new Promise((resolve) => setTimeout(resolve)); // yields the thread to Go and the network
      }
      await this.#body;
      if (this.#failure) throw this.#failure;
      const got = hasher?.digest();
      if (got !== wanted) throw new ChecksumError(this.name, got, wanted, true);
      if (this.#log) {
        this.#data!.flush();
        this.#log.done(got);
        this.#journal.done = true;
        this.#journal.verified = got;
        this.#log.used();
      }
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
      const error = (this.#failure = await this.#explain(cause, this.size));
      const wrong = error instanceof LengthError || (error instanceof SourceError && WRONG.has(error.code));
      if (wrong) {
        this.#log?.handle.truncate(0);
        this.#closeFiles();
        await this.store.remove(this.key).catch(() => false);
      }
      for (const waiting of this.#waiting.values()) waiting.reject(error);
    })();
  }

  /** Adds a remedy to an error: what to delete from a full disk, or how much of the file the next load can reuse. */
  async #explain(cause: unknown, needed?: number): Promise<unknown> {
    if (cause instanceof LengthError) return cause;
    if (cause instanceof SourceError && cause.code === "network" && this.#journal) {
      const have = bytesComplete(this.#journal);
      if (have > 0)
        return new SourceError(
          this.name,
          cause.field,
          `${cause.reason}; loading again continues after the ${size(have)} of ${size(this.size)} already stored`,
        );
    }
    if (!(cause instanceof Error) || cause.name !== "QuotaExceededError") return cause;
    // Now, not when the load ends: from a full disk Chromium deletes a site's files, and it never returns from closing
    // a file that it has deleted.
    this.#closeFiles();
    const full = await noRoom(this.store, this.key, this.name, needed);
    // Delete a file without data: it only takes up the reserved space.
    if (this.#received === 0) await this.store.remove(this.key).catch(() => false);
    return full;
  }

  #notice(text: string): void {
    this.options.notice?.(`${this.name}: ${text}`);
  }

  #report(): void {
    const done = Math.min(this.#received, this.size);
    const now = performance.now();
    if (done < this.size && now - this.#reportedAt < 100) return;
    this.#reportedAt = now;
    this.options.onDownload?.(done, this.size);
    if (this.#log) this.#channel?.postMessage({ key: this.key, done, total: this.size });
  }
}
