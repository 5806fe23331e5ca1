/**
 * A file at a URL that is kept in the origin's private file system: downloaded
 * in chunks, several at once, while Go reads it, and read from there without
 * any network the next time.
 *
 * One tab downloads a file, the others wait for it; the lock goes to the next
 * one when the first is done, closed or killed, and that one goes on from the
 * chunks in the journal. Bytes go to disk as they arrive, and a chunk is read
 * back for its SHA-256, so that memory holds one chunk however many are under way.
 */
import { createSHA256 } from "hash-wasm";
import { bytes as size } from "./widget/format.ts";
import { ChangedError, differ, discard, identityOf, type Identity, rejectHTML, Remote, SourceError, type SourceOptions } from "./fetching.ts";
import { type Bytes, bytesKept, bytesOf, chunkCount, chunkRange, type Description, hold, type Journal, JournalWriter, sha256, Store, type SyncHandle } from "./opfs.ts";
import type { Source } from "./protocol.ts";
import { noRoom } from "./quota.ts";

/** Bytes of a chunk: large beside a request's cost, small beside what a killed tab may lose. */
export const CHUNK = 8 << 20;
/** Chunks under way at once; one that is waited for comes on top of them. */
export const CONNECTIONS = 4;
/** Arrays kept to be given again. */
const POOL = 4;

/** "first" asks no server for a file that is complete here; "check" asks whether it changed, and uses it when there is no answer. */
export type CachePolicy = "first" | "check";

export interface CachedOptions extends SourceOptions {
  policy?: CachePolicy;
  /** SHA-256 of the whole file as the caller knows it. */
  expected?: string | undefined;
  /** Asks a hub for it; called only when something is to be downloaded. */
  published?: (() => Promise<string | undefined>) | undefined;
  /** What the user is told: a stale copy, a damaged chunk. */
  notice?: (text: string) => void;
  chunk?: number;
}

/** A source that is still on its way. */
export interface CachedSource extends Source {
  /** Resolves when every byte is here and checked; rejects when one cannot be had. */
  finished(): Promise<void>;
  /** Ends what is under way and lets other tabs have the file; what was downloaded stays. */
  close(): void;
}

/** Opens a URL's file: from here if it is complete here, else downloading it. Undefined if it cannot be kept at all, for want of a size. */
export async function openCached(store: Store, url: string, name: string, options: CachedOptions): Promise<CachedSource | undefined> {
  const file = new CachedFile(store, await Store.key(url), url, name, options);
  try {
    if (await file.open()) return file;
  } catch (cause) {
    await file.drop();
    throw cause;
  }
  await file.drop();
  return undefined;
}

interface Waiter {
  promise: Promise<void>;
  resolve(): void;
  reject(cause: unknown): void;
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
  /** The file was made for this download. */
  #fresh = false;
  /** Both are there while this tab downloads. */
  #data: SyncHandle | undefined;
  #log: JournalWriter | undefined;
  /** Chunks whose bytes on disk had the journal's hash in this session. */
  readonly #sound = new Map<number, Promise<void>>();
  readonly #waiting = new Map<number, Waiter>();
  readonly #running = new Set<number>();
  #urgent: number[] = [];
  #cursor = 0;
  /** The server sends the whole file in one answer, and this is it under way. */
  #whole = false;
  /** The answer to the first request. */
  #first: { chunk: number; response: Response } | undefined;
  #scratch: Uint8Array | undefined;
  /** Arrays that were given back. */
  #pool: ArrayBuffer[] = [];
  #hashing: Promise<unknown> = Promise.resolve();
  #writing: Promise<void> | undefined;
  #received = 0;
  #told = 0;
  #failure: unknown;
  #ended = false;

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

  async open(): Promise<boolean> {
    this.options.signal?.throwIfAborted();
    for (;;) {
      await this.#lock("shared");
      const kept = await this.store.journal(this.key);
      if (kept?.done && (await this.#current(kept))) {
        // Without its bytes, which the browser may have evicted, a journal is of no use.
        this.#bytes = await this.store.readable(this.key).catch(() => undefined);
        if (this.#bytes?.size === kept.size) {
          this.#adopt(kept);
          this.#finishLater();
          return true;
        }
        this.#bytes?.close();
      }
      this.#unlock();
      await this.#lock("exclusive");
      const now = await this.store.journal(this.key);
      // Another tab finished it while this one waited.
      if (now?.done && !kept?.done) {
        this.#unlock();
        continue;
      }
      return this.#download(now?.done ? undefined : now);
    }
  }

  /** Whether a complete copy is what the caller and the server have now; says so if not. */
  async #current(kept: Journal): Promise<boolean> {
    const { expected } = this.options;
    const known = kept.verified ?? kept.sha256;
    if (expected && known && expected !== known) {
      this.#notice(`the copy kept in this browser has another SHA-256 than the one asked for; it is downloaded again`);
      return false;
    }
    if (this.options.policy !== "check") return true;
    let now: Identity | undefined;
    try {
      const probe = new Remote(this.url, this.name, { ...this.options, retries: 0, signal: this.#control.signal });
      const response = await probe.request(0, 1);
      discard(response);
      now = identityOf(response);
    } catch (cause) {
      this.#control.signal.throwIfAborted();
      // The server has no such file any more, or is not there: what is here still is.
      if (!(cause instanceof SourceError)) throw cause;
    }
    if (!now || !differ(kept, now)) return true;
    this.#notice(`the file changed on the server since it was kept in this browser; the old copy is discarded and it is downloaded again`);
    return false;
  }

  /** Begins or goes on with a download, of which `kept` is what there is. The lock is exclusive. */
  async #download(kept: Journal | undefined): Promise<boolean> {
    try {
      this.#data = await this.store.writable(this.key);
      this.#log = new JournalWriter(await this.store.writable(`${this.key}.journal`));
    } catch (cause) {
      throw await this.#explain(cause);
    }
    this.#bytes = bytesOf(this.#data);
    this.#fresh = this.#bytes.size === 0;
    if (kept && (kept.chunk !== (this.options.chunk ?? CHUNK) || this.#data.getSize() !== kept.size)) kept = undefined;
    const published = this.options.expected ?? (await this.options.published?.());
    if (kept && published && kept.sha256 && kept.sha256 !== published) {
      this.#notice(`the file changed on the server since its download began; the ${size(bytesKept(kept))} kept of it are discarded`);
      kept = undefined;
    }
    let first = kept ? firstMissing(kept, 0) : 0;
    if (kept && first === undefined) {
      this.#adopt(kept);
      this.#finishLater();
      return true;
    }
    const request = (): Promise<Response> => this.#remote.request(first! * (this.options.chunk ?? CHUNK), kept ? Math.min(kept.size, (first! + 1) * kept.chunk) : (this.options.chunk ?? CHUNK));
    let response = await request();
    rejectHTML(this.name, response);
    let identity = identityOf(response);
    if (kept && (differ(kept, identity) || (identity.size === undefined && response.status !== 206))) {
      discard(response);
      this.#notice(`the file changed on the server since its download began; the ${size(bytesKept(kept))} kept of it are discarded`);
      kept = undefined;
      first = 0;
      response = await request();
      identity = identityOf(response);
    }
    // A cross-origin server may hide the size of a range, but not the length of a file.
    if (response.status === 206) identity.size ??= kept?.size ?? (await this.#remote.sizeByHead());
    if (identity.size === undefined) {
      discard(response);
      return false;
    }
    if (!kept) {
      const description: Description = {
        url: this.url,
        name: this.name,
        size: identity.size,
        chunk: this.options.chunk ?? CHUNK,
        etag: identity.etag,
        modified: identity.modified,
        sha256: published ?? identity.sha256,
        created: Date.now(),
      };
      try {
        this.#log.begin(description);
        // Asks for all the space at once: better to be refused now than after an hour.
        this.#data.truncate(0);
        this.#data.truncate(identity.size);
      } catch (cause) {
        discard(response);
        throw await this.#explain(cause, identity.size);
      }
      kept = { ...description, hashes: [], done: false, used: Date.now() };
    }
    this.#remote.identity = identity;
    this.#adopt(kept);
    this.#journal.sha256 = published ?? kept.sha256 ?? identity.sha256;
    this.#whole = response.status === 200;
    if (this.#whole) {
      this.#notice("this server does not send parts of a file: it comes over one connection, and starts over if that drops");
      void this.#takeWhole(response).catch((cause: unknown) => this.#fail(cause));
    } else {
      this.#first = { chunk: first!, response };
      this.#cursor = first!;
      this.#pump();
    }
    this.#finishLater();
    return true;
  }

  #adopt(journal: Journal): void {
    this.#journal = journal;
    this.size = journal.size;
    this.#received = bytesKept(journal);
    if (!journal.done) this.#tell();
  }

  async read(offset: number, length: number): Promise<Uint8Array> {
    if (!Number.isSafeInteger(offset) || !Number.isSafeInteger(length) || offset < 0 || length < 0 || offset + length > this.size) {
      throw new SourceError(this.name, "range", `bytes ${offset} to ${offset + length} asked of a file of ${this.size} bytes`);
    }
    if (length === 0) return new Uint8Array(0);
    const { chunk } = this.#journal;
    const last = Math.floor((offset + length - 1) / chunk);
    for (let i = Math.floor(offset / chunk); i <= last; i++) await this.#ensure(i, true);
    // The next chunk is looked at while Go works on this one.
    if (this.#journal.hashes[last + 1]) void this.#ensure(last + 1, false).catch(() => undefined);
    const bytes = await this.#open();
    const fits = this.#pool.findIndex((buffer) => buffer.byteLength >= length);
    const out = new Uint8Array(fits < 0 ? new ArrayBuffer(length) : this.#pool.splice(fits, 1)[0]!, 0, length);
    const got = await bytes.read(out, offset);
    if (got < length) throw new SourceError(this.name, "cache", `the kept copy ends at byte ${offset + got} of ${this.size}: delete it under Kept models and load again`);
    return out;
  }

  release(bytes: Uint8Array): void {
    if (this.#pool.length < POOL) this.#pool.push(bytes.buffer as ArrayBuffer);
  }

  /** The bytes, once they can be read: a reader that mends a chunk opens them anew. */
  async #open(): Promise<Bytes> {
    if (!this.#bytes) await this.#writing;
    if (!this.#bytes) throw this.#failure ?? new DOMException("the file was closed", "AbortError");
    return this.#bytes;
  }

  finished(): Promise<void> {
    return this.#finishing;
  }

  close(): void {
    if (this.#ended) return;
    this.#ended = true;
    const reason = new DOMException("the file was closed", "AbortError");
    this.#failure ??= reason;
    this.#control.abort(reason);
    for (const waiting of this.#waiting.values()) waiting.reject(this.#failure);
    void (async () => {
      if (!this.#log && this.#journal?.done) await this.#recordUse().catch(() => undefined);
      this.#letGo();
      this.#unlock();
      this.#channel?.close();
    })();
  }

  /** Ends what never came to a download, and leaves nothing of it behind. */
  async drop(): Promise<void> {
    if (this.#fresh && !this.#journal) {
      this.#letGo();
      await this.store.remove(this.key).catch(() => false);
    }
    this.close();
  }

  #letGo(): void {
    this.#bytes?.close();
    this.#log?.close();
    if (!this.#bytes) this.#data?.close();
    this.#bytes = this.#data = this.#log = undefined;
  }

  /** Keeps when the file was last used; of two tabs at once one is enough. */
  async #recordUse(): Promise<void> {
    const log = new JournalWriter(await this.store.writable(`${this.key}.journal`, 1));
    log.used();
    log.close();
  }

  async #lock(mode: LockMode): Promise<void> {
    const watching = ({ data }: MessageEvent<{ key: string; done: number; total: number }>): void => {
      if (data.key === this.key) this.options.onDownload?.(data.done, data.total, "another tab is downloading it");
    };
    this.#channel?.addEventListener("message", watching);
    try {
      this.#release = await hold(this.key, mode, { signal: this.#control.signal });
    } finally {
      this.#channel?.removeEventListener("message", watching);
    }
    if (this.#ended) this.#unlock();
    this.#control.signal.throwIfAborted();
  }

  #unlock(): void {
    this.#release?.();
    this.#release = undefined;
  }

  /** Resolves when chunk `i` is on disk and sound. */
  async #ensure(i: number, now: boolean): Promise<void> {
    for (;;) {
      if (this.#failure) throw this.#failure;
      if (this.#journal.hashes[i]) {
        let sound = this.#sound.get(i);
        if (!sound) this.#sound.set(i, (sound = this.#verify(i)));
        await sound;
        if (this.#journal.hashes[i]) return;
        continue; // it was damaged, and is downloaded again
      }
      const { promise } = this.#waitFor(i);
      if (now && !this.#running.has(i) && !this.#urgent.includes(i)) {
        this.#urgent.push(i);
        this.#cursor = i + 1;
      }
      this.#pump();
      await promise;
    }
  }

  #waitFor(i: number): Waiter {
    let waiting = this.#waiting.get(i);
    if (!waiting) {
      this.#waiting.set(i, (waiting = waiter()));
      waiting.promise.catch(() => undefined);
    }
    return waiting;
  }

  /** Compares a chunk on disk with its hash; a damaged one is forgotten. */
  async #verify(i: number): Promise<void> {
    const hash = await this.#hashOf(i);
    if (hash === this.#journal.hashes[i]) return;
    const [start, end] = chunkRange(this.#journal, i);
    this.#notice(`${size(end - start)} of the copy kept in this browser were damaged and are downloaded again`);
    await (this.#writing ??= this.#reopen());
    this.#sound.delete(i);
    this.#journal.hashes[i] = undefined;
    this.#journal.done = false;
    this.#received -= end - start;
    this.#log!.forget(i);
  }

  /** Makes a reader the tab that downloads. */
  async #reopen(): Promise<void> {
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
    if (this.#data.getSize() !== this.size) throw new SourceError(this.name, "cache", "the copy kept in this browser was deleted while it was read; load it again");
    this.#journal.done = false;
    this.#finishLater();
    this.#remote.identity = { etag: this.#journal.etag, modified: this.#journal.modified, size: this.size };
  }

  /** SHA-256 of a chunk on disk. One at a time: the buffer is shared. */
  #hashOf(i: number): Promise<string> {
    const work = this.#hashing.then(async () => {
      const [start, end] = chunkRange(this.#journal, i);
      this.#scratch ??= new Uint8Array(this.#journal.chunk);
      const part = this.#scratch.subarray(0, end - start);
      const got = await (await this.#open()).read(part, start);
      return got < part.byteLength ? "" : sha256(part);
    });
    this.#hashing = work.catch(() => undefined);
    return work;
  }

  /** Keeps the connections busy: what is waited for first, then what follows it. */
  #pump(): void {
    while (!this.#failure && !this.#whole) {
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
    for (let i = firstMissing(this.#journal, from); i !== undefined; i = firstMissing(this.#journal, i + 1)) if (!this.#running.has(i)) return i;
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
    this.#tell();
  }

  async #complete(i: number): Promise<void> {
    const hash = await this.#hashOf(i);
    this.#control.signal.throwIfAborted();
    this.#log!.chunk(i, hash);
    this.#journal.hashes[i] = hash;
    this.#sound.set(i, Promise.resolve());
    this.#waiting.get(i)?.resolve();
    this.#waiting.delete(i);
  }

  /** Takes the whole file in order; what was kept of an earlier attempt is compared, not written again. */
  async #takeWhole(response: Response): Promise<void> {
    const { chunk } = this.#journal;
    const buffer = new Uint8Array(chunk); // pieces may not be written over what Go has read
    const put = async (i: number, filled: number): Promise<void> => {
      const part = buffer.subarray(0, filled);
      const known = this.#journal.hashes[i];
      if (known) {
        if ((await sha256(part)) !== known) throw new ChangedError(this.name);
        return;
      }
      this.#write(part, i * chunk);
      await this.#complete(i);
    };
    const total = await this.#remote.streamWhole(response, async (bytes, at) => {
      if (at + bytes.byteLength > this.size) throw new SourceError(this.name, "download", `the server's length header is wrong: it announced ${this.size} bytes and sent more`);
      for (let from = 0; from < bytes.byteLength; ) {
        const within = (at + from) % chunk;
        const take = Math.min(chunk - within, bytes.byteLength - from);
        buffer.set(bytes.subarray(from, from + take), within);
        from += take;
        if (within + take === chunk || at + from === this.size) await put(Math.floor((at + from - 1) / chunk), within + take);
      }
    }, this.#control.signal);
    if (total !== this.size) throw new SourceError(this.name, "download", `the server's length header is wrong: it announced ${this.size} bytes and sent ${total}`);
    // A kept chunk may have been found damaged after its bytes had gone by.
    if (firstMissing(this.#journal, 0) !== undefined) await this.#takeWhole(await this.#remote.request());
  }

  #finishLater(): void {
    this.#finishing = this.#finish();
    this.#finishing.catch(() => undefined);
  }

  /** Waits for every chunk and compares the whole with what was published. */
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
          await (await this.#open()).read(part, at);
          hasher.update(part);
        }
        if (hasher) await new Promise((resolve) => setTimeout(resolve)); // lets Go and the network have the thread
      }
      if (this.#failure) throw this.#failure;
      const got = hasher?.digest();
      if (got !== wanted) {
        throw new SourceError(this.name, "sha256", `the download does not have its published checksum: it is ${got}, not ${wanted}; it was deleted, load it again`, "checksum");
      }
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

  /** Ends everything with a reason; what is wrong on the whole is deleted. */
  #fail(cause: unknown): void {
    if (this.#failure) return;
    this.#failure = cause;
    this.#control.abort(cause);
    this.#failing = (async () => {
      const error = (this.#failure = await this.#explain(cause, this.size));
      if (error instanceof SourceError && (error.code === "changed" || error.code === "checksum")) {
        this.#log?.handle.truncate(0);
        this.#letGo();
        await this.store.remove(this.key).catch(() => false);
      }
      for (const waiting of this.#waiting.values()) waiting.reject(error);
    })();
  }

  /** A full disk in words: what is kept, and what could be deleted. A line that is down: what is kept of the file. */
  async #explain(cause: unknown, needed?: number): Promise<unknown> {
    if (cause instanceof SourceError && cause.code === "network" && this.#journal) {
      const have = bytesKept(this.#journal);
      if (have > 0) return new SourceError(this.name, cause.field, `${cause.reason}; ${size(have)} of ${size(this.size)} are kept, loading it again goes on from there`);
    }
    if (!(cause instanceof Error) || cause.name !== "QuotaExceededError") return cause;
    const full = await noRoom(this.store, this.key, this.name, needed);
    // A file that never got a byte only takes the space that it was refused.
    if (this.#received === 0) {
      this.#letGo();
      await this.store.remove(this.key).catch(() => false);
    }
    return full;
  }

  #notice(text: string): void {
    this.options.notice?.(`${this.name}: ${text}`);
  }

  #tell(): void {
    const done = Math.min(this.#received, this.size);
    const now = performance.now();
    if (done < this.size && now - this.#told < 100) return;
    this.#told = now;
    this.options.onDownload?.(done, this.size);
    if (this.#log) this.#channel?.postMessage({ key: this.key, done, total: this.size });
  }
}

function firstMissing(journal: Journal, from: number): number | undefined {
  for (let i = from; i < chunkCount(journal); i++) if (!journal.hashes[i]) return i;
  return undefined;
}

function waiter(): Waiter {
  let resolve!: () => void;
  let reject!: (cause: unknown) => void;
  const promise = new Promise<void>((yes, no) => {
    resolve = yes;
    reject = no;
  });
  return { promise, resolve, reject };
}
